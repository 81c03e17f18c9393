#include "assay/te/modules/grouped_linear.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/ops/split.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

// The groups' rows one below the other, in the shape of the input.
Tensor joined(const std::vector<Tensor>& groups, const Shape& input) {
  Tensor all = groups.size() == 1 ? groups[0] : concatenate(groups, 0);
  Shape shape = input;
  shape.back() = all.shape().back();
  all.view.shape = std::move(shape);
  all.view.strides.clear();
  return all;
}

}  // namespace

void GroupedLinear::Context::visit_tensors(const TensorVisitor& visit) const {
  for (const LinearCore::Saved& s : saved) s.visit_tensors(visit);
}

GroupedLinear::GroupedLinear(int num_gemms, std::int64_t in_features,
                             std::int64_t out_features,
                             const GroupedLinearOptions& options)
    : QuantizedModule("GroupedLinear", options.name, num_gemms,
                      "grouped_linear"),
      in_features_(in_features),
      out_features_(out_features),
      options_(options) {
  require(num_gemms > 0, name(), "num_gemms", std::to_string(num_gemms),
          "1 or more");
  require(in_features > 0, name(), "in_features", std::to_string(in_features),
          "a positive size");
  require(out_features > 0, name(), "out_features",
          std::to_string(out_features), "a positive size");
  require(options.parameters_split.empty(), name(), "parameters_split", "given",
          "none");
  make_parameters(num_gemms);
  for (int g = 0; g < num_gemms; ++g) {
    const auto i = static_cast<std::size_t>(g);
    cores_.emplace_back(
        *this, i, weight(i), bias(i),
        LinearCore::Options{
            .save_original_input = options.save_original_input,
            .fuse_wgrad_accumulation = options.fuse_wgrad_accumulation,
            .delay_wgrad_compute = options.delay_wgrad_compute});
  }
  if (const auto* init = quantized_model_init()) {
    require(!options.single_grouped_weight, name(), "single_grouped_weight",
            "true", "false where weights are stored quantised");
    for (LinearCore& core : cores_) core.store_quantized(*init);
  }
}

void GroupedLinear::make_parameters(int num_gemms) {
  const bool row = options_.parallel_mode == ParallelMode::kRow;
  const bool column = options_.parallel_mode == ParallelMode::kColumn;
  const int ranks = row || column ? options_.tp.size() : 1;
  const int rank = ranks > 1 ? options_.tp.rank() : 0;
  const int blocks = column ? options_.row_blocks : 1;
  const std::int64_t out = column ? shard_size(name(), "out_features",
                                               out_features_, ranks * blocks) *
                                        blocks
                                  : out_features_;
  if (row) shard_size(name(), "in_features", in_features_, ranks);
  const InitMethod init =
      options_.init_method ? options_.init_method : normal_init(0.023);
  std::vector<Tensor> weights, biases;
  for (int g = 0; g < num_gemms; ++g) {
    const Tensor whole =
        initialised(options_.params_dtype, {out_features_, in_features_},
                    options_.device, init);
    weights.push_back(cut(whole, row ? 1 : 0, ranks, rank, blocks));
    biases.push_back(
        Tensor::zeros(options_.params_dtype, {out}, options_.device));
  }
  const auto add = [this](std::string local, Parameter p) -> Parameter& {
    return add_parameter(std::move(local), std::move(p));
  };
  const auto mark_cut = [&](Parameter& p) {
    if (!column && !row) return;
    p.tensor_model_parallel = true;
    p.partition_dim = row ? 1 : 0;
    p.partition_stride = blocks;
  };
  const auto mark_bias = [&](Parameter& p) {
    if (column) mark_cut(p);
    if (row) p.sequence_parallel = options_.tp.sequence_parallel;
  };
  weights_.emplace(add, "weight", weights, options_.single_grouped_weight,
                   mark_cut);
  if (options_.bias)
    biases_.emplace(add, "bias", biases, options_.single_grouped_bias,
                    mark_bias);
}

void GroupedLinear::check_splits(const Tensor& x,
                                 std::span<const std::int64_t> m_splits) const {
  require(m_splits.size() == cores_.size(), name(), "m_splits",
          std::to_string(m_splits.size()) + " groups",
          std::to_string(cores_.size()));
  const MatrixShape m = matrix_shape(x.shape());
  require_splits(name(), "m_splits", m_splits, m.rows);
}

