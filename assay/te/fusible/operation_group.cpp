#include "assay/te/fusible/operation_group.h"

#include <deque>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"

namespace assay::te::ops {
namespace {

// Whether a backward has to go as far as this operation for its own sake.
bool wants_gradients(BasicOperation& op) {
  if (op.num_extra_inputs() > 0) return true;
  for (const NamedParameter& p : op.parameters())
    if (p.parameter->requires_grad) return true;
  return false;
}

const Recipe* quantising_recipe() {
  const AutocastState& scope = autocast_state();
  return scope.enabled ? scope.recipe.get() : nullptr;
}

// Whether the two exchange a quantised tensor, in the direction of the pass.
bool hands_over_quantized(const BasicOperation& from, const BasicOperation& to,
                          Direction direction, const Recipe* recipe) {
  if (!recipe || !from.quantizes_result(direction)) return false;
  if (backward_override(*recipe) != BackwardOverride::kNone) return false;
  return to.num_quantizers(direction) > 0;
}

}  // namespace

void OperationGroup::Context::visit_tensors(const TensorVisitor& visit) const {
  for (const OperationContext& op : operations) op.saved.visit_tensors(visit);
}

Tensor OperationGroup::forward(const Tensor& x,
                               std::span<const Tensor>& extra_inputs,
                               std::vector<Tensor>& extra_outputs,
                               Context* context, const Options& options) {
  const std::size_t n = operations_.size();
  if (context) {
    context->operations = std::vector<OperationContext>(n);
    context->recipe =
        autocast_state().enabled ? autocast_state().recipe : nullptr;
  }
  // All quantisers first: an operation may quantise for the one behind it.
  std::deque<QuantizedPass> passes;
  std::vector<ForwardStep> steps(n);
  bool needs_gradient = options.call.input_requires_grad;
  for (std::size_t i = 0; i < n; ++i) {
    BasicOperation& op = *operations_[i];
    ForwardStep& step = steps[i];
    step.operation = &op;
    if (op.has_gemms())
      step.pass = &passes.emplace_back(op, context != nullptr);
    step.call = options.call;
    step.call.input_requires_grad = needs_gradient;
    for (int k = 0; k < op.num_extra_inputs(); ++k) {
      step.extra_inputs.push_back(extra_inputs.front());
      extra_inputs = extra_inputs.subspan(1);
    }
    if (options.fuse && i + 1 < n && op.quantizes_result(Direction::kForward))
      step.next = &steps[i + 1];
    if (!context) continue;
    step.context = &context->operations[i];
    step.context->input_requires_grad = needs_gradient;
    needs_gradient |= wants_gradients(op);
    step.context->needs_backward = needs_gradient;
    if (step.pass) step.context->finish = step.pass->backward_finish();
  }

  Value value = x;
  for (const auto& fused :
       plan_forward(operations_, {quantising_recipe()}, options.fuse)) {
    const auto of_fused = std::span(steps).subspan(fused.first, fused.count);
    value = fused.rule
                ? fused.rule->run(std::move(value), of_fused)
                : of_fused[0].operation->forward(std::move(value), of_fused[0]);
    if (const Tensor* y = std::get_if<Tensor>(&value))
      observe(*of_fused.back().operation, "output", *y);
  }
  for (ForwardStep& step : steps)
    for (Tensor& extra : step.extra_outputs)
      extra_outputs.push_back(std::move(extra));
  return tensor_of(value);
}

Tensor OperationGroup::backward(const Tensor& dy,
                                std::span<const Tensor>& extra_grads,
                                std::vector<Tensor>& extra_input_grads,
                                Context& context, bool fuse) {
  const std::size_t n = operations_.size();
  require(context.operations.size() == n, "Sequential", "context",
          std::to_string(context.operations.size()) + " operations",
          std::to_string(n) + " as in the forward");
  std::vector<BackwardStep> steps(n);
  for (std::size_t i = n; i-- > 0;) {
    BackwardStep& step = steps[i];
    step.operation = operations_[i];
    step.context = &context.operations[i];
    const auto count =
        static_cast<std::size_t>(operations_[i]->num_extra_outputs());
    const auto own = extra_grads.last(count);
    step.extra_output_grads.assign(own.begin(), own.end());
    extra_grads = extra_grads.first(extra_grads.size() - count);
    if (fuse && i > 0 && step.operation->quantizes_result(Direction::kBackward))
      step.previous = &steps[i - 1];
  }

  Value value = dy;
  const auto plan = plan_backward(operations_, {context.recipe.get()}, fuse);
  for (std::size_t p = plan.size(); p-- > 0;) {
    const auto& fused = plan[p];
    const auto of_fused = std::span(steps).subspan(fused.first, fused.count);
    if (!of_fused.back().context->needs_backward) break;
    value = fused.rule ? fused.rule->run(std::move(value), of_fused)
                       : of_fused[0].operation->backward(std::move(value),
                                                         of_fused[0]);
    const Tensor* dx = std::get_if<Tensor>(&value);
    if (dx && of_fused[0].context->input_requires_grad)
      observe(*of_fused[0].operation, "grad_input", *dx);
  }
  std::vector<Tensor> grads;
  for (BackwardStep& step : steps)
    for (Tensor& grad : step.extra_input_grads)
      grads.push_back(std::move(grad));
  extra_input_grads.insert(extra_input_grads.begin(), grads.begin(),
                           grads.end());
  const bool needed = n == 0 || context.operations[0].input_requires_grad;
  // The first operation that ran in the region updates its histories, after
  // the last gradient has been quantised.
  for (std::size_t i = n; i-- > 0;)
    if (context.operations[i].finish) context.operations[i].finish();
  context = {};
  return needed ? tensor_of(value) : Tensor{};
}

void OperationGroup::describe(Direction direction, const Recipe* recipe,
                              bool fuse, std::string& out) const {
  const bool forward = direction == Direction::kForward;
  const auto line = [&](const std::string& rule, std::size_t first,
                        std::size_t count) {
    const auto ops = std::span(operations_).subspan(first, count);
    if (!rule.empty()) {
      out += "  " + rule + "(";
      for (std::size_t i = 0; i < count; ++i)
        out += (i == 0 ? "" : ", ") + ops[i]->type();
      out += ")\n";
      return;
    }
    out += "  " + ops[0]->type();
    const std::size_t to = forward ? first + 1 : first - 1;
    if (fuse && to < operations_.size() &&
        hands_over_quantized(*ops[0], *operations_[to], direction, recipe))
      out += ", quantises for " + operations_[to]->type();
    out += "\n";
  };
  const auto name = [](const auto& fused) {
    return fused.rule ? fused.rule->name : std::string();
  };
  if (forward) {
    for (const auto& fused : plan_forward(operations_, {recipe}, fuse))
      line(name(fused), fused.first, fused.count);
    return;
  }
  const auto plan = plan_backward(operations_, {recipe}, fuse);
  for (std::size_t i = plan.size(); i-- > 0;)
    line(name(plan[i]), plan[i].first, plan[i].count);
}

int OperationGroup::num_extra_inputs() const {
  int count = 0;
  for (const BasicOperation* op : operations_) count += op->num_extra_inputs();
  return count;
}

int OperationGroup::num_extra_outputs() const {
  int count = 0;
  for (const BasicOperation* op : operations_) count += op->num_extra_outputs();
  return count;
}

bool OperationGroup::has_gradients() const {
  for (BasicOperation* op : operations_)
    if (wants_gradients(*op)) return true;
  return false;
}

}  // namespace assay::te::ops
