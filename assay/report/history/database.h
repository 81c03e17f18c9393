// SQLite as this folder uses it: errors as exceptions, values only by binding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace assay {

class Statement;

class Database {
 public:
  // Throws Error naming the file.
  Database(const std::filesystem::path& path, bool writable);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Statement prepare(const char* sql) const;
  void execute(const char* sql) const;          // of ours: no values in it
  std::int64_t integer(const char* sql) const;  // the first of its first row
  std::int64_t last_row() const;
  const std::string& name() const { return name_; }
  [[noreturn]] void fail(int code) const;

 private:
  std::string name_;
  sqlite3* db_ = nullptr;
};

// Holds the write lock; rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(const Database& db);
  ~Transaction();
  void commit();

 private:
  const Database& db_;
  bool open_ = true;
};

// Values are bound and read from left to right.
class Statement {
 public:
  Statement(const Database& db, sqlite3_stmt* statement);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t value);
  Statement& bind(double value);  // NaN is NULL

  bool step();   // true: there is a row to read
  void run();    // to its end, then ready to be bound again
  void reset();  // ready to be bound again

  std::string text();
  std::int64_t integer();
  double number();  // NaN for NULL

 private:
  const Database& db_;
  sqlite3_stmt* statement_;
  int bound_ = 0, read_ = 0;
};

}  // namespace assay
