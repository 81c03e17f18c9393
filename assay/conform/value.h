// A value as JSON has it: hyperparameters, contract fields, messages.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace assay::conform {

class Value;
using List = std::vector<Value>;
using Object = std::map<std::string, Value>;  // keys in byte order: one text

// Integers and floats are told apart: 1 and 1.0 differ, as a contract needs.
class Value {
 public:
  Value() = default;                                            // null
  Value(bool value) : data_(value) {}                           // NOLINT
  Value(int value) : data_(std::int64_t{value}) {}              // NOLINT
  Value(std::int64_t value) : data_(value) {}                   // NOLINT
  Value(double value) : data_(value) {}                         // NOLINT
  Value(const char* value) : data_(std::string(value)) {}       // NOLINT
  Value(std::string value) : data_(std::move(value)) {}         // NOLINT
  Value(std::string_view value) : data_(std::string(value)) {}  // NOLINT
  Value(List value) : data_(std::move(value)) {}                // NOLINT
  Value(Object value) : data_(std::move(value)) {}              // NOLINT

  bool is_null() const { return holds<std::monostate>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_integer() const { return holds<std::int64_t>(); }
  bool is_number() const { return is_integer() || holds<double>(); }
  bool is_text() const { return holds<std::string>(); }
  bool is_list() const { return holds<List>(); }
  bool is_object() const { return holds<Object>(); }

  // Throw Error{kUsage} that shows the value where it is of another type.
  bool boolean() const;
  std::int64_t integer() const;
  double number() const;  // an integer too
  const std::string& text() const;
  const List& list() const;
  const Object& object() const;
  List& list();
  Object& object();

  // Of an object: null where the key is absent or this is no object.
  const Value* find(std::string_view key) const;

  bool operator==(const Value&) const = default;

 private:
  template <typename T>
  bool holds() const {
    return std::holds_alternative<T>(data_);
  }
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List,
               Object>
      data_;
};

// One line of JSON: keys sorted, floats by their shortest exact text (always
// with a point or an exponent), "nan", "inf" and "-inf" as strings.
std::string to_json(const Value& value);

// Throws Error{kRefused} naming `origin`: no JSON, a key twice, numbers beyond
// 64 bit, deeper than 64 levels, or not UTF-8.
Value parse_json(std::string_view text, std::string_view origin);

using Parameters = Object;  // hyperparameters of a case, by name

}  // namespace assay::conform
