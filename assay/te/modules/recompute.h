// Activation recomputation: a forward pass that keeps nothing but its inputs,
// run again in backward with the scales and random numbers it had.
//
// Source: NVTE distributed.checkpoint (docs/numerics.md, delayed scaling,
// recompute): the second pass quantises with the stashed scales, its maxima
// are discarded, dropout masks are the same. What it computes is thus bit for
// bit what the first pass would have kept. Scales are kept with the pass, not
// in a queue of the module: passes may be run again in any order, any number
// of times, whatever recipe the module has run under since, and may contain
// passes that are recomputed themselves.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "assay/te/modules/autocast.h"
#include "assay/te/modules/random.h"

namespace assay::te {

class QuantizedModule;
struct QuantizerStates;

enum class RecomputePhase : std::uint8_t {
  kFirst,   // will be run again: scales are stashed
  kSecond,  // is run again
};

// What a pass that is run twice must find again.
class RecomputePoint {
 public:
  // One module's quantisers for one recipe, with histories and scales as they
  // were before the first pass.
  struct Stash {
    const QuantizedModule* module = nullptr;
    std::shared_ptr<QuantizerStates> states;
    std::vector<DelayedScalingState> histories;
    bool first_in_region = false;
  };

  // Runs `forward` as the first pass. What an earlier one has left is gone.
  template <typename Forward>
  auto first(Forward&& forward) {
    stashes_.clear();
    stashes_.clear();  // of an earlier pass
    autocast_ = autocast_state();
    random_ = random_states();
    random_scope_ = random_scope();
    const Scope scope(*this, RecomputePhase::kFirst);
    return std::forward<Forward>(forward)();
  }
  // Runs `forward` in the state of the first pass. The random states of now
  // are put back afterwards.
  template <typename Forward>
  auto second(Forward&& forward) {
    const RestoredRandom random(random_);
    const RandomScope random_scope(random_scope_);
    const RestoredAutocast autocast(autocast_);
    const Scope scope(*this, RecomputePhase::kSecond);
    return std::forward<Forward>(forward)();
  }

  // Null where the module has not run under this recipe.
  Stash* find(const QuantizedModule& module, const Recipe& recipe);
  void add(Stash stash) { stashes_.push_back(std::move(stash)); }

 private:
  struct RestoredRandom {
    explicit RestoredRandom(RandomStates states) : before(random_states()) {
      set_random_states(std::move(states));
    }
    ~RestoredRandom() { set_random_states(before); }
    RandomStates before;
  };
  struct Scope {
    Scope(RecomputePoint& point, RecomputePhase phase);
    ~Scope();
  };
  AutocastState autocast_;
  RandomStates random_;
  std::string random_scope_;
  std::vector<Stash> stashes_;
};

// The passes of this thread that are in progress, outermost first.
struct ActiveRecompute {
  RecomputePoint* point;
  RecomputePhase phase;
};
const std::vector<ActiveRecompute>& active_recomputes();
// Whether a second pass is in progress.
bool recomputing();

// For a module M with Output forward(const Tensor& x, M::Context*, args ...)
// and backward(dy, M::Context&): keeps x alone between the two.
template <typename M>
struct RecomputeContext {
  Tensor x;
  RecomputePoint point;
  void visit_tensors(const auto& visit) const { visit(x); }
};

template <typename M, typename... Args>
auto recomputed_forward(M& module, const Tensor& x,
                        RecomputeContext<M>& context, const Args&... args) {
  context.x = x;
  return context.point.first([&] {
    // A context makes it a training pass; it is dropped at once.
    typename M::Context dropped;
    return module.forward(x, &dropped, args...);
  });
}

// `args` as for the forward.
template <typename M, typename... Args>
auto recomputed_backward(M& module, const Tensor& dy,
                         RecomputeContext<M>& context, const Args&... args) {
  typename M::Context again;
  context.point.second(
      [&] { return module.forward(context.x, &again, args...); });
  return module.backward(dy, again);
}

}  // namespace assay::te
