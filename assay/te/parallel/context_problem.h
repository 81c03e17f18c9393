// A call of context-parallel attention, checked, packed and ready to be taken
// apart into calls of attention.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "assay/te/ops/attention.h"
#include "assay/te/parallel/communicator.h"
#include "assay/te/parallel/context_cut.h"

namespace assay::te {

struct ContextProblem {
  std::string_view op;
  QkvFormat format = QkvFormat::kSbhd;       // the caller's
  std::int64_t batch = 1;                    // of sbhd and bshd
  std::int64_t q_length = 0, kv_length = 0;  // on a rank, of sbhd and bshd
  CutSide q_side, kv_side;
  std::int64_t rank = 0, ranks = 1;
  Device device = Device::kCpu;
  Tensor q, k, v;  // [tokens of the rank, heads, dim]
  std::optional<Tensor> alibi_slopes, softmax_offset;
  AttentionOptions options;  // thd, top left, max_q and max_kv of the whole
};

// Throws Error{kUsage} for what context_parallel.h refuses and where ranks do
// not give the same; `check` may refuse more. Collective: on every rank or on
// none.
ContextProblem make_context_problem(
    std::string_view op, const AttentionInputs& inputs,
    const AttentionOptions& options, Communicator& group,
    const std::function<void(const ContextProblem&)>& check);

// Rows of the caller's format as [tokens, heads, dim], and back to q_length or
// kv_length rows of a sequence.
Tensor packed(const ContextProblem& p, const Tensor& x);
Tensor unpacked(const ContextProblem& p, const Tensor& x, std::int64_t length);
// A log-sum-exp [heads, tokens] as the caller's [b, h, s], and back.
Tensor unpacked_lse(const ContextProblem& p, const Tensor& lse);
Tensor packed_lse(const ContextProblem& p, const Tensor& lse);

// What backward is given: checked, and packed.
void check_output(const ContextProblem& p, const Tensor& d_out,
                  const AttentionResult& forward);
struct PackedOutput {
  Tensor d_out, out, lse;
};
PackedOutput packed_output(const ContextProblem& p, const Tensor& d_out,
                           const AttentionResult& forward);

// One call of the rank's queries against k and v that `from` had.
AttentionInputs call_inputs(const ContextProblem& p, const CutCall& call,
                            std::int64_t from, const Tensor& k,
                            const Tensor& v);
AttentionOptions call_options(const ContextProblem& p, const CutCall& call);

// Whole padded and valid lengths as running sums, i32 [sequences + 1].
Tensor running_sums(const std::vector<std::int64_t>& lengths, Device device);

// The elements of a contiguous tensor in another shape of as many.
Tensor reshaped(const Tensor& x, Shape shape);

}  // namespace assay::te
