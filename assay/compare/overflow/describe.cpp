#include "assay/compare/overflow/describe.h"

#include <string_view>

#include "assay/compare/divergence.h"
#include "assay/compare/op_state.h"
#include "assay/compare/overflow/layout.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

OverflowLeaf leaf_of(const RankScan& rank, std::uint32_t at) {
  const Record& record = rank.pair.golden.records[at];
  OverflowLeaf leaf;
  leaf.leaf = record.leaf;
  leaf.value = rank.scan.values[at];
  leaf.meaning = rank.meanings[at];
  if (!record.is_tensor) {
    leaf.text = record.value;
    return leaf;
  }
  leaf.shape = record.facts.shape;
  leaf.dtype = record.facts.dtype
                   ? std::string(traits(*record.facts.dtype).name)
                   : record.facts.dtype_text;
  return leaf;
}

// What the kind alone does not say.
std::string note_of(const OverflowFinding& finding) {
  bool mask = false, undefined = false;
  std::string argument;
  for (const OverflowLeaf& input : finding.inputs) {
    mask = mask || input.meaning == Meaning::kMask;
    undefined = undefined || (input.meaning == Meaning::kUndefined &&
                              input.value.not_finite());
    if (input.text == "inf" || input.text == "-inf" || input.text == "nan")
      argument = input.leaf + " is " + input.text;
  }
  if (finding.kind != OverflowKind::kBorn &&
      finding.kind != OverflowKind::kUnknown) {
    return "";
  }
  if (!argument.empty()) return "asked for: its argument " + argument;
  if (mask)
    return "an input holds a mask of -inf: is a whole row of it masked?";
  if (undefined) return "an input is memory that nothing had written";
  return "";
}

// The backward pass is called by nobody: where the forward call was made.
std::vector<std::string> stack_of_forward(const Trace& trace, const Op& op,
                                          const Group& group) {
  std::string name = op.name;
  const std::size_t at = name.rfind(".backward");
  if (op.direction != Direction::kBackward || at == name.npos) return {};
  name.replace(at, std::string_view(".backward").size(), ".forward");
  for (const Op& other : trace.ops) {
    if (other.name == name && other.stack >= 0)
      return group.stacks[other.stack];
  }
  return {};
}

}  // namespace

OverflowFinding describe_finding(const RankScan& rank, const Comparison& result,
                                 std::uint32_t group, std::size_t row,
                                 OverflowKind kind, bool in_full) {
  const Trace& trace = rank.pair.golden;
  const std::uint32_t at = record_of(rank.pair, result, group, row);
  const Record& record = trace.records[at];
  const Op& op = trace.ops[record.op];
  OverflowFinding finding;
  finding.kind = kind;
  finding.step = trace.step;
  finding.rank = trace.rank;
  finding.op = op.name;
  finding.leaf = leaf_of(rank, at);
  if (record.facts.dtype && !is_exact(*record.facts.dtype))
    finding.dtype_max = max_finite(component(*record.facts.dtype));
  if (!in_full) return finding;
  for (std::uint32_t i = op.first_record; i < op.first_record + op.record_count;
       ++i) {
    const bool input = feeds(trace.records[i].role);
    (input ? finding.inputs : finding.outputs).push_back(leaf_of(rank, i));
  }
  const Divergence place = describe_divergence(result, row);
  finding.call_path = place.call_path;
  finding.stack = !place.stack.empty()
                      ? place.stack
                      : stack_of_forward(trace, op, result.groups[group]);
  finding.note = note_of(finding);
  return finding;
}

}  // namespace assay
