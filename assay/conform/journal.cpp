#include "assay/conform/journal.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

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

[[noreturn]] void fail(const std::filesystem::path& path) {
  throw Error(Code::kUnreadable,
              fmt::format("{}: cannot be written: {}", path.string(),
                          std::strerror(errno)));
}

}  // namespace

std::string journal_key(const Manifest& golden, const Manifest& target,
                        const std::string& command) {
  return to_hex(
      hash128(format_manifest(golden) + format_manifest(target) + command));
}

Journal::Journal(const std::filesystem::path& path, bool resume) : path_(path) {
  std::error_code ignored;  // opening says why
  std::filesystem::create_directories(path.parent_path(), ignored);
  if (resume) read();
  file_ = std::fopen(path.c_str(), resume ? "ae" : "we");
  if (!file_) fail(path_);
  // The line that a run died in has no end.
  if (resume && std::fputc('\n', file_) == EOF) fail(path_);
}

Journal::~Journal() { std::fclose(file_); }

void Journal::read() {
  std::ifstream file(path_, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    try {
      const Value document = parse_json(line, path_.string());
      const RunFields fields(document, path_.string());
      ModuleResult module;
      module.module = fields.text("module");
      module.tier = parse_tier(fields.text("tier"));
      CaseResult result = read_case(fields.member("result"), module);
      kept_[fields.text("key")] = std::move(result);
    } catch (const Error&) {
      continue;
    }
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
  line += "}\n";
  const std::lock_guard lock(mutex_);
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() ||
      std::fflush(file_) != 0)
    fail(path_);
}

}  // namespace assay::conform
