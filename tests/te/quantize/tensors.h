// Small tensors for the tests of the quantisers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/core/tensor.h"
#include "assay/numerics/element.h"
#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

inline Tensor tensor_of(DType dtype, const Shape& shape,
                        std::span<const float> values,
                        Device device = Device::kCpu) {
  Tensor t = Tensor::empty(dtype, shape, device);
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, static_cast<double>(values[i]), t.mutable_data(),
                      static_cast<std::int64_t>(i), Overflow::kSpecial);
  return t;
}
inline Tensor f32(const Shape& shape, std::vector<float> values) {
  return tensor_of(DType::kF32, shape, values);
}
inline Tensor normal(DType dtype, const Shape& shape, unsigned seed,
                     float sigma = 3.0f, Device device = Device::kCpu) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(0.0f, sigma);
  std::vector<float> values(static_cast<std::size_t>(*checked_numel(shape)));
  for (float& v : values) v = distribution(random);
  return tensor_of(dtype, shape, values, device);
}

inline std::vector<float> floats(const Tensor& t) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < t.numel(); ++i)
    out.push_back(
        static_cast<float>(load_as_double(t.dtype(), t.view.data, i)));
  return out;
}
inline std::vector<unsigned> codes(const Tensor& t) {
  std::vector<unsigned> out;
  for (std::int64_t i = 0; i < t.numel(); ++i)
    out.push_back(static_cast<unsigned>(load_code(t.dtype(), t.view.data, i)));
  return out;
}

inline void expect_same_bits(const Tensor& a, const Tensor& b,
                             const std::string& what) {
  ASSERT_EQ(a.dtype(), b.dtype()) << what;
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const auto x = a.view.bytes(), y = b.view.bytes();
  EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size()), 0) << what;
}
inline void expect_same_bits(const QuantizedTensor& a, const QuantizedTensor& b,
                             const std::string& what) {
  ASSERT_EQ(a.rowwise.has_value(), b.rowwise.has_value()) << what;
  ASSERT_EQ(a.columnwise.has_value(), b.columnwise.has_value()) << what;
  if (a.rowwise) {
    expect_same_bits(a.rowwise->data, b.rowwise->data, what + " rowwise");
    expect_same_bits(a.rowwise->scale_inv, b.rowwise->scale_inv,
                     what + " rowwise scale");
  }
  if (a.columnwise) {
    expect_same_bits(a.columnwise->data, b.columnwise->data,
                     what + " columnwise");
    expect_same_bits(a.columnwise->scale_inv, b.columnwise->scale_inv,
                     what + " columnwise scale");
  }
}

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace assay::te
