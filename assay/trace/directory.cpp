// Directory listings that never follow a symbolic link.
#include "assay/trace/directory.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/trace/entry_name.h"

namespace assay {
namespace fs = std::filesystem;
namespace {

FileKind kind_of(const fs::directory_entry& entry) {
  std::error_code ignored;
  if (entry.is_symlink(ignored)) return FileKind::kLink;
  if (entry.is_directory(ignored)) return FileKind::kDirectory;
  if (entry.is_regular_file(ignored)) return FileKind::kFile;
  return FileKind::kOther;
}

std::vector<DirectoryEntry> read_all(const fs::path& path) {
  std::error_code error;
  fs::directory_iterator it(path, error);
  std::vector<DirectoryEntry> entries;
  while (!error && it != fs::directory_iterator()) {
    entries.push_back({it->path().filename().string(), kind_of(*it)});
    it.increment(error);
  }
  if (error) {
    throw Error(Code::kUnreadable,
                path.string() + ": cannot list: " + error.message());
  }
  return entries;
}

bool by_name(const DirectoryEntry& a, const DirectoryEntry& b) {
  return a.name < b.name;
}

}  // namespace

std::vector<DirectoryEntry> list_directory(const fs::path& path) {
  auto entries = read_all(path);
  std::sort(entries.begin(), entries.end(), by_name);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) {
                     return natural_less(a.name, b.name);
                   });
  return entries;
}

const DirectoryEntry* find_entry(const std::vector<DirectoryEntry>& listing,
                                 std::string_view name) {
  for (const DirectoryEntry& entry : listing) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

DataDirectory::DataDirectory(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  const auto status = fs::symlink_status(path_, ignored);
  exists_ = fs::is_directory(status);
  if (!exists_) return;
  entries_ = read_all(path_);
  std::sort(entries_.begin(), entries_.end(), by_name);
}

std::string DataDirectory::problem(std::string_view file_name) const {
  if (!is_plain_file_name(file_name)) {
    return "data_name \"" + printable(file_name) +
           "\" is not a plain file name, refused";
  }
  const auto it = std::lower_bound(
      entries_.begin(), entries_.end(), file_name,
      [](const DirectoryEntry& e, std::string_view n) { return e.name < n; });
  if (it == entries_.end() || it->name != file_name) {
    return "data file absent: " + printable(file_name);
  }
  if (it->kind == FileKind::kFile) return "";
  return printable(file_name) + " is " +
         (it->kind == FileKind::kLink ? "a symbolic link, refused"
                                      : "no regular file");
}

}  // namespace assay
