// Reads run.json back: a file that anybody may have edited.
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/report/run_json.h"

namespace assay::conform {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// The word of an enumeration whose words to_string has.
template <class Enum, std::size_t N>
Enum word(const RunFields& fields, const char* name, const Enum (&all)[N]) {
  const std::string& text = fields.text(name);
  for (const Enum value : all)
    if (to_string(value) == text) return value;
  fields.wrong(name, "is no word of this field: " + printable(text));
}

Verdict verdict_of(const RunFields& fields) {
  return word(fields, "verdict",
              {Verdict::kMatch, Verdict::kMismatch, Verdict::kIncomplete,
               Verdict::kEmpty});
}

Ending ending_of(const RunFields& fields) {
  return word(fields, "ending",
              {Ending::kCompared, Ending::kRefused, Ending::kFailed,
               Ending::kUnsupported, Ending::kCrashed, Ending::kTimeout,
               Ending::kMemory, Ending::kGarbage, Ending::kStale,
               Ending::kMissing, Ending::kNotRun});
}

Side side_of(const RunFields& fields) {
  return {fields.text("implementation"), fields.text("version"),
          fields.text("device"), fields.object("environment")};
}

Check check_of(const RunFields& fields) {
  Check check;
  check.name = fields.text("name");
  check.rank = static_cast<int>(fields.integer("rank", -1, 1 << 20));
  check.verdict = verdict_of(fields);
  check.standard = fields.text_or("standard", "");
  check.criterion = fields.text_or("criterion", "");
  check.text = fields.text_or("text", "");
  check.max_abs = fields.number_or("max_abs", kNaN);
  check.max_rel = fields.number_or("max_rel", kNaN);
  check.norm_l2 = fields.number_or("norm_l2", kNaN);
  check.ulp_max = fields.number_or("ulp_max", kNaN);
  check.index = fields.integer_or("index", -1);
  return check;
}

std::uint64_t seed_of(const RunFields& fields) {
  const std::string& text = fields.text("seed");
  std::uint64_t seed = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    fields.wrong("seed", "is no number of 64 bit: " + printable(text));
  return seed;
}

Case subject_of(const RunFields& fields, const ModuleResult& module) {
  Case subject;
  subject.module = module.module;
  subject.tier = module.tier;
  subject.id = fields.text("case");
  subject.parameters = fields.object("parameters");
  subject.steps = static_cast<int>(fields.integer("steps", 0, 1 << 30));
  subject.ranks = static_cast<int>(fields.integer("ranks", 0, 1 << 20));
  subject.seed = seed_of(fields);
  subject.invalid = fields.flag_or("invalid", false);
  return subject;
}

// Where a case claims more than its checks bear: a match or nothing but empty
// tensors beside a check that says worse, a match without one.
void check_borne(const RunFields& fields, const CaseResult& result) {
  const bool claims = result.verdict == Verdict::kMatch;
  if (!claims && result.verdict != Verdict::kEmpty) return;
  bool borne = result.subject.invalid && result.checks.empty();
  for (const Check& check : result.checks) {
    if (check.verdict != Verdict::kMatch && check.verdict != Verdict::kEmpty)
      fields.wrong("verdict", fmt::format("{}, but its check {} is none",
                                          to_string(result.verdict),
                                          printable(check.name)));
    borne |= check.verdict == Verdict::kMatch;
  }
  if (claims && !borne)
    fields.wrong("verdict", "match, but none of its checks is one");
}

double seconds_of(const RunFields& fields, const char* name) {
  const double seconds = fields.number(name);
  if (!(seconds >= 0)) fields.wrong(name, "is negative or no number");
  return seconds;
}

}  // namespace

CaseResult read_case(const RunFields& fields, const ModuleResult& module) {
  CaseResult result;
  result.subject = subject_of(fields, module);
  result.verdict = verdict_of(fields);
  result.ending = ending_of(fields);
  if (result.verdict == Verdict::kMatch && result.ending != Ending::kCompared)
    fields.wrong("verdict", "match, but the case was not compared");
  result.message = fields.text_or("message", "");
  result.log = fields.text_or("log", "");
  result.golden_seconds = seconds_of(fields, "golden_seconds");
  result.seconds = seconds_of(fields, "seconds");
  result.golden_peak_bytes =
      fields.integer("golden_peak_bytes", 0, std::int64_t{1} << 60);
  result.peak_bytes = fields.integer("peak_bytes", 0, std::int64_t{1} << 60);
  result.slower = fields.number_or("slower", 0);
  fields.each("checks", [&](const RunFields& check) {
    result.checks.push_back(check_of(check));
  });
  check_borne(fields, result);
  return result;
}

namespace {

ModuleResult module_of(const RunFields& fields) {
  ModuleResult module;
  module.module = fields.text("module");
  module.tier = word(fields, "tier", {Tier::kSmall, Tier::kReal});
  module.api = fields.texts("api");
  fields.each("cases", [&](const RunFields& c) {
    module.cases.push_back(read_case(c, module));
  });
  return module;
}

// A case that was taken out is missed.
void check_counts(const RunFields& counts, const Tally& found) {
  for (const auto& [name, count] :
       {std::pair("match", found.match), std::pair("mismatch", found.mismatch),
        std::pair("incomplete", found.incomplete),
        std::pair("empty", found.empty)})
    if (counts.integer(name, 0, INT64_MAX) != count)
      counts.wrong(name, fmt::format("is not that of its cases, {}", count));
}

RunResult run_of(const RunFields& fields) {
  if (fields.text("schema") != "assay-conform-run")
    fields.wrong("schema", "expected assay-conform-run");
  if (fields.integer("schema_version", 1, 1 << 30) != 1)
    fields.wrong("schema_version", "expected 1; a newer assay wrote this");
  RunResult run;
  run.golden = side_of(fields.member("golden"));
  run.target = side_of(fields.member("target"));
  run.store = fields.text("store");
  run.command = fields.text("command");
  run.began = fields.text("began");
  run.seconds = seconds_of(fields, "seconds");
  run.interrupted = fields.flag_or("interrupted", false);
  run.warnings = fields.texts("warnings");
  fields.each("modules", [&](const RunFields& module) {
    run.modules.push_back(module_of(module));
  });
  // What its cases say, whatever the file says of itself.
  conclude(run);
  if (run.verdict != verdict_of(fields))
    fields.wrong("verdict", fmt::format("is not that of its cases, {}",
                                        to_string(run.verdict)));
  check_counts(fields.member("counts"), tally(run));
  return run;
}

}  // namespace

RunResult read_run(const std::filesystem::path& path) {
  const Value document = read_json_file(path);
  return run_of(RunFields(document, path.string()));
}

}  // namespace assay::conform
