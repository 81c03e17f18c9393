// The k largest by k passes over the keys.
#pragma once

#include <cstdint>

#include "assay/kernels/top_k_key.h"

namespace assay {

inline void ref_top_k(const float* x, std::int64_t n, std::int64_t k,
                      std::int32_t* keys, std::int32_t* indices) {
  for (std::int64_t i = 0; i < n; ++i) keys[i] = score_key(x[i]);
  for (std::int64_t j = 0; j < k; ++j) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n; ++i)
      if (keys[i] > keys[best]) best = i;
    indices[j] = static_cast<std::int32_t>(best);
    keys[best] = kNoScore;
  }
}

}  // namespace assay
