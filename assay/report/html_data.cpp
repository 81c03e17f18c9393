#include "assay/report/html_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "assay/report/html_detail.h"
#include "assay/report/json_object.h"
#include "assay/report/row_view.h"
#include "assay/report/string_table.h"
#include "assay/report/wording.h"

namespace assay {
namespace {

// One column: a JSON array that grows row by row.
class Column {
 public:
  void figure(double value) { append_figure(next(), value); }
  void integer(std::int64_t value) { append_int(next(), value); }
  const std::string& text() const { return text_; }

 private:
  std::string& next() {
    if (!text_.empty()) text_.push_back(',');
    return text_;
  }
  std::string text_;
};

void array_member(JsonScope& object, const JsonKey& name,
                  const Column& column) {
  object.key(name).append("[").append(column.text()).append("]");
}

// The figures of one row as the columns hold them; NaN for unknown.
struct Figures {
  double error, max_abs, max_rel, ulp_max, cosine, bias, alpha;
};

Figures figures_of(const Row& row) {
  const double error = row_error(row);
  Figures f{error < 0 ? NAN : error, NAN, NAN, NAN, NAN, NAN, NAN};
  if (!row.stats || row.stats->count == 0) return f;
  const ErrorStats& s = *row.stats;
  f.max_abs = s.max_abs;
  f.max_rel = s.max_rel;
  f.ulp_max = s.detail ? s.detail->ulp_max : s.bitwise_equal ? 0 : NAN;
  f.cosine = s.cosine;
  f.bias = s.bias;
  f.alpha = s.alpha;
  return f;
}

std::array<double, 4> four(const TensorStatistics& s) {
  return {s.max.value_or(NAN), s.min.value_or(NAN), s.mean.value_or(NAN),
          s.norm.value_or(NAN)};
}

bool same_figures(const std::array<double, 4>& a,
                  const std::array<double, 4>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  return true;
}

// Builds the "rows" object column by column.
class RowColumns {
 public:
  RowColumns(const Comparison& comparison, StringTable& strings,
             const std::vector<std::size_t>& first_op)
      : comparison_(comparison), strings_(strings), first_op_(first_op) {}

  void add(const Row& row) {
    add_identity(row);
    add_side(row.golden, golden_dtype_, golden_shape_);
    add_side(row.target, target_dtype_, target_shape_);
    add_statistics(row);
    const Figures f = figures_of(row);
    error_.figure(f.error);
    max_abs_.figure(f.max_abs);
    max_rel_.figure(f.max_rel);
    ulp_.figure(f.ulp_max);
    cosine_.figure(f.cosine);
    bias_.figure(f.bias);
    alpha_.figure(f.alpha);
    ++count_;
  }

  void write(JsonScope& object) const {
    object.integer("count", static_cast<std::int64_t>(count_));
    object.text("role", role_);
    object.text("verdict", verdict_);
    object.text("origin", origin_);
    object.text("evidence", evidence_);
    object.text("present", present_);
    object.text("sameStats", same_stats_);
    array_member(object, "op", op_);
    array_member(object, "name", name_);
    array_member(object, "goldenDtype", golden_dtype_);
    array_member(object, "targetDtype", target_dtype_);
    array_member(object, "goldenShape", golden_shape_);
    array_member(object, "targetShape", target_shape_);
    array_member(object, "goldenStats", golden_stats_);
    array_member(object, "targetStats", target_stats_);
    array_member(object, "error", error_);
    array_member(object, "maxAbs", max_abs_);
    array_member(object, "maxRel", max_rel_);
    array_member(object, "ulpMax", ulp_);
    array_member(object, "cosine", cosine_);
    array_member(object, "bias", bias_);
    array_member(object, "alpha", alpha_);
  }

 private:
  static char digit(int code) { return static_cast<char>('0' + code); }

  void add_identity(const Row& row) {
    const std::size_t op = first_op_[row.group] + row.op;
    op_.integer(static_cast<std::int64_t>(op));
    name_.integer(name_code(row));
    role_ += digit(static_cast<int>(row.role));
    verdict_ += digit(static_cast<int>(row.verdict));
    origin_ += digit(static_cast<int>(row.origin));
    evidence_ += digit(static_cast<int>(row.evidence));
    present_ +=
        digit((row.golden.present ? 1 : 0) + (row.target.present ? 2 : 0));
  }

