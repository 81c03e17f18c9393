#include "assay/precheck/call_journal.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "assay/base/error.h"
#include "assay/conform/report/run_fields.h"
#include "assay/precheck/row_json.h"

namespace assay::precheck {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHeader = R"({"assay_precheck": 1})";

// Only a folder of ours is written over.
fs::path checked(const fs::path& folder) {
  std::error_code error;
  const fs::path path = folder / "journal.jsonl";
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    throw Error(Code::kUsage,
                fmt::format("{}: a file, expected a folder", folder.string()));
  if (fs::is_directory(folder, error) && !fs::is_empty(folder, error)) {
    std::ifstream file(path, std::ios::binary);
    std::string first;
    while (first.empty() && std::getline(file, first)) continue;
    if (first != kHeader)
      throw Error(Code::kUsage,
                  fmt::format("{}: holds something else than a pre-check; "
                              "--out names another folder",
                              folder.string()));
  }
  return path;
}

}  // namespace

CallJournal::CallJournal(const fs::path& folder, bool resume)
    : log_(checked(folder), resume, [&](const std::string& line) {
        read(line, (folder / "journal.jsonl").string());
      }) {
  std::error_code ignored;
  if (!resume) fs::remove_all(folder / "logs", ignored);
  // Of an earlier run: until this one is over there are no figures.
  fs::remove(folder / "details.csv", ignored);
  if (fs::file_size(folder / "journal.jsonl", ignored) <= 1) log_.add(kHeader);
}

void CallJournal::read(const std::string& line, const std::string& origin) {
  try {
    const conform::Value document = conform::parse_json(line, origin);
    const conform::RunFields fields(document, origin);
    const conform::Value* rows = fields.find("rows");
    if (!rows) return;
    JournalEntry entry;
    entry.rows = rows_from_json(*rows);
    entry.generated = fields.flag_or("generated", false);
    kept_[fields.text("key")] = std::move(entry);
  } catch (const Error&) {
    // Of another version, or cut short: that call is replayed again.
  }
}

std::optional<JournalEntry> CallJournal::take(const std::string& key) {
  const std::lock_guard lock(mutex_);
  auto found = kept_.extract(key);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped());
}

void CallJournal::add(const std::string& key, const JournalEntry& entry) {
  log_.add(
      conform::to_json(conform::Object{{"key", key},
                                       {"generated", entry.generated},
                                       {"rows", rows_to_json(entry.rows)}}));
}

}  // namespace assay::precheck
