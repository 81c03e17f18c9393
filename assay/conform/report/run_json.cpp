#include "assay/conform/report/run_json.h"

#include <cmath>
#include <string>
#include <string_view>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/report/run_view.h"
#include "assay/report/json_object.h"

namespace assay::conform {
namespace {

constexpr int kSchemaVersion = 1;

void figure(JsonScope& object, const JsonKey& name, double value) {
  if (!std::isnan(value)) object.number(name, value);
}

void append_side(std::string& out, const Side& side) {
  JsonScope object(out, '{');
  object.text("implementation", side.implementation);
  object.text("version", side.version);
  object.text("device", side.device);
  object.key("environment").append(to_json(side.environment));
}

void append_counts(std::string& out, const Tally& tally) {
  JsonScope object(out, '{');
  object.integer("match", tally.match);
  object.integer("mismatch", tally.mismatch);
  object.integer("incomplete", tally.incomplete);
  object.integer("empty", tally.empty);
  object.integer("total", tally.total());
}

void append_check(std::string& out, const Check& check) {
  JsonScope object(out, '{');
  object.text("name", check.name);
  object.integer("rank", check.rank);
  object.word("verdict", to_string(check.verdict));
  object.text_unless_empty("standard", check.standard);
  object.text_unless_empty("criterion", check.criterion);
  object.text_unless_empty("text", check.text);
  figure(object, "max_abs", check.max_abs);
  figure(object, "max_rel", check.max_rel);
  figure(object, "norm_l2", check.norm_l2);
  figure(object, "ulp_max", check.ulp_max);
  if (check.index >= 0) object.integer("index", check.index);
}

void append_subject(JsonScope& object, const Case& subject) {
  object.text("case", subject.id);
  object.key("parameters").append(to_json(subject.parameters));
  object.integer("steps", subject.steps);
  object.integer("ranks", subject.ranks);
  // 64 bits do not fit the numbers of every JSON reader.
  object.word("seed", std::to_string(subject.seed));
  if (subject.invalid) object.boolean("invalid", true);
}

}  // namespace

void append_case(std::string& out, const RunResult& run, const CaseResult& c) {
  JsonScope object(out, '{');
  append_subject(object, c.subject);
  object.word("verdict", to_string(c.verdict));
  object.word("ending", to_string(c.ending));
  object.text_unless_empty("message", c.message);
  object.text_unless_empty("log", c.log);
  if (c.verdict != Verdict::kMatch)
    object.text_unless_empty("again", again(run, c));
  object.number("golden_seconds", c.golden_seconds);
  object.number("seconds", c.seconds);
  object.integer("golden_peak_bytes", c.golden_peak_bytes);
  object.integer("peak_bytes", c.peak_bytes);
  if (c.slower != 0) object.number("slower", c.slower);
  JsonScope checks(object.key("checks"), '[');
  for (const Check& check : c.checks) append_check(checks.element(), check);
}

namespace {

void append_worst(JsonScope& object, const ModuleResult& module) {
  const WorstCheck worst = worst_check(module);
  if (!worst.check) return;
  JsonScope member(object.key("worst"), '{');
  member.text("case", worst.subject->subject.id);
  member.text("check", worst.check->name);
  member.integer("rank", worst.check->rank);
  member.word("verdict", to_string(worst.check->verdict));
  figure(member, "norm_l2", worst.check->norm_l2);
  figure(member, "max_abs", worst.check->max_abs);
  figure(member, "ulp_max", worst.check->ulp_max);
}

// One case a line: a run diffs well against another.
void append_module(std::string& out, const RunResult& run,
                   const ModuleResult& module) {
  JsonScope object(out, '{');
  object.text("module", module.module);
  object.word("tier", to_string(module.tier));
  object.word("verdict", to_string(module.verdict));
  append_counts(object.key("counts"), tally(module));
  append_worst(object, module);
  append_json_list(object.key("api"), module.api);
  out.append(",\n \"cases\":[");
  const char* before = "\n  ";
  for (const CaseResult& c : module.cases) {
    append_case(out.append(before), run, c);
    before = ",\n  ";
  }
  out.append("]");
}

void append_names(std::string& out, const std::vector<ApiName>& names) {
  JsonScope array(out, '[');
  for (const ApiName& name : names) {
    JsonScope object(array.element(), '{');
    object.text("name", name.name);
    object.integer("uses", name.uses);
    append_json_list(object.key("guarded_by"), name.guards);
  }
}

void append_api(JsonScope& object, const ApiCoverage& api) {
  JsonScope member(object.key("api"), '{');
  member.integer("total", api.total());
  append_names(member.key("guarded"), api.guarded);
  append_names(member.key("unguarded"), api.unguarded);
  append_json_list(member.key("unknown"), api.unknown);
}

// Everything before the modules.
void append_head(std::string& out, const RunResult& run,
                 const ApiCoverage* api) {
  JsonScope object(out, '{');
  object.word("schema", "assay-conform-run");
  object.integer("schema_version", kSchemaVersion);
  object.word("verdict", to_string(run.verdict));
  append_counts(object.key("counts"), tally(run));
  {
    JsonScope ended(object.key("endings"), '{');
    for (const auto& [ending, count] : endings(run))
      append_int(ended.key_text(to_string(ending)), count);
  }
  object.boolean("interrupted", run.interrupted);
  object.text("began", run.began);
  object.number("seconds", run.seconds);
  object.text("command", run.command);
  object.text("store", run.store);
  append_side(object.key("golden"), run.golden);
  append_side(object.key("target"), run.target);
  append_json_list(object.key("warnings"), run.warnings);
  if (api) append_api(object, *api);
}

}  // namespace

std::string run_json(const RunResult& run, const ApiCoverage* api) {
  std::string out;
  append_head(out, run, api);
  out.back() = ',';  // the object goes on
  out.append("\n\"modules\":[");
  const char* before = "\n";
  for (const ModuleResult& module : run.modules) {
    append_module(out.append(before), run, module);
    before = ",\n";
  }
  return out.append("]}\n");
}

void write_run_json(const RunResult& run, const ApiCoverage* api,
                    const std::filesystem::path& path) {
  AtomicFile file(path);
  file.write(run_json(run, api));
  file.commit();
}

void write_run(const RunResult& run, const std::filesystem::path& path) {
  write_run_json(run, nullptr, path);
}

std::filesystem::path run_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  const std::filesystem::path file = path / "run.json";
  if (!std::filesystem::exists(file, ignored))
    throw Error(Code::kUnreadable,
                printable(path.string()) + ": no run.json in this folder");
  return file;
}

}  // namespace assay::conform
