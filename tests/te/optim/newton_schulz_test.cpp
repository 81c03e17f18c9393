// Newton-Schulz: coefficient sets, one step by hand, what it converges to.
#include "assay/te/optim/newton_schulz.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

TEST(NewtonSchulz, SetsCycleOrRepeatTheirLast) {
  const auto simple = newton_schulz_coefficients(3, "simple");
  EXPECT_EQ(simple[2], simple[0]);
  const auto quintic = newton_schulz_coefficients(6);
  EXPECT_EQ(quintic[5], quintic[0]);
  EXPECT_EQ(quintic[4], (NewtonSchulzCoefficients{2.8366, -3.0525, 1.2012}));
  const auto cans = newton_schulz_coefficients(7, "cans");
  EXPECT_EQ(cans[6], cans[4]);
  EXPECT_EQ(newton_schulz_coefficients(9, "polar_express")[8],
            (NewtonSchulzCoefficients{1.875, -1.25, .375}));
  EXPECT_NE(error_of([] {
              newton_schulz_coefficients(1, "x");
            }).find("aol, cans, polar_express, quintic, simple"),
            std::string::npos);
}

// A diagonal matrix stays one: s becomes a s + b s^3 + c s^5.
TEST(NewtonSchulz, ActsOnSingularValues) {
  for (bool tall : {false, true}) {
    Tensor x = tall ? make_tensor({.5, 0, 0, .25, 0, 0}, {3, 2})
                    : make_tensor({.5, 0, 0, 0, .25, 0}, {2, 3});
    newton_schulz(x, {{2, -1.5, .5}});
    const auto f = [](double s) {
      return 2 * s - 1.5 * s * s * s + .5 * std::pow(s, 5);
    };
    const auto v = values_of(x);
    EXPECT_NEAR(v[0], f(.5), 1e-6);
    EXPECT_NEAR(v[tall ? 3 : 4], f(.25), 1e-6);
    EXPECT_EQ(v[1], 0);
  }
}

TEST(NewtonSchulz, TendsToAnOrthogonalMatrix) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Tensor x = normal_tensor({16, 40}, dtype, 1, Device::kCpu, .02);
    newton_schulz(x, newton_schulz_coefficients(12, "polar_express"));
    const auto v = values_of(x);
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t j = 0; j < 16; ++j) {
        double dot = 0;
        for (std::size_t k = 0; k < 40; ++k)
          dot += v[i * 40 + k] * v[j * 40 + k];
        EXPECT_NEAR(dot, i == j ? 1 : 0, dtype == DType::kF32 ? 1e-4 : .02);
      }
  }
}

TEST(NewtonSchulz, StridedEmptyAndThreads) {
  Tensor x = normal_tensor({9, 12}, DType::kF32, 1, Device::kCpu, .1);
  Tensor turned = strided_like(x);
  const auto steps = newton_schulz_coefficients(3);
  newton_schulz(x, steps);
  newton_schulz(turned, steps);
  EXPECT_EQ(values_of(turned), values_of(x));
  Tensor none = Tensor::empty(DType::kF32, {0, 5});
  newton_schulz(none, steps);
  expect_thread_invariance(
      [&] {
        Tensor y = normal_tensor({70, 50}, DType::kF32, 2, Device::kCpu, .05);
        newton_schulz(y, steps);
        return std::vector<Tensor>{y};
      },
      "newton_schulz");
}

}  // namespace
}  // namespace assay::te
