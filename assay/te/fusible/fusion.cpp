#include "assay/te/fusible/fusion.h"

#include <mutex>
#include <utility>

namespace assay::te::ops {
namespace {

template <typename Step>
class RuleTable {
 public:
  using Rule = std::shared_ptr<const FusionRule<Step>>;

  explicit RuleTable(std::vector<FusionRule<Step>> builtin) {
    for (auto& rule : builtin) add(std::move(rule), false);
  }
  void add(FusionRule<Step> rule, bool prepend) {
    const std::lock_guard lock(mutex_);
    rules_.insert(prepend ? rules_.begin() : rules_.end(),
                  std::make_shared<const FusionRule<Step>>(std::move(rule)));
  }
  std::vector<Rule> rules() {
    const std::lock_guard lock(mutex_);
    return rules_;
  }

 private:
  std::mutex mutex_;
  std::vector<Rule> rules_;
};

RuleTable<ForwardStep>& forward_table() {
  static RuleTable<ForwardStep> table(builtin_forward_fusions());
  return table;
}

RuleTable<BackwardStep>& backward_table() {
  static RuleTable<BackwardStep> table(builtin_backward_fusions());
  return table;
}

template <typename Step>
FusionPlan<Step> plan(RuleTable<Step>& table,
                      std::span<BasicOperation* const> operations,
                      FusionContext context, bool fuse) {
  const std::size_t n = operations.size();
  std::vector<Fused<Step>> starting(n);  // count 0: inside of another
  for (std::size_t i = 0; i < n; ++i) starting[i].first = i;
  const auto free = [&](std::size_t i) {
    return !starting[i].rule && starting[i].count == 1;
  };
  const auto rules =
      fuse ? table.rules() : std::vector<typename RuleTable<Step>::Rule>{};
  for (const auto& rule : rules) {
    for (std::size_t i = 0; i < n; ++i) {
      if (!free(i)) continue;
      context.previous = i > 0 ? operations[i - 1] : nullptr;
      const std::size_t count = rule->match(operations.subspan(i), context);
      bool taken = count == 0 || count > n - i;
      for (std::size_t k = i; !taken && k < i + count; ++k) taken = !free(k);
      if (taken) continue;
      starting[i].rule = rule;
      starting[i].count = count;
      for (std::size_t k = i + 1; k < i + count; ++k) starting[k].count = 0;
    }
  }
  FusionPlan<Step> out;
  for (auto& fused : starting)
    if (fused.count > 0) out.push_back(std::move(fused));
  return out;
}

}  // namespace

void register_forward_fusion(ForwardFusion rule, bool prepend) {
  forward_table().add(std::move(rule), prepend);
}

void register_backward_fusion(BackwardFusion rule, bool prepend) {
  backward_table().add(std::move(rule), prepend);
}

FusionPlan<ForwardStep> plan_forward(
    std::span<BasicOperation* const> operations, const FusionContext& context,
    bool fuse) {
  return plan(forward_table(), operations, context, fuse);
}

FusionPlan<BackwardStep> plan_backward(
    std::span<BasicOperation* const> operations, const FusionContext& context,
    bool fuse) {
  return plan(backward_table(), operations, context, fuse);
}

}  // namespace assay::te::ops
