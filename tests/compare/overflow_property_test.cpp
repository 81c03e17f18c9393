// What holds of every trace the overflow search is given.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "overflow_util.h"

namespace assay::test {
namespace {

enum class Content : std::uint8_t { kFinite, kNan, kPlus, kMinus, kUnknown };

constexpr std::array<const char*, 6> kApis = {
    "Torch.exp",          "Torch.add",   "Functional.softmax",
    "Tensor.masked_fill", "Tensor.view", "Tensor.copy_"};

// A few values only, so that one is often recognised as another.
void add_leaf(TraceBuilder& b, Role role, const std::string& leaf,
              Content content, int variant) {
  const double low = -1 - variant;
  switch (content) {
    case Content::kUnknown:
      b.digest(role, leaf, DType::kF32, {4}, "");
      return;
    case Content::kNan:
      b.statistics(role, leaf, {4}, 2, low, 1, 3);
      b.last().value = R"({"nan":1})";
      return;
    case Content::kPlus:
      b.statistics(role, leaf, {4}, kInf, low, kInf, kInf);
      return;
    case Content::kMinus:
      b.statistics(role, leaf, {4}, 2, -kInf, -kInf, kInf);
      return;
    case Content::kFinite:
      b.statistics(role, leaf, {4}, 2, low, 1, 3);
  }
}

Content any_content() { return static_cast<Content>(*rc::gen::inRange(0, 5)); }

struct Drawn {
  TraceBuilder builder;
  bool severe = false;       // an output or parameter has NaN or +inf
  std::int64_t unknown = 0;  // records, but for what copy_ overwrites
};

Drawn draw() {
  Drawn drawn;
  const int count = *rc::gen::inRange(1, 8);
  for (int i = 0; i < count; ++i) {
    const std::string api = *rc::gen::elementOf(kApis);
    const bool inside = i + 1 < count && *rc::gen::inRange(0, 3) == 0;
    drawn.builder.op(api + "." + std::to_string(i) + ".forward",
                     inside ? "Module.h.Block.forward.0" : "");
    if (*rc::gen::arbitrary<bool>())
      drawn.builder.value("input.2", "float", "-inf");
    for (const auto& [role, leaf] :
         {std::pair(Role::kInput, "input.0"),
          std::pair(Role::kInput, "input.1"),
          std::pair(Role::kParameter, "parameters.weight"),
          std::pair(Role::kOutput, "output.0")}) {
      if (*rc::gen::inRange(0, 4) == 0) continue;
      const Content content = any_content();
      add_leaf(drawn.builder, role, leaf, content, *rc::gen::inRange(0, 3));
      const bool severe = content == Content::kNan || content == Content::kPlus;
      drawn.severe = drawn.severe || (severe && role != Role::kInput);
      const bool overwritten =
          api == "Tensor.copy_" && leaf == std::string("input.0");
      drawn.unknown += content == Content::kUnknown && !overwritten;
    }
  }
  drawn.builder.op("Module.h.Block.forward.0");
  return drawn;
}

// The one promise: no NaN and no +inf passes.
RC_GTEST_PROP(OverflowProperty, NanAndPlusInfinityAreAlwaysFound, ()) {
  Drawn drawn = draw();
  const bool severe = drawn.severe;
  RC_ASSERT(!severe || search(drawn.builder).first.has_value());
}

RC_GTEST_PROP(OverflowProperty, ABirthHasKnownAndFiniteInputs, ()) {
  Drawn drawn = draw();
  for (const OverflowFinding& f : search(drawn.builder).found) {
    if (f.kind != OverflowKind::kBorn) continue;
    RC_ASSERT(f.leaf.value.not_finite());
    for (const OverflowLeaf& input : f.inputs) {
      if (input.meaning == Meaning::kUndefined) continue;
      RC_ASSERT(input.value.known);
      RC_ASSERT(input.value.finite() || (input.meaning == Meaning::kMask &&
                                         input.value.only_negative_inf()));
    }
  }
}

RC_GTEST_PROP(OverflowProperty, CountsAddUp, ()) {
  Drawn drawn = draw();
  const std::int64_t unknown = drawn.unknown;
  const OverflowReport report = search(drawn.builder);
  RC_ASSERT(report.counts.unseen == unknown);
  RC_ASSERT(report.first.has_value() ==
            (report.counts.born + report.counts.entered +
                 report.counts.arrived + report.counts.unknown +
                 report.counts.propagated >
             0));
}

}  // namespace
}  // namespace assay::test
