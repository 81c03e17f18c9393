#include <cmath>

#include "assay/report/history/history_text.h"
#include "assay/report/json_object.h"

namespace assay {
namespace {

void append_run(std::string& out, const HistoryRun& run) {
  JsonScope object(out, '{');
  object.integer("run", run.number);
  object.text("kind", run.kind);
  object.text("began", run.began);
  object.number("seconds", run.seconds);
  object.word("verdict", to_string(run.verdict));
  object.boolean("interrupted", run.interrupted);
  object.text("golden", run.golden);
  object.text("golden_version", run.golden_version);
  object.text("target", run.target);
  object.text("target_version", run.target_version);
  object.text("command", run.command);
  JsonScope counts(object.key("counts"), '{');
  counts.integer("match", run.match);
  counts.integer("mismatch", run.mismatch);
  counts.integer("incomplete", run.incomplete);
  counts.integer("empty", run.empty);
  counts.integer("total", run.total());
}

void append_entry(std::string& out, const HistoryEntry& entry) {
  JsonScope object(out, '{');
  object.word("verdict", to_string(entry.verdict));
  object.text("how", entry.how);
  if (!std::isnan(entry.figure)) object.number("norm_l2", entry.figure);
  object.number("seconds", entry.seconds);
  object.text_unless_empty("why", entry.why);
}

void append_change(std::string& out, const HistoryChange& c) {
  JsonScope object(out, '{');
  const bool gone = c.change == Change::kGone;
  object.text("change", to_string(c.change));
  object.text("group", gone ? c.before.group : c.after.group);
  object.text("name", gone ? c.before.name : c.after.name);
  if (c.ratio != 0) object.number("ratio", c.ratio);
  if (c.change != Change::kNew) append_entry(object.key("before"), c.before);
  if (!gone) append_entry(object.key("after"), c.after);
}

}  // namespace

std::string runs_json(const std::vector<HistoryRun>& runs) {
  std::string out;
  {
    JsonScope object(out, '{');
    object.word("schema", "assay-history");
    object.integer("schema_version", 1);
    JsonScope list(object.key("runs"), '[');
    for (const HistoryRun& run : runs) append_run(list.element(), run);
  }
  return out + "\n";
}

std::string diff_json(const HistoryDiff& diff) {
  std::string out;
  {
    JsonScope object(out, '{');
    object.word("schema", "assay-history-diff");
    object.integer("schema_version", 1);
    object.word("verdict", to_string(diff.verdict()));
    append_run(object.key("before"), diff.before);
    append_run(object.key("after"), diff.after);
    object.integer("still_failing", diff.still_failing);
    {
      JsonScope groups(object.key("groups_not_run"), '[');
      for (const auto& [group, count] : diff.groups_not_run) {
        JsonScope member(groups.element(), '{');
        member.text("group", group);
        member.integer("entries", count);
      }
    }
    JsonScope changes(object.key("changes"), '[');
    for (const HistoryChange& c : diff.changes)
      append_change(changes.element(), c);
  }
  return out + "\n";
}

}  // namespace assay
