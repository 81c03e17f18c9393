// A folder for the files that pass between runner and workers.
#pragma once

#include <filesystem>
#include <string>

namespace assay::conform {

// "<parent>/scratch-<pid>-<n>", made now, removed with all that is in it at
// the end. Throws Error{kUnreadable}.
class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& parent);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace assay::conform
