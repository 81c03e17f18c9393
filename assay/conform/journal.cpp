#include "assay/conform/journal.h"

#include <fmt/format.h>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/report/run_json.h"

namespace assay::conform {
namespace {

bool is_final(Ending ending) {
  return ending == Ending::kCompared || ending == Ending::kRefused ||
         ending == Ending::kFailed || ending == Ending::kUnsupported;
}

}  // namespace

std::string journal_key(const Manifest& golden, const Manifest& target,
                        const std::string& command) {
  return to_hex(
      hash128(format_manifest(golden) + format_manifest(target) + command));
}

Journal::Journal(const std::filesystem::path& path, bool resume)
    : log_(path, resume,
           [&](const std::string& line) { read(line, path.string()); }) {}

void Journal::read(const std::string& line, const std::string& origin) {
  try {
    const Value document = parse_json(line, origin);
    const RunFields fields(document, origin);
    ModuleResult module;
    module.module = fields.text("module");
    module.tier = parse_tier(fields.text("tier"));
    CaseResult result = read_case(fields.member("result"), module);
    kept_[fields.text("key")] = std::move(result);
  } catch (const Error&) {
    // Of another version, or cut short.
  }
}

std::optional<CaseResult> Journal::find(const std::string& key) const {
  const auto found = kept_.find(key);
  if (found == kept_.end()) return std::nullopt;
  return found->second;
}

void Journal::add(const std::string& key, const CaseResult& result) {
  if (!is_final(result.ending)) return;
  std::string line =
      fmt::format(R"({{"key": "{}", "module": "{}", "tier": "{}", "result": )",
                  key, result.subject.module, to_string(result.subject.tier));
  append_case(line, RunResult(), result);
  log_.add(line + "}");
}

}  // namespace assay::conform
