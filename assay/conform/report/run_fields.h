// The members of a JSON object that a file has, with errors that say where
// they are: "run.json: modules[3].cases[0].seed: expected a text".
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/value.h"

namespace assay::conform {

// A whole file as a value. Throws Error{kUnreadable} where it is absent,
// Error{kRefused} where it is no JSON or longer than 1 GiB.
Value read_json_file(const std::filesystem::path& path);

// Borrows the value. Everything throws Error{kRefused} where a member is
// missing or of another type; `_or` takes an absent one. Texts get back the
// bytes that append_json_string replaced.
class RunFields {
 public:
  RunFields(const Value& object, std::string where);

  const Value* find(const char* name) const;
  std::string text(const char* name) const;
  std::string text_or(const char* name, const char* absent) const;
  std::vector<std::string> texts(const char* name) const;
  bool flag_or(const char* name, bool absent) const;
  std::int64_t integer(const char* name, std::int64_t least,
                       std::int64_t most) const;
  std::int64_t integer_or(const char* name, std::int64_t absent) const;
  // "nan", "inf" and "-inf" too.
  double number(const char* name) const;
  double number_or(const char* name, double absent) const;
  Object object(const char* name) const;
  RunFields member(const char* name) const;
  // Each object of a list.
  void each(const char* name,
            const std::function<void(const RunFields&)>& visit) const;

  [[noreturn]] void wrong(const char* name, const std::string& what) const;

 private:
  const Value& at(const char* name) const;
  std::string path_of(const char* name) const;

  const Value* object_;
  std::string where_;
};

}  // namespace assay::conform
