#include "assay/formats/registry.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/npy.h"
#include "assay/formats/npz.h"
#include "assay/formats/onnx_tensor.h"
#include "assay/formats/polygraphy.h"
#include "assay/formats/raw.h"
#include "assay/formats/raw_atb.h"
#include "assay/formats/registry_foreign.h"
#include "assay/formats/registry_json.h"
#include "assay/formats/safetensors.h"
#include "assay/formats/safetensors_index.h"
#include "assay/formats/tensor_source.h"
#include "assay/formats/torch_file.h"

namespace assay {
namespace {

// `sniff` says whether the structure is the format's; it reads no more than it
// must and never throws. `open` may be called without it, to explain what is
// wrong with a file that only its extension assigns here.
struct FormatReader {
  FormatInfo info;
  bool (*sniff)(const FileBytes&);
  std::unique_ptr<TensorSource> (*open)(FileBytes, const ReadOptions&);
};

enum class ZipKind { kNone, kNpz, kTorch };

ZipKind kind_of_member(std::string_view name) {
  if (name.ends_with("/data.pkl")) return ZipKind::kTorch;
  return name.ends_with(".npy") ? ZipKind::kNpz : ZipKind::kNone;
}

// The first member usually decides; else the whole directory does.
ZipKind zip_kind(const FileBytes& file) {
  constexpr std::size_t kLocalHeader = 30;
  const std::string_view bytes = as_text(file.bytes);
  if (bytes.starts_with("PK\x05\x06")) return ZipKind::kNpz;  // no members
  if (!bytes.starts_with("PK\x03\x04") || bytes.size() < kLocalHeader) {
    return ZipKind::kNone;
  }
  const auto length =
      read_integer<std::uint16_t>(file.bytes.data() + 26, std::endian::little);
  ZipKind kind = kind_of_member(bytes.substr(kLocalHeader, length));
  if (kind != ZipKind::kNone) return kind;
  try {
    const ZipArchive archive(file);
    for (const ZipEntry& entry : archive.entries()) {
      kind = kind_of_member(entry.name);
      if (kind != ZipKind::kNone) return kind;
    }
  } catch (const Error&) {
    return ZipKind::kNone;
  }
  return ZipKind::kNone;
}

// The old format too: its reader refuses it with advice.
bool is_torch(const FileBytes& file) {
  return zip_kind(file) == ZipKind::kTorch || is_legacy_torch(file.bytes);
}

bool is_npy(const FileBytes& file) {
  return as_text(file.bytes).starts_with("\x93NUMPY");
}

template <std::unique_ptr<TensorSource> (*kOpen)(FileBytes)>
std::unique_ptr<TensorSource> without_options(FileBytes file,
                                              const ReadOptions&) {
  return kOpen(std::move(file));
}

std::unique_ptr<TensorSource> open_npz_file(FileBytes file,
                                            const ReadOptions& options) {
  return open_npz(std::move(file), options);
}

constexpr FormatReader kReaders[] = {
    {{"npy", ".npy", "numpy array, versions 1 to 3"}, is_npy, open_npy},
    {{"npz", ".npz", "numpy archive, stored or deflated"},
     [](const FileBytes& f) { return zip_kind(f) == ZipKind::kNpz; },
     open_npz_file},
    {{"torch", ".pt .pth .ckpt", "PyTorch 1.6 and later; nothing is executed"},
     is_torch,
     open_torch},
    {{"safetensors", ".safetensors", "every dtype of the format"},
     is_safetensors,
     without_options<open_safetensors>},
    {{"safetensors index", ".safetensors.index.json",
      "sharded checkpoint, read as one"},
     [](const FileBytes& f) {
       return classify_json(f) == JsonKind::kSafetensorsIndex;
     },
     without_options<open_safetensors_index>},
    {{"polygraphy", ".json", "Polygraphy outputs and inputs"},
     [](const FileBytes& f) {
       return classify_json(f) == JsonKind::kPolygraphy;
     },
     open_polygraphy},
    {{"atb", ".bin", "Ascend ATB dump with its text header"},
     is_atb,
     without_options<open_atb>},
    {{"onnx tensor", ".pb .onnx", "ONNX TensorProto"},
     [](const FileBytes& f) { return classify_onnx(f) == OnnxKind::kTensor; },
     without_options<open_onnx_tensor>},
    {{"raw", ".bin .raw .dat", "headerless, with --dtype and --shape"},
     [](const FileBytes&) { return false; },
     open_raw},
};

constexpr const FormatReader& kRaw = *(std::end(kReaders) - 1);

bool has_extension(const FormatReader& reader, const std::string& filename) {
  for (const std::string_view extension : split(reader.info.extensions, ' ')) {
    if (filename.size() > extension.size() &&
        iequals(std::string_view(filename).substr(filename.size() -
                                                  extension.size()),
                extension)) {
      return true;
    }
  }
  return false;
}

const FormatReader* by_content(const FileBytes& file,
                               const std::string& filename) {
  for (const bool wanted : {true, false}) {
    for (const FormatReader& reader : kReaders) {
      if (has_extension(reader, filename) == wanted && reader.sniff(file)) {
        return &reader;
      }
    }
  }
  return nullptr;
}

const FormatReader* by_extension(const std::string& filename) {
  for (const FormatReader& reader : kReaders) {
    // An ATB dump proves itself by content: a .bin without is headerless.
    if (reader.open == without_options<open_atb>) continue;
    if (has_extension(reader, filename)) return &reader;
  }
  return nullptr;
}

[[noreturn]] void unknown(const FileBytes& file) {
  std::string names;
  for (const FormatReader& reader : kReaders) {
    if (!names.empty()) names += ", ";
    names += reader.info.name;
  }
  throw Error(Code::kUnsupported,
              file.name + ": no reader knows this file; they are " + names +
                  " (the last with --dtype and --shape)");
}

const FormatReader& choose(const FileBytes& file, const std::string& filename,
                           const ReadOptions& options) {
  if (const FormatReader* reader = by_content(file, filename)) return *reader;
  const FormatReader* extension = by_extension(filename);
  const bool maybe_raw = !extension || extension == &kRaw;
  if (maybe_raw && options.dtype && options.shape) return kRaw;
  if (const std::string advice = foreign_advice(file); !advice.empty()) {
    throw Error(Code::kUnsupported, file.name + ": " + advice);
  }
  if (extension) return *extension;
  if (resembles_safetensors(file)) {
    return *std::ranges::find(
        kReaders, "safetensors",
        [](const FormatReader& r) { return r.info.name; });
  }
  unknown(file);
}

}  // namespace

std::vector<FormatInfo> supported_formats() {
  std::vector<FormatInfo> formats;
  for (const FormatReader& reader : kReaders) formats.push_back(reader.info);
  return formats;
}

std::unique_ptr<TensorSource> open_tensors(const std::filesystem::path& path,
                                           const ReadOptions& options) {
  FileBytes file = FileBytes::of(MappedFile::open(path));
  const bool raw = options.dtype && options.shape;
  if (file.bytes.empty() && !raw) {
    throw Error(Code::kUnreadable, file.name + ": the file is empty");
  }
  const FormatReader& reader = choose(file, path.filename().string(), options);
  return reader.open(std::move(file), options);
}

}  // namespace assay
