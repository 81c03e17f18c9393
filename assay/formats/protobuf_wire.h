// The protobuf wire format, as far as skipping and picking fields needs it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "assay/formats/bytes.h"

namespace assay {

enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,  // string, message or packed numbers
  kFixed32 = 5,
};

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;           // varint and fixed types
  std::span<const std::byte> bytes;  // kBytes
  std::uint64_t offset = 0;          // of the tag in the file
  std::uint64_t bytes_offset = 0;    // of `bytes` in the file
};

// At most 10 bytes and 64 bits. Throws Error{kRefused}.
std::uint64_t read_varint(ByteCursor& cursor, std::string_view what);

// Walks the fields of one message, unknown ones included. Neither the bytes
// nor the name are owned. Not thread-safe.
class WireReader {
 public:
  WireReader(std::span<const std::byte> message, std::string_view file,
             std::uint64_t base = 0)
      : cursor_(message, file, base) {}

  // False at the end. Throws Error{kRefused} on field number 0, a group, an
  // unknown wire type, or a length beyond the message.
  bool next(WireField& field);

 private:
  ByteCursor cursor_;
};

}  // namespace assay