  // The string of the leaf where the row is called "<operator>.<leaf>", else
  // -1 - the string of the whole name.
  std::int64_t name_code(const Row& row) {
    const std::string_view name = row.name();
    const auto& ops = comparison_.groups[row.group].ops;
    if (row.op < ops.size()) {
      const std::string& op = ops[row.op].name;
      if (name.size() > op.size() + 1 && name.starts_with(op) &&
          name[op.size()] == '.')
        return strings_.index(name.substr(op.size() + 1));
    }
    return -1 - strings_.index(name);
  }

  void add_side(const RowSide& side, Column& dtype, Column& shape) {
    dtype.integer(strings_.index(dtype_text(side)));
    shape.integer(
        strings_.index(side.present ? to_string(side.facts.shape) : ""));
  }

  // Four figures a side; the target's are left out where they are the same.
  void add_statistics(const Row& row) {
    const auto golden = four(row.golden.stats), target = four(row.target.stats);
    const bool same = same_figures(golden, target);
    same_stats_ += same ? '1' : '0';
    for (const double value : golden) golden_stats_.figure(value);
    if (same) return;
    for (const double value : target) target_stats_.figure(value);
  }

  const Comparison& comparison_;
  StringTable& strings_;
  const std::vector<std::size_t>& first_op_;
  std::size_t count_ = 0;
  std::string role_, verdict_, origin_, evidence_, present_, same_stats_;
  Column op_, name_, golden_dtype_, target_dtype_, golden_shape_, target_shape_,
      golden_stats_, target_stats_, error_, max_abs_, max_rel_, ulp_, cosine_,
      bias_, alpha_;
};

void write_words(std::string& out, const Wording& words) {
  JsonScope object(out, '{');
  object.text("golden", words.golden);
  object.text("target", words.target);
  object.text("record", words.record);
  object.text("first", words.first);
  object.text("only", words.only);
  object.boolean("flows", words.flows);
}

void write_meta(JsonScope& object, const Comparison& c, std::size_t shown) {
  write_words(object.key("words"), wording(c.subject));
  object.text("verdict", to_string(c.verdict));
  object.text("golden", c.golden_path);
  object.text("target", c.target_path);
  object.text("standard", c.standard);
  object.text("command", c.command);
  object.text("standardSource", c.standard_source);
  object.text("standardDate", c.standard_date);
  object.integer("goldenBytes", c.golden_bytes);
  object.integer("targetBytes", c.target_bytes);
  object.number("seconds", c.seconds);
  object.boolean("interrupted", c.interrupted);
  object.integer("omitted", static_cast<std::int64_t>(c.rows.size() - shown));
  append_json_list(object.key("warnings"), c.warnings);
}

void write_counts(JsonScope& object, const Counts& counts) {
  object.integer("match", counts.match);
  object.integer("mismatch", counts.mismatch);
  object.integer("incomplete", counts.incomplete);
  object.integer("empty", counts.empty);
  object.integer("born", counts.born);
  object.integer("inherited", counts.inherited);
  object.integer("input", counts.input_differs);
  object.integer("parameter", counts.parameter_differs);
  object.integer("undetermined", counts.undetermined);
}

void write_divergence(std::string& out, const Comparison& c,
                      const std::vector<std::size_t>& rows) {
  if (!c.first_divergence) {
    out.append("null");
    return;
  }
  const Divergence& d = *c.first_divergence;
  const auto at = std::lower_bound(rows.begin(), rows.end(), d.row);
  const bool shown = at != rows.end() && *at == d.row;
  JsonScope object(out, '{');
  object.integer("row", shown ? at - rows.begin() : -1);
  object.text("name", d.name);
  object.text("kind", d.kind);
  object.text("reason", d.reason);
  object.text("cause", likely_text(d.cause));
  object.text("note", d.input_note);
  append_json_list(object.key("path"), d.call_path);
  append_json_list(object.key("stack"), d.stack);
  object.text("again", d.again);
}

// Operators of all groups in one list; a parent or stack of -1 is none.
void write_ops(JsonScope& object, const Comparison& c, StringTable& strings,
               const std::vector<std::size_t>& first_op) {
  Column name, parent, stack, group;
  std::int64_t first_stack = 0;
  for (std::size_t g = 0; g < c.groups.size(); ++g) {
    for (const OpRow& op : c.groups[g].ops) {
      name.integer(strings.index(op.name));
      parent.integer(op.parent < 0
                         ? -1
                         : op.parent + static_cast<std::int64_t>(first_op[g]));
      stack.integer(op.stack < 0 ? -1 : op.stack + first_stack);
      group.integer(static_cast<std::int64_t>(g));
    }
    first_stack += static_cast<std::int64_t>(c.groups[g].stacks.size());
  }
  array_member(object, "name", name);
  array_member(object, "parent", parent);
  array_member(object, "stack", stack);
  array_member(object, "group", group);
}

// Each stack as a list of strings, innermost frame first.
void write_stacks(JsonScope& array, const Comparison& c, StringTable& strings) {
  for (const Group& group : c.groups) {
    for (const auto& stack : group.stacks) {
      JsonScope frames(array.element(), '[');
      for (const std::string& frame : stack)
        append_int(frames.element(), strings.index(frame));
    }
  }
}

void write_groups(JsonScope& array, const Comparison& c) {
  for (const Group& group : c.groups) {
    JsonScope object(array.element(), '{');
    object.integer("step", group.step);
    object.integer("rank", group.rank);
    object.text("golden", group.golden_path);
    object.text("target", group.target_path);
  }
}

// Index of each group's first operator in the list of all.
std::vector<std::size_t> first_ops(const Comparison& c) {
  std::vector<std::size_t> first;
  std::size_t count = 0;
  for (const Group& group : c.groups) {
    first.push_back(count);
    count += group.ops.size();
  }
  return first;
}

void write_rows(JsonScope& page, const Comparison& c,
                const std::vector<std::size_t>& rows, StringTable& strings,
                const std::vector<std::size_t>& first_op) {
  RowColumns columns(c, strings, first_op);
  for (const std::size_t i : rows) columns.add(c.rows[i]);
  {
    JsonScope object(page.key("rows"), '{');
    columns.write(object);
  }
  // Histograms of matching rows only where the page stays small with them.
  constexpr std::size_t kMatchDetail = 20'000;
  JsonScope details(page.key("details"), '{');
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = c.rows[rows[i]];
    if (has_html_detail(row, rows.size() <= kMatchDetail))
      append_html_detail(row, details.key_text(std::to_string(i)));
  }
}

}  // namespace

