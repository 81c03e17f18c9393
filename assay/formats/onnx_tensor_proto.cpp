#include "assay/formats/onnx_tensor_proto.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "assay/formats/protobuf_wire.h"

namespace assay {
namespace {

constexpr std::size_t kMaxRank = 32;

bool is_float_list(std::uint32_t field) {
  return field == kOnnxFloatData || field == kOnnxDoubleData;
}

WireType element_wire(std::uint32_t field) {
  if (field == kOnnxFloatData) return WireType::kFixed32;
  if (field == kOnnxDoubleData) return WireType::kFixed64;
  if (field == kOnnxStringData) return WireType::kBytes;
  return WireType::kVarint;
}

std::size_t fixed_width(std::uint32_t field) {
  return field == kOnnxFloatData ? 4 : 8;
}

std::uint64_t count_varints(std::span<const std::byte> packed) {
  return static_cast<std::uint64_t>(std::count_if(
      packed.begin(), packed.end(),
      [](std::byte b) { return (b & std::byte{0x80}) == std::byte{0}; }));
}

class ProtoParser {
 public:
  ProtoParser(std::span<const std::byte> message, std::string_view file)
      : reader_(message, file), file_(file) {}

  OnnxTensorProto run() {
    while (reader_.next(field_)) one_field();
    if (proto_.data_type == 0) {
      refuse(file_, 0, "no data_type", "a TensorProto with one");
    }
    return std::move(proto_);
  }

 private:
  void one_field() {
    switch (field_.number) {
      case 1:
        return dims();
      case 2:
        singular("data_type", WireType::kVarint);
        proto_.data_type = static_cast<std::int64_t>(field_.value);
        return;
      case 3:
        fail("a segment of a tensor", "a whole tensor");
      case kOnnxFloatData:
      case kOnnxInt32Data:
      case kOnnxStringData:
      case kOnnxInt64Data:
      case kOnnxDoubleData:
      case kOnnxUint64Data:
        return numbers();
      case 8:
        return singular("name", WireType::kBytes);
      case 9:
        singular("raw_data", WireType::kBytes);
        proto_.raw = field_.bytes;
        return;
      case 12:
        return singular("doc_string", WireType::kBytes);
      case 13:
        external();
      case 14:
        singular("data_location", WireType::kVarint);
        if (field_.value != 0) external();
        return;
      default:
        return;
    }
  }

  void dims() {
    if (field_.type == WireType::kVarint) return add_dim(field_.value);
    wire("dims", WireType::kBytes);
    ByteCursor cursor(field_.bytes, file_, field_.bytes_offset);
    while (!cursor.at_end()) add_dim(read_varint(cursor, "dims"));
  }

  void add_dim(std::uint64_t value) {
    const auto dim = static_cast<std::int64_t>(value);
    if (dim < 0) fail("dimension " + std::to_string(dim), "0 or more");
    if (proto_.dims.size() == kMaxRank) fail("more dims", "32 at most");
    proto_.dims.push_back(dim);
  }

  void numbers() {
    if (proto_.typed_field != 0 && proto_.typed_field != field_.number) {
      fail("data in fields " + std::to_string(proto_.typed_field) + " and " +
               std::to_string(field_.number),
           "data in one field");
    }
    proto_.typed_field = field_.number;
    if (field_.type == element_wire(field_.number)) {
      ++proto_.typed_count;
      return;
    }
    wire("a list of numbers", WireType::kBytes);
    proto_.typed_count += packed_count();
  }

  std::uint64_t packed_count() const {
    if (!is_float_list(field_.number)) return count_varints(field_.bytes);
    const std::size_t width = fixed_width(field_.number);
    if (field_.bytes.size() % width != 0) {
      fail(std::to_string(field_.bytes.size()) + " packed bytes",
           "a multiple of " + std::to_string(width));
    }
    return field_.bytes.size() / width;
  }

  // Protobuf lets the last one win; two writers that disagree are refused.
  void singular(std::string_view name, WireType type) {
    wire(name, type);
    const std::uint32_t bit = 1u << field_.number;
    if (seen_ & bit) fail("a second " + std::string(name), "one");
    seen_ |= bit;
  }

