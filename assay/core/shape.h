// Shapes and strides, with arithmetic that cannot overflow unnoticed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace assay {

using Shape = std::vector<std::int64_t>;  // outermost dimension first

// Product of the dimensions; 1 for a 0-d shape. Nullopt when a dimension is
// negative or the product of the non-zero dimensions leaves 63 bits.
std::optional<std::int64_t> checked_numel(const Shape& shape);

// Row-major strides in elements.
Shape contiguous_strides(const Shape& shape);

// "[2, 3]"; "[]" for 0-d.
std::string to_string(const Shape& shape);

// Multi-index of a flat row-major position, as "[1, 2]".
std::string index_text(const Shape& shape, std::int64_t flat);

}  // namespace assay