Tensor GroupedLinear::forward(const Tensor& x, Context* context,
                              std::span<const std::int64_t> m_splits,
                              const LinearCall& call) {
  check_splits(x, m_splits);
  const bool drops = context && context->drops_input;
  if (context) {
    *context = {};
    context->drops_input = drops;
  }
  QuantizedPass pass(*this, context != nullptr);
  if (pass.quantizing() && context) {
    for (std::size_t g = 0; g < m_splits.size(); ++g)
      check_quantizable(name(), "m_splits[" + std::to_string(g) + "]",
                        {m_splits[g], in_features_}, pass.recipe());
  }
  weights_->attach_values();
  if (biases_) biases_->attach_values();
  const std::vector<Tensor> rows = split_rows(x, m_splits);
  if (context) {
    context->saved.resize(cores_.size());
    context->m_splits.assign(m_splits.begin(), m_splits.end());
    context->input = x.shape();
  }
  std::vector<Tensor> ys;
  for (std::size_t g = 0; g < cores_.size(); ++g) {
    if (drops)
      context->requantizers.push_back(cores_[g].input_requantizer(pass));
    ys.push_back(cores_[g].forward(pass, {rows[g], {}},
                                   context ? &context->saved[g] : nullptr, call,
                                   !options_.return_bias));
    if (drops) {
      context->saved[g].input.reset();
      context->saved[g].input_quantized.reset();
    }
  }
  Tensor y = joined(ys, x.shape());
  if (context) context->finish = pass.backward_finish();
  observe(*this, "output", y);
  return y;
}

void GroupedLinear::restore_input(Context& context, const Tensor& input) const {
  require_shape(name(), "input", input, context.input);
  const std::vector<Tensor> rows = split_rows(input, context.m_splits);
  for (std::size_t g = 0; g < cores_.size(); ++g) {
    LinearCore::Saved& saved = context.saved[g];
    Quantizer* q = context.requantizers[g].get();
    if (!saved.need_wgrad) continue;
    if (!q) {
      saved.input = rows[g];
      continue;
    }
    const bool decoded = saved.override == BackwardOverride::kDequantized;
    set_directions(*q, decoded, !decoded);
    saved.input_quantized = q->quantize(rows[g]);
  }
}

Tensor GroupedLinear::backward(const Tensor& dy, Context& context,
                               const Tensor* input) {
  require(context.saved.size() == cores_.size(), name(), "context",
          "not of a forward pass, or used up", "that of one");
  require_splits(name(), "grad_output", context.m_splits,
                 matrix_shape(dy.shape()).rows);
  require(context.drops_input == (input != nullptr), name(), "input",
          input ? "given" : "absent",
          input ? "none: it was kept" : "that of the forward");
  if (input) restore_input(context, *input);
  const std::vector<Tensor> rows = split_rows(dy, context.m_splits);
  const bool fuse = options_.fuse_wgrad_accumulation;
  if (!options_.delay_wgrad_compute) weights_->attach_gradients(fuse);
  if (biases_) biases_->attach_gradients(fuse);
  bool need_dx = true;
  std::vector<Tensor> dxs;
  for (std::size_t g = 0; g < cores_.size(); ++g) {
    need_dx = context.saved[g].need_dgrad;
    dxs.push_back(cores_[g].backward({rows[g], {}, {}}, context.saved[g]));
  }
  weights_->detach_gradients();
  if (biases_) biases_->detach_gradients();
  Tensor dx;
  if (need_dx) dx = joined(dxs, context.input);
  const auto finish = std::move(context.finish);
  context = {};
  if (finish) finish();
  if (need_dx) observe(*this, "grad_input", dx);
  return dx;
}

bool GroupedLinear::need_backward_dw() const {
  for (const LinearCore& core : cores_)
    if (core.has_delayed()) return true;
  return false;
}

void GroupedLinear::adapt_state(const std::string& prefix, StateMap& state) {
  weights_->adapt(prefix, state);
  if (biases_) biases_->adapt(prefix, state);
}

void GroupedLinear::on_new_quantizers() {
  for (LinearCore& core : cores_) core.on_new_quantizers();
}

void GroupedLinear::own_backward_dw() {
  if (!need_backward_dw()) return;
  weights_->attach_gradients(options_.fuse_wgrad_accumulation);
  for (LinearCore& core : cores_) core.run_delayed();
  weights_->detach_gradients();
}

}  // namespace assay::te
