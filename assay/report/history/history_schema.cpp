#include "assay/report/history/history_schema.h"

#include <fmt/format.h>

#include <iterator>
#include <string>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {
namespace {

// Step i brings a file of version i to version i + 1; only ever appended to.
// Names and groups repeat from run to run: `name` holds each once.
constexpr const char* kSteps[] = {
    R"(CREATE TABLE run(
         number INTEGER PRIMARY KEY AUTOINCREMENT,
         digest TEXT NOT NULL UNIQUE,
         kind TEXT NOT NULL,
         began TEXT NOT NULL,
         golden TEXT NOT NULL,
         target TEXT NOT NULL,
         golden_version TEXT NOT NULL,
         target_version TEXT NOT NULL,
         command TEXT NOT NULL,
         verdict TEXT NOT NULL,
         interrupted INTEGER NOT NULL,
         seconds REAL NOT NULL);
       CREATE TABLE name(
         id INTEGER PRIMARY KEY,
         text TEXT NOT NULL UNIQUE);
       CREATE TABLE entry(
         run INTEGER NOT NULL REFERENCES run(number),
         position INTEGER NOT NULL,
         module INTEGER NOT NULL REFERENCES name(id),
         name INTEGER NOT NULL REFERENCES name(id),
         verdict TEXT NOT NULL,
         how TEXT NOT NULL,
         figure REAL,
         seconds REAL NOT NULL,
         why TEXT NOT NULL,
         PRIMARY KEY(run, position)) WITHOUT ROWID;)",
};
constexpr auto kVersion = static_cast<std::int64_t>(std::size(kSteps));

[[noreturn]] void refuse(const Database& db, const std::string& why) {
  throw Error(Code::kRefused, printable(db.name()) + ": " + why);
}

// A file of ours holds our tables and nothing that would run by itself.
void check_tables(const Database& db) {
  const std::int64_t ours = db.integer(
      "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN "
      "('run', 'name', 'entry', 'sqlite_sequence')");
  const std::int64_t others = db.integer(
      "SELECT count(*) FROM sqlite_schema WHERE NOT (type = 'table' AND name "
      "IN ('run', 'name', 'entry', 'sqlite_sequence')) AND NOT (type = "
      "'index' AND name LIKE 'sqlite\\_autoindex\\_%' ESCAPE '\\')");
  if (ours != 4 || others != 0)
    refuse(db, "damaged history: it has other tables than an assay history");
}

bool is_empty(const Database& db) {
  return db.integer("SELECT count(*) FROM sqlite_schema") == 0;
}

void check_application(const Database& db) {
  const std::int64_t found = db.integer("PRAGMA application_id");
  if (found == kHistoryApplication) return;
  refuse(db, fmt::format("no history: an SQLite file of another program "
                         "(application id {:#x})",
                         found));
}

void check_version(const Database& db, std::int64_t version) {
  if (version < 1 || version > kVersion)
    refuse(db, fmt::format("history of version {}, expected 1 to {}; a newer "
                           "assay wrote it",
                           version, kVersion));
}

}  // namespace

void prepare_history(const Database& db, bool writable) {
  if (writable) {
    // Readers go on while one writes. Where another process holds the file
    // right now, the mode it has is good enough.
    if (is_empty(db)) try {
        db.execute("PRAGMA journal_mode = WAL");
      } catch (const Error& error) {
        if (error.code() == Code::kRefused) throw;
      }
    Transaction transaction(db);
    std::int64_t version = db.integer("PRAGMA user_version");
    if (!is_empty(db)) {
      check_application(db);
      check_version(db, version);
    } else if (version != 0 || db.integer("PRAGMA application_id") != 0) {
      check_application(db);
      version = 0;
    }
    for (; version < kVersion; ++version) db.execute(kSteps[version]);
    db.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version "
                           "= {}",
                           kHistoryApplication, kVersion)
                   .c_str());
    check_tables(db);
    transaction.commit();
    return;
  }
  if (is_empty(db))
    throw Error(Code::kUnreadable, printable(db.name()) + ": no run yet");
  check_application(db);
  check_version(db, db.integer("PRAGMA user_version"));
  check_tables(db);
}

}  // namespace assay
