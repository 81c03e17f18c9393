#include "assay/compare/overflow/layout.h"

#include <utility>

#include "assay/compare/distributed.h"

namespace assay {
namespace {

// Every operator and record, without a counterpart.
Matching unpaired(const Trace& trace) {
  Matching matching;
  matching.ops.reserve(trace.ops.size());
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    matching.ops.push_back({static_cast<std::int32_t>(i), -1, op.parent,
                            op.first_record, op.record_count,
                            PairedBy::kNothing});
  }
  matching.pairs.reserve(trace.records.size());
  for (std::size_t i = 0; i < trace.records.size(); ++i) {
    matching.pairs.push_back({static_cast<std::int32_t>(i), -1});
  }
  return matching;
}

Verdict verdict_of(const ValueState& value, Meaning meaning) {
  if (meaning == Meaning::kUndefined) return Verdict::kEmpty;
  if (!value.known) return Verdict::kIncomplete;
  return value.finite() || meaning == Meaning::kMask ? Verdict::kMatch
                                                     : Verdict::kMismatch;
}

OpRow describe(const Op& op, const OpPair& place, std::size_t first_row) {
  OpRow row;
  row.name = op.name;
  row.api = op.api;
  row.parent = op.parent;
  row.stack = op.stack;
  row.first_row = static_cast<std::uint32_t>(first_row + place.first);
  row.row_count = place.count;
  return row;
}

}  // namespace

void lay_out(TracePair& pair, const Scan& scan,
             const std::vector<Meaning>& meanings,
             const std::vector<std::string>& only, Comparison& out) {
  Trace& trace = pair.golden;
  pair.matching = unpaired(trace);
  if (!only.empty()) keep_only(only, trace, pair.target, pair.matching);
  const auto number = static_cast<std::uint32_t>(out.groups.size());
  Group& group = out.groups.emplace_back();
  group.step = trace.step;
  group.rank = trace.rank;
  group.golden_path = trace.path.string();
  group.stacks = std::move(trace.stacks);
  group.ops.reserve(trace.ops.size());
  const std::size_t first_row = out.rows.size();
  out.rows.resize(first_row + pair.matching.pairs.size());
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    const OpPair& place = pair.matching.ops[i];
    group.ops.push_back(describe(trace.ops[i], place, first_row));
    // Only the entries of a batch of sends are looked up by their names.
    const bool named = is_communication(trace.ops[i]);
    for (std::uint32_t k = 0; k < place.count; ++k) {
      const auto at = pair.matching.pairs[place.first + k].golden;
      const Record& record = trace.records[at];
      Row& row = out.rows[first_row + place.first + k];
      row.group = number;
      row.op = static_cast<std::uint32_t>(i);
      row.role = record.role;
      row.is_tensor = record.is_tensor;
      row.verdict = verdict_of(scan.values[at], meanings[at]);
      row.evidence = Evidence::kValue;
      row.golden.present = true;
      row.golden.facts = record.facts;
      row.golden.stats = record.stats;
      row.golden.digest = record.digest;
      if (named) row.golden.name = trace.name(record);
    }
  }
}

std::uint32_t record_of(const TracePair& pair, const Comparison& result,
                        std::uint32_t group, std::size_t row) {
  const std::size_t first = result.groups[group].ops.front().first_row;
  return static_cast<std::uint32_t>(pair.matching.pairs[row - first].golden);
}

}  // namespace assay
