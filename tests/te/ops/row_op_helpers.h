// Inputs and checks that the tests of norms, activations, softmax and dropout
// share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/core/tensor.h"
#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"

namespace assay::te {

inline Tensor make_tensor(const std::vector<double>& values, Shape shape,
                          DType dtype = DType::kF32,
                          Device device = Device::kCpu) {
  Tensor t = Tensor::empty(dtype, std::move(shape), device);
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, values[i], t.mutable_data(),
                      static_cast<std::int64_t>(i));
  return t;
}

inline Tensor normal_tensor(Shape shape, DType dtype, std::uint64_t seed,
                            Device device = Device::kCpu, double scale = 1) {
  Tensor t = Tensor::empty(dtype, std::move(shape), device);
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0, scale);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, normal(rng), t.mutable_data(), i);
  return t;
}

inline std::vector<double> values_of(const Tensor& t) {
  const Tensor flat = contiguous(t);
  std::vector<double> values(static_cast<std::size_t>(t.numel()));
  load_as_doubles(t.dtype(), flat.data<std::byte>(), 0, t.numel(),
                  values.data());
  return values;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.view.data, b.view.data, a.view.bytes().size()) == 0;
}

// The same tensor on another device, sharing its bytes.
inline Tensor on(Device device, Tensor t) {
  t.device = device;
  return t;
}

// A transposed copy seen through strides as the original: not contiguous.
inline Tensor strided_like(const Tensor& t) {
  const std::int64_t rows = t.shape()[0], columns = t.shape()[1];
  Tensor turned = Tensor::empty(t.dtype(), {columns, rows}, t.device);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      store_code(t.dtype(),
                 load_code(t.dtype(), t.data<std::byte>(), r * columns + c),
                 turned.mutable_data(), c * rows + r);
  turned.view.shape = {rows, columns};
  turned.view.strides = {1, rows};
  return turned;
}

inline void expect_close(const Tensor& ours, const Tensor& theirs, double rtol,
                         double atol, const std::string& what) {
  ASSERT_EQ(ours.shape(), theirs.shape()) << what;
  const auto a = values_of(ours), b = values_of(theirs);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    ASSERT_LE(std::fabs(a[i] - b[i]), atol + rtol * std::fabs(b[i]))
        << what << " at " << i << ": " << a[i] << " against " << b[i];
  }
}

// d/dx of sum(weights * f(x)) by central differences of step 2^-7, f32 x,
// against `gradient`.
inline void expect_gradient(const std::function<Tensor(const Tensor&)>& f,
                            const Tensor& x, const Tensor& weights,
                            const Tensor& gradient, double tolerance,
                            const std::string& what) {
  constexpr double kStep = 0x1p-7;
  const auto loss = [&](const Tensor& at) {
    const auto y = values_of(f(at)), w = values_of(weights);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * w[i];
    return sum;
  };
  const auto values = values_of(x), grads = values_of(gradient);
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto up = values, down = values;
    up[i] = static_cast<float>(values[i] + kStep);
    down[i] = static_cast<float>(values[i] - kStep);
    const double slope =
        (loss(make_tensor(up, x.shape(), DType::kF32, x.device)) -
         loss(make_tensor(down, x.shape(), DType::kF32, x.device))) /
        (up[i] - down[i]);
    ASSERT_NEAR(grads[i], slope, tolerance) << what << " at " << i;
  }
}

// The message of the Error that `call` throws; a failure where it does not.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error thrown";
  return "";
}

// Calls f with one thread and with four and expects the same bits.
template <typename F>
void expect_thread_invariance(const F& f, const std::string& what) {
  set_thread_count(1);
  const std::vector<Tensor> one = f();
  set_thread_count(4);
  const std::vector<Tensor> four = f();
  set_thread_count(0);
  ASSERT_EQ(one.size(), four.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(same_bits(one[i], four[i])) << what << " result " << i;
}

}  // namespace assay::te
