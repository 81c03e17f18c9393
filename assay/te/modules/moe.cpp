#include "assay/te/modules/moe.h"

#include <cmath>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/autocast.h"
#include "assay/te/modules/observer.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/ops/gemm.h"

namespace assay::te {
namespace {

Tensor in_shape(Tensor t, Shape shape) {
  t.view.shape = std::move(shape);
  t.view.strides.clear();
  return t;
}

Tensor widened(const Tensor& x) {
  Tensor wide = Tensor::zeros(DType::kF32, x.shape(), x.device);
  add_in_place(wide, x);
  return wide;
}

std::int64_t alignment() {
  const AutocastState& scope = autocast_state();
  return scope.enabled ? quantization_alignment(*scope.recipe) : 0;
}

void skip_draws(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) next_init_seed();
}

}  // namespace

void MoELayer::Context::visit_tensors(const TensorVisitor& visit) const {
  for (const Tensor* t : {&x, &routed.probs, &routed.routing_map, &routed.saved,
                          &routed.tokens_per_expert, &plan.map.slots,
                          &plan.map.source, &h, &rows})
    if (t->owner) visit(*t);
  if (aux_saved) visit(*aux_saved);
  fc1.visit_tensors(visit);
  fc2.visit_tensors(visit);
}

MoELayer::MoELayer(std::int64_t hidden_size, std::int64_t ffn_hidden_size,
                   const MoEOptions& options)
    : Module("MoELayer", options.name),
      options_(options),
      hidden_(hidden_size),
      group_(options.expert_parallel_group ? options.expert_parallel_group
                                           : self_communicator()) {
  for (const auto& [argument, size] : {std::pair{"hidden_size", hidden_size},
                                       {"ffn_hidden_size", ffn_hidden_size},
                                       {"num_experts", options.num_experts}})
    require(size > 0, name(), argument, std::to_string(size),
            "a positive size");
  require_value(std::isfinite(options.aux_loss_coeff), name(), "aux_loss_coeff",
                options.aux_loss_coeff, "a finite number");
  const int ranks = group_->size();
  require(options.num_experts % ranks == 0, name(), "num_experts",
          std::to_string(options.num_experts),
          "a multiple of the " + std::to_string(ranks) + " ranks");
  local_experts_ = options.num_experts / ranks;
  activation_.params = options.activation_params;
  const InitMethod init =
      options.init_method ? options.init_method : normal_init(0.023);
  router_weight_ = &router_.add_parameter(
      "weight", make_parameter(initialised(DType::kF32,
                                           {options.num_experts, hidden_size},
                                           options.device, init)));
  const std::int64_t halves = is_gated(options.activation) ? 2 : 1;
  const auto make = [&](std::optional<GroupedLinear>& experts, std::int64_t in,
                        std::int64_t out, const InitMethod& of_experts) {
    GroupedLinearOptions o;
    o.bias = options.bias;
    o.params_dtype = options.params_dtype;
    o.init_method = of_experts;
    o.fuse_wgrad_accumulation = options.fuse_wgrad_accumulation;
    o.delay_wgrad_compute = options.delay_wgrad_compute;
    o.single_grouped_weight = options.single_grouped_weight;
    o.single_grouped_bias = options.single_grouped_weight;
    o.device = options.device;
    // One draw an expert, those of other ranks too.
    skip_draws(group_->rank() * local_experts_);
    experts.emplace(static_cast<int>(local_experts_), in, out, o);
    skip_draws(options.num_experts - (group_->rank() + 1) * local_experts_);
  };
  make(fc1_, hidden_size, halves * ffn_hidden_size, init);
  make(fc2_, ffn_hidden_size, hidden_size,
       options.output_layer_init_method ? options.output_layer_init_method
                                        : init);
  experts_.add_child("fc1", *fc1_);
  experts_.add_child("fc2", *fc2_);
  add_child("router", router_);
  add_child("experts", experts_);
}

AuxLossOptions MoELayer::aux_options(std::int64_t tokens) const {
  return {.total_num_tokens = tokens,
          .num_experts = options_.num_experts,
          .topk = options_.router.topk,
          .coeff = options_.aux_loss_coeff};
}

Tensor MoELayer::aux_loss(const Tensor& logits, const RouterOutput& routed,
                          Context* context) const {
  const std::int64_t tokens = logits.shape()[0];
  if (options_.aux_loss_coeff == 0 || tokens == 0)
    return Tensor::zeros(DType::kF32, {1}, logits.device);
  AuxScores s = router_aux_scores_forward(logits, options_.router.topk,
                                          options_.router.score_function);
  if (context) context->aux_saved = std::move(s.saved);
  return moe_aux_loss_forward(s.scores, routed.tokens_per_expert,
                              aux_options(tokens));
}

