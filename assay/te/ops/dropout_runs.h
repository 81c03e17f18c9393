// What the operators that draw dropout's masks share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "assay/base/parallel.h"
#include "assay/kernels/dropout.h"
#include "assay/te/check.h"
#include "assay/te/ops/dropout.h"
#include "assay/te/ops/row_blocks.h"

namespace assay::te {

static_assert(kTaskElements % kDropoutChunk == 0);

inline void require_probability(std::string_view op, std::string_view argument,
                                float p) {
  require(p >= 0 && p < 1, op, argument, std::to_string(p), "0 <= p < 1");
}

constexpr std::int64_t dropout_chunks(std::int64_t n) {
  return (n + kDropoutChunk - 1) / kDropoutChunk;
}
// Bytes of the mask of n elements.
constexpr std::int64_t dropout_mask_bytes(std::int64_t n) {
  return 2 * dropout_chunks(n);
}

inline DropoutDraw dropout_draw(float p, const DropoutState& state) {
  return {state.seed, state.offset,
          static_cast<std::uint32_t>(std::floor(p * 256.0f))};
}
inline float dropout_scale(float p) { return 1.0f / (1.0f - p); }

// Calls body(begin, count) for fixed runs of elements in parallel; every run
// begins with a chunk.
template <class Body>
void for_element_runs(std::int64_t n, const Body& body) {
  parallel_for((n + kTaskElements - 1) / kTaskElements, [&](std::int64_t i) {
    const std::int64_t begin = i * kTaskElements;
    body(begin, std::min(kTaskElements, n - begin));
  });
}

}  // namespace assay::te
