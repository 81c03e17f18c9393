// fuser_ops: te::ops::Sequential, a row of operations forward and backward.
#include "assay/conform/engine/fuser_ops.h"

#include <fmt/format.h>

#include <vector>

#include "assay/base/error.h"
#include "assay/conform/engine/engine.h"
#include "assay/te/fusible/normalization.h"
#include "assay/te/ops/activation.h"

namespace assay::conform {
namespace {

namespace ops = te::ops;

std::vector<std::string_view> names_of(std::string_view row) {
  std::vector<std::string_view> names;
  for (std::size_t plus; (plus = row.find('+')) != row.npos;
       row.remove_prefix(plus + 1))
    names.push_back(row.substr(0, plus));
  names.push_back(row);
  return names;
}

// Gradients are given flat where operations change the shape.
Tensor as_shape(const AdapterCall& call, const std::string& name,
                const Shape& shape) {
  Tensor t = contiguous(call.input(name));
  if (t.numel() != Tensor::empty(t.dtype(), shape).numel())
    throw Error(
        Code::kUsage,
        fmt::format("{}: input {}: {} elements for shape {}", call.module, name,
                    t.numel(), assay::to_string(shape)));
  t.view.shape = shape;
  t.view.strides.clear();
  return t;
}

// In the order in which the operations of all rows take them.
std::vector<Tensor> extra_inputs(const AdapterCall& call) {
  std::vector<Tensor> extra;
  for (const char* name : {"split_sizes", "scales", "extra_input"})
    if (const Tensor* given = call.find_input(name)) extra.push_back(*given);
  return extra;
}

Object defaults_of() {
  const ops::NormalizationOptions norm;
  const ActivationParams act;
  return {{"LayerNorm.eps", decimal(norm.eps)},
          {"LayerNorm.zero_centered_gamma", norm.zero_centered_gamma},
          {"ClampedSwiGLU.limit", decimal(act.limit)},
          {"ClampedSwiGLU.glu_linear_offset", decimal(act.linear_offset)},
          {"SiTUGLU.beta1", decimal(act.beta1)},
          {"SiTUGLU.beta2", decimal(act.beta2)}};
}

}  // namespace

AdapterResult run_fuser_ops(const AdapterCall& call) {
  ops::Sequential model;
  OperationSite site{call, call.integer("features")};
  for (const std::string_view name : names_of(call.text("row")))
    model.append(make_operation(name, site));
  load_parameters(model, call);

  AdapterResult result;
  const std::optional<te::Recipe> recipe = recipe_of(call);
  const std::vector<Tensor> extra = extra_inputs(call);
  for (int step = 1; step <= call.steps; ++step) {
    model.zero_grad();
    ops::Sequential::Context context;
    ops::SequentialOutput y;
    with_recipe(recipe,
                [&] { y = model.forward(call.input("x"), extra, &context); });
    std::vector<Tensor> d_extra;
    if (!y.extra.empty())
      d_extra.push_back(as_shape(call, "d_extra_output", y.extra[0].shape()));
    const ops::SequentialGrads g = model.backward(
        as_shape(call, "dy", y.output.shape()), d_extra, context);
    put_step(result, call, step, "y", y.output);
    put_step(result, call, step, "grad.x", g.input);
    if (!y.extra.empty())
      put_step(result, call, step, "extra_output", y.extra[0]);
    std::size_t i = 0;
    for (const char* name : {"split_sizes", "scales", "extra_input"}) {
      if (!call.find_input(name)) continue;
      const Tensor& grad = g.extra.at(i++);
      if (std::string_view(name) != "split_sizes")
        put_step(result, call, step, std::string("grad.") + name, grad);
    }
  }
  put_gradients(result, model);
  put_state_dict(result, model);
  result.contract["defaults"] = defaults_of();
  return result;
}

}  // namespace assay::conform