std::vector<std::size_t> html_rows(const Comparison& comparison,
                                   std::size_t limit) {
  const auto& rows = comparison.rows;
  const auto is_match = [](const Row& r) {
    return r.verdict == Verdict::kMatch;
  };
  const auto matches = static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), is_match));
  const std::size_t others = rows.size() - matches;
  std::size_t room = limit > others ? limit - others : 0;
  if (rows.size() <= limit) room = matches;
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_match(rows[i]) && room == 0) continue;
    if (is_match(rows[i])) --room;
    kept.push_back(i);
  }
  return kept;
}

std::string html_data(const Comparison& comparison,
                      const std::vector<std::size_t>& rows) {
  const std::vector<std::size_t> first_op = first_ops(comparison);
  StringTable strings;
  std::string out;
  {
    JsonScope page(out, '{');
    {
      JsonScope meta(page.key("meta"), '{');
      write_meta(meta, comparison, rows.size());
    }
    {
      JsonScope counts(page.key("counts"), '{');
      write_counts(counts, comparison.counts);
    }
    write_divergence(page.key("divergence"), comparison, rows);
    {
      JsonScope groups(page.key("groups"), '[');
      write_groups(groups, comparison);
    }
    {
      JsonScope ops(page.key("ops"), '{');
      write_ops(ops, comparison, strings, first_op);
    }
    {
      JsonScope stacks(page.key("stacks"), '[');
      write_stacks(stacks, comparison, strings);
    }
    write_rows(page, comparison, rows, strings, first_op);
    JsonScope texts(page.key("strings"), '[');
    for (const std::string& text : strings.texts())
      append_json_string(texts.element(), text);
  }
  return out;
}

}  // namespace assay
