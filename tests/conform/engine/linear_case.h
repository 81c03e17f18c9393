// What tests of adapters with linear layers share: a sequence of small numbers
// that is exact in every dtype, and calls with every parameter of a spec.
#pragma once

#include <string>
#include <vector>

#include "tests/conform/engine/run_on.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::conform {

using Numbers = std::vector<double>;
inline constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

// a + b * k / 4 for k = 7 i mod 11 - 5: what the script that made the expected
// values counts with.
inline Tensor pattern(Shape shape, double b = 1, double a = 0) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  Numbers values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(a + b * static_cast<double>(i * 7 % 11 - 5) / 4);
  return te::make_tensor(values, std::move(shape));
}

inline AdapterCall case_of(const char* module, Parameters parameters,
                           TensorMap inputs, int steps = 1) {
  AdapterCall call;
  call.module = module;
  call.parameters = std::move(parameters);
  call.parameters.try_emplace("dtype", "float32");
  call.parameters.try_emplace("recipe", "none");
  call.inputs = std::move(inputs);
  call.steps = steps;
  return call;
}

// Within 2e-6 of the expected values' largest.
inline void expect_values(const AdapterResult& result, const std::string& name,
                          const Numbers& expected, double tolerance = 2e-6) {
  ASSERT_TRUE(result.outputs.count(name)) << name;
  const Numbers found = te::values_of(result.outputs.at(name));
  ASSERT_EQ(found.size(), expected.size()) << name;
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::fabs(v));
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance * largest)
        << name << "[" << i << "]";
}

}  // namespace assay::conform
