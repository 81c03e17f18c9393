// The JSON header of a safetensors file, parsed and checked as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/core/dtype.h"
#include "assay/core/shape.h"

namespace assay {

struct SafetensorsEntry {
  std::string name;
  std::string dtype_text;      // as written: "F32", "F6_E2M3"
  std::optional<DType> dtype;  // nullopt: none that we can compare
  Shape shape;                 // counts elements, also for F4
  std::uint64_t begin = 0;     // bytes, relative to data_begin
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the header's order
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // offset of the data in the file
};

// The reference implementation's own cap.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

// `bytes` is the whole file. The layout (u64 LE header length, JSON, data) and
// its rules are those of huggingface/safetensors: entries cover the data
// exactly, without hole or overlap, each holds product(shape) * item bits.
// Offsets are checked for every entry, also of an unknown dtype. Throws
// Error{kRefused} naming `file` and what is wrong.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes,
                                           std::string_view file);

}  // namespace assay
