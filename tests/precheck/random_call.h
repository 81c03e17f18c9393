// Calls as the runner hands them over, and tensors for them.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "assay/kernels/random_fill.h"
#include "assay/numerics/element.h"
#include "assay/precheck/random/judge_random.h"

namespace assay::precheck {

inline Tensor filled(DType dtype, Shape shape,
                     const std::function<double(std::int64_t)>& value) {
  Tensor tensor = Tensor::empty(dtype, std::move(shape));
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    store_from_double(dtype, value(i), tensor.mutable_data(), i);
  return tensor;
}

inline Tensor drawn(std::uint64_t key, Law law, double a, double b, DType dtype,
                    Shape shape) {
  Tensor tensor = Tensor::empty(dtype, std::move(shape));
  random_fill({key, 0}, law, a, b, dtype, tensor.mutable_data(),
              tensor.numel());
  return tensor;
}

// n uniform numbers of double precision.
inline std::vector<double> uniforms(std::uint64_t key, std::int64_t n) {
  std::vector<double> u(static_cast<std::size_t>(n));
  random_fill({key, 1}, Law::kUniform, 0, 1, DType::kF64,
              reinterpret_cast<std::byte*>(u.data()), n);
  return u;
}

inline std::vector<std::uint8_t> coins(std::uint64_t key, double p,
                                       std::int64_t n) {
  std::vector<std::uint8_t> out(static_cast<std::size_t>(n));
  random_bernoulli({key, 2}, p, out.data(), n);
  return out;
}

// A call: {"0", "tensor"} names a tensor added by input(); the others are
// values in the words of traces.
class TestCall {
 public:
  explicit TestCall(std::string api) : api_(std::move(api)) {}
  TestCall& input(const std::string& key, Tensor tensor) {
    const std::string name = "input." + key;
    arguments_[key] = conform::Object{{"tensor", name}};
    inputs_[name] = std::move(tensor);
    return *this;
  }
  TestCall& value(const std::string& key, const std::string& type,
                  const std::string& text) {
    arguments_[key] = conform::Object{{"type", type}, {"value", text}};
    return *this;
  }
  RandomCall call() const { return {api_, &arguments_, &inputs_}; }
  const Tensor& tensor(const std::string& key) const {
    return inputs_.at("input." + key);
  }

 private:
  std::string api_;
  conform::Object arguments_;
  conform::TensorMap inputs_;
};

// Every reason, for messages of tests.
inline std::string reasons(const Judgement& judgement) {
  std::string text(to_string(judgement.verdict));
  for (const Reason& reason : judgement.reasons)
    text += "\n  " + reason.criterion + (reason.note ? " (note): " : ": ") +
            reason.text;
  return text;
}

}  // namespace assay::precheck
