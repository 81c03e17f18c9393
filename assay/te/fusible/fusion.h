// Which neighbouring operations are computed as one: a table of rules for each
// direction, which a program may add to.
//
// A rule is a pattern of basic operations in the order of the forward, also
// where it is for the backward, and a function that computes them together and
// leaves in the context of each what its own forward would. Rules apply one
// after the other, each from front to back over the operations that no earlier
// rule has taken (NVTE's order of fusion passes). What a fused result is
// rounded differently from the operations one by one is said at each rule
// (forward_fusions.cpp, backward_fusions.cpp).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "assay/te/fusible/operation.h"

namespace assay::te::ops {

// What a rule may ask beside the operations.
struct FusionContext {
  const Recipe* recipe = nullptr;  // null: nothing is quantised
  // The one before those that are looked at; null: there is none.
  const BasicOperation* previous = nullptr;
};

template <typename Step>
struct FusionRule {
  std::string name;  // "ForwardLinearBiasAdd"
  // How many operations, from the first on, become one; 0: none. The span goes
  // to the end of the group, so that a rule may look ahead.
  std::function<std::size_t(std::span<BasicOperation* const>,
                            const FusionContext&)>
      match;
  // The steps in the order of the forward. Forward: the output of the last for
  // the input of the first. Backward: the gradient of the input of the first
  // for that of the output of the last.
  std::function<Value(Value, std::span<Step>)> run;
};
using ForwardFusion = FusionRule<ForwardStep>;
using BackwardFusion = FusionRule<BackwardStep>;

// Adds a rule behind those there are, or before. Of the program; thread-safe.
void register_forward_fusion(ForwardFusion rule, bool prepend = false);
void register_backward_fusion(BackwardFusion rule, bool prepend = false);

// Operations that are computed together; without a rule there is one.
template <typename Step>
struct Fused {
  std::shared_ptr<const FusionRule<Step>> rule;
  std::size_t first = 0, count = 1;
};
// In the order of the forward.
template <typename Step>
using FusionPlan = std::vector<Fused<Step>>;

// `fuse` false: every operation by itself.
FusionPlan<ForwardStep> plan_forward(
    std::span<BasicOperation* const> operations, const FusionContext& context,
    bool fuse);
FusionPlan<BackwardStep> plan_backward(
    std::span<BasicOperation* const> operations, const FusionContext& context,
    bool fuse);

// The rules that are there from the start.
std::vector<ForwardFusion> builtin_forward_fusions();
std::vector<BackwardFusion> builtin_backward_fusions();

// The operation as a T; null where it is none.
template <typename T>
T* as(std::span<BasicOperation* const> operations, std::size_t i) {
  return i < operations.size() ? dynamic_cast<T*>(operations[i]) : nullptr;
}

}  // namespace assay::te::ops
