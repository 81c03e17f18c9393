#include "assay/te/modules/random.h"

#include <utility>

#include "assay/base/parallel.h"
#include "assay/core/philox.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

struct ThreadRandom {
  RandomStates states = {{"", RandomState{}}};
  std::string current;
};

thread_local ThreadRandom random_of_thread;

RandomState& current_state() {
  auto& all = random_of_thread.states;
  const auto found = all.find(random_of_thread.current);
  return found == all.end() ? all[""] : found->second;
}

// Elements that one stream of normals fills; fixed, values depend on it.
constexpr std::int64_t kInitBlock = 1 << 14;

}  // namespace

RandomStates random_states() { return random_of_thread.states; }

void set_random_states(RandomStates states) {
  random_of_thread.states = std::move(states);
}

void manual_seed(std::uint64_t seed) {
  random_of_thread.states[""] = RandomState{seed, 0};
}

void add_random_state(const std::string& name, std::uint64_t seed) {
  const bool added =
      random_of_thread.states.emplace(name, RandomState{seed, 0}).second;
  require(added, "add_random_state", "name", "\"" + name + "\"",
          "a name that is not taken");
}

RandomScope::RandomScope(const std::string& name)
    : before_(std::exchange(random_of_thread.current, name)) {}

RandomScope::~RandomScope() { random_of_thread.current = before_; }

const std::string& random_scope() { return random_of_thread.current; }

DropoutState next_dropout_state() {
  RandomState& state = current_state();
  // One call takes four words of each element's stream (ops/dropout.h).
  return {state.seed, 4 * state.draws++};
}

InitMethod normal_init(double sigma, double mean) {
  return [sigma, mean](Tensor& whole, std::uint64_t seed) {
    const std::int64_t n = whole.numel();
    std::byte* to = whole.mutable_data();
    parallel_for((n + kInitBlock - 1) / kInitBlock, [&](std::int64_t block) {
      PhiloxStream random(seed, static_cast<std::uint64_t>(block));
      const std::int64_t end = std::min(n, (block + 1) * kInitBlock);
      for (std::int64_t i = block * kInitBlock; i < end; ++i)
        store_from_double(whole.dtype(), mean + sigma * random.next_normal(),
                          to, i);
    });
  };
}

InitMethod constant_init(double value) {
  return [value](Tensor& whole, std::uint64_t) {
    std::byte* to = whole.mutable_data();
    for (std::int64_t i = 0; i < whole.numel(); ++i)
      store_from_double(whole.dtype(), value, to, i);
  };
}

std::uint64_t next_init_seed() {
  RandomState& state = random_of_thread.states[""];
  // Odd multiplier: distinct seeds for distinct draws of one state.
  return state.seed + 0x9e3779b97f4a7c15ull * ++state.draws;
}

}  // namespace assay::te
