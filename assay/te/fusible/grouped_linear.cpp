#include "assay/te/fusible/grouped_linear.h"

#include <utility>

#include "assay/base/parallel.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/ops/split.h"
#include "assay/te/splits.h"

namespace assay::te::ops {

struct GroupedLinear::Saved {
  std::vector<LinearCore::Saved> groups;
  std::vector<std::int64_t> splits;
  Shape input_shape;
  Tensor scales;  // with scale_bias
  void visit_tensors(const TensorVisitor& visit) const {
    for (const LinearCore::Saved& group : groups) group.visit_tensors(visit);
    if (scales.view.data) visit(scales);
  }
};

GroupedLinear::GroupedLinear(int num_groups, std::int64_t in_features,
                             std::int64_t out_features,
                             const GroupedLinearOptions& options)
    : BasicOperation("GroupedLinear", num_groups, "grouped_linear"),
      in_features_(in_features),
      out_features_(out_features),
      options_(options) {
  const auto positive = [&](const char* what, std::int64_t value) {
    require(value > 0, name(), what, std::to_string(value), "a positive size");
  };
  positive("num_groups", num_groups);
  positive("in_features", in_features);
  positive("out_features", out_features);
  require(options.bias || !options.scale_bias, name(), "scale_bias",
          "true without bias", "a bias to scale");
  const InitMethod init =
      options.init_method ? options.init_method : default_init(in_features);
  LinearCore::Options core;
  core.fuse_wgrad_accumulation = options.accumulate_into_main_grad;
  core.delay_wgrad_compute = options.delay_wgrad_compute;
  for (int g = 0; g < num_groups; ++g) {
    const std::string n = std::to_string(g);
    Parameter& weight =
        add_linear("weight" + n, {out_features, in_features}, init);
    Parameter* bias =
        options.bias ? &add_linear("bias" + n, {out_features}, {}) : nullptr;
    groups_.push_back(std::make_unique<Group>(weight, bias));
    groups_.back()->core =
        std::make_unique<LinearCore>(*this, static_cast<std::size_t>(g), weight,
                                     options.scale_bias ? nullptr : bias, core);
  }
  if (const auto* quantized = quantized_model_init())
    for (auto& group : groups_) group->core->store_quantized(*quantized);
}

Parameter& GroupedLinear::add_linear(const std::string& name,
                                     const Shape& shape,
                                     const InitMethod& init) {
  return add_parameter(
      name, make_parameter(
                initialised(options_.dtype, shape, options_.device, init)));
}

std::vector<std::int64_t> GroupedLinear::splits_of(const Tensor& x,
                                                   const Tensor& sizes) const {
  require_dtype(name(), "split sizes", sizes, {DType::kI64, DType::kI32});
  require_shape(name(), "split sizes", sizes, {num_groups()});
  const Tensor values = contiguous(sizes);
  std::vector<std::int64_t> splits;
  for (int g = 0; g < num_groups(); ++g)
    splits.push_back(sizes.dtype() == DType::kI64
                         ? values.data<std::int64_t>()[g]
                         : values.data<std::int32_t>()[g]);
  require_splits(name(), "split sizes", splits, matrix_shape(x.shape()).rows);
  return splits;
}

Value GroupedLinear::forward(Value input, ForwardStep& step) {
  const Tensor x = tensor_of(input);
  require(!x.shape().empty() && x.shape().back() == in_features_, name(),
          "input", "shape " + to_string(x.shape()),
          "last dimension " + std::to_string(in_features_));
  Saved saved;
  saved.splits = splits_of(x, step.extra_inputs[0]);
  saved.input_shape = x.shape();
  saved.groups.resize(groups_.size());
  const std::vector<Tensor> rows =
      split_rows(with_shape(x, {matrix_shape(x.shape()).rows, in_features_}),
                 saved.splits);
  std::vector<Tensor> outputs;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    outputs.push_back(groups_[g]->core->forward(
        *step.pass, {rows[g], {}}, step.training() ? &saved.groups[g] : nullptr,
        step.call));
  Tensor y = concatenate(outputs, 0);
  if (options_.scale_bias) {
    saved.scales = step.extra_inputs[1];
    add_scaled_bias(y, saved);
  }
  Shape shape = x.shape();
  shape.back() = out_features_;
  if (step.context) step.context->saved.emplace<Saved>() = std::move(saved);
  return with_shape(y, std::move(shape));
}

Value GroupedLinear::backward(Value grad, BackwardStep& step) {
  auto& saved = step.context->saved.as<Saved>();
  Tensor dy = tensor_of(grad);
  const std::int64_t rows = matrix_shape(saved.input_shape).rows;
  require(!dy.shape().empty() && dy.shape().back() == out_features_ &&
              matrix_shape(dy.shape()).rows == rows,
          name(), "grad_output", "shape " + to_string(dy.shape()),
          std::to_string(rows) + " rows of " + std::to_string(out_features_));
  dy = with_shape(dy, {rows, out_features_});
  step.extra_input_grads.assign(static_cast<std::size_t>(num_extra_inputs()),
                                Tensor{});
  if (options_.scale_bias)
    step.extra_input_grads[1] = scaled_bias_backward(dy, saved);
  const std::vector<Tensor> parts = split_rows(dy, saved.splits);
  std::vector<Tensor> grads;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    grads.push_back(
        groups_[g]->core->backward({parts[g], {}, {}}, saved.groups[g]));
  Tensor dx;
  if (step.context->input_requires_grad)
    dx = with_shape(concatenate(grads, 0), saved.input_shape);
  step.context->saved.reset();
  return dx;
}

void GroupedLinear::add_scaled_bias(Tensor& y, const Saved& saved) const {
  require_dtype(name(), "bias scales", saved.scales, {DType::kF32});
  require_shape(name(), "bias scales", saved.scales, {y.shape()[0]});
  std::vector<Tensor> biases;
  for (const auto& group : groups_)
    biases.push_back(with_shape(*group->bias->value, {1, out_features_}));
  grouped_bias_add(y, concatenate(biases, 0), saved.splits, &saved.scales);
}

Tensor GroupedLinear::scaled_bias_backward(const Tensor& dy,
                                           const Saved& saved) {
  const Tensor scales = contiguous(saved.scales);
  const float* scale = scales.data<float>();
  Tensor dscales = Tensor::zeros(DType::kF32, scales.shape(), dy.device);
  float* dscale = dscales.mutable_data<float>();
  const auto dy_at = [&](std::int64_t row, std::int64_t column) {
    return load_as_double(dy.dtype(), dy.view.data,
                          row * out_features_ + column);
  };
  std::int64_t first = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Parameter& bias = *groups_[g]->bias;
    const std::int64_t rows = saved.splits[g];
    const std::byte* b = bias.value->view.data;
    parallel_for(rows, [&](std::int64_t r) {
      double sum = 0;
      for (std::int64_t n = 0; n < out_features_; ++n)
        sum += dy_at(first + r, n) * load_as_double(bias.dtype, b, n);
      dscale[first + r] = static_cast<float>(sum);
    });
    Tensor dbias = Tensor::zeros(bias.dtype, bias.shape, dy.device);
    std::byte* to = dbias.mutable_data();
    parallel_for(out_features_, [&](std::int64_t n) {
      double sum = 0;
      for (std::int64_t r = first; r < first + rows; ++r)
        sum += static_cast<double>(scale[r]) * dy_at(r, n);
      store_from_double(bias.dtype, sum, to, n);
    });
    accumulate_grad(bias, dbias);
    first += rows;
  }
  return dscales;
}

bool GroupedLinear::need_backward_dw() const {
  for (const auto& group : groups_)
    if (group->core->has_delayed()) return true;
  return false;
}

void GroupedLinear::own_backward_dw() {
  for (const auto& group : groups_) group->core->run_delayed();
}

void GroupedLinear::on_new_quantizers() {
  for (const auto& group : groups_)
    if (group->core) group->core->on_new_quantizers();
}

}  // namespace assay::te::ops
