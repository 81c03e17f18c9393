#include "assay/formats/registry_foreign.h"

#include <string_view>

#include "assay/formats/bytes.h"
#include "assay/formats/onnx_tensor.h"
#include "assay/formats/registry_json.h"

namespace assay {
namespace {

using std::string_view_literals::operator""sv;

struct Signature {
  std::size_t offset;
  std::string_view magic;
  std::string_view advice;
};

constexpr std::string_view kUnpack = "compressed: unpack it first";

constexpr Signature kSignatures[] = {
    {0, "GGUF"sv, "a GGUF model: convert it to safetensors first"},
    {0, "version https://git-lfs"sv,
     "a Git LFS pointer, not the file itself: run git lfs pull"},
    {0, "SQLite format 3\0"sv, "an SQLite database"},
    {0, "PAR1"sv, "a Parquet table"},
    {0, "MATLAB 5.0"sv, "a MATLAB file: save it as .npy first"},
    {0, "<!DOCTYPE"sv, "an HTML page (a failed download?)"},
    {0, "\x1f\x8b"sv, kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, kUnpack},
    {0, "\xfd\x37zXZ\0"sv, kUnpack},
    {0, "BZh"sv, kUnpack},
    {0, "7z\xbc\xaf\x27\x1c"sv, kUnpack},
};

bool has(std::string_view bytes, std::size_t offset, std::string_view magic) {
  return bytes.size() > offset && bytes.substr(offset).starts_with(magic);
}

// The superblock is at 0, 512, 1024, 2048 and so on.
bool is_hdf5(std::string_view bytes) {
  constexpr std::string_view kMagic = "\x89HDF\r\n\x1a\n";
  if (has(bytes, 0, kMagic)) return true;
  for (std::size_t at = 512; at <= (1 << 20); at *= 2) {
    if (has(bytes, at, kMagic)) return true;
  }
  return false;
}

bool is_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 &&
         bytes[1] <= 5 && bytes.back() == '.';
}

std::string_view json_advice(JsonKind kind) {
  if (kind == JsonKind::kMsprobeDump) {
    return "an msprobe dump, not a tensor file: pass the directory that holds "
           "it";
  }
  if (kind == JsonKind::kOther) {
    return "JSON, but neither Polygraphy data nor a safetensors index; for a "
           "trace pass the directory that holds it";
  }
  return "";
}

}  // namespace

std::string foreign_advice(const FileBytes& file) {
  const std::string_view bytes = as_text(file.bytes);
  if (is_hdf5(bytes)) {
    return "an HDF5 file, which can make a reader open other files: save its "
           "arrays as .npz or .safetensors";
  }
  for (const Signature& known : kSignatures) {
    if (has(bytes, known.offset, known.magic)) return std::string(known.advice);
  }
  if (is_pickle(bytes)) {
    return "a Python pickle, which is never executed: save tensors with "
           "torch.save or numpy.save";
  }
  if (classify_onnx(file) == OnnxKind::kModel) {
    return "an ONNX model, not a tensor: run it and compare the tensors it "
           "gives";
  }
  return std::string(json_advice(classify_json(file)));
}

}  // namespace assay
