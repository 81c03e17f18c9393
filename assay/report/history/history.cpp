#include "assay/report/history/history.h"

#include <cstdlib>
#include <unordered_map>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/base/text.h"
#include "assay/report/history/database.h"
#include "assay/report/history/history_schema.h"

namespace assay {
namespace {

constexpr const char* kRunColumns =
    "SELECT number, kind, began, golden, target, golden_version, "
    "target_version, command, verdict, interrupted, seconds FROM run ";

Verdict verdict_of(const Database& db, const std::string& word) {
  for (const Verdict verdict : {Verdict::kMatch, Verdict::kMismatch,
                                Verdict::kIncomplete, Verdict::kEmpty})
    if (to_string(verdict) == word) return verdict;
  throw Error(
      Code::kRefused,
      printable(db.name()) + ": damaged history: verdict " + printable(word));
}

HistoryRun read_run(const Database& db, Statement& row) {
  HistoryRun run;
  run.number = row.integer();
  run.kind = row.text();
  run.began = row.text();
  run.golden = row.text();
  run.target = row.text();
  run.golden_version = row.text();
  run.target_version = row.text();
  run.command = row.text();
  run.verdict = verdict_of(db, row.text());
  run.interrupted = row.integer() != 0;
  run.seconds = row.number();
  return run;
}

void count(HistoryRun& run, Verdict verdict, std::int64_t how_many) {
  switch (verdict) {
    case Verdict::kMatch:
      run.match += how_many;
      return;
    case Verdict::kMismatch:
      run.mismatch += how_many;
      return;
    case Verdict::kIncomplete:
      run.incomplete += how_many;
      return;
    case Verdict::kEmpty:
      run.empty += how_many;
  }
}

void read_counts(const Database& db, HistoryRun& run) {
  Statement counts = db.prepare(
      "SELECT verdict, count(*) FROM entry WHERE run = ? GROUP BY verdict");
  counts.bind(run.number);
  while (counts.step()) {
    const Verdict verdict = verdict_of(db, counts.text());
    count(run, verdict, counts.integer());
  }
}

// Tells a run from every other: what it is and when it began.
std::string digest(const HistoryRun& run) {
  std::string all;
  const auto add = [&](std::string_view text) {
    all += std::to_string(text.size()) + ':';
    all += text;
  };
  for (const std::string* text :
       {&run.kind, &run.began, &run.golden, &run.target, &run.golden_version,
        &run.target_version, &run.command})
    add(*text);
  for (const HistoryEntry& entry : run.entries) {
    add(entry.group);
    add(entry.name);
    add(to_string(entry.verdict));
    add(format_double(entry.figure));
  }
  return to_hex(hash128(all));
}

// The id of each text, which is added when it is new.
class Names {
 public:
  explicit Names(const Database& db)
      : db_(db),
        insert_(db.prepare("INSERT OR IGNORE INTO name(text) VALUES(?)")),
        find_(db.prepare("SELECT id FROM name WHERE text = ?")) {}

  std::int64_t id(const std::string& text) {
    const auto found = known_.find(text);
    if (found != known_.end()) return found->second;
    insert_.bind(text).run();
    find_.bind(text);
    if (!find_.step())
      throw Error(Code::kRefused,
                  printable(db_.name()) + ": damaged history: a name is lost");
    const std::int64_t id = find_.integer();
    find_.reset();
    return known_[text] = id;
  }

