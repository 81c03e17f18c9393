// What several reports say about a row: its words, its place, its severity.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// "input", "output", "parameter", "gradient", "tensor".
std::string_view role_text(Role role);

// "missing in the golden", "missing in the target" or "" when both are there.
std::string_view missing_text(const Row& row);

// As the dump spells it, the canonical name otherwise, "" when unknown.
std::string_view dtype_text(const RowSide& side);

// Shape that flat indices of this row refer to.
const Shape& index_shape(const Row& row);
bool has_complex_components(const Row& row);

// Multi-index of a flat element index as the row's shape reads it, with the
// component of complex tensors: "[3, 17, 201]", "[3].imag". "" when negative.
std::string place_text(const Row& row, std::int64_t flat);

// |target - golden| relative to the golden, the one figure that ranks rows and
// is drawn along the execution order: norm_l2 where elements were compared,
// the relative difference of the norms where only statistics were. +inf where
// the non-finite positions differ; -1 when there is nothing to compare.
double row_error(const Row& row);

// Row numbers, worst first: mismatches (born and differing inputs before
// inherited ones, larger error first), incomplete, empty, match. Equal ones in
// execution order.
std::vector<std::size_t> worst_first(const Comparison& comparison);

// "model/mlp.py:41 in forward" of the innermost frame that is the user's own
// code, "" when there is no stack.
std::string user_frame(const std::vector<std::string>& stack);

// One frame, shortened: "File a.py, line 3, in f, \n x = 1" -> "a.py:3 in f".
std::string short_frame(std::string_view frame);

// "likely: another GELU variant", whether or not `cause` has the word.
std::string likely_text(std::string_view cause);

}  // namespace assay
