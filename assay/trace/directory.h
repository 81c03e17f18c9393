// Directory listings that never follow a symbolic link.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

enum class FileKind : std::uint8_t { kFile, kDirectory, kLink, kOther };

struct DirectoryEntry {
  std::string name;
  FileKind kind = FileKind::kOther;
};

// Hidden entries included, in natural order. Throws Error{kUnreadable} when
// the directory cannot be read.
std::vector<DirectoryEntry> list_directory(const std::filesystem::path& path);

// The entry of that name in a sorted listing, null when there is none.
const DirectoryEntry* find_entry(const std::vector<DirectoryEntry>& listing,
                                 std::string_view name);

// A directory's names for many look-ups; empty when it is absent.
class DataDirectory {
 public:
  explicit DataDirectory(std::filesystem::path path);
  const std::filesystem::path& path() const { return path_; }
  // "" when the file can be opened, else why not, in one line.
  std::string problem(std::string_view file_name) const;
  bool exists() const { return exists_; }

 private:
  std::filesystem::path path_;
  std::vector<DirectoryEntry> entries_;  // by name
  bool exists_ = false;
};

}  // namespace assay