 private:
  const Database& db_;
  Statement insert_, find_;
  std::unordered_map<std::string, std::int64_t> known_;
};

void add_entries(const Database& db, const HistoryRun& run,
                 std::int64_t number) {
  Names names(db);
  Statement insert = db.prepare(
      "INSERT INTO entry(run, position, module, name, verdict, how, figure, "
      "seconds, why) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
  std::int64_t position = 0;
  for (const HistoryEntry& entry : run.entries)
    insert.bind(number)
        .bind(position++)
        .bind(names.id(entry.group))
        .bind(names.id(entry.name))
        .bind(to_string(entry.verdict))
        .bind(entry.how)
        .bind(entry.figure)
        .bind(entry.seconds)
        .bind(entry.why)
        .run();
}

std::int64_t add_run(const Database& db, const HistoryRun& run,
                     const std::string& key) {
  db.prepare(
        "INSERT INTO run(digest, kind, began, golden, target, golden_version, "
        "target_version, command, verdict, interrupted, seconds) VALUES(?, ?, "
        "?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(key)
      .bind(run.kind)
      .bind(run.began)
      .bind(run.golden)
      .bind(run.target)
      .bind(run.golden_version)
      .bind(run.target_version)
      .bind(run.command)
      .bind(to_string(run.verdict))
      .bind(std::int64_t{run.interrupted})
      .bind(run.seconds)
      .run();
  return db.last_row();
}

void check_there(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return;
  throw Error(Code::kUnreadable,
              printable(path.string()) +
                  ": no history yet: assay history add RUN, or --history");
}

}  // namespace

void count_entries(HistoryRun& run) {
  run.match = run.mismatch = run.incomplete = run.empty = 0;
  for (const HistoryEntry& entry : run.entries) count(run, entry.verdict, 1);
}

History::History(const std::filesystem::path& path, Mode mode) {
  const bool writable = mode == Mode::kWrite;
  if (!writable) check_there(path);
  std::error_code failed;
  if (writable && path.has_parent_path())
    std::filesystem::create_directories(path.parent_path(), failed);
  db_ = std::make_unique<Database>(path, writable);
  prepare_history(*db_, writable);
}

History::~History() = default;

std::filesystem::path History::default_path() {
  if (const char* path = std::getenv("ASSAY_HISTORY"); path && *path)
    return path;
  const char* home = std::getenv("HOME");
  if (!home || !*home)
    throw Error(Code::kUsage,
                "neither ASSAY_HISTORY nor HOME is set: name the history with "
                "--history FILE");
  return std::filesystem::path(home) / ".local/share/assay/history.db";
}

History::Added History::add(const HistoryRun& run) {
  const std::string key = digest(run);
  Transaction transaction(*db_);
  Statement known = db_->prepare("SELECT number FROM run WHERE digest = ?");
  known.bind(key);
  if (known.step()) return {known.integer(), true};
  const std::int64_t number = add_run(*db_, run, key);
  add_entries(*db_, run, number);
  transaction.commit();
  return {number, false};
}

std::vector<HistoryRun> History::runs(std::int64_t most) const {
  Statement rows = db_->prepare(
      (std::string(kRunColumns) + "ORDER BY number DESC LIMIT ?").c_str());
  rows.bind(most);
  std::vector<HistoryRun> runs;
  while (rows.step()) runs.push_back(read_run(*db_, rows));
  for (HistoryRun& run : runs) read_counts(*db_, run);
  return runs;
}

HistoryRun History::run(std::int64_t number) const {
  Statement rows =
      db_->prepare((std::string(kRunColumns) + "WHERE number = ?").c_str());
  rows.bind(number);
  if (!rows.step())
    throw Error(Code::kUsage, printable(db_->name()) + ": no run " +
                                  std::to_string(number) +
                                  ": assay history lists them");
  HistoryRun run = read_run(*db_, rows);
  Statement entries = db_->prepare(
      "SELECT g.text, n.text, verdict, how, figure, seconds, why FROM entry "
      "JOIN name AS g ON g.id = module JOIN name AS n ON n.id = entry.name "
      "WHERE run = ? ORDER BY position");
  entries.bind(number);
  while (entries.step()) {
    HistoryEntry entry;
    entry.group = entries.text();
    entry.name = entries.text();
    entry.verdict = verdict_of(*db_, entries.text());
    entry.how = entries.text();
    entry.figure = entries.number();
    entry.seconds = entries.number();
    entry.why = entries.text();
    run.entries.push_back(std::move(entry));
  }
  count_entries(run);
  return run;
}

std::optional<std::int64_t> History::newest() const {
  const std::int64_t number = db_->integer("SELECT max(number) FROM run");
  if (number == 0) return std::nullopt;
  return number;
}

std::optional<std::int64_t> History::previous(std::int64_t number) const {
  Statement row = db_->prepare(
      "SELECT max(a.number) FROM run AS a JOIN run AS b ON b.number = ? WHERE "
      "a.number < b.number AND a.kind = b.kind AND a.golden = b.golden AND "
      "a.target = b.target");
  row.bind(number);
  if (!row.step()) return std::nullopt;
  const std::int64_t found = row.integer();  // NULL reads as 0
  if (found == 0) return std::nullopt;
  return found;
}

}  // namespace assay
