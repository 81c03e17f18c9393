#include "assay/formats/safetensors.h"

#include <utility>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/safetensors_header.h"
#include "assay/formats/tensor_layout.h"

namespace assay {
namespace {

class SafetensorsSource : public TensorSource {
 public:
  explicit SafetensorsSource(FileBytes file) : file_(std::move(file)) {
    format_ = "safetensors";
    mapping_ = file_.mapping;
    SafetensorsHeader header =
        parse_safetensors_header(file_.bytes, file_.name);
    const auto data = file_.bytes.subspan(header.data_begin);
    for (SafetensorsEntry& entry : header.entries) {
      parts_.push_back(data.subspan(entry.begin, entry.end - entry.begin));
      add(std::move(entry));
    }
    file_.check_intact();
  }

  Tensor load(std::size_t index) const override {
    const TensorInfo& info = tensors_.at(index);
    if (!info.unsupported.empty()) {
      throw Error(Code::kUnsupported, info.unsupported);
    }
    return tensor_over(parts_[index], file_.owner, info.dtype, info.shape, {});
  }

 private:
  void add(SafetensorsEntry entry) {
    TensorInfo info;
    info.name = std::move(entry.name);
    info.shape = std::move(entry.shape);
    if (entry.dtype) {
      info.dtype = *entry.dtype;
    } else {
      info.unsupported = file_.name + ": tensor \"" + printable(info.name) +
                         "\": dtype \"" + printable(entry.dtype_text) +
                         "\" cannot be compared";
    }
    tensors_.push_back(std::move(info));
  }

  FileBytes file_;
  std::vector<std::span<const std::byte>> parts_;
};

}  // namespace

bool resembles_safetensors(const FileBytes& file) {
  if (file.bytes.size() < 10 || file.bytes[8] != std::byte{'{'}) return false;
  const auto length =
      read_integer<std::uint64_t>(file.bytes.data(), std::endian::little);
  return length <= file.bytes.size() - 8 && length <= kMaxSafetensorsHeader;
}

bool is_safetensors(const FileBytes& file) {
  if (!resembles_safetensors(file)) return false;
  try {
    parse_safetensors_header(file.bytes, file.name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<TensorSource> open_safetensors(FileBytes file) {
  return std::make_unique<SafetensorsSource>(std::move(file));
}

}  // namespace assay
