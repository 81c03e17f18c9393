#include "assay/formats/npy.h"

#include <utility>

#include "assay/base/error.h"
#include "assay/formats/bytes.h"
#include "assay/formats/tensor_layout.h"

namespace assay {
namespace {

Shape fortran_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    strides[i] = step;
    step *= shape[i] > 0 ? shape[i] : 1;
  }
  return strides;
}

class NpySource final : public TensorSource {
 public:
  NpySource(FileBytes file, const ReadOptions& options)
      : file_(std::move(file)),
        layout_(parse_npy_header(file_.bytes, file_.name, 0),
                file_.bytes.size(), options, file_.name, 0) {
    format_ = "npy";
    mapping_ = file_.mapping;
    tensors_.push_back(layout_.info(""));
    file_.check_intact();
  }

  Tensor load(std::size_t index) const override {
    static_cast<void>(tensors_.at(index));
    return layout_.tensor(file_.bytes, file_.owner, file_.name);
  }

 private:
  FileBytes file_;
  NpyLayout layout_;
};

}  // namespace

NpyLayout::NpyLayout(NpyHeader header, std::uint64_t size,
                     const ReadOptions& options, std::string_view file,
                     std::uint64_t base)
    : header_(std::move(header)) {
  const std::uint64_t element = header_.element_bytes;
  const std::uint64_t want =
      payload_bytes(header_.shape, element ? element : 1, file, base);
  const std::uint64_t have = size - header_.data_offset;
  // A structured dtype's size is unknown; its tensor is never handed out.
  const bool sized = element > 0 || header_.unsupported.empty();
  if (sized && want != have) {
    refuse(file, base + header_.data_offset,
           std::to_string(have) + " bytes of data",
           std::to_string(want) + " for shape " + to_string(header_.shape));
  }
  if (header_.is_void) resolve_void(options, file, base);
}

void NpyLayout::resolve_void(const ReadOptions& options, std::string_view file,
                             std::uint64_t base) {
  const std::string bytes = std::to_string(header_.element_bytes);
  if (!options.dtype) {
    header_.unsupported = "raw " + bytes +
                          "-byte elements of unknown dtype; pass --dtype "
                          "(bfloat16, float8_e4m3fn, ...)";
    return;
  }
  const DTypeTraits& row = traits(*options.dtype);
  const auto wanted = static_cast<std::uint64_t>((row.bits + 7) / 8);
  if (wanted != header_.element_bytes) {
    refuse(file, base, "raw " + bytes + "-byte elements",
           std::to_string(wanted) + "-byte ones for --dtype " +
               std::string(row.name));
  }
  header_.dtype = options.dtype;
}

TensorInfo NpyLayout::info(std::string name) const {
  TensorInfo info;
  info.name = std::move(name);
  if (header_.dtype) info.dtype = *header_.dtype;
  info.shape = header_.shape;
  info.unsupported = header_.unsupported;
  return info;
}

Tensor NpyLayout::tensor(std::span<const std::byte> bytes,
                         const std::shared_ptr<const void>& owner,
                         std::string_view file) const {
  if (!header_.unsupported.empty()) {
    throw Error(Code::kUnsupported,
                std::string(file) + ": " + header_.unsupported);
  }
  const auto data = bytes.subspan(header_.data_offset);
  const bool packed = *header_.dtype == DType::kE2M1;
  Tensor tensor = tensor_over(
      data, owner, packed ? DType::kU8 : *header_.dtype, header_.shape,
      header_.fortran_order ? fortran_strides(header_.shape) : Shape{},
      header_.order);
  return packed ? pack_e2m1(tensor, file) : tensor;
}

std::unique_ptr<TensorSource> open_npy(FileBytes file,
                                       const ReadOptions& options) {
  return std::make_unique<NpySource>(std::move(file), options);
}

}  // namespace assay
