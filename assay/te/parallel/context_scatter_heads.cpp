// All heads of a part of the sequences against a part of the heads of all of
// them (a2a).
#include <algorithm>
#include <vector>

#include "assay/te/ops/sequence.h"
#include "assay/te/ops/split.h"
#include "assay/te/ops/transpose.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/parallel/context_ways.h"

namespace assay::te {
namespace {

// [ranks, ...]: entry r goes to rank r; entry r of the result is from rank r.
Tensor exchanged(const Tensor& x, Communicator& group) {
  const std::span<const std::byte> from = x.view.bytes();
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::vector<std::int64_t> sizes(
      ranks, static_cast<std::int64_t>(from.size() / ranks));
  Tensor out = Tensor::empty(x.dtype(), x.shape(), x.device);
  group.all_to_all(from, sizes, {out.mutable_data(), from.size()}, sizes);
  return out;
}

// x [tokens of the rank, heads, dim] to [all tokens, heads / ranks, dim] in the
// order of the sequences that `padded` lists, and back.
Tensor to_heads(const ContextProblem& p, const Tensor& x, const Tensor& padded,
                Communicator& group) {
  const Shape& s = x.shape();
  const std::int64_t heads = s[1] / p.ranks;
  const Tensor by_rank =
      swap_first_dims(reshaped(x, {s[0], p.ranks, heads * s[2]}));
  return thd_from_rank_order(
      reshaped(exchanged(by_rank, group), {p.ranks * s[0], heads, s[2]}),
      padded, p.ranks);
}

Tensor to_tokens(const ContextProblem& p, const Tensor& x, const Tensor& padded,
                 Communicator& group) {
  const Shape& s = x.shape();
  const std::int64_t tokens = s[0] / p.ranks;
  const Tensor by_rank = reshaped(thd_to_rank_order(x, padded, p.ranks),
                                  {p.ranks, tokens, s[1] * s[2]});
  return reshaped(swap_first_dims(exchanged(by_rank, group)),
                  {tokens, p.ranks * s[1], s[2]});
}

// Entries of the rank's heads, of a last dimension that counts all of them.
Tensor own_heads(const ContextProblem& p, const Tensor& x) {
  const std::int64_t own = x.shape().back() / p.ranks;
  const std::vector<std::int64_t> sizes = {p.rank * own, own,
                                           (p.ranks - 1 - p.rank) * own};
  return split(x, sizes, -1)[1];
}

Tensor slopes_of(const ContextProblem& p) {
  if (p.alibi_slopes) return *p.alibi_slopes;
  const std::vector<float> slopes = alibi_slopes(p.q.shape()[1]);
  Tensor out = Tensor::empty(DType::kF32, {p.q.shape()[1]}, p.device);
  std::copy(slopes.begin(), slopes.end(), out.mutable_data<float>());
  return out;
}

// The rank's heads of whole sequences.
struct Whole {
  AttentionInputs inputs;
  Tensor q_padded, kv_padded;
};

Whole whole_inputs(const ContextProblem& p, Communicator& group) {
  Whole w;
  w.q_padded = running_sums(p.q_side.padded, p.device);
  w.kv_padded = running_sums(p.kv_side.padded, p.device);
  AttentionInputs& in = w.inputs;
  in.q = to_heads(p, p.q, w.q_padded, group);
  in.k = to_heads(p, p.k, w.kv_padded, group);
  in.v = to_heads(p, p.v, w.kv_padded, group);
  in.cu_seqlens_q = running_sums(p.q_side.valid, p.device);
  in.cu_seqlens_kv = running_sums(p.kv_side.valid, p.device);
  in.cu_seqlens_q_padded = w.q_padded;
  in.cu_seqlens_kv_padded = w.kv_padded;
  if (p.options.bias == AttentionBiasType::kAlibi)
    in.alibi_slopes = own_heads(p, slopes_of(p));
  else
    in.alibi_slopes = p.alibi_slopes;  // refused by attention where given
  if (p.softmax_offset)
    in.softmax_offset =
        own_heads(p, reshaped(*p.softmax_offset, {p.softmax_offset->numel()}));
  return w;
}

// [heads, tokens] as rows of tokens, each head a column of one.
Tensor lse_rows(const Tensor& lse) {
  const Shape& s = lse.shape();
  return reshaped(transpose(lse), {s[1], s[0], 1});
}

Tensor lse_of_rows(const Tensor& rows) {
  const Shape& s = rows.shape();
  return transpose(reshaped(rows, {s[0], s[1]}));
}

}  // namespace

AttentionResult scatter_heads_forward(const ContextProblem& p,
                                      Communicator& group) {
  const Whole whole = whole_inputs(p, group);
  const AttentionResult r = attention_forward(whole.inputs, p.options);
  AttentionResult out;
  out.out = to_tokens(p, r.out, whole.q_padded, group);
  out.lse = lse_of_rows(to_tokens(p, lse_rows(r.lse), whole.q_padded, group));
  if (p.options.want_max_logit)
    out.max_logit = all_gather_first_dim(r.max_logit, group);
  return out;
}

AttentionGradients scatter_heads_backward(const ContextProblem& p,
                                          const PackedOutput& output,
                                          Communicator& group) {
  const Whole whole = whole_inputs(p, group);
  const Tensor d_out = to_heads(p, output.d_out, whole.q_padded, group);
  const Tensor out = to_heads(p, output.out, whole.q_padded, group);
  const Tensor lse =
      lse_of_rows(to_heads(p, lse_rows(output.lse), whole.q_padded, group));
  const AttentionGradients g =
      attention_backward(d_out, whole.inputs, out, lse, p.options);
  AttentionGradients own{to_tokens(p, g.dq, whole.q_padded, group),
                         to_tokens(p, g.dk, whole.kv_padded, group),
                         to_tokens(p, g.dv, whole.kv_padded, group),
                         {},
                         {}};
  if (g.d_softmax_offset)
    own.d_softmax_offset = all_gather_first_dim(*g.d_softmax_offset, group);
  return own;
}

}  // namespace assay::te
