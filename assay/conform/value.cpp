#include "assay/conform/value.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::conform {
namespace {

constexpr int kMaxDepth = 64;

[[noreturn]] void wrong(const Value& value, std::string_view wanted) {
  throw Error(Code::kUsage, fmt::format("{}: expected {}",
                                        printable(to_json(value)), wanted));
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

// Shortest text that reads back as the same double, never an integer's.
std::string number_text(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void append(const Value& value, std::string& out) {
  if (value.is_null()) {
    out += "null";
  } else if (value.is_bool()) {
    out += value.boolean() ? "true" : "false";
  } else if (value.is_integer()) {
    out += std::to_string(value.integer());
  } else if (value.is_number()) {
    out += number_text(value.number());
  } else if (value.is_text()) {
    out += quoted(value.text());
  } else if (value.is_list()) {
    const char* before = "[";
    for (const Value& item : value.list()) {
      out += before;
      append(item, out);
      before = ", ";
    }
    out += value.list().empty() ? "[]" : "]";
  } else {
    const char* before = "{";
    for (const auto& [key, member] : value.object()) {
      out += before + quoted(key) + ": ";
      append(member, out);
      before = ", ";
    }
    out += value.object().empty() ? "{}" : "}";
  }
}

// Builds values from the parser's events: unlike its document it sees keys
// that are there twice, and a depth before it is reached.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  Value result;
  std::string problem;

  bool null() override { return put(Value()); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override {
    return put(std::int64_t{value});
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > INT64_MAX)
      return fail(fmt::format("number {} beyond 64 bit", value));
    return put(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (!std::isfinite(value) || text.find_first_of(".eE") == std::string::npos)
      return fail("number " + printable(text) + " beyond 64 bit");
    return put(double{value});
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return fail("binary data"); }
  bool start_object(std::size_t) override { return open(Object()); }
  bool start_array(std::size_t) override { return open(List()); }
  bool key(string_t& name) override {
    keys_.back() = std::move(name);
    if (stack_.back().find(keys_.back()))
      return fail("key " + printable(keys_.back()) + " is there twice");
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    return fail(fmt::format("no JSON at byte {}", position));
  }

 private:
  bool fail(std::string why) {
    if (problem.empty()) problem = std::move(why);
    return false;
  }
  bool open(Value container) {
    if (stack_.size() >= kMaxDepth)
      return fail(fmt::format("deeper than {} levels", kMaxDepth));
    stack_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    Value done = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    return put(std::move(done));
  }
  bool put(Value value) {
    if (stack_.empty()) {
      result = std::move(value);
    } else if (stack_.back().is_list()) {
      stack_.back().list().push_back(std::move(value));
    } else {
      stack_.back().object().emplace(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  std::vector<Value> stack_;
  std::vector<std::string> keys_;
};

}  // namespace

bool Value::boolean() const {
  if (!is_bool()) wrong(*this, "true or false");
  return std::get<bool>(data_);
}

std::int64_t Value::integer() const {
  if (!is_integer()) wrong(*this, "an integer");
  return std::get<std::int64_t>(data_);
}

double Value::number() const {
  if (is_integer()) return static_cast<double>(integer());
  if (!holds<double>()) wrong(*this, "a number");
  return std::get<double>(data_);
}

const std::string& Value::text() const {
  if (!is_text()) wrong(*this, "a word");
  return std::get<std::string>(data_);
}

const List& Value::list() const {
  if (!is_list()) wrong(*this, "a list");
  return std::get<List>(data_);
}

const Object& Value::object() const {
  if (!is_object()) wrong(*this, "an object");
  return std::get<Object>(data_);
}

List& Value::list() { return const_cast<List&>(std::as_const(*this).list()); }

Object& Value::object() {
  return const_cast<Object&>(std::as_const(*this).object());
}

const Value* Value::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const Object& members = std::get<Object>(data_);
  const auto found = members.find(std::string(key));
  return found == members.end() ? nullptr : &found->second;
}

std::string to_json(const Value& value) {
  std::string out;
  append(value, out);
  return out;
}

Value parse_json(std::string_view text, std::string_view origin) {
  Builder builder;
  if (nlohmann::json::sax_parse(text, &builder)) return builder.result;
  throw Error(Code::kRefused,
              fmt::format("{}: {}", printable(origin), builder.problem));
}

}  // namespace assay::conform
