// The header of a .npy file: a tokenizer for the one dict literal numpy
// writes there, not an evaluator of Python.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "assay/core/dtype.h"
#include "assay/core/shape.h"

namespace assay {

struct NpyHeader {
  // Nullopt: no dtype of ours. Either `is_void`, or `unsupported` says why.
  std::optional<DType> dtype;
  bool is_void = false;  // raw bytes whose meaning the file does not tell
  std::string unsupported;
  std::uint64_t element_bytes = 0;  // 0 for structured dtypes
  std::endian order = std::endian::little;
  bool fortran_order = false;
  Shape shape;
  std::uint64_t data_offset = 0;  // from the start of the .npy bytes
};

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// Bytes from the start of the file to the end of the header, as the first 12
// bytes state it. Throws Error{kRefused} for a wrong magic or version.
std::uint64_t npy_header_end(std::span<const std::byte> start,
                             std::string_view file, std::uint64_t base);

// Parses versions 1.0, 2.0 and 3.0. `start` reaches at least to the end of the
// header; offsets in errors are `base` + position. Accepted beyond what numpy
// writes today, because only one reading is possible and the size of the data
// is checked against it: `(184)` for `(184,)`, Python 2's `10L`, and
// `np.int64(1)`. Byte orders '=', '|' and none mean little-endian. Throws
// Error{kRefused}; object dtypes are refused because their data is a pickle.
NpyHeader parse_npy_header(std::span<const std::byte> start,
                           std::string_view file, std::uint64_t base);

}  // namespace assay
