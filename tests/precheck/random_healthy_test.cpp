// Healthy draws pass: thousands of Philox's, and torch's own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/precheck/random_call.h"

namespace assay::precheck {
namespace {

// ASSAY_LONG=1 draws fifty times as often.
int draws(int quick) {
  const char* flag = std::getenv("ASSAY_LONG");
  return flag && std::string(flag) == "1" ? 50 * quick : quick;
}

struct Healthy {
  const char* api;
  Law law;
  double a, b;
  const char* first;
  const char* second;
};
constexpr Healthy kHealthy[] = {
    {"Tensor.uniform_", Law::kUniform, 0, 1, "from", "to"},
    {"Tensor.uniform_", Law::kUniform, -0.1, 0.3, "from", "to"},
    {"Tensor.normal_", Law::kNormal, 0, 1, "mean", "std"},
    {"Tensor.normal_", Law::kNormal, 5, 0.02, "mean", "std"},
    {"Tensor.exponential_", Law::kExponential, 1.5, 0, "lambd", nullptr},
    {"Tensor.cauchy_", Law::kCauchy, 0, 1, "median", "sigma"},
    {"Tensor.log_normal_", Law::kLogNormal, 1, 2, "mean", "std"},
    {"Tensor.geometric_", Law::kGeometric, 0.2, 0, "p", nullptr},
    {"Tensor.geometric_", Law::kGeometric, 0.001, 0, "p", nullptr},
};

TEST(RandomHealthy, FillsOfPhilox) {
  std::uint64_t key = 1;
  for (const Healthy& h : kHealthy)
    for (const DType dtype :
         {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
      for (const std::int64_t n : {900, 4096, 20000})
        for (int k = 0; k < draws(n > 10000 ? 4 : 20); ++k) {
          const Tensor device =
              drawn(++key, h.law, h.a, h.b, dtype, {n / 4, 4});
          TestCall call(h.api);
          call.input("0", device);
          call.value(h.first, "float", std::to_string(h.a));
          if (h.second) call.value(h.second, "float", std::to_string(h.b));
          const Judgement result =
              judge_random(call.call(), "output.0", device, device);
          ASSERT_EQ(result.verdict, Verdict::kMatch)
              << h.api << " " << h.a << " " << traits(dtype).name << " " << n
              << " key " << key << ": " << reasons(result);
        }
}

TEST(RandomHealthy, DropoutsOfEveryDtype) {
  std::uint64_t key = 1000;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const double p : {0.1, 0.5, 0.9})
      for (int k = 0; k < draws(60); ++k) {
        const Tensor x = drawn(++key, Law::kNormal, 0, 1, dtype, {50, 100});
        const auto run = [&](std::uint64_t seed) {
          const auto kept = coins(seed, 1 - p, 5000);
          return filled(dtype, {50, 100}, [&](std::int64_t i) {
            return kept[static_cast<std::size_t>(i)]
                       ? load_as_double(dtype, x.view.data, i) / (1 - p)
                       : 0;
          });
        };
        TestCall call("Functional.dropout");
        call.input("0", x).value("p", "float", std::to_string(p));
        const Judgement result =
            judge_random(call.call(), "output.0", run(key), run(key + 500000));
        ASSERT_EQ(result.verdict, Verdict::kMatch)
            << traits(dtype).name << " " << p << " " << reasons(result);
      }
}

TEST(RandomHealthy, IntegersAndPermutations) {
  for (int k = 0; k < draws(100); ++k) {
    Tensor whole = Tensor::empty(DType::kI64, {5000});
    const auto key = static_cast<std::uint64_t>(k);
    random_integers({key, 3}, -7, 200, whole.mutable_data<std::int64_t>(),
                    5000);
    TestCall call("Torch.randint");
    call.value("0", "int", "-7").value("1", "int", "193");
    const Judgement result =
        judge_random(call.call(), "output.0", whole, whole);
    ASSERT_EQ(result.verdict, Verdict::kMatch) << reasons(result);
    random_permutation({key, 4}, whole.mutable_data<std::int64_t>(), 5000);
    const Judgement order = judge_random(TestCall("Torch.randperm").call(),
                                         "output.0", whole, whole);
    ASSERT_EQ(order.verdict, Verdict::kMatch) << reasons(order);
  }
}

}  // namespace
}  // namespace assay::precheck
