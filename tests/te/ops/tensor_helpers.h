// Inputs and checks that the tests of attention, the rotary embedding and the
// cache of keys and values share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "assay/base/error.h"
#include "assay/core/philox.h"
#include "assay/core/tensor.h"
#include "assay/numerics/element.h"

namespace assay::te {

inline Tensor normal(DType dtype, Shape shape, std::uint64_t seed,
                     Device device = Device::kCpu) {
  Tensor t = Tensor::empty(dtype, std::move(shape), device);
  PhiloxStream stream(seed);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(dtype, stream.next_normal(), t.mutable_data(), i);
  return t;
}

inline double at(const Tensor& t, std::int64_t i) {
  return load_as_double(t.dtype(), t.view.data, i);
}

// The same tensor on another device, sharing its bytes.
inline Tensor on(Device device, Tensor t) {
  t.device = device;
  return t;
}

// The message of the usage error that `call` throws.
inline std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    return error.what();
  }
  return "no error";
}

}  // namespace assay::te
