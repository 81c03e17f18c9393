// Random numbers of modules: initial weights and dropout masks, from named
// states that can be saved, restored and told apart by rank.
//
// A state is a seed and a count of draws; what a draw gives depends on nothing
// else, so that a restored state repeats it (activation recomputation, resumed
// training). States belong to a thread. The default one has the name "".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "assay/core/tensor.h"
#include "assay/te/ops/dropout.h"

namespace assay::te {

struct RandomState {
  std::uint64_t seed = 1234;
  std::uint64_t draws = 0;
  friend bool operator==(const RandomState&, const RandomState&) = default;
};

using RandomStates = std::map<std::string, RandomState>;

// All states of this thread, and back.
RandomStates random_states();
void set_random_states(RandomStates states);
// The default state starts over with this seed.
void manual_seed(std::uint64_t seed);

// Adds a state under a name of its own, as Megatron's CudaRNGStatesTracker:
// ranks that must draw different numbers give it different seeds. Throws
// Error{kUsage} for a name that is there.
void add_random_state(const std::string& name, std::uint64_t seed);
// "model-parallel-rng": what modules draw from where ranks of a tensor
// parallel group hold different parts.
inline constexpr const char* kModelParallelRandom = "model-parallel-rng";

// While it lives, draws of this thread come from the named state; from the
// default one where there is none of that name.
class RandomScope {
 public:
  explicit RandomScope(const std::string& name);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  std::string before_;
};

// The name of the innermost scope.
const std::string& random_scope();

// The next draw of the current state, for one dropout or one attention call.
DropoutState next_dropout_state();

// Fills a parameter; called with the whole of it, before ranks cut out their
// shards, so that the values do not depend on how many ranks there are.
// `seed` differs from parameter to parameter.
using InitMethod = std::function<void(Tensor& whole, std::uint64_t seed)>;

// Normal values by Box-Muller from Philox, formed in double, rounded once.
// NVTE's default is mean 0, sigma 0.023.
InitMethod normal_init(double sigma, double mean = 0);
InitMethod constant_init(double value);
// The seed of the next parameter: one draw of the default state.
std::uint64_t next_init_seed();

}  // namespace assay::te
