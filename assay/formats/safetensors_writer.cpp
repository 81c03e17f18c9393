#include "assay/formats/safetensors_writer.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/bytes.h"

namespace assay {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::int64_t kBlockElements = 1 << 16;
constexpr std::size_t kPieceBytes = 1 << 20;

[[noreturn]] void fail(const TensorInfo& info, std::string_view what) {
  throw Error(Code::kUsage, "safetensors: tensor \"" + printable(info.name) +
                                "\": " + std::string(what));
}

std::string json_string(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20) {
      out += "\\u00";
      out += {kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void check_name(const TensorInfo& info, std::unordered_set<std::string>& seen) {
  if (info.name == "__metadata__") fail(info, "the name is reserved");
  if (!is_valid_utf8(info.name)) fail(info, "the name is not UTF-8");
  if (!seen.insert(info.name).second) fail(info, "the name is used twice");
}

std::uint64_t checked_size(const TensorInfo& info) {
  if (!info.unsupported.empty()) fail(info, info.unsupported);
  if (traits(info.dtype).safetensors.empty()) {
    fail(info, "the format has no " + std::string(traits(info.dtype).name));
  }
  const auto count = checked_numel(info.shape);
  const auto size = count ? storage_bytes(info.dtype, *count) : std::nullopt;
  if (!size) fail(info, "shape " + to_string(info.shape) + " is too large");
  if (traits(info.dtype).bits < 8 && *count % 2 != 0) {
    fail(info, "an odd number of 4-bit elements does not fill whole bytes");
  }
  return static_cast<std::uint64_t>(*size);
}

std::string entry(const TensorInfo& info, std::uint64_t begin,
                  std::uint64_t end) {
  std::string shape = to_string(info.shape);
  std::erase(shape, ' ');
  return json_string(info.name) + ":{\"dtype\":\"" +
         std::string(traits(info.dtype).safetensors) + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," +
         std::to_string(end) + "]}";
}

std::string metadata_entry(const std::map<std::string, std::string>& metadata) {
  std::string text = "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (!is_valid_utf8(key) || !is_valid_utf8(value)) {
      throw Error(Code::kUsage, "safetensors: metadata \"" + printable(key) +
                                    "\" is not UTF-8");
    }
    if (text.back() != '{') text += ',';
    text += json_string(key) + ":" + json_string(value);
  }
  return text + "}";
}

void write_pieces(AtomicFile& file, std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    file.write(bytes.substr(at, kPieceBytes));
  }
}

void write_gathered(AtomicFile& file, const TensorView& tensor) {
  const std::int64_t count = tensor.numel();
  std::vector<std::byte> block;
  for (std::int64_t begin = 0; begin < count; begin += kBlockElements) {
    const std::int64_t part = std::min(kBlockElements, count - begin);
    block.resize(
        static_cast<std::size_t>(storage_bytes(tensor.dtype, part).value()));
    gather(tensor, begin, part, block.data());
    file.write(as_text(block));
  }
}

}  // namespace

std::string safetensors_header(
    const std::vector<TensorInfo>& infos,
    const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += metadata_entry(metadata);
  std::unordered_set<std::string> seen;
  std::uint64_t offset = 0;
  for (const TensorInfo& info : infos) {
    check_name(info, seen);
    const auto end = checked_add(offset, checked_size(info));
    if (!end || *end >> 63) fail(info, "the file would exceed 2^63 bytes");
    if (text.size() > 1) text += ',';
    text += entry(info, offset, *end);
    offset = *end;
  }
  text += '}';
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i));
  }
  return length + text;
}

SafetensorsWriter::SafetensorsWriter(
    std::filesystem::path path, std::vector<TensorInfo> infos,
    const std::map<std::string, std::string>& metadata)
    : file_(std::move(path)), infos_(std::move(infos)) {
  file_.write(safetensors_header(infos_, metadata));
}

void SafetensorsWriter::write(const TensorView& tensor) {
  if (next_ == infos_.size()) {
    throw Error(Code::kUsage, "safetensors: more tensors than announced");
  }
  const TensorInfo& info = infos_[next_++];
  if (tensor.dtype != info.dtype || tensor.shape != info.shape) {
    fail(info, std::string(traits(tensor.dtype).name) +
                   to_string(tensor.shape) + " given, " +
                   std::string(traits(info.dtype).name) +
                   to_string(info.shape) + " announced");
  }
  if (tensor.is_contiguous()) {
    write_pieces(file_, as_text(tensor.bytes()));
  } else {
    write_gathered(file_, tensor);
  }
}

void SafetensorsWriter::commit() {
  if (next_ != infos_.size()) {
    fail(infos_[next_], "announced but never written");
  }
  file_.commit();
}

}  // namespace assay
