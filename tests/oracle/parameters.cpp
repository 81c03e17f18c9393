#include "tests/oracle/parameters.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "assay/base/error.h"

namespace assay::oracle {

using nlohmann::json;

struct Parameters::State {
  std::string file;
  std::string path;  // "situglu." of a nested object
  json values;
  std::set<std::string, std::less<>> seen = {};
  std::vector<std::shared_ptr<State>> nested = {};
};

namespace {

using State = Parameters::State;

[[noreturn]] void fail(const State& s, std::string_view name,
                       const std::string& what) {
  throw Error(Code::kUsage, s.file + ": parameter \"" + s.path +
                                std::string(name) + "\" " + what);
}

[[noreturn]] void wrong(const State& s, std::string_view name,
                        const std::string& expected) {
  fail(
      s, name,
      "is " + s.values.at(std::string(name)).dump() + ", expected " + expected);
}

const json& at(State& s, std::string_view name, const char* type) {
  s.seen.emplace(name);
  const auto found = s.values.find(std::string(name));
  if (found == s.values.end())
    fail(s, name, std::string("is absent, expected ") + type);
  return *found;
}

Parameters::State child(const State& s, std::string path, const json& values) {
  return {s.file, s.path + std::move(path) + ".", values};
}

std::string quoted(const std::vector<std::string_view>& words) {
  std::string out;
  for (const auto word : words)
    out += (out.empty() ? "\"" : ", \"") + std::string(word) + "\"";
  return words.size() == 1 ? out : "one of " + out;
}

void add_unread(const State& s, std::vector<std::string>& out) {
  for (const auto& [name, value] : s.values.items())
    if (s.seen.find(name) == s.seen.end()) out.push_back(s.path + name);
  for (const auto& nested : s.nested) add_unread(*nested, out);
}

}  // namespace

Parameters::Parameters(const std::string& file, const std::string& text)
    : state_(std::make_shared<State>(State{file, "", json::parse(text)})) {}

bool Parameters::has(std::string_view name) const {
  state_->seen.emplace(name);
  const auto found = state_->values.find(std::string(name));
  return found != state_->values.end() && !found->is_null();
}

double Parameters::number(std::string_view name) const {
  const json& value = at(*state_, name, "a number");
  if (!value.is_number()) wrong(*state_, name, "a number");
  return value.get<double>();
}

std::int64_t Parameters::integer(std::string_view name) const {
  const json& value = at(*state_, name, "a whole number");
  const double number = value.is_number() ? value.get<double>() : 0.5;
  if (number != std::trunc(number) || std::fabs(number) > 0x1p53)
    wrong(*state_, name, "a whole number");
  return static_cast<std::int64_t>(number);
}

bool Parameters::flag(std::string_view name) const {
  const json& value = at(*state_, name, "true or false");
  if (!value.is_boolean()) wrong(*state_, name, "true or false");
  return value.get<bool>();
}

std::string Parameters::text(std::string_view name) const {
  const json& value = at(*state_, name, "text");
  if (!value.is_string()) wrong(*state_, name, "text");
  return value.get<std::string>();
}

std::vector<double> Parameters::numbers(std::string_view name) const {
  const json& value = at(*state_, name, "a list of numbers");
  const auto is_number = [](const json& v) { return v.is_number(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_number))
    wrong(*state_, name, "a list of numbers");
  return value.get<std::vector<double>>();
}

Parameters Parameters::object(std::string_view name) const {
  const json& value = at(*state_, name, "an object");
  if (!value.is_object()) wrong(*state_, name, "an object");
  state_->nested.push_back(
      std::make_shared<State>(child(*state_, std::string(name), value)));
  return Parameters(state_->nested.back());
}

std::vector<Parameters> Parameters::objects(std::string_view name) const {
  const json& value = at(*state_, name, "a list of objects");
  const auto is_object = [](const json& v) { return v.is_object(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_object))
    wrong(*state_, name, "a list of objects");
  std::vector<Parameters> out;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string path = std::string(name) + "." + std::to_string(i);
    state_->nested.push_back(
        std::make_shared<State>(child(*state_, path, value[i])));
    out.push_back(Parameters(state_->nested.back()));
  }
  return out;
}

std::ptrdiff_t Parameters::find(
    std::string_view name, const std::vector<std::string_view>& words) const {
  const std::string word = text(name);
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) wrong(*state_, name, quoted(words));
  return found - words.begin();
}

DType Parameters::fp8_format(std::string_view name) const {
  return choice<DType>(name,
                       {{"e4m3", DType::kE4M3FN}, {"e5m2", DType::kE5M2}});
}

void Parameters::one_of(std::string_view name,
                        std::initializer_list<std::string_view> words) const {
  if (has(name)) find(name, words);
}

void Parameters::states(std::string_view name, double value) const {
  if (has(name) && number(name) != value)
    wrong(*state_, name, json(value).dump());
}

void Parameters::states_flag(std::string_view name, bool value) const {
  if (has(name) && flag(name) != value)
    wrong(*state_, name, value ? "true" : "false");
}

void Parameters::states_list(std::string_view name, const Shape& values) const {
  if (!has(name)) return;
  const std::vector<double> stated = numbers(name);
  if (!std::equal(stated.begin(), stated.end(), values.begin(), values.end()))
    wrong(*state_, name, to_string(values));
}

void Parameters::describes(
    std::initializer_list<std::string_view> names) const {
  for (const auto name : names) state_->seen.emplace(name);
}

std::vector<std::string> Parameters::unread() const {
  std::vector<std::string> out;
  add_unread(*state_, out);
  return out;
}

}  // namespace assay::oracle
