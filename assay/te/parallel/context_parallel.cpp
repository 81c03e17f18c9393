#include "assay/te/parallel/context_parallel.h"

#include <string>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/parallel/context_sums.h"
#include "assay/te/parallel/context_ways.h"
#include "assay/te/quantize/identity.h"

namespace assay::te {
namespace {

void check_way(const ContextProblem& p, CpCommType comm, bool quantised) {
  if (comm != CpCommType::kA2A) return;
  for (const auto& [name, x] :
       {std::pair<const char*, const Tensor*>{"q", &p.q}, {"k", &p.k}})
    require(x->shape()[1] % p.ranks == 0, p.op, name,
            std::to_string(x->shape()[1]) + " heads",
            "a multiple of the " + std::to_string(p.ranks) + " ranks for a2a");
  require(p.options.dropout == 0, p.op, "dropout",
          std::to_string(p.options.dropout) + " with a2a",
          "0: the mask counts heads, of which a rank has a part");
  require(!quantised, p.op, "kv_quantizer", "given with a2a",
          "none: heads move once, by p2p and all_gather codes do");
}

// Over all ranks, where calls saw a part of the queries.
Tensor greatest_of_all(const Tensor& own, Communicator& group) {
  const std::int64_t heads = own.numel();
  Tensor all = all_gather_first_dim(own, group);
  Tensor best = own;
  for (int r = 0; r < group.size(); ++r) {
    Tensor part = all;
    part.view.shape = {heads};
    part.view.data += static_cast<std::size_t>(r * heads) * sizeof(float);
    best = maxima(best, part);
  }
  return best;
}

AttentionResult forward_by(CpCommType comm, const ContextProblem& p,
                           const TravellingKv& kv, Communicator& group) {
  switch (comm) {
    case CpCommType::kP2P:
      return ring_forward(p, kv, group);
    case CpCommType::kAllGather:
      return gather_forward(p, kv, group);
    case CpCommType::kA2A:
      break;
  }
  return scatter_heads_forward(p, group);
}

AttentionGradients backward_by(CpCommType comm, const ContextProblem& p,
                               const TravellingKv& kv,
                               const PackedOutput& output,
                               Communicator& group) {
  switch (comm) {
    case CpCommType::kP2P:
      return ring_backward(p, kv, output, group);
    case CpCommType::kAllGather:
      return gather_backward(p, kv, output, group);
    case CpCommType::kA2A:
      break;
  }
  return scatter_heads_backward(p, output, group);
}

}  // namespace

CpCommType parse_cp_comm_type(std::string_view text) {
  if (text == "p2p") return CpCommType::kP2P;
  if (text == "all_gather") return CpCommType::kAllGather;
  if (text == "a2a") return CpCommType::kA2A;
  throw Error(Code::kUsage, "cp_comm_type: \"" + std::string(text) +
                                "\", expected p2p, all_gather or a2a");
}

ContextParallelResult context_parallel_forward(const AttentionInputs& inputs,
                                               const AttentionOptions& options,
                                               const ContextParallelOptions& cp,
                                               Communicator& group) {
  const ContextProblem p = make_context_problem(
      "context_parallel_forward", inputs, options, group,
      [&](const ContextProblem& made) {
        check_way(made, cp.comm, cp.kv_quantizer != nullptr);
      });
  const TravellingKv kv = cp.kv_quantizer == nullptr
                              ? TravellingKv(p)
                              : TravellingKv(p, *cp.kv_quantizer);
  AttentionResult r = forward_by(cp.comm, p, kv, group);
  if (options.want_max_logit && cp.comm != CpCommType::kA2A)
    r.max_logit = greatest_of_all(r.max_logit, group);
  r.out = unpacked(p, r.out, p.q_length);
  r.lse = unpacked_lse(p, r.lse);
  return {std::move(r), kv.k(), kv.v()};
}

AttentionGradients context_parallel_backward(
    const Tensor& d_out, const AttentionInputs& inputs,
    const ContextParallelResult& forward, const AttentionOptions& options,
    const ContextParallelOptions& cp, Communicator& group) {
  const ContextProblem p = make_context_problem(
      "context_parallel_backward", inputs, options, group,
      [&](const ContextProblem& made) {
        check_output(made, d_out, forward.attention);
        require(forward.k.has_value() == forward.v.has_value(), made.op,
                "forward", "one of k and v", "both or none");
        check_way(made, cp.comm, forward.k.has_value());
      });
  const TravellingKv kv =
      forward.k ? TravellingKv(p, *forward.k, *forward.v) : TravellingKv(p);
  AttentionGradients g = backward_by(
      cp.comm, p, kv, packed_output(p, d_out, forward.attention), group);
  const DType dtype = inputs.q.dtype();
  g.dq = unpacked(p, convert_high_precision(g.dq, dtype), p.q_length);
  for (Tensor* t : {&g.dk, &g.dv})
    *t = unpacked(p, convert_high_precision(*t, dtype), p.kv_length);
  if (g.d_softmax_offset && cp.comm != CpCommType::kA2A)
    g.d_softmax_offset = all_reduce_sum(*g.d_softmax_offset, group);
  return g;
}

}  // namespace assay::te
