#include "assay/formats/raw.h"

#include <bit>
#include <utility>

#include "assay/formats/bytes.h"
#include "assay/formats/tensor_layout.h"

namespace assay {
namespace {

class RawSource : public TensorSource {
 public:
  RawSource(FileBytes file, TensorInfo info, std::endian order)
      : file_(std::move(file)), order_(order) {
    format_ = "raw";
    mapping_ = file_.mapping;
    tensors_.push_back(std::move(info));
  }

  Tensor load(std::size_t index) const override {
    const TensorInfo& info = tensors_.at(index);
    return tensor_over(file_.bytes, file_.owner, info.dtype, info.shape, {},
                       order_);
  }

 private:
  FileBytes file_;
  std::endian order_;
};

}  // namespace

std::unique_ptr<TensorSource> open_raw(FileBytes file,
                                       const ReadOptions& options) {
  if (!options.dtype || !options.shape) {
    throw Error(Code::kUnsupported,
                file.name +
                    ": a headerless file does not say what it holds: add "
                    "--dtype and --shape, as in --dtype float32 --shape 4,6");
  }
  const std::string shape = "shape " + to_string(*options.shape);
  const auto count = checked_numel(*options.shape);
  const auto size =
      count ? storage_bytes(*options.dtype, *count) : std::nullopt;
  if (!size) refuse(file.name, 0, shape, "a product of dimensions >= 0");
  if (static_cast<std::uint64_t>(*size) != file.bytes.size()) {
    refuse(file.name, 0, std::to_string(file.bytes.size()) + " bytes",
           std::to_string(*size) + " for " + shape + " of " +
               std::string(traits(*options.dtype).name));
  }
  TensorInfo info;
  info.dtype = *options.dtype;
  info.shape = *options.shape;
  return std::make_unique<RawSource>(
      std::move(file), std::move(info),
      options.big_endian ? std::endian::big : std::endian::little);
}

}  // namespace assay
