// The bytes a reader parses, what keeps them alive and how to name them in an
// error: a mapped file, or a part of one (base64 payload, archive member).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "assay/base/mapped_file.h"

namespace assay {

// `bytes` stay valid as long as `owner` lives; tensors that view them share
// it. `name` is display text for errors, never a path to open. `mapping` is
// set when the bytes are pages of a file that may be truncated under us: the
// reader calls check_intact() after parsing, and whoever used a tensor's bytes
// asks TensorSource::check_intact() afterwards.
struct FileBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::string name;
  std::shared_ptr<const MappedFile> mapping;

  static FileBytes of(std::shared_ptr<const MappedFile> file) {
    return {file->bytes(), file, file->path().string(), file};
  }

  // Throws Error{kUnreadable} when pages vanished since the file was opened.
  void check_intact() const {
    if (mapping) mapping->check_intact();
  }
};

}  // namespace assay
