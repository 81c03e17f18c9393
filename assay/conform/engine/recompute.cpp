// recompute: two linear layers and a dropout, once with everything kept for
// backward and once run again there. Both must give the same bits, leave the
// same histories and draw the same random numbers.
#include "assay/te/modules/recompute.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "assay/conform/engine/linear_common.h"
#include "assay/te/modules/linear.h"
#include "assay/te/ops/dropout.h"

namespace assay::conform {
namespace {

te::LinearOptions linear_options(const AdapterCall& call) {
  te::LinearOptions options;
  options.params_dtype = call.dtype();
  options.device = call.device;
  return options;
}

class Block : public te::Module {
 public:
  struct Context {
    te::Linear::Context fc1, fc2;
    Tensor mask;
    void visit_tensors(const te::TensorVisitor& visit) const {
      fc1.visit_tensors(visit);
      fc2.visit_tensors(visit);
    }
  };

  explicit Block(const AdapterCall& call)
      : Module("Block", ""),
        fc1_(call.integer("hidden_size"), call.integer("ffn_hidden_size"),
             linear_options(call)),
        fc2_(call.integer("ffn_hidden_size"), call.integer("hidden_size"),
             linear_options(call)),
        p_(static_cast<float>(call.number("dropout"))) {
    add_child("fc1", fc1_);
    add_child("fc2", fc2_);
    load_parameters(*this, call);
  }

  Tensor forward(const Tensor& x, Context* context) {
    te::DropoutForward dropped = te::dropout_forward(
        fc1_.forward(x, &context->fc1), p_, te::next_dropout_state());
    context->mask = std::move(dropped.mask);
    return fc2_.forward(dropped.y, &context->fc2);
  }

  Tensor backward(const Tensor& dy, Context& context) {
    const Tensor d = fc2_.backward(dy, context.fc2);
    return fc1_.backward(te::dropout_backward(d, context.mask, p_),
                         context.fc1);
  }

 private:
  te::Linear fc1_, fc2_;
  float p_;
};

struct Pass {
  std::vector<Tensor> y, dx;  // of each micro-batch
};

struct Kept {
  using Context = Block::Context;
  static Tensor forward(Block& block, const Tensor& x, Context& context) {
    return block.forward(x, &context);
  }
  static Tensor backward(Block& block, const Tensor& dy, Context& context) {
    return block.backward(dy, context);
  }
};

struct Recomputed {
  using Context = te::RecomputeContext<Block>;
  static Tensor forward(Block& block, const Tensor& x, Context& context) {
    return te::recomputed_forward(block, x, context);
  }
  static Tensor backward(Block& block, const Tensor& dy, Context& context) {
    return te::recomputed_backward(block, dy, context);
  }
};

// All micro-batches forward, each in a region of its own, so that scales move
// before any of them is run again; then backward, the last one first.
template <typename Way>
Pass run_step(const AdapterCall& call, Block& block, int step) {
  const std::optional<te::Recipe> recipe = recipe_of(call);
  const auto count = static_cast<std::size_t>(call.integer("micro_batches"));
  const auto input = [&](const char* name, std::size_t i) {
    return step_input(
        call, name,
        (step - 1) * static_cast<int>(count) + 1 + static_cast<int>(i));
  };
  std::vector<typename Way::Context> contexts(count);
  Pass pass;
  pass.dx.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    with_recipe(recipe, [&] {
      pass.y.push_back(Way::forward(block, input("x", i), contexts[i]));
    });
  for (std::size_t i = count; i-- > 0;)
    pass.dx[i] = Way::backward(block, input("dy", i), contexts[i]);
  return pass;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  const auto x = a.view.bytes(), y = b.view.bytes();
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::equal(x.begin(), x.end(), y.begin(), y.end());
}

bool same_bytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const Tensor& x, const Tensor& y) { return same_bytes(x, y); });
}

bool same_state(te::Module& a, te::Module& b) {
  const auto x = a.state_dict(), y = b.state_dict();
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const te::NamedTensor& s, const te::NamedTensor& t) {
                      return s.name == t.name && same_bytes(s.tensor, t.tensor);
                    });
}

bool same_gradients(te::Module& a, te::Module& b) {
  const auto x = a.parameters(), y = b.parameters();
  return std::equal(
      x.begin(), x.end(), y.begin(), y.end(),
      [](const te::NamedParameter& p, const te::NamedParameter& q) {
        return same_bytes(*p.parameter->grad, *q.parameter->grad);
      });
}

// Steps in which the two ways were not the same bits, thing by thing.
class Differences {
 public:
  void count(const std::array<bool, 5>& same) {
    for (std::size_t i = 0; i < same.size(); ++i) counts_[i] += !same[i];
  }

  void put(AdapterResult& result) const {
    constexpr std::array<const char*, 5> kNames = {
        "output", "grad_input", "grad_parameters", "state", "random_states"};
    Object same;
    for (std::size_t i = 0; i < kNames.size(); ++i)
      same[kNames[i]] = counts_[i] == 0;
    result.contract["same_bits"] = std::move(same);
    Tensor counts = Tensor::empty(DType::kI64, {5});
    std::copy(counts_.begin(), counts_.end(),
              counts.mutable_data<std::int64_t>());
    result.outputs["differences"] = std::move(counts);
  }

 private:
  std::array<std::int64_t, 5> counts_ = {};
};

}  // namespace

AdapterResult run_recompute(const AdapterCall& call) {
  te::manual_seed(call.seed);
  Block kept(call), again(call);
  AdapterResult result;
  Differences differences;
  const bool comparable = call.number("dropout") == 0;
  for (int step = 1; step <= call.steps; ++step) {
    kept.zero_grad();
    again.zero_grad();
    const te::RandomStates before = te::random_states();
    const Pass a = run_step<Kept>(call, kept, step);
    const te::RandomStates after = te::random_states();
    te::set_random_states(before);
    const Pass b = run_step<Recomputed>(call, again, step);
    differences.count({same_bytes(a.y, b.y), same_bytes(a.dx, b.dx),
                       same_gradients(kept, again), same_state(kept, again),
                       after == te::random_states()});
    if (!comparable) continue;
    put_step(result, call, step, "y", b.y.back());
    put_step(result, call, step, "grad.x", b.dx.back());
  }
  if (comparable) {
    put_gradients(result, again);
    put_histories(result, again);
  }
  differences.put(result);
  return result;
}

}  // namespace assay::conform
