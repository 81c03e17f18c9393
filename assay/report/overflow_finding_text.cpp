#include "assay/report/overflow_finding_text.h"

#include <fmt/format.h>

#include <cmath>

#include "assay/base/text.h"
#include "assay/report/display.h"

namespace assay {

std::string kind_text(const OverflowFinding& f) {
  const std::string leaf = safe_text(f.leaf.leaf);
  const std::string what = special_text(f.leaf.value);
  switch (f.kind) {
    case OverflowKind::kBorn:
      return "born here: its inputs are finite, " + leaf + " is not: " + what;
    case OverflowKind::kEntered:
      return leaf +
             " came in not finite, no captured operator put it out: " + what;
    case OverflowKind::kArrived:
      return leaf + " came not finite from " + sender_text(f) + ": " + what;
    case OverflowKind::kUnknown:
      return leaf + " is not finite, not all its inputs are known: " + what;
    case OverflowKind::kPropagated:
      break;
  }
  return "an input was not finite before, " + leaf + ": " + what;
}

std::string sender_text(const OverflowFinding& f) {
  if (!f.sender) return "another rank";
  return fmt::format("rank {}, {}", f.sender->rank, safe_text(f.sender->op));
}

std::string leaf_text(const OverflowLeaf& leaf) {
  if (leaf.dtype.empty() && leaf.shape.empty()) return safe_text(leaf.text);
  std::string text = safe_text(leaf.dtype) + " " + to_string(leaf.shape);
  if (leaf.meaning == Meaning::kUndefined)
    return text + "  memory that nothing had written";
  if (!leaf.value.known) return text + "  not captured";
  const std::string special = special_text(leaf.value);
  if (!special.empty()) text += "  " + special;
  if (leaf.meaning == Meaning::kMask) text += ", a mask";
  if (!std::isnan(leaf.value.max))
    text += "  max " + format_figure(leaf.value.max);
  if (!std::isnan(leaf.value.min))
    text += "  min " + format_figure(leaf.value.min);
  return text;
}

std::string special_text(const ValueState& value) {
  std::string text;
  bool counted = false;
  const auto add = [&](std::int64_t count, std::string_view name) {
    if (count == 0) return;
    text += text.empty() ? "" : ", ";
    if (count > 0) text += human_count(count) + " ";
    counted = counted || count > 0;
    text += name;
  };
  add(value.nan, "NaN");
  add(value.positive_inf, "+inf");
  add(value.negative_inf, "-inf");
  if (counted) text += " of " + plural(value.count, "element");
  return text;
}

}  // namespace assay
