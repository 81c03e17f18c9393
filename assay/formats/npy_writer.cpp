#include "assay/formats/npy_writer.h"

#include <algorithm>
#include <vector>

#include "assay/base/atomic_file.h"
#include "assay/formats/bytes.h"
#include "assay/formats/npy_header.h"

namespace assay {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements, even

std::string descr(DType dtype) {
  const DTypeTraits& row = traits(dtype);
  const int bytes = (row.bits + 7) / 8;
  std::string text(bytes == 1 && !row.numpy.empty() ? "|" : "<");
  if (!row.numpy.empty()) return text += row.numpy;
  text += 'V';
  return text += std::to_string(bytes);
}

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

void append_length(std::string& out, std::size_t length, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(length >> (8 * i) & 0xff);
  }
}

// Packed e2m1 codes, one a byte.
std::string unpack(std::string_view packed, std::int64_t count) {
  std::string codes(static_cast<std::size_t>(count), '\0');
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto pair = static_cast<unsigned char>(packed[i / 2]);
    codes[i] = static_cast<char>(i % 2 ? pair >> 4 : pair & 15);
  }
  return codes;
}

}  // namespace

std::string npy_header(DType dtype, const Shape& shape) {
  std::string dict = "{'descr': '";
  dict += descr(dtype);
  dict += "', 'fortran_order': False, 'shape': ";
  dict += shape_text(shape);
  dict += ", }";
  const bool version2 = dict.size() + kAlignment > 65535;
  const std::size_t prefix = version2 ? 12 : 10;
  while ((prefix + dict.size() + 1) % kAlignment != 0) dict += ' ';
  dict += '\n';
  std::string header(kNpyMagic);
  header += version2 ? '\2' : '\1';
  header += '\0';
  append_length(header, dict.size(), version2 ? 4 : 2);
  return header + dict;
}

void write_npy(const std::filesystem::path& path, const TensorView& view) {
  AtomicFile file(path);
  file.write(npy_header(view.dtype, view.shape));
  const std::int64_t total = view.numel();
  std::vector<std::byte> chunk;
  for (std::int64_t begin = 0; begin < total; begin += kChunk) {
    const std::int64_t count = std::min(kChunk, total - begin);
    chunk.resize(
        static_cast<std::size_t>(storage_bytes(view.dtype, count).value()));
    gather(view, begin, count, chunk.data());
    const std::string_view bytes = as_text(chunk);
    if (view.dtype == DType::kE2M1) {
      file.write(unpack(bytes, count));
    } else {
      file.write(bytes);
    }
  }
  file.commit();
}

}  // namespace assay