  void wire(std::string_view name, WireType type) const {
    if (field_.type != type) {
      fail("wire type " + std::to_string(static_cast<int>(field_.type)) +
               " of " + std::string(name),
           "wire type " + std::to_string(static_cast<int>(type)));
    }
  }

  [[noreturn]] void external() const {
    fail("external data, which is not followed",
         "the data inside (onnx.load_external_data_for_tensor, then save)");
  }

  [[noreturn]] void fail(std::string_view found,
                         std::string_view expected) const {
    refuse(file_, field_.offset, found, expected);
  }

  WireReader reader_;
  std::string_view file_;
  WireField field_;
  std::uint32_t seen_ = 0;
  OnnxTensorProto proto_;
};

// Stores numbers one after the other.
class NumberWriter {
 public:
  NumberWriter(DType dtype, std::string_view file, std::byte* out)
      : dtype_(dtype),
        width_(std::max(traits(component(dtype)).bits / 8, 1)),
        file_(file),
        out_(out) {
    const int bits = 8 * width_;
    if (dtype == DType::kBool) {
      max_ = 1;
    } else if (traits(dtype).kind == DTypeKind::kInt) {
      max_ = std::numeric_limits<std::int64_t>::max() >> (64 - bits);
      min_ = -max_ - 1;
    } else {
      max_ = bits == 64 ? 0 : (std::int64_t{1} << bits) - 1;
    }
  }

  void bits(std::uint64_t value) { store(value); }

  void integer(std::uint64_t value, bool is_int32, std::uint64_t offset) {
    // A negative int32 is ten bytes long, but five are read as one too.
    if (is_int32 && value >> 32 == 0) {
      value = static_cast<std::uint64_t>(
          std::int64_t{static_cast<std::int32_t>(value)});
    }
    const auto number = static_cast<std::int64_t>(value);
    if (dtype_ != DType::kU64 && (number < min_ || number > max_)) {
      refuse(file_, offset, "value " + std::to_string(number),
             std::to_string(min_) + " to " + std::to_string(max_) + " for " +
                 std::string(traits(dtype_).name));
    }
    store(value);
  }

 private:
  void store(std::uint64_t value) {
    for (int i = 0; i < width_; ++i) {
      *out_++ = static_cast<std::byte>(value >> (8 * i));
    }
  }

  DType dtype_;
  int width_;
  std::string_view file_;
  std::byte* out_;
  std::int64_t min_ = 0, max_ = 0;
};

void decode_packed(const WireField& field, std::string_view file,
                   NumberWriter& writer) {
  ByteCursor cursor(field.bytes, file, field.bytes_offset);
  while (!cursor.at_end()) {
    if (field.number == kOnnxFloatData) {
      writer.bits(cursor.le<std::uint32_t>("float_data"));
    } else if (field.number == kOnnxDoubleData) {
      writer.bits(cursor.le<std::uint64_t>("double_data"));
    } else {
      const std::uint64_t offset = cursor.offset();
      writer.integer(read_varint(cursor, "integer data"),
                     field.number == kOnnxInt32Data, offset);
    }
  }
}

}  // namespace

std::uint32_t onnx_typed_field(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kC64:
      return kOnnxFloatData;
    case DType::kF64:
    case DType::kC128:
      return kOnnxDoubleData;
    case DType::kI64:
      return kOnnxInt64Data;
    case DType::kU32:
    case DType::kU64:
      return kOnnxUint64Data;
    default:
      return kOnnxInt32Data;
  }
}

OnnxTensorProto parse_onnx_tensor_proto(std::span<const std::byte> message,
                                        std::string_view file) {
  return ProtoParser(message, file).run();
}

void decode_onnx_numbers(std::span<const std::byte> message,
                         std::string_view file, std::uint32_t typed_field,
                         DType dtype, std::byte* out) {
  NumberWriter writer(dtype, file, out);
  WireReader reader(message, file);
  for (WireField field; reader.next(field);) {
    if (field.number != typed_field) continue;
    if (field.type == WireType::kBytes) {
      decode_packed(field, file, writer);
    } else if (is_float_list(field.number)) {
      writer.bits(field.value);
    } else {
      writer.integer(field.value, field.number == kOnnxInt32Data, field.offset);
    }
  }
}

}  // namespace assay
