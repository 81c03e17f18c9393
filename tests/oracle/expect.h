// How exactly an array must be met, as INDEX.json words it, and the check.
#pragma once

#include <string>

#include "assay/core/tensor.h"

namespace assay::oracle {

struct Expectation {
  enum class Kind {
    kInput,     // given data: the handler reads it
    kInfo,      // context: not compared
    kExact,     // same value; codes: same code, NaN equals NaN for wide floats
    kExactNan,  // same code, any NaN code where NaN
    kClose,     // |a - b| <= atol + rtol |b|, plus the rounding of our dtype
    kAbsDot,    // |a - b| <= factor * absdot, plus the rounding of our dtype
    kAdjacent,  // codes at most one step apart, in at most `share` of elements
    kRounding,  // the rounding to `dtype` of the array `of` that we gave
    kUnknown,   // wording we do not know: a failure
  };
  Kind kind = Kind::kUnknown;
  double rtol = 0, atol = 0, factor = 0, share = 1;
  std::string of;
  DType dtype = DType::kF32;
  std::string wording;
};

// `json` is the value of "expect" as text; docs/oracle-vectors.md lists the
// wordings. Whatever else it says is kUnknown: nothing is guessed. The stored
// dtype decides between the two halves of wordings such as "codes: adjacent
// code allowed; amax rtol 5e-6".
Expectation parse_expectation(const std::string& json, DType stored);

// "" where `ours` meets `reference`; else one line with the worst element.
// `other` is the absdot array (kAbsDot) or our wider result (kRounding).
std::string compare(const Expectation& e, const Tensor& ours,
                    const Tensor& reference, const Tensor* other);

}  // namespace assay::oracle