MoEOutput MoELayer::forward(const Tensor& x, Context* context,
                            const LinearCall& call) {
  require_high_precision(name(), "input", x);
  const MatrixShape m = matrix_shape(x.shape());
  require(!x.shape().empty() && m.columns == hidden_, name(), "input",
          "last dimension " + std::to_string(m.columns),
          std::to_string(hidden_));
  if (context) *context = {};
  const Tensor tokens = in_shape(contiguous(x), {m.rows, m.columns});
  const Tensor logits = gemm_fprop(widened(tokens), *router_weight_->value).d;
  RouterOutput routed = router_topk_forward(logits, options_.router);
  MoEOutput out;
  out.aux_loss = aux_loss(logits, routed, context);
  out.tokens_per_expert = routed.tokens_per_expert;

  EpPlan plan = ep_prepare(routed.routing_map, options_.num_experts, *group_,
                           alignment());
  const auto& splits = plan.padded_tokens_per_expert;
  // The experts' input always has a gradient: a router is before them.
  LinearCall inner = call;
  inner.input_requires_grad = true;
  if (context) {
    context->fc1.drops_input = group_->size() == 1;
    context->fc2.drops_input = true;
  }
  Tensor h = fc1_->forward(ep_dispatch_forward(tokens, plan, *group_).rows,
                           context ? &context->fc1 : nullptr, splits, inner);
  const Tensor o =
      fc2_->forward(activation_forward(options_.activation, h, activation_),
                    context ? &context->fc2 : nullptr, splits, inner);
  EpCombined combined = ep_combine_forward(o, plan, *group_, routed.probs);
  out.output = in_shape(std::move(combined.out), x.shape());
  if (context) {
    context->x = tokens;
    context->routed = std::move(routed);
    context->plan = std::move(plan);
    context->h = std::move(h);
    context->rows = std::move(combined.rows);
    context->shape = x.shape();
  }
  observe(*this, "output", out.output);
  return out;
}

Tensor MoELayer::grad_of_logits(const Tensor& d_probs, const Context& context,
                                double d_aux_loss) const {
  Tensor d = router_topk_backward(d_probs, context.routed.routing_map,
                                  context.routed.saved, options_.router);
  if (!context.aux_saved) return d;
  Tensor d_loss = Tensor::empty(DType::kF32, {1}, d.device);
  d_loss.mutable_data<float>()[0] = static_cast<float>(d_aux_loss);
  const std::int64_t tokens = d.shape()[0];
  const Tensor d_scores = moe_aux_loss_backward(
      d_loss, context.routed.tokens_per_expert, tokens, aux_options(tokens));
  add_in_place(d, router_aux_scores_backward(d_scores, *context.aux_saved,
                                             options_.router.score_function,
                                             DType::kF32));
  return d;
}

Tensor MoELayer::backward(const Tensor& dy, Context& context,
                          double d_aux_loss) {
  require(!context.shape.empty(), name(), "context",
          "not of a forward pass, or used up", "that of one");
  require_shape(name(), "grad_output", dy, context.shape);
  UnpermuteGradients g = ep_combine_backward(
      in_shape(contiguous(dy), context.x.shape()), context.plan, *group_,
      context.rows, context.routed.probs);
  const Tensor a =
      activation_forward(options_.activation, context.h, activation_);
  const Tensor da = fc2_->backward(g.rows, context.fc2, &a);
  const Tensor dh =
      activation_backward(options_.activation, da, context.h, activation_);
  Tensor sorted;
  if (context.fc1.drops_input)
    sorted = ep_dispatch_forward(context.x, context.plan, *group_).rows;
  const Tensor d_rows = fc1_->backward(
      dh, context.fc1, context.fc1.drops_input ? &sorted : nullptr);
  Tensor dx = ep_dispatch_backward(d_rows, context.plan, *group_).tokens;

  const Tensor d_logits = grad_of_logits(g.merging_probs, context, d_aux_loss);
  if (router_weight_->requires_grad)
    accumulate_grad(*router_weight_, gemm_wgrad(d_logits, widened(context.x)).d,
                    options_.fuse_wgrad_accumulation);
  add_in_place(dx, gemm_dgrad(d_logits, *router_weight_->value).d);
  dx = in_shape(std::move(dx), context.shape);
  context = {};
  observe(*this, "grad_input", dx);
  return dx;
}

}  // namespace assay::te
