// A content-addressed store of goldens. docs/conform.md has the layout.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "assay/conform/golden_files.h"
#include "assay/conform/manifest.h"

namespace assay::conform {

// Reads a folder or a pack. Thread-safe.
class Goldens {
 public:
  // Throws Error{kUnreadable, kRefused} where there is no store.
  explicit Goldens(const std::filesystem::path& path);

  // Nullopt where the store has none. Throws Error{kRefused} for one that was
  // changed.
  std::optional<Manifest> find(const Case& c) const;
  // Every output, verified by its hash. Throws Error naming the object.
  Outcome outcome(const Manifest& manifest) const;
  // The inputs as a file that a worker can read, verified; where the store is
  // a pack, a copy in `scratch`.
  std::filesystem::path inputs(const Manifest& manifest,
                               const std::filesystem::path& scratch) const;
  // Whether all objects are there, unchanged.
  bool complete(const Manifest& manifest) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  FileBytes object(const ObjectRef& ref) const;
  std::filesystem::path path_;
  std::unique_ptr<GoldenFiles> files_;
};

// Adds to a folder. Thread-safe, and so are several processes that write to
// one store: files appear complete, and what two write under one name is the
// same, but for manifests, of which the last one stays.
class GoldenWriter {
 public:
  // Makes the folder where it is not there. Throws Error{kRefused} for a
  // folder that holds other things than a store.
  explicit GoldenWriter(std::filesystem::path folder);
  // Takes a copy. An object that is there and was changed is replaced.
  ObjectRef put_object(const std::filesystem::path& file);
  void put(const Manifest& manifest);
  std::filesystem::path object_path(const ObjectRef& ref) const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

// Throws Error{kRefused} unless the bytes have the hash and size.
void verify_object(const FileBytes& bytes, const ObjectRef& ref);

}  // namespace assay::conform
