// One step of a Linear, and the operators it is made of: what the tests of the
// base of all modules hold against each other.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/base/error.h"
#include "assay/te/modules/linear.h"
#include "assay/te/modules/recompute.h"
#include "tests/te/modules/module_test.h"

namespace assay::te {

struct Step {
  Tensor y, dx, dw, db;
};

inline Tensor copy_of(const Tensor& t) {
  Tensor copy = Tensor::empty(t.dtype(), t.shape(), t.device);
  const Tensor from = contiguous(t);
  const auto bytes = from.view.bytes();
  if (!bytes.empty())
    std::memcpy(copy.mutable_data(), bytes.data(), bytes.size());
  return copy;
}

// Gradients are what the layer has after this step; copies.
inline Step run(Linear& layer, const Tensor& x, const Tensor& dy,
                const LinearCall& call = {}) {
  Linear::Context context;
  Step step;
  step.y = layer.forward(x, &context, call);
  step.dx = layer.backward(dy, context);
  if (layer.weight().grad) step.dw = copy_of(*layer.weight().grad);
  if (layer.bias() && layer.bias()->grad)
    step.db = copy_of(*layer.bias()->grad);
  return step;
}

// The forward in the recipe, the backward outside of it, as a training loop.
inline Step run(Linear& layer, const Recipe& recipe, const Tensor& x,
                const Tensor& dy, const LinearCall& call = {}) {
  Linear::Context context;
  Step step;
  {
    Autocast autocast(recipe);
    step.y = layer.forward(x, &context, call);
  }
  step.dx = layer.backward(dy, context);
  if (layer.weight().grad) step.dw = copy_of(*layer.weight().grad);
  if (layer.bias() && layer.bias()->grad)
    step.db = copy_of(*layer.bias()->grad);
  return step;
}

inline void expect_same_step(const Step& a, const Step& b,
                             const std::string& what) {
  EXPECT_TRUE(same_bits(a.y, b.y)) << what << ": y";
  EXPECT_TRUE(same_bits(a.dx, b.dx)) << what << ": dx";
  EXPECT_TRUE(same_bits(a.dw, b.dw)) << what << ": dw";
  EXPECT_TRUE(same_bits(a.db, b.db)) << what << ": db";
}

inline LinearOptions bf16(Device device = Device::kCpu) {
  LinearOptions options;
  options.params_dtype = DType::kBF16;
  options.device = device;
  return options;
}

template <typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// A tensor of `small` with one element of magnitude `amax`.
inline Tensor with_amax(DType dtype, Shape shape, double amax,
                        double small = 0) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, i == 5 ? -amax : small, t.mutable_data(), i);
  return t;
}

// A tensor of a module's extra state: "scale_fwd".
inline Tensor extra(Module& module, const std::string& name) {
  for (const NamedTensor& t : module.extra_state())
    if (t.name == "_extra_state." + name) return t.tensor;
  ADD_FAILURE() << "no " << name;
  return Tensor::zeros(DType::kF32, {64, 64});
}

}  // namespace assay::te
