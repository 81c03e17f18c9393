// How exactly an array must be met, as INDEX.json words it, and the check.
#pragma once

#include <string>

#include "assay/core/tensor.h"

namespace assay::oracle {

struct Expectation {
  enum class Kind {
    kSkip,      // "input", "info"
    kExact,     // same value; codes: same code, NaN equals NaN for wide floats
    kExactNan,  // same code, any NaN code where NaN
    kClose,     // |a - b| <= atol + rtol |b|, plus the rounding of our dtype
    kAbsDot,    // |a - b| <= factor * absdot, plus the rounding of our dtype
    kAdjacent,  // codes at most one step apart, in at most `share` of elements
    kRounding,  // the rounding of another array we gave: <name without suffix>
    kUnknown,   // wording we do not know: a failure
  };
  Kind kind = Kind::kUnknown;
  double rtol = 0, atol = 0, factor = 0, share = 1;
  std::string wording;
};

// `expect` is the JSON value as text: a string or {"rtol":..,"atol":..} or
// {"abs tolerance": "2e-06 * absdot ..."}. The stored dtype decides between
// the two halves of wordings such as "codes: adjacent; amax rtol".
Expectation parse_expectation(const std::string& json, DType stored);

// "" where `ours` meets `reference`; else one line with the worst element.
// `other` is the absdot array (kAbsDot) or our wider result (kRounding).
std::string compare(const Expectation& e, const Tensor& ours,
                    const Tensor& reference, const Tensor* other);

}  // namespace assay::oracle
