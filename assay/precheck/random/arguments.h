// Reads the arguments of a call that draws: by place or by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/precheck/random/judge_random.h"

namespace assay::precheck {

// "Tensor.uniform_" -> "uniform", "Aten.native_dropout.default" ->
// "native_dropout", "NPU._npu_dropout" -> "npu_dropout".
std::string random_name(std::string_view api);
// "Tensor.uniform_", "Aten.normal_.default": it fills its first argument.
bool is_in_place(std::string_view api);

// A parameter of a law: one number, or one an element of the output.
struct Parameter {
  double value = 0;
  std::vector<double> each;  // empty: `value` holds for all

  bool constant() const { return each.empty(); }
  double at(std::int64_t i) const {
    return constant() ? value : each[static_cast<std::size_t>(i)];
  }
};

class RandomArguments {
 public:
  explicit RandomArguments(const RandomCall& call) : call_(call) {}

  // The argument of the first name that is given, else the one at `place`
  // (-1: only by name); null where there is none, or it is None.
  const conform::Value* find(int place,
                             std::initializer_list<const char*> names) const;

  // `absent` where it is not given, nullopt where it is no number.
  std::optional<double> number(int place,
                               std::initializer_list<const char*> names,
                               std::optional<double> absent) const;
  std::optional<bool> flag(int place, std::initializer_list<const char*> names,
                           std::optional<bool> absent) const;
  // The tensor of the inputs; null where the argument is none.
  const Tensor* tensor(int place,
                       std::initializer_list<const char*> names) const;
  // A number, or a tensor that is broadcast to `shape`.
  std::optional<Parameter> parameter(int place,
                                     std::initializer_list<const char*> names,
                                     std::optional<double> absent,
                                     const Shape& shape) const;
  // The word of an argument: "fan_in"; `absent` where there is none.
  std::string word(int place, std::initializer_list<const char*> names,
                   std::string_view absent) const;

 private:
  const RandomCall& call_;
};

// Elements in row-major order, as doubles; of complex tensors components.
std::vector<double> elements(const Tensor& tensor);

}  // namespace assay::precheck
