// The files of a golden store for reading: a folder, or the pack of one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/conform/manifest.h"
#include "assay/formats/file_bytes.h"

namespace assay::conform {

// Thread-safe.
class GoldenFiles {
 public:
  virtual ~GoldenFiles() = default;
  // "store.json", "cases/linear/small-3f09a1c2.json", "objects/0f/0f...", in
  // byte order.
  virtual std::vector<std::string> names() const = 0;
  virtual bool has(const std::string& name) const = 0;
  // Throws Error{kUnreadable, kRefused} naming it.
  virtual FileBytes read(const std::string& name) const = 0;
  // Where it lies as a file of its own, "" where it does not.
  virtual std::filesystem::path path_of(const std::string& name) const = 0;
};

std::string case_file(const std::string& module, const std::string& id);
std::string object_file(const std::string& hash);
inline constexpr const char* kStoreFile = "store.json";

// Whether a store may have a file of that name: one of the three kinds above.
// Anything else, above all what leaves the folder, is refused.
bool is_store_name(const std::string& name);

std::unique_ptr<GoldenFiles> open_folder(const std::filesystem::path& folder);

}  // namespace assay::conform
