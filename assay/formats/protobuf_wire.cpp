#include "assay/formats/protobuf_wire.h"

namespace assay {
namespace {

constexpr std::uint64_t kMaxFieldNumber = (1 << 29) - 1;

}  // namespace

std::uint64_t read_varint(ByteCursor& cursor, std::string_view what) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint64_t byte = cursor.u8(what);
    if (shift == 63 && byte > 1) break;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  cursor.fail("a varint beyond 64 bits", what);
}

bool WireReader::next(WireField& field) {
  if (cursor_.at_end()) return false;
  field = {};
  field.offset = cursor_.offset();
  const std::uint64_t tag = read_varint(cursor_, "protobuf tag");
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number > kMaxFieldNumber) {
    cursor_.fail("protobuf field " + std::to_string(number),
                 "1 to " + std::to_string(kMaxFieldNumber));
  }
  field.number = static_cast<std::uint32_t>(number);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint:
      field.value = read_varint(cursor_, "protobuf varint");
      return true;
    case WireType::kFixed64:
      field.value = cursor_.le<std::uint64_t>("protobuf fixed64");
      return true;
    case WireType::kFixed32:
      field.value = cursor_.le<std::uint32_t>("protobuf fixed32");
      return true;
    case WireType::kBytes: {
      const std::uint64_t size = read_varint(cursor_, "protobuf length");
      field.bytes_offset = cursor_.offset();
      field.bytes = cursor_.take(size, "protobuf field");
      return true;
    }
  }
  cursor_.fail("protobuf wire type " + std::to_string(tag & 7), "0, 1, 2 or 5");
}

}  // namespace assay
