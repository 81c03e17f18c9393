#include "assay/report/json.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/atomic_file.h"
#include "assay/report/json_object.h"
#include "assay/report/json_row.h"
#include "assay/report/ordered_writer.h"
#include "assay/report/row_view.h"

namespace assay {
namespace {

constexpr int kSchemaVersion = 1;

void append_divergence(std::string& out, const Comparison& comparison) {
  if (!comparison.first_divergence) {
    out.append("null");
    return;
  }
  const Divergence& d = *comparison.first_divergence;
  JsonScope object(out, '{');
  object.text("name", d.name);
  object.text("kind", d.kind);
  object.text("reason", d.reason);
  object.text("cause", d.cause);
  object.text("input_note", d.input_note);
  object.integer("row", static_cast<std::int64_t>(d.row));
  if (d.row < comparison.rows.size()) {
    const Row& row = comparison.rows[d.row];
    const Group& group = comparison.groups[row.group];
    object.text("row_name", row.name());
    object.integer("step", group.step);
    object.integer("rank", group.rank);
  }
  append_json_list(object.key("call_path"), d.call_path);
  append_json_list(object.key("stack"), d.stack);
  object.text("again", d.again);
}

void append_counts(std::string& out, const Counts& counts) {
  JsonScope object(out, '{');
  object.integer("match", counts.match);
  object.integer("mismatch", counts.mismatch);
  object.integer("incomplete", counts.incomplete);
  object.integer("empty", counts.empty);
  object.integer("total", counts.total());
  object.integer("born", counts.born);
  object.integer("inherited", counts.inherited);
  object.integer("input_differs", counts.input_differs);
  object.integer("parameter_differs", counts.parameter_differs);
  object.integer("undetermined", counts.undetermined);
}

void append_side(std::string& out, std::string_view path, std::int64_t bytes) {
  JsonScope object(out, '{');
  object.text("path", path);
  object.integer("bytes", bytes);
}

void append_groups(std::string& out, const std::vector<Group>& groups) {
  JsonScope array(out, '[');
  for (const Group& group : groups) {
    JsonScope object(array.element(), '{');
    object.integer("step", group.step);
    object.integer("rank", group.rank);
    object.text("golden_path", group.golden_path);
    object.text("target_path", group.target_path);
    object.integer("ops", static_cast<std::int64_t>(group.ops.size()));
  }
}

// Everything before the rows; the object stays open for them.
std::string head(const Comparison& c) {
  std::string out;
  {
    JsonScope object(out, '{');
    object.integer("schema_version", kSchemaVersion);
    object.text("verdict", to_string(c.verdict));
    append_divergence(object.key("first_divergence"), c);
    append_counts(object.key("counts"), c.counts);
    {
      JsonScope standard(object.key("standard"), '{');
      standard.text("name", c.standard);
      standard.text("source", c.standard_source);
      standard.text("date", c.standard_date);
    }
    append_side(object.key("golden"), c.golden_path, c.golden_bytes);
    append_side(object.key("target"), c.target_path, c.target_bytes);
    object.number("seconds", c.seconds);
    object.boolean("interrupted", c.interrupted);
    append_json_list(object.key("warnings"), c.warnings);
    append_groups(object.key("groups"), c.groups);
  }
  out.pop_back();
  return out + ",\n\"rows\":[\n";
}

// Rows [begin, end), one a line.
void append_rows(const Comparison& comparison, std::int64_t begin,
                 std::int64_t end, std::string& out) {
  const auto count = static_cast<std::int64_t>(comparison.rows.size());
  for (std::int64_t i = begin; i < end; ++i) {
    append_json_row(comparison, comparison.rows[i], out);
    out.append(i + 1 == count ? "\n" : ",\n");
  }
}

constexpr std::string_view kTail = "]}\n";

}  // namespace

void write_json(const Comparison& comparison,
                const std::filesystem::path& path) {
  AtomicFile file(path);
  file.write(head(comparison));
  const auto count = static_cast<std::int64_t>(comparison.rows.size());
  write_ordered(file, count,
                [&](std::int64_t begin, std::int64_t end, std::string& out) {
                  append_rows(comparison, begin, end, out);
                });
  file.write(kTail);
  file.commit();
}

std::string json_text(const Comparison& comparison) {
  std::string text = head(comparison);
  append_rows(comparison, 0, static_cast<std::int64_t>(comparison.rows.size()),
              text);
  return text.append(kTail);
}

}  // namespace assay
