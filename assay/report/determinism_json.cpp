#include "assay/report/determinism_json.h"

#include "assay/report/determinism_text.h"
#include "assay/report/json_object.h"

namespace assay {
namespace {

constexpr int kSchemaVersion = 1;

void append_integers(std::string& out, const std::vector<std::int64_t>& all) {
  JsonScope array(out, '[');
  for (const std::int64_t one : all) append_int(array.element(), one);
}

void append_first(std::string& out, const DeterminismReport& report) {
  if (!report.first) {
    out.append("null");
    return;
  }
  const DeterminismFinding& first = *report.first;
  JsonScope object(out, '{');
  object.text("kind", to_string(first.kind));
  object.integer("run", first.run);
  object.boolean("before_steps", first.setup);
  object.integer("step", first.step);
  object.integer("rank", first.rank);
  object.text("op", first.op);
  object.text("leaf", first.leaf);
  object.text_unless_empty("dtype", first.dtype);
  if (!first.dtype.empty()) append_integers(object.key("shape"), first.shape);
  object.text("run_1", first.first);
  object.text("other", first.second);
  object.text_unless_empty("figures", first.figures);
  object.text("cause", first.cause);
  object.text_unless_empty("reached", first.reached);
  append_json_list(object.key("call_path"), first.call_path);
  append_json_list(object.key("stack"), first.stack);
}

}  // namespace

std::string determinism_json(const DeterminismReport& report,
                             const std::string& program) {
  std::string out;
  {
    JsonScope object(out, '{');
    object.word("schema", "assay-determinism");
    object.integer("schema_version", kSchemaVersion);
    object.text("verdict", determinism_word(report));
    object.text("program", program);
    object.integer("runs", report.runs);
    append_integers(object.key("steps"), report.steps);
    append_first(object.key("first"), report);
    {
      JsonScope counts(object.key("counts"), '{');
      counts.integer("same", report.counts.match);
      counts.integer("differ", report.counts.differ);
      counts.integer("incomplete", report.counts.incomplete);
      counts.integer("empty", report.counts.empty);
    }
    append_json_list(object.key("warnings"), report.warnings);
    object.boolean("interrupted", report.interrupted);
  }
  return out + "\n";
}

}  // namespace assay
