// What a mismatching pair looks like: a guess at the cause from the values
// alone, for the report's "likely: ..." line. Never part of a verdict.
#pragma once

#include <string>
#include <string_view>

#include "assay/core/tensor.h"
#include "assay/metrics/error_stats.h"
#include "assay/metrics/standard.h"

namespace assay {

// Elements looked at: of a larger tensor, whole outermost slices around the
// largest error. Bounds time (some 30 passes) and memory (16 bytes each, 24
// with an input).
inline constexpr std::int64_t kPatternElements = std::int64_t{1} << 22;

// "" or one line "likely: ...". Shapes are equal; dtypes may differ. `stats`
// is of the same pair (tier 1 is enough). `input`: the operator's first input
// where it has as many elements, for formulas that are told apart by it (GELU,
// rotary embedding). Detectors run in a fixed order, the most specific first;
// a pair without differences, or with NaN or infinity on one side only, gives
// "" unless it is an overflow. Not parallel; thread-safe.
std::string guess_cause(const TensorView& golden, const TensorView& target,
                        const ErrorStats& stats, OpClass op,
                        std::string_view api_name,
                        const TensorView* input = nullptr);

}  // namespace assay
