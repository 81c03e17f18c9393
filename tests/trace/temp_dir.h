// A directory that lives as long as one test.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace assay {

class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "assay_trace_XXXXXX")
            .string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }
  // Makes the directories on the way; returns the file's path.
  std::filesystem::path write(std::string_view name,
                              std::string_view bytes) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    // Truncating a file in place waits for the disk on some file systems.
    std::filesystem::remove(file);
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  std::filesystem::path path_;
};

// Closes an entry of a directory for as long as it lives; a process that runs
// as root acts as "nobody" meanwhile, since root passes every check.
class WithoutAccess {
 public:
  WithoutAccess(const TempDir& dir, std::string_view name)
      : path_(dir / name), root_(geteuid() == 0) {
    chmod(dir.path().c_str(), 0755);
    chmod(path_.c_str(), 0);
    constexpr uid_t kNobody = 65534;
    if (root_ && seteuid(kNobody) != 0) std::abort();
  }
  ~WithoutAccess() {
    if (root_ && seteuid(0) != 0) std::abort();
    chmod(path_.c_str(), 0755);
  }
  WithoutAccess(const WithoutAccess&) = delete;
  WithoutAccess& operator=(const WithoutAccess&) = delete;

 private:
  std::filesystem::path path_;
  bool root_;
};

}  // namespace assay
