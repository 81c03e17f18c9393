#include "assay/report/runs/runs_json.h"

#include <cmath>

#include "assay/report/json_object.h"
#include "assay/report/runs/run_panel.h"

namespace assay {
namespace {

// Points of a panel: what a screen can show, and what loads at once.
constexpr std::size_t kMostPoints = 6000;

void write_run(std::string& out, const RunLog& log) {
  JsonScope object(out, '{');
  object.text("path", log.path);
  object.integer("steps", static_cast<std::int64_t>(log.steps.size()));
  object.integer("first_step", log.steps.front().step);
  object.integer("last_step", log.steps.back().step);
  JsonScope facts(object.key("facts"), '{');
  for (const auto& [key, value] : log.facts) {
    append_json_string(facts.element(), key);
    out.push_back(':');
    append_json_string(out, value);
  }
}

void write_runs(std::string& out, const std::vector<RunLog>& logs) {
  JsonScope array(out, '[');
  for (const RunLog& log : logs) write_run(array.element(), log);
}

void write_rule(std::string& out, const RunsComparison& c) {
  JsonScope object(out, '{');
  const std::size_t runs = 1 + c.seeds.size();
  object.boolean("there", runs >= kBandRuns);
  object.integer("runs", static_cast<std::int64_t>(runs));
  object.integer("needs", static_cast<std::int64_t>(kBandRuns));
  object.number("deviations", 2 * std::sqrt(1 + 1 / static_cast<double>(runs)));
  object.integer(
      "over_steps",
      static_cast<std::int64_t>(2 * kBandReach * c.options.smooth) + 1);
  object.integer("last_steps",
                 static_cast<std::int64_t>(kBandStreak * c.options.smooth));
}

void write_options(std::string& out, const RunsOptions& o) {
  JsonScope object(out, '{');
  {
    JsonScope judged(object.key("judged"), '[');
    for (const Figure f : o.judged)
      append_json_string(judged.element(), to_string(f));
  }
  object.integer("smooth", static_cast<std::int64_t>(o.smooth));
  object.integer("every", o.every);
  object.integer("from", o.from);
  if (o.to != std::numeric_limits<std::int64_t>::max())
    object.integer("to", o.to);
}

void write_point(JsonScope& parent, const JsonKey& name,
                 const std::optional<RunPoint>& p) {
  if (!p) return;
  JsonScope object(parent.key(name), '{');
  object.integer("step", p->step);
  object.number("reference", p->reference);
  object.number("target", p->target);
  object.number("difference", p->difference());
}

void write_excess(JsonScope& parent, const JsonKey& name,
                  const std::optional<RunExcess>& e) {
  if (!e) return;
  JsonScope object(parent.key(name), '{');
  object.integer("step", e->step);
  object.number("value", e->value);
  object.number("low", e->low);
  object.number("high", e->high);
  object.number("excess", e->excess);
  object.number("deviation", e->deviation);
}

void write_curve(std::string& out, const RunCurve& c) {
  JsonScope object(out, '{');
  object.word("figure", to_string(c.figure));
  object.boolean("judged", c.judged);
  if (c.judged) object.word("verdict", to_string(c.verdict));
  object.text_unless_empty("reason", c.reason);
  object.integer("steps", static_cast<std::int64_t>(c.steps.size()));
  object.integer("only_reference", c.only_reference);
  object.integer("only_target", c.only_target);
  object.integer("unbanded", c.unbanded);
  object.integer("outside", c.outside);
  if (c.band) object.number("allowed", c.allowed);
  write_point(object, "first_difference", c.first_difference);
  write_point(object, "largest_difference", c.largest_difference);
  object.number("doubling_steps", c.doubling_steps);
  write_excess(object, "first_outside", c.first_outside);
  write_excess(object, "leaves_for_good", c.leaves_for_good);
  write_excess(object, "farthest", c.farthest);
  object.number("mean_ratio", c.mean_ratio);
  if (c.steps.empty()) return;
  object.number("last_reference", c.reference.back());
  object.number("last_target", c.target.back());
}

void write_pairs(std::string& out, const RunsComparison& c) {
  JsonScope array(out, '[');
  for (const RunPair& pair : c.pairs) {
    JsonScope object(array.element(), '{');
    object.text("target", c.runs[pair.target].path);
    object.word("verdict", to_string(pair.verdict));
    JsonScope curves(object.key("curves"), '[');
    for (const RunCurve& curve : pair.curves)
      write_curve(curves.element(), curve);
  }
}

void write_comparison(JsonScope& object, const RunsComparison& c) {
  object.word("verdict", to_string(c.verdict));
  write_runs(object.key("runs"), c.runs);
  write_runs(object.key("seeds"), c.seeds);
  write_rule(object.key("band"), c);
  write_options(object.key("options"), c.options);
  write_pairs(object.key("pairs"), c);
  append_json_list(object.key("warnings"), c.warnings);
  object.text("command", c.command);
}

// Nothing for NaN. Seven digits: what a chart can show.
void write_values(std::string& out, const std::vector<double>& values) {
  JsonScope array(out, '[');
  for (const double v : values) {
    std::string& to = array.element();
    if (std::isfinite(v))
      append_short(to, v, 7);
    else
      to.append("null");
  }
}

void write_curves(std::string& out,
                  const std::vector<std::vector<double>>& curves) {
  JsonScope array(out, '[');
  for (const std::vector<double>& curve : curves)
    write_values(array.element(), curve);
}

void write_panel(std::string& out, const RunPanel& panel) {
  JsonScope object(out, '{');
  object.word("figure", to_string(panel.figure));
  object.boolean("judged", panel.judged);
  object.integer("logged", static_cast<std::int64_t>(panel.logged));
  {
    JsonScope steps(object.key("steps"), '[');
    for (const std::int64_t step : panel.steps)
      append_int(steps.element(), step);
  }
  write_curves(object.key("runs"), panel.runs);
  write_curves(object.key("differences"), panel.differences);
  if (panel.low.empty()) return;
  write_values(object.key("low"), panel.low);
  write_values(object.key("high"), panel.high);
}

}  // namespace

std::string runs_json(const RunsComparison& comparison) {
  std::string out;
  {
    JsonScope object(out, '{');
    write_comparison(object, comparison);
  }
  return out + "\n";
}

std::string runs_page_json(const RunsComparison& comparison) {
  std::string out;
  {
    JsonScope object(out, '{');
    write_comparison(object, comparison);
    JsonScope panels(object.key("panels"), '[');
    for (std::size_t i = 0; i < kFigures; ++i) {
      const RunPanel panel =
          run_panel(comparison, static_cast<Figure>(i), kMostPoints);
      if (!panel.steps.empty()) write_panel(panels.element(), panel);
    }
  }
  return out;
}

}  // namespace assay
