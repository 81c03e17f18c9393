// A .safetensors file that is written tensor by tensor, before anybody knows
// how many there will be: room for the header is left at the front.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "assay/core/dtype.h"
#include "assay/core/shape.h"

namespace assay {

// Bytes at the front for length and header; data follow.
inline constexpr std::int64_t kShardHeaderBytes = std::int64_t{1} << 20;
std::string shard_name(std::int64_t number);  // "tensors-00000.safetensors"

// Until close() the file has no valid header; trace.jsonl says where its
// tensors are. Throws Error{kUnreadable}, naming the file, where the system
// does not write. Not thread-safe.
class CaptureShard {
 public:
  CaptureShard(const std::filesystem::path& directory, std::int64_t number);
  ~CaptureShard();  // closes the file as it is
  CaptureShard(const CaptureShard&) = delete;
  CaptureShard& operator=(const CaptureShard&) = delete;

  // Whether one more of that name and shape fits into the header.
  bool has_room(std::string_view name, const Shape& shape) const;
  // Appends; returns the offset in the file.
  std::int64_t add(std::string_view name, DType dtype, const Shape& shape,
                   std::span<const std::byte> bytes);
  std::int64_t data_bytes() const { return at_ - kShardHeaderBytes; }
  // Writes the header.
  void close();

 private:
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  std::string path_;
  std::string header_ = "{";
  int fd_ = -1;
  std::int64_t at_ = kShardHeaderBytes;
};

}  // namespace assay
