// Rotary embedding rows, against a copy and torch's composition.
#include <vector>

#include "assay/te/ops/rope.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

constexpr std::int64_t kTokens = 4096, kBatch = 2, kHeads = 16, kDim = 128;
constexpr double kBytes = 2.0 * kTokens * kBatch * kHeads * kDim * 2;

Body body_of(bool interleaved, bool backward) {
  const Tensor t =
      random_tensor(DType::kBF16, {kTokens, kBatch, kHeads, kDim});
  const Tensor freqs = te::rope_frequencies(
      {.dim = kDim, .interleaved = interleaved}, kTokens);
  const te::RopeOptions options{.interleaved = interleaved};
  return [=] {
    if (backward)
      te::rope_backward(t, freqs, options);
    else
      te::rope_forward(t, freqs, options);
  };
}

const Row kRows[] = {
    {.name = "rope_forward_bf16",
     .bytes = kBytes,
     .prepare = [] { return body_of(false, false); }},
    {.name = "rope_backward_bf16",
     .bytes = kBytes,
     .prepare = [] { return body_of(false, true); }},
    {.name = "rope_interleaved_bf16",
     .bytes = kBytes,
     .prepare = [] { return body_of(true, false); }},
};
const Registration kRegistration{kRows};

}  // namespace
}  // namespace assay::bench
