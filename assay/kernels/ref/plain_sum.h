// Sums of the plain loops, in any internal precision.
#pragma once

#include <cstdint>

#include "assay/numerics/internal_precision.h"

namespace assay::ref {

// term(0) + ... + term(n - 1) in an accumulator of kPrecision.
template <InternalPrecision kPrecision, class Term>
double sum_of(DType working, std::int64_t n, const Term& term) {
  return with_accumulator(kPrecision, working, [&](auto make) {
    auto sum = make();
    for (std::int64_t i = 0; i < n; ++i)
      sum.add(static_cast<typename decltype(sum)::Real>(term(i)));
    return static_cast<double>(sum.total());
  });
}

}  // namespace assay::ref
