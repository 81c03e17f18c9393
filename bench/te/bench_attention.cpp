// Attention rows: bf16, batch 1, 16 heads of 64, against torch's fused
// scaled_dot_product_attention.
#include <string>
#include <vector>

#include "assay/te/ops/attention.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

constexpr std::int64_t kHeads = 16, kDim = 64;

enum class Pass { kForward, kBackward, kBoth };

struct Problem {
  te::AttentionInputs inputs;
  te::AttentionOptions options;
  Tensor d_out;
};

Problem make_problem(std::int64_t tokens, bool causal) {
  const Shape shape{1, tokens, kHeads, kDim};
  Problem p;
  p.inputs.q = random_tensor(DType::kBF16, shape, 1);
  p.inputs.k = random_tensor(DType::kBF16, shape, 2);
  p.inputs.v = random_tensor(DType::kBF16, shape, 3);
  p.d_out = random_tensor(DType::kBF16, shape, 4);
  p.options.q_format = p.options.kv_format = te::QkvFormat::kBshd;
  p.options.mask =
      causal ? te::AttentionMask::kCausal : te::AttentionMask::kNone;
  return p;
}

Body body_of(std::int64_t tokens, bool causal, Pass pass) {
  Problem p = make_problem(tokens, causal);
  const auto first = te::attention_forward(p.inputs, p.options);
  return [p, first, pass] {
    if (pass == Pass::kForward) {
      te::attention_forward(p.inputs, p.options);
      return;
    }
    te::AttentionResult result = first;
    if (pass == Pass::kBoth)
      result = te::attention_forward(p.inputs, p.options);
    te::attention_backward(p.d_out, p.inputs, result.out, result.lse,
                           p.options);
  };
}

// Two products of S^2 x dim forward, five backward; half of them causal.
double flops_of(std::int64_t tokens, bool causal, Pass pass) {
  const double products = pass == Pass::kForward    ? 2
                          : pass == Pass::kBackward ? 5
                                                    : 7;
  return products * 2.0 * static_cast<double>(tokens * tokens) * kDim * kHeads /
         (causal ? 2 : 1);
}

std::vector<Row> make_rows() {
  std::vector<Row> all;
  const char* const kNames[] = {"forward", "backward", "both"};
  for (const std::int64_t tokens : {2048, 8192})
    for (const bool causal : {false, true})
      for (const Pass pass : {Pass::kForward, Pass::kBackward, Pass::kBoth})
        all.push_back(
            {.name = std::string("attention_") +
                     kNames[static_cast<std::size_t>(pass)] + "_" +
                     (causal ? "causal_" : "full_") + std::to_string(tokens) +
                     "_bf16",
             .flops = flops_of(tokens, causal, pass),
             .prepare = [=] { return body_of(tokens, causal, pass); }});
  return all;
}

const Registration kRegistration{make_rows()};

}  // namespace
}  // namespace assay::bench
