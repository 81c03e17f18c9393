#include "assay/trace/tensor_files.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/formats/file_bytes.h"
#include "assay/formats/registry.h"
#include "assay/formats/registry_foreign.h"
#include "assay/formats/registry_json.h"
#include "assay/formats/tensor_source.h"
#include "assay/trace/msprobe.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

constexpr int kMaxHiddenDepth = 8;
constexpr std::size_t kTextProbe = 4096;

constexpr std::array<std::string_view, 27> kForeign = {
    ".h5",  ".hdf5", ".gguf",   ".gz",     ".tgz",     ".zst",     ".xz",
    ".bz2", ".lz4",  ".zip",    ".7z",     ".tar",     ".mat",     ".index",
    ".nc",  ".onnx", ".tflite", ".pkl",    ".pickle",  ".parquet", ".msgpack",
    ".t7",  ".rar",  ".lzma",   ".joblib", ".feather", ".tfrecord"};

constexpr std::array<std::string_view, 31> kCompanions = {
    ".txt",  ".md",  ".log",  ".csv",  ".tsv", ".py",  ".pyc", ".ipynb",
    ".yaml", ".yml", ".toml", ".ini",  ".cfg", ".png", ".jpg", ".jpeg",
    ".svg",  ".gif", ".pdf",  ".html", ".htm", ".css", ".js",  ".sh",
    ".cpp",  ".h",   ".xml",  ".rst",  ".db",  ".xls", ".xlsx"};

bool has_extension(std::string_view name, std::string_view extension) {
  return name.size() > extension.size() &&
         iequals(name.substr(name.size() - extension.size()), extension);
}

bool has_any(std::string_view name,
             std::span<const std::string_view> extensions) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](auto e) { return has_extension(name, e); });
}

std::vector<std::string_view> supported_extensions() {
  std::vector<std::string_view> all;
  for (const FormatInfo& format : supported_formats()) {
    for (const std::string_view extension : split(format.extensions, ' ')) {
      if (extension != ".json") all.push_back(extension);
    }
  }
  return all;
}

// Only control characters that text uses, and no broken UTF-8 before the cut.
bool is_text(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, kTextProbe);
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 9 || (byte > 13 && byte < 32)) return false;
  }
  constexpr std::size_t kLongestCharacter = 4;
  if (bytes.size() <= kTextProbe) return is_valid_utf8(head);
  for (std::size_t cut = 0; cut < kLongestCharacter; ++cut) {
    if (is_valid_utf8(head.substr(0, head.size() - cut))) return true;
  }
  return false;
}

bool opens(const fs::path& path) {
  try {
    return !open_tensors(path)->tensors().empty();
  } catch (const Error&) {
    return false;
  }
}

bool content_may_hold(const fs::path& path) {
  const FileBytes file = FileBytes::of(MappedFile::open(path));
  if (file.bytes.empty()) return false;
  if (has_extension(path.filename().string(), ".json")) {
    const JsonKind kind = classify_json(file);
    if (kind == JsonKind::kOther) return false;
    if (kind == JsonKind::kMsprobeDump) return is_msprobe_json(path);
    if (kind != JsonKind::kNone) return true;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes.data()),
                               file.bytes.size());
  return !is_text(bytes) || !foreign_advice(file).empty() || opens(path);
}

bool hides_tensors(const fs::path& directory, int depth) {
  try {
    for (const DirectoryEntry& entry : list_directory(directory)) {
      if (entry.kind != FileKind::kDirectory) {
        if (is_tensor_file_name(entry.name)) return true;
      } else if (depth == kMaxHiddenDepth ||
                 hides_tensors(directory / entry.name, depth + 1)) {
        return true;
      }
    }
  } catch (const Error&) {
    return true;
  }
  return false;
}

JudgedEntry judge_hidden(const fs::path& directory,
                         const DirectoryEntry& entry) {
  const bool unread = entry.kind == FileKind::kDirectory
                          ? hides_tensors(directory / entry.name, 0)
                          : is_tensor_file_name(entry.name);
  if (!unread) return {EntryRole::kHidden, ""};
  return {EntryRole::kUnread, "hidden, not read: pass it by itself"};
}

}  // namespace

bool is_tensor_file_name(std::string_view name) {
  static const std::vector<std::string_view> supported = supported_extensions();
  return has_any(name, supported) || has_any(name, kForeign);
}

bool may_hold_tensors(const fs::path& file) {
  const std::string name = file.filename().string();
  if (is_tensor_file_name(name)) return true;
  if (has_any(name, kCompanions)) return false;
  try {
    return content_may_hold(file);
  } catch (const Error&) {
    return true;
  }
}

JudgedEntry judge_entry(const fs::path& directory,
                        const DirectoryEntry& entry) {
  if (entry.name[0] == '.') return judge_hidden(directory, entry);
  switch (entry.kind) {
    case FileKind::kLink:
      return {EntryRole::kUnread, "a symbolic link, not followed"};
    case FileKind::kDirectory:
      return {EntryRole::kDirectory, ""};
    case FileKind::kOther:
      return {EntryRole::kUnread, "a FIFO, device or socket, not read"};
    case FileKind::kFile:
      break;
  }
  if (!may_hold_tensors(directory / entry.name)) return {};
  return {EntryRole::kTensorFile, ""};
}

}  // namespace assay
