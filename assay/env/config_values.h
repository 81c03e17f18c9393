// A flat map that grows while a file of any format is read.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "assay/env/snapshot.h"

namespace assay::env {

class ConfigValues {
 public:
  explicit ConfigValues(std::string source);

  // Throws Error{kRefused} beyond 100,000 values.
  void add(std::string_view key, Value value, int line = 0);
  std::map<std::string, Value> take() { return std::move(values_); }
  const std::string& source() const { return source_; }
  [[noreturn]] void refuse(const std::string& what, int line = 0) const;

 private:
  std::map<std::string, std::string> written_;  // by key, as it stands
  std::map<std::string, Value> values_;
  std::string source_, name_;
};

// "parent.key", or what there is of them.
std::string under(std::string_view parent, std::string_view key);

// What a plain scalar of YAML, INI or Python's repr stands for: true, None,
// 1e-4, text; quotes are taken off.
Value plain_value(std::string_view text);

// Parts of one file format.
void read_json_config(std::string_view text, ConfigValues& values);
void read_yaml_config(std::string_view text, ConfigValues& values);
void read_ini_config(std::string_view text, ConfigValues& values);
// False where the text has none.
bool read_namespace(std::string_view text, ConfigValues& values);
bool read_argument_lines(std::string_view text, ConfigValues& values);

}  // namespace assay::env
