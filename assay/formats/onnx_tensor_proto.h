// The fields of one ONNX TensorProto, checked but not decoded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "assay/core/dtype.h"
#include "assay/core/shape.h"

namespace assay {

struct OnnxTensorProto {
  Shape dims;
  std::int64_t data_type = 0;                     // TensorProto.DataType
  std::optional<std::span<const std::byte>> raw;  // raw_data
  std::uint32_t typed_field = 0;                  // 0: none
  std::uint64_t typed_count = 0;                  // numbers in that field
};

// Field numbers of TensorProto's number lists.
inline constexpr std::uint32_t kOnnxFloatData = 4;
inline constexpr std::uint32_t kOnnxInt32Data = 5;
inline constexpr std::uint32_t kOnnxStringData = 6;
inline constexpr std::uint32_t kOnnxInt64Data = 7;
inline constexpr std::uint32_t kOnnxDoubleData = 10;
inline constexpr std::uint32_t kOnnxUint64Data = 11;

// The list that holds the numbers of `dtype` where there is no raw_data.
std::uint32_t onnx_typed_field(DType dtype);

// Throws Error{kRefused} naming `file`, as open_onnx_tensor says.
OnnxTensorProto parse_onnx_tensor_proto(std::span<const std::byte> message,
                                        std::string_view file);

// Writes the numbers of proto.typed_field, in order, as little-endian elements
// (complex: components; e2m1: packed bytes) of `dtype` to `out`, which holds
// exactly typed_count of them. Throws Error{kRefused} on an integer that the
// dtype cannot hold.
void decode_onnx_numbers(std::span<const std::byte> message,
                         std::string_view file, std::uint32_t typed_field,
                         DType dtype, std::byte* out);

}  // namespace assay
