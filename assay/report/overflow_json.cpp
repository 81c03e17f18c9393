#include "assay/report/overflow_json.h"

#include <cmath>
#include <string_view>
#include <vector>

#include "assay/report/json_object.h"

namespace assay {
namespace {

constexpr int kSchemaVersion = 1;

void append_integers(std::string& out,
                     const std::vector<std::int64_t>& numbers) {
  JsonScope array(out, '[');
  for (const std::int64_t number : numbers) append_int(array.element(), number);
}

void number_unless_nan(JsonScope& object, const JsonKey& key, double value) {
  if (!std::isnan(value)) object.number(key, value);
}

// A count, or true where it is only known that there are some.
void count(JsonScope& object, const JsonKey& key, std::int64_t value) {
  if (value == ValueState::kSome) return object.boolean(key, true);
  object.integer_unless_zero(key, value);
}

void integer_if_known(JsonScope& object, const JsonKey& key,
                      std::int64_t value) {
  if (value >= 0) object.integer(key, value);
}

std::string_view meaning_word(Meaning meaning) {
  if (meaning == Meaning::kMask) return "mask";
  return meaning == Meaning::kUndefined ? "undefined" : "value";
}

void append_leaf(std::string& out, const OverflowLeaf& leaf) {
  JsonScope object(out, '{');
  object.text("leaf", leaf.leaf);
  if (leaf.dtype.empty() && leaf.shape.empty()) {
    object.text("value", leaf.text);
    return;
  }
  object.text("dtype", leaf.dtype);
  append_integers(object.key("shape"), leaf.shape);
  object.word("meaning", meaning_word(leaf.meaning));
  object.boolean("known", leaf.value.known);
  count(object, "nan", leaf.value.nan);
  count(object, "pos_inf", leaf.value.positive_inf);
  count(object, "neg_inf", leaf.value.negative_inf);
  number_unless_nan(object, "max", leaf.value.max);
  number_unless_nan(object, "min", leaf.value.min);
}

void append_leaves(std::string& out, const std::vector<OverflowLeaf>& leaves) {
  JsonScope array(out, '[');
  for (const OverflowLeaf& leaf : leaves) append_leaf(array.element(), leaf);
}

void append_finding(std::string& out, const OverflowFinding& f) {
  JsonScope object(out, '{');
  object.word("kind", to_string(f.kind));
  object.integer("step", f.step);
  object.integer("rank", f.rank);
  object.text("name", f.op);
  append_leaf(object.key("leaf"), f.leaf);
  object.text_unless_empty("note", f.note);
  if (f.dtype_max > 0) object.number("dtype_max", f.dtype_max);
  if (f.sender) {
    object.integer("from_rank", f.sender->rank);
    object.text("from_name", f.sender->op);
  }
  if (f.inputs.empty() && f.outputs.empty()) return;
  append_leaves(object.key("inputs"), f.inputs);
  append_leaves(object.key("outputs"), f.outputs);
  append_json_list(object.key("call_path"), f.call_path);
  append_json_list(object.key("stack"), f.stack);
}

void append_findings(std::string& out,
                     const std::vector<OverflowFinding>& findings) {
  JsonScope array(out, '[');
  for (const OverflowFinding& f : findings) append_finding(array.element(), f);
}

void append_notes(std::string& out, const std::vector<RangeNote>& notes) {
  JsonScope array(out, '[');
  for (const RangeNote& note : notes) {
    JsonScope object(array.element(), '{');
    object.integer("step", note.step);
    object.integer("rank", note.rank);
    object.text("name", note.name);
    object.text("dtype", note.dtype);
    number_unless_nan(object, "largest", note.largest);
    object.number("dtype_max", note.dtype_max);
    object.integer("count", note.count);
    integer_if_known(object, "saturated", note.saturated);
    integer_if_known(object, "zeros", note.zeros);
    integer_if_known(object, "underflow", note.underflow);
  }
}

void append_unseen(std::string& out, const std::vector<Unseen>& unseen) {
  JsonScope array(out, '[');
  for (const Unseen& one : unseen) {
    JsonScope object(array.element(), '{');
    object.integer("step", one.step);
    object.integer("rank", one.rank);
    object.text("name", one.name);
    object.text("why", one.why);
  }
}

void append_counts(std::string& out, const OverflowCounts& counts) {
  JsonScope object(out, '{');
  object.integer("operators", counts.ops);
  object.integer("records", counts.records);
  object.integer("born", counts.born);
  object.integer("entered", counts.entered);
  object.integer("arrived", counts.arrived);
  object.integer("unknown", counts.unknown);
  object.integer("propagated", counts.propagated);
  object.integer("absorbed", counts.absorbed);
  object.integer("masked", counts.masked);
  object.integer("near", counts.near);
  object.integer("quantised", counts.quantised);
  object.integer("not_looked_at", counts.unseen);
}

}  // namespace

std::string overflow_json(const OverflowReport& report) {
  std::string out;
  {
    JsonScope object(out, '{');
    object.integer("schema_version", kSchemaVersion);
    object.word("verdict", overflow_word(report.verdict));
    object.text("path", report.path);
    append_integers(object.key("steps"), report.steps);
    append_integers(object.key("ranks"), report.ranks);
    std::string& first = object.key("first");
    report.first ? append_finding(first, *report.first)
                 : void(first.append("null"));
    append_counts(object.key("counts"), report.counts);
    append_findings(object.key("carried"), report.carried);
    append_findings(object.key("found"), report.found);
    append_notes(object.key("near"), report.near);
    append_notes(object.key("quantised"), report.quantised);
    append_unseen(object.key("not_looked_at"), report.unseen);
    object.number("seconds", report.seconds);
    object.boolean("interrupted", report.interrupted);
    append_json_list(object.key("warnings"), report.warnings);
  }
  return out + "\n";
}

}  // namespace assay
