#include "assay/report/html_detail.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "assay/report/json_object.h"
#include "assay/report/row_view.h"

namespace assay {
namespace {

void figure_member(JsonScope& object, const JsonKey& name, double value) {
  append_figure(object.key(name), value);
}

void append_reasons(std::string& out, const Row& row) {
  JsonScope array(out, '[');
  for (const Reason& reason : row.reasons) {
    JsonScope object(array.element(), '{');
    object.text("criterion", reason.criterion);
    object.text("text", reason.text);
    figure_member(object, "figure", reason.figure);
    figure_member(object, "bound", reason.bound);
    object.text_unless_empty("place", place_text(row, reason.index));
    object.boolean("note", reason.note);
  }
}

void append_side(std::string& out, const RowSide& side,
                 const SideStats* measured) {
  JsonScope object(out, '{');
  object.text_unless_empty("name", side.name);
  object.text_unless_empty("digest", side.digest);
  object.text_unless_empty("value", side.value);
  object.text_unless_empty("file", side.file);
  if (side.facts.requires_grad)
    object.boolean("requiresGrad", *side.facts.requires_grad);
  if (!measured) return;
  object.integer_unless_zero("nan", measured->nan);
  object.integer_unless_zero("posInf", measured->pos_inf);
  object.integer_unless_zero("negInf", measured->neg_inf);
}

// [index of the first non-zero bucket, its count, the next one's, ...].
void append_histogram(std::string& out,
                      const std::array<std::int64_t, 64>& counts) {
  JsonScope array(out, '[');
  int first = 0, last = 63;
  while (first < 64 && counts[first] == 0) ++first;
  while (last > first && counts[last] == 0) --last;
  if (first == 64) return;
  append_int(array.element(), first);
  for (int i = first; i <= last; ++i) append_int(array.element(), counts[i]);
}

void append_block(std::string& out, const Row& row, const WorstBlock& block) {
  JsonScope object(out, '{');
  object.integer("begin", block.begin);
  object.text("place", place_text(row, block.begin));
  figure_member(object, "rmse", block.rmse);
  figure_member(object, "goldenRms", block.golden_rms);
}

void detail_members(JsonScope& object, const Row& row, const DetailStats& d) {
  figure_member(object, "ulpMean", d.ulp_mean);
  figure_member(object, "shareOver1e3", d.share_rel_over_1e3);
  figure_member(object, "shareOver5e3", d.share_rel_over_5e3);
  object.integer("overBound", d.over_bound);
  figure_member(object, "worstExcess", d.worst_excess);
  append_histogram(object.key("relHistogram"), d.rel_histogram);
  append_histogram(object.key("ulpHistogram"), d.ulp_histogram);
  if (d.block32.begin >= 0) append_block(object.key("block32"), row, d.block32);
  if (d.block128.begin >= 0)
    append_block(object.key("block128"), row, d.block128);
}

void stats_members(JsonScope& object, const Row& row) {
  const ErrorStats& s = *row.stats;
  object.integer("elements", s.count);
  object.integer("finite", s.finite);
  object.integer("mismatches", s.mismatches);
  object.integer_unless_zero("nonfinite", s.nonfinite_mismatches);
  object.integer_unless_zero("signFlips", s.sign_flips);
  object.integer_unless_zero("zeroSignFlips", s.zero_sign_flips);
  if (s.bitwise_equal) return;
  figure_member(object, "meanAbs", s.mean_abs);
  figure_member(object, "meanRel", s.mean_rel);
  figure_member(object, "rmse", s.rmse);
  figure_member(object, "normL2", s.norm_l2);
  figure_member(object, "sqnr", s.sqnr_db);
  if (s.max_abs_index >= 0) {
    object.text("place", place_text(row, s.max_abs_index));
    figure_member(object, "goldenAt", s.golden_at_max_abs);
    figure_member(object, "targetAt", s.target_at_max_abs);
  }
  object.text("judgedDtype", traits(s.judged_dtype).name);
  if (s.golden_rounded) object.boolean("goldenRounded", true);
  if (s.detail) detail_members(object, row, *s.detail);
}

}  // namespace

void append_figure(std::string& out, double value) {
  if (std::isnan(value)) {
    out.append("null");
  } else if (std::isinf(value)) {
    out.append(value > 0 ? "\"inf\"" : "\"-inf\"");
  } else {
    append_short(out, value, 6);
  }
}

bool has_html_detail(const Row& row, bool histograms) {
  if (row.verdict != Verdict::kMatch) return true;
  if (!row.reasons.empty() || !row.cause.empty() || !row.is_tensor) return true;
  if (row.golden.name != row.target.name) return true;
  if (!row.golden.digest.empty() || !row.target.digest.empty()) return true;
  return histograms && row.stats && row.stats->detail;
}

void append_html_detail(const Row& row, std::string& out) {
  JsonScope object(out, '{');
  append_reasons(object.key("reasons"), row);
  const ErrorStats* stats = row.stats.get();
  append_side(object.key("golden"), row.golden,
              stats ? &stats->golden : nullptr);
  append_side(object.key("target"), row.target,
              stats ? &stats->target : nullptr);
  object.text_unless_empty("cause", likely_text(row.cause));
  if (row.amplification >= 0)
    figure_member(object, "amplification", row.amplification);
  if (stats && stats->count > 0) stats_members(object, row);
}

}  // namespace assay
