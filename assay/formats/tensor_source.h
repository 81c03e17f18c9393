// What every file reader gives: a list of named tensors, each loaded on
// demand, and the registry that picks the reader for a path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/mapped_file.h"
#include "assay/core/tensor.h"

namespace assay {

// Facts the file itself cannot tell.
struct ReadOptions {
  std::optional<DType> dtype;  // raw .bin, void .npy (bf16 and fp8 as |V1, <V2)
  std::optional<Shape> shape;  // raw .bin
  bool big_endian = false;     // raw .bin
};

struct TensorInfo {
  std::string name;  // "" for the only tensor of a file
  DType dtype = DType::kF32;
  Shape shape;
  // Set when the entry is no tensor we can compare: why, in one line. load()
  // of it throws Code::kUnsupported with the same text.
  std::string unsupported;
};

// One opened file. Opening checks every length against the file; load() maps
// and never allocates more than the bytes present (decompression excepted,
// and that is bounded by the size the archive declares and then verifies).
// Thread-safe: load() may be called from several threads.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Throws Error. The tensor stays valid after the source is destroyed.
  virtual Tensor load(std::size_t index) const = 0;
  std::string_view format() const { return format_; }
  // What the file holds besides tensors and was left out, one line each
  // ("2 strings skipped: 'args', 'name'").
  const std::vector<std::string>& notes() const { return notes_; }
  // Loaded tensors may be pages of the mapped file. If it was truncated in
  // the meantime those read as zeros: whoever used the bytes calls this
  // afterwards, before believing them. Throws Error{kUnreadable}.
  virtual void check_intact() const {
    if (mapping_) mapping_->check_intact();
  }

 protected:
  std::vector<TensorInfo> tensors_;
  std::vector<std::string> notes_;
  std::string_view format_;
  std::shared_ptr<const MappedFile> mapping_;  // null: bytes are in memory
};

// Opens `path` with the reader its structure asks for (content decides,
// the extension only breaks ties). Throws Error: kUnreadable when absent or
// truncated, kRefused when malformed or hostile, kUnsupported when no reader
// knows it.
std::unique_ptr<TensorSource> open_tensors(const std::filesystem::path& path,
                                           const ReadOptions& options = {});

}  // namespace assay
