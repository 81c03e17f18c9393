#include "assay/te/fusible/sequential.h"

#include "assay/te/check.h"

namespace assay::te::ops {

void Sequential::Context::visit_tensors(const TensorVisitor& visit) const {
  for (const Segment& segment : segments) {
    segment.group.visit_tensors(visit);
    segment.plain.visit_tensors(visit);
  }
}

const SequentialItem& Sequential::item(std::size_t i) const {
  require(i < items_.size(), name(), "index", std::to_string(i),
          "below " + std::to_string(items_.size()));
  return items_[i];
}

void Sequential::insert(std::size_t i, SequentialItem item) {
  require(i <= items_.size(), name(), "index", std::to_string(i),
          "at most " + std::to_string(items_.size()));
  items_.insert(items_.begin() + static_cast<std::ptrdiff_t>(i),
                std::move(item));
  regroup();
}

SequentialItem Sequential::pop(std::size_t i) {
  SequentialItem taken = item(i);
  items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(i));
  regroup();
  return taken;
}

void Sequential::regroup() {
  clear_children();
  segments_.clear();
  std::vector<BasicOperation*> operations;
  const auto end_group = [&] {
    if (operations.empty()) return;
    segments_.push_back({OperationGroup(std::move(operations))});
    operations.clear();
  };
  for (std::size_t i = 0; i < items_.size(); ++i) {
    add_child(std::to_string(i), items_[i].module());
    if (items_[i].plain()) {
      end_group();
      segments_.push_back({std::nullopt, i});
    } else {
      const auto& own = items_[i].operations();
      operations.insert(operations.end(), own.begin(), own.end());
    }
  }
  end_group();
}

bool Sequential::has_gradients(const Segment& segment) const {
  if (segment.group) return segment.group->has_gradients();
  for (const NamedParameter& p : items_[segment.item].module().parameters())
    if (p.parameter->requires_grad) return true;
  return false;
}

Tensor Sequential::forward(const Tensor& x, Context* context,
                           const LinearCall& call) {
  const int extra = num_extra_outputs();
  require(
      extra == 0, name(), "forward",
      "without extra tensors of " + std::to_string(extra) + " extra outputs",
      "the form that returns them");
  return forward(x, std::span<const Tensor>{}, context, call).output;
}

SequentialOutput Sequential::forward(const Tensor& x,
                                     std::span<const Tensor> extra,
                                     Context* context, const LinearCall& call) {
  require(extra.size() == static_cast<std::size_t>(num_extra_inputs()), name(),
          "extra inputs", std::to_string(extra.size()),
          std::to_string(num_extra_inputs()));
  OperationGroup::Options options{call, fuse_};
  if (context) {
    context->segments = std::vector<Context::Segment>(segments_.size());
    context->input_requires_grad = call.input_requires_grad;
  }
  SequentialOutput out{x, {}};
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    Context::Segment* saved = context ? &context->segments[i] : nullptr;
    if (segments_[i].group) {
      out.output =
          segments_[i].group->forward(out.output, extra, out.extra,
                                      saved ? &saved->group : nullptr, options);
    } else {
      out.output = items_[segments_[i].item].plain()->forward(
          out.output, saved ? &saved->plain : nullptr, options.call);
    }
    options.call.input_requires_grad |= has_gradients(segments_[i]);
  }
  return out;
}

Tensor Sequential::backward(const Tensor& dy, Context& context) {
  const int extra = num_extra_outputs();
  require(extra == 0, name(), "backward",
          "without gradients of " + std::to_string(extra) + " extra outputs",
          "the form that takes them");
  return backward(dy, std::span<const Tensor>{}, context).input;
}

SequentialGrads Sequential::backward(const Tensor& dy,
                                     std::span<const Tensor> extra,
                                     Context& context) {
  require(extra.size() == static_cast<std::size_t>(num_extra_outputs()), name(),
          "gradients of extra outputs", std::to_string(extra.size()),
          std::to_string(num_extra_outputs()));
  require(context.segments.size() == segments_.size(), name(), "context",
          std::to_string(context.segments.size()) + " segments",
          std::to_string(segments_.size()) + " as in the forward");
  bool needed = context.input_requires_grad;
  std::vector<bool> wanted;  // whether a segment has work
  for (const Segment& segment : segments_)
    wanted.push_back(needed |= has_gradients(segment));
  SequentialGrads grads{dy, {}};
  for (std::size_t i = segments_.size(); i-- > 0 && wanted[i];) {
    Context::Segment& saved = context.segments[i];
    grads.input = segments_[i].group
                      ? segments_[i].group->backward(
                            grads.input, extra, grads.extra, saved.group, fuse_)
                      : items_[segments_[i].item].plain()->backward(
                            grads.input, saved.plain);
  }
  if (!context.input_requires_grad) grads.input = {};
  context.segments.clear();
  return grads;
}

std::string Sequential::plan(const Recipe* recipe) const {
  std::string out;
  const auto describe = [&](const Segment& segment, Direction direction) {
    if (segment.group) {
      segment.group->describe(direction, recipe, fuse_, out);
    } else {
      out += "  module " + items_[segment.item].module().type() + "\n";
    }
  };
  out += "forward\n";
  for (const Segment& segment : segments_)
    describe(segment, Direction::kForward);
  out += "backward\n";
  for (std::size_t i = segments_.size(); i-- > 0;)
    describe(segments_[i], Direction::kBackward);
  return out;
}

int Sequential::num_extra_inputs() const {
  int count = 0;
  for (const Segment& s : segments_)
    if (s.group) count += s.group->num_extra_inputs();
  return count;
}

int Sequential::num_extra_outputs() const {
  int count = 0;
  for (const Segment& s : segments_)
    if (s.group) count += s.group->num_extra_outputs();
  return count;
}

}  // namespace assay::te::ops
