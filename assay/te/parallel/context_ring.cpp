// Keys and values round a ring (p2p).
#include <utility>
#include <vector>

#include "assay/te/ops/row_blocks.h"
#include "assay/te/parallel/context_sums.h"
#include "assay/te/parallel/context_ways.h"

namespace assay::te {
namespace {

// Where packets go round: from every rank to the next one.
struct Ring {
  Communicator& group;
  int next, previous;

  explicit Ring(Communicator& g)
      : group(g),
        next((g.rank() + 1) % g.size()),
        previous((g.rank() + g.size() - 1) % g.size()) {}

  std::unique_ptr<PendingTransfer> pass(const Packet& out, Packet& in) const {
    return group.exchange(out.bytes(), next, in.bytes(), previous);
  }
};

// Calls visit(from, k, v) for the keys of every rank, this one's first and then
// against the ring, while those after it are on their way.
template <typename Visit>
void for_each_block(const ContextProblem& p, const TravellingKv& kv,
                    const Ring& ring, const Visit& visit) {
  Packet here = kv.packet(), coming;
  for (std::int64_t step = 0; step < p.ranks; ++step) {
    std::unique_ptr<PendingTransfer> moving;
    if (step + 1 < p.ranks) {
      coming = here.like();
      moving = ring.pass(here, coming);
    }
    const KeysAndValues block = kv.decode(here);
    visit((p.rank - step + p.ranks) % p.ranks, block.k, block.v);
    if (moving) moving->wait();
    std::swap(here, coming);
  }
}

// The fp32 gradients of k and v of one block, on their way behind it.
class TravellingGradients {
 public:
  explicit TravellingGradients(const Ring& ring) : ring_(ring) {}

  // Adds this rank's part to what the ranks before it gave for the block, and
  // passes it on.
  void add_and_pass(const Tensor& dk, const Tensor& dv) {
    const Packet part = Packet::of(std::vector<Tensor>{dk, dv});
    if (moving_) {
      moving_->wait();
      sent_ = std::move(received_);
      add(part.part(0), sent_.part(0));
      add(part.part(1), sent_.part(1));
    } else {
      sent_ = part;
    }
    received_ = part.like();
    moving_ = ring_.pass(sent_, received_);
  }

  // After the last block: those of this rank's own keys.
  const Packet& arrived() {
    moving_->wait();
    return received_;
  }

 private:
  // sum += part
  static void add(const Tensor& part, Tensor& sum) {
    const auto* x = part.data<float>();
    auto* to = sum.mutable_data<float>();
    for_row_blocks(sum.numel(), kTaskElements,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) to[i] += x[i];
                   });
  }

  const Ring& ring_;
  Packet sent_, received_;
  std::unique_ptr<PendingTransfer> moving_;  // ends before the buffers do
};

}  // namespace

AttentionResult ring_forward(const ContextProblem& p, const TravellingKv& kv,
                             Communicator& group) {
  ResultSum sum;
  for_each_block(p, kv, Ring(group),
                 [&](std::int64_t from, const Tensor& k, const Tensor& v) {
                   for (const CutCall& call :
                        cut_calls(p.q_side, p.kv_side, p.options, p.rank, from))
                     sum.add(attention_forward(call_inputs(p, call, from, k, v),
                                               call_options(p, call)));
                 });
  return sum.total(p.q.dtype());
}

AttentionGradients ring_backward(const ContextProblem& p,
                                 const TravellingKv& kv,
                                 const PackedOutput& output,
                                 Communicator& group) {
  const Ring ring(group);
  TravellingGradients travelling(ring);
  GradientSum dq, d_sink;
  for_each_block(
      p, kv, ring, [&](std::int64_t from, const Tensor& k, const Tensor& v) {
        GradientSum dk, dv;
        for (const CutCall& call :
             cut_calls(p.q_side, p.kv_side, p.options, p.rank, from)) {
          const AttentionGradients g =
              attention_backward(output.d_out, call_inputs(p, call, from, k, v),
                                 output.out, output.lse, call_options(p, call));
          dq.add(g.dq);
          dk.add(g.dk);
          dv.add(g.dv);
          if (g.d_softmax_offset) d_sink.add(*g.d_softmax_offset);
        }
        travelling.add_and_pass(dk.total(k.shape(), p.device),
                                dv.total(v.shape(), p.device));
      });
  const Packet& own = travelling.arrived();
  AttentionGradients out{
      dq.total(p.q.shape(), p.device), own.part(0), own.part(1), {}, {}};
  if (p.options.softmax == SoftmaxType::kLearnable)
    out.d_softmax_offset = d_sink.total({p.q.shape()[1]}, p.device);
  return out;
}

}  // namespace assay::te
