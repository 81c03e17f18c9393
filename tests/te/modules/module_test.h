// What tests of modules share: inputs, recipes, and the distance to the fp64
// reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "assay/core/philox.h"
#include "assay/numerics/element.h"
#include "assay/te/modules/autocast.h"
#include "assay/te/modules/module.h"

namespace assay::te {

inline Tensor normal_tensor(DType dtype, Shape shape, std::uint64_t seed,
                            double sigma = 1) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  PhiloxStream random(seed);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, sigma * random.next_normal(), t.mutable_data(), i);
  return t;
}

inline Tensor filled(DType dtype, Shape shape,
                     const std::vector<double>& values) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, values[static_cast<std::size_t>(i)],
                      t.mutable_data(), i);
  return t;
}

inline double at(const Tensor& t, std::int64_t i) {
  return load_as_double(t.dtype(), contiguous(t).view.data, i);
}

// The same bytes on the reference device: fp64 plain loops.
inline Tensor on_reference(Tensor t) {
  t.device = Device::kReference;
  return t;
}

// Copies the parameters of one module into another of the same shape.
inline void copy_parameters(Module& from, Module& to) {
  const auto source = from.parameters(), target = to.parameters();
  ASSERT_EQ(source.size(), target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    ASSERT_EQ(source[i].name, target[i].name);
    const Tensor& values = *source[i].parameter->value;
    Tensor& copy = *target[i].parameter->value;
    std::memcpy(copy.mutable_data(), values.view.data,
                values.view.bytes().size());
  }
}

// ||a - b|| / ||b||; 0 where both are zero.
inline double distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < b.numel(); ++i) {
    const double e = at(b, i), d = at(a, i) - e;
    difference += d * d;
    norm += e * e;
  }
  if (difference == 0) return 0;
  return std::sqrt(difference / norm);
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor x = contiguous(a), y = contiguous(b);
  const auto p = x.view.bytes(), q = y.view.bytes();
  return std::equal(p.begin(), p.end(), q.begin(), q.end());
}

struct NamedRecipe {
  std::string name;
  Recipe recipe;
  // The error of one quantised operand, relative, root mean square: what a
  // code that rounds the other way after an intermediate ulp may cost.
  double operand_error;
};

inline std::vector<NamedRecipe> all_recipes() {
  recipe::DelayedScaling delayed;
  delayed.amax_history_len = 4;
  return {{"delayed", delayed, 0.03},
          {"current", recipe::Float8CurrentScaling{}, 0.03},
          {"block", recipe::Float8BlockScaling{}, 0.03},
          {"mxfp8", recipe::MXFP8BlockScaling{}, 0.03},
          {"nvfp4", recipe::NVFP4BlockScaling{}, 0.12}};
}

}  // namespace assay::te
