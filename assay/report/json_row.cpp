#include "assay/report/json_row.h"

#include <array>
#include <cstdint>
#include <string_view>

#include "assay/report/json_object.h"
#include "assay/report/row_view.h"

namespace assay {
namespace {

void append_shape(std::string& out, const Shape& shape) {
  JsonScope array(out, '[');
  for (const std::int64_t dim : shape) append_int(array.element(), dim);
}

// The multi-index of a flat index, as an array.
void append_index(std::string& out, const Row& row, std::int64_t flat) {
  const Shape& shape = index_shape(row);
  if (has_complex_components(row)) flat /= 2;
  Shape index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const std::int64_t dim = shape[i] > 0 ? shape[i] : 1;
    index[i] = flat % dim;
    flat /= dim;
  }
  append_shape(out, index);
}

// "index" and, for complex tensors, "component".
void index_members(JsonScope& object, const Row& row, std::int64_t flat) {
  if (flat < 0) return;
  append_index(object.key("index"), row, flat);
  if (has_complex_components(row))
    object.text("component", flat % 2 == 0 ? "real" : "imag");
}

void append_side(std::string& out, const RowSide& side,
                 const SideStats* measured) {
  JsonScope object(out, '{');
  object.text_unless_empty("dtype", dtype_text(side));
  append_shape(object.key("shape"), side.facts.shape);
  if (side.facts.requires_grad)
    object.boolean("requires_grad", *side.facts.requires_grad);
  object.number("max", side.stats.max);
  object.number("min", side.stats.min);
  object.number("mean", side.stats.mean);
  object.number("norm", side.stats.norm);
  if (measured) {
    object.integer_unless_zero("nan", measured->nan);
    object.integer_unless_zero("pos_inf", measured->pos_inf);
    object.integer_unless_zero("neg_inf", measured->neg_inf);
  }
  object.text_unless_empty("digest", side.digest);
  object.text_unless_empty("value", side.value);
  object.text_unless_empty("file", side.file);
}

void append_reasons(std::string& out, const Row& row) {
  JsonScope array(out, '[');
  for (const Reason& reason : row.reasons) {
    JsonScope object(array.element(), '{');
    object.text("criterion", reason.criterion);
    object.text("text", reason.text);
    object.number("figure", reason.figure);
    object.number("bound", reason.bound);
    index_members(object, row, reason.index);
    object.boolean("note", reason.note);
  }
}

// [[2^k lower edge's exponent or upper ulp exponent, count], ...], non-zero
// buckets only.
void append_histogram(std::string& out,
                      const std::array<std::int64_t, 64>& counts,
                      int exponent_of_first) {
  JsonScope array(out, '[');
  for (int i = 0; i < 64; ++i) {
    if (counts[i] == 0) continue;
    JsonScope pair(array.element(), '[');
    append_int(pair.element(), i + exponent_of_first);
    append_int(pair.element(), counts[i]);
  }
}

void append_block(std::string& out, const Row& row, const WorstBlock& block) {
  JsonScope object(out, '{');
  object.integer("begin", block.begin);
  index_members(object, row, block.begin);
  object.number("rmse", block.rmse);
  object.number("golden_rms", block.golden_rms);
}

void detail_members(JsonScope& object, const Row& row, const DetailStats& d) {
  object.number("ulp_max", d.ulp_max);
  object.number("ulp_mean", d.ulp_mean);
  object.number("share_rel_over_1e3", d.share_rel_over_1e3);
  object.number("share_rel_over_5e3", d.share_rel_over_5e3);
  object.integer("over_bound", d.over_bound);
  object.number("worst_excess", d.worst_excess);
  append_histogram(object.key("rel_histogram"), d.rel_histogram, -64);
  append_histogram(object.key("ulp_histogram"), d.ulp_histogram, 0);
  if (d.block32.begin >= 0)
    append_block(object.key("worst_block32"), row, d.block32);
  if (d.block128.begin >= 0)
    append_block(object.key("worst_block128"), row, d.block128);
}

// The figures every pair of tensors has.
void figure_members(JsonScope& object, const ErrorStats& s) {
  object.number("max_abs", s.max_abs);
  object.number("mean_abs", s.mean_abs);
  object.number("max_rel", s.max_rel);
  object.number("mean_rel", s.mean_rel);
  object.number("rmse", s.rmse);
  object.number("norm_l2", s.norm_l2);
  object.number("sqnr", s.sqnr_db);
  object.number("cosine", s.cosine);
  object.number("bias", s.bias);
  object.number("alpha", s.alpha);
}

void difference_members(JsonScope& object, const Row& row,
                        const ErrorStats& s) {
  index_members(object, row, s.max_abs_index);
  if (s.max_abs_index >= 0) {
    object.integer("flat_index", s.max_abs_index);
    object.number("golden_at_index", s.golden_at_max_abs);
    object.number("target_at_index", s.target_at_max_abs);
  }
  if (is_exact(s.judged_dtype))
    append_uint(object.key("max_abs_int"), s.max_abs_int);
  object.integer("mismatches", s.mismatches);
  object.integer_unless_zero("nonfinite_mismatches", s.nonfinite_mismatches);
  object.integer_unless_zero("zero_sign_flips", s.zero_sign_flips);
  object.integer_unless_zero("sign_flips", s.sign_flips);
  object.word("judged_dtype", traits(s.judged_dtype).name);
  if (s.golden_rounded) object.boolean("golden_rounded", true);
}

void stats_members(JsonScope& object, const Row& row) {
  const ErrorStats& s = *row.stats;
  object.integer("count", s.count);
  object.integer("finite", s.finite);
  object.boolean("bitwise_equal", s.bitwise_equal);
  figure_members(object, s);
  if (s.bitwise_equal) {
    object.integer("ulp_max", 0);
    return;
  }
  difference_members(object, row, s);
  if (s.detail) detail_members(object, row, *s.detail);
}

void append_baseline(std::string& out, const ErrorStats& s) {
  JsonScope object(out, '{');
  figure_members(object, s);
  if (s.detail) object.number("ulp_max", s.detail->ulp_max);
}

void identity_members(JsonScope& object, const Comparison& comparison,
                      const Row& row) {
  const Group& group = comparison.groups[row.group];
  object.text("name", row.name());
  if (row.golden.present && row.target.present &&
      row.target.name != row.golden.name)
    object.text("target_name", row.target.name);
  object.integer("step", group.step);
  object.integer("rank", group.rank);
  if (row.op < group.ops.size()) object.text("op", group.ops[row.op].name);
  object.word("role", role_text(row.role));
  object.word("verdict", to_string(row.verdict));
  object.word("evidence", to_string(row.evidence));
  object.word("origin", to_string(row.origin));
  if (!row.is_tensor) object.boolean("is_tensor", false);
}

}  // namespace

void append_json_row(const Comparison& comparison, const Row& row,
                     std::string& out) {
  JsonScope object(out, '{');
  identity_members(object, comparison, row);
  append_reasons(object.key("reasons"), row);
  const ErrorStats* stats = row.stats.get();
  if (row.golden.present)
    append_side(object.key("golden"), row.golden,
                stats ? &stats->golden : nullptr);
  if (row.target.present)
    append_side(object.key("target"), row.target,
                stats ? &stats->target : nullptr);
  if (stats) stats_members(object, row);
  if (row.baseline) append_baseline(object.key("baseline"), *row.baseline);
  if (row.amplification >= 0) object.number("amplification", row.amplification);
  object.text_unless_empty("cause", row.cause);
}

}  // namespace assay
