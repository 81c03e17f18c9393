#include "assay/report/history/database.h"

#include <sqlite3.h>

#include <cmath>
#include <limits>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {
namespace {

constexpr int kBusyMilliseconds = 10'000;
constexpr int kMostBytes = 1 << 24;  // of one text

std::string explain(int code, const char* message) {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return "no history: not an SQLite file";
    case SQLITE_CORRUPT:
      return "damaged history: " + std::string(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "history in use by another process for more than 10 s";
    case SQLITE_CANTOPEN:
      return "cannot open the history";
    case SQLITE_READONLY:
      return "history cannot be written";
    case SQLITE_FULL:
      return "history cannot be written: disk full";
    default:
      return "history: " + std::string(message);
  }
}

bool is_content(int code) {
  const int primary = code & 0xff;
  return primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT ||
         primary == SQLITE_MISMATCH || primary == SQLITE_TOOBIG;
}

}  // namespace

Database::Database(const std::filesystem::path& path, bool writable)
    : name_(path.string()) {
  // Absolute: ":memory:" and "" are names that SQLite takes for none.
  const std::string file = std::filesystem::absolute(path).string();
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                    (writable ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(file.c_str(), &db_, flags, nullptr);
  if (code != SQLITE_OK) {
    const std::string why =
        explain(code, db_ ? sqlite3_errmsg(db_) : "out of memory");
    sqlite3_close(db_);
    throw Error(Code::kUnreadable, printable(name_) + ": " + why);
  }
  sqlite3_busy_timeout(db_, kBusyMilliseconds);
  sqlite3_limit(db_, SQLITE_LIMIT_LENGTH, kMostBytes);
  // The file may be anybody's: no functions from its schema, no writes to it.
  sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
}

Database::~Database() { sqlite3_close(db_); }

void Database::fail(int code) const {
  throw Error(
      is_content(code) ? Code::kRefused : Code::kUnreadable,
      printable(name_) + ": " + printable(explain(code, sqlite3_errmsg(db_))));
}

Statement Database::prepare(const char* sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(db_, sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) fail(code);
  return {*this, statement};
}

void Database::execute(const char* sql) const {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Database::integer(const char* sql) const {
  Statement statement = prepare(sql);
  return statement.step() ? statement.integer() : 0;
}

std::int64_t Database::last_row() const {
  return sqlite3_last_insert_rowid(db_);
}

Transaction::Transaction(const Database& db) : db_(db) {
  db_.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    db_.execute("ROLLBACK");
  } catch (const Error&) {
    // SQLite rolls back by itself when the connection closes.
  }
}

void Transaction::commit() {
  db_.execute("COMMIT");
  open_ = false;
}

Statement::Statement(const Database& db, sqlite3_stmt* statement)
    : db_(db), statement_(statement) {}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(std::string_view text) {
  // An empty view may have no address, which would be NULL.
  const char* data = text.empty() ? "" : text.data();
  const int code = sqlite3_bind_text64(statement_, ++bound_, data, text.size(),
                                       SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) db_.fail(code);
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  const int code = sqlite3_bind_int64(statement_, ++bound_, value);
  if (code != SQLITE_OK) db_.fail(code);
  return *this;
}

Statement& Statement::bind(double value) {
  const int code = sqlite3_bind_double(statement_, ++bound_, value);
  if (code != SQLITE_OK) db_.fail(code);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  read_ = 0;
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) db_.fail(code);
  return false;
}

void Statement::run() {
  while (step()) {
  }
  reset();
}

void Statement::reset() {
  sqlite3_reset(statement_);
  bound_ = read_ = 0;
}

std::string Statement::text() {
  const int column = read_++;
  const auto* bytes =
      reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  if (!bytes) return "";
  return {bytes,
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

std::int64_t Statement::integer() {
  return sqlite3_column_int64(statement_, read_++);
}

double Statement::number() {
  const int column = read_++;
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL)
    return std::numeric_limits<double>::quiet_NaN();
  return sqlite3_column_double(statement_, column);
}

}  // namespace assay
