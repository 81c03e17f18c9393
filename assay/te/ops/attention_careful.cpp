#include "assay/te/ops/attention_careful.h"

namespace assay::te {

void CarefulProduct::run(const AttentionTiles& tiles, KeepOf of) const {
  if (keep == nullptr) {
    tiles.product(m, n, k, a, b, c, accumulate);
    return;
  }
  const auto* left = static_cast<const float*>(a);
  const auto* right = static_cast<const float*>(b);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = accumulate ? c[i * n + j] : 0.0f;
      for (std::int64_t x = 0; x < k; ++x) {
        const std::uint64_t word = of == KeepOf::kKN ? keep[x] : keep[i];
        if ((word >> (of == KeepOf::kKN ? j : x) & 1) == 0) continue;
        sum += left[i * k + x] * right[x * n + j];
      }
      c[i * n + j] = sum;
    }
}

}  // namespace assay::te
