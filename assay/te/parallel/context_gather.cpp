// Keys and values of all ranks to each (all_gather).
#include <memory>
#include <vector>

#include "assay/core/buffer.h"
#include "assay/te/ops/sequence.h"
#include "assay/te/ops/split.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/parallel/context_sums.h"
#include "assay/te/parallel/context_ways.h"

namespace assay::te {
namespace {

// The keys of all ranks in the order of the sequences.
struct WholeKv {
  KeysAndValues values;
  Tensor cu_seqlens, cu_seqlens_padded;
};

WholeKv gather_kv(const ContextProblem& p, const TravellingKv& kv,
                  Communicator& group) {
  const Packet own = kv.packet();
  const std::size_t bytes = own.bytes().size();
  const auto ranks = static_cast<std::size_t>(p.ranks);
  const std::shared_ptr<std::byte> all = allocate_buffer(bytes * ranks);
  group.all_gather(own.bytes(), {all.get(), bytes * ranks});
  std::vector<Tensor> ks, vs;
  for (std::size_t r = 0; r < ranks; ++r) {
    const KeysAndValues part =
        kv.decode(own.over({all, all.get() + r * bytes}));
    ks.push_back(part.k);
    vs.push_back(part.v);
  }
  WholeKv whole;
  whole.cu_seqlens = running_sums(p.kv_side.valid, p.device);
  whole.cu_seqlens_padded = running_sums(p.kv_side.padded, p.device);
  whole.values.k =
      thd_from_rank_order(concatenate(ks, 0), whole.cu_seqlens_padded, p.ranks);
  whole.values.v =
      thd_from_rank_order(concatenate(vs, 0), whole.cu_seqlens_padded, p.ranks);
  return whole;
}

// The queries' chunks, each in one call with all keys: their positions differ.
constexpr Held kChunks[] = {Held::kFirst, Held::kSecond};

AttentionInputs chunk_inputs(const ContextProblem& p, Held held,
                             const WholeKv& whole) {
  AttentionInputs in;
  in.q = p.q;
  in.k = whole.values.k;
  in.v = whole.values.v;
  in.alibi_slopes = p.alibi_slopes;
  in.softmax_offset = p.softmax_offset;
  in.cu_seqlens_q = cut_lengths(p.q_side, held, p.rank, p.device);
  in.cu_seqlens_q_padded = cut_begins(p.q_side, held, p.device);
  in.cu_seqlens_kv = whole.cu_seqlens;
  in.cu_seqlens_kv_padded = whole.cu_seqlens_padded;
  in.origin_q =
      cut_origins(p.q_side, chunk_of(held, p.rank, p.ranks), p.device);
  in.origin_kv = cut_origins(p.kv_side, 0, p.device);
  return in;
}

// Each rank's part of a gradient of all keys, summed over the ranks.
Tensor own_part(const ContextProblem& p, const Tensor& whole,
                const Tensor& cu_seqlens, Communicator& group) {
  return reduce_scatter_first_dim(thd_to_rank_order(whole, cu_seqlens, p.ranks),
                                  group);
}

}  // namespace

AttentionResult gather_forward(const ContextProblem& p, const TravellingKv& kv,
                               Communicator& group) {
  const WholeKv whole = gather_kv(p, kv, group);
  ResultSum sum;
  for (Held held : kChunks)
    sum.add(attention_forward(chunk_inputs(p, held, whole), p.options));
  return sum.total(p.q.dtype());
}

AttentionGradients gather_backward(const ContextProblem& p,
                                   const TravellingKv& kv,
                                   const PackedOutput& output,
                                   Communicator& group) {
  const WholeKv whole = gather_kv(p, kv, group);
  GradientSum dq, dk, dv, d_sink;
  for (Held held : kChunks) {
    const AttentionGradients g =
        attention_backward(output.d_out, chunk_inputs(p, held, whole),
                           output.out, output.lse, p.options);
    dq.add(g.dq);
    dk.add(g.dk);
    dv.add(g.dv);
    if (g.d_softmax_offset) d_sink.add(*g.d_softmax_offset);
  }
  const Tensor& cu = whole.cu_seqlens_padded;
  AttentionGradients out{
      dq.total(p.q.shape(), p.device),
      own_part(p, dk.total(whole.values.k.shape(), p.device), cu, group),
      own_part(p, dv.total(whole.values.v.shape(), p.device), cu, group),
      {},
      {}};
  if (p.options.softmax == SoftmaxType::kLearnable)
    out.d_softmax_offset = d_sink.total({p.q.shape()[1]}, p.device);
  return out;
}

}  // namespace assay::te
