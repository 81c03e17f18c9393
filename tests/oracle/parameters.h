// The parameters of a case, read so that none is misread: an absent one, one
// of another type, a word nobody knows and one nobody looked at all fail.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/core/dtype.h"
#include "assay/core/shape.h"

namespace assay::oracle {

// Every error is Error{kUsage} with the file, the parameter, its value and
// what was expected.
class Parameters {
 public:
  struct State;
  // `json` is an object as text; `file` opens every message.
  Parameters(const std::string& file, const std::string& json);

  // False for an absent or null one.
  bool has(std::string_view name) const;
  double number(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::vector<double> numbers(std::string_view name) const;  // a list
  Parameters object(std::string_view name) const;
  std::vector<Parameters> objects(std::string_view name) const;  // a list

  // A word out of those that have a meaning here.
  template <typename T>
  using Words = std::initializer_list<std::pair<std::string_view, T>>;
  template <typename T>
  T choice(std::string_view name, Words<T> words) const {
    std::vector<std::string_view> allowed;
    for (const auto& [word, meaning] : words) allowed.push_back(word);
    return (words.begin() + find(name, allowed))->second;
  }
  DType fp8_format(std::string_view name = "format") const;  // e4m3, e5m2

  // Optional parameters that repeat what the handler does or what the arrays
  // show: present, they must agree.
  void one_of(std::string_view name,
              std::initializer_list<std::string_view> words) const;
  void states(std::string_view name, double value) const;
  void states(std::string_view name, std::int64_t value) const {
    states(name, static_cast<double>(value));
  }
  void states_flag(std::string_view name, bool value) const;
  void states_list(std::string_view name, const Shape& values) const;
  // Remarks that nothing here depends on.
  void describes(std::initializer_list<std::string_view> names) const;

  // Those none of the calls above asked for, "situglu.beta3" for nested ones.
  std::vector<std::string> unread() const;

 protected:
  explicit Parameters(std::shared_ptr<State> state)
      : state_(std::move(state)) {}

 private:
  std::ptrdiff_t find(std::string_view name,
                      const std::vector<std::string_view>& words) const;

  std::shared_ptr<State> state_;
};

}  // namespace assay::oracle
