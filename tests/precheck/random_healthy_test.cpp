// Healthy draws pass: thousands of Philox's, and torch's own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "assay/metrics/distribution.h"
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
        for (int k = 0; k < draws(n > 10000 ? 1 : 10); ++k) {
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

// How often each test's p-value is small, which for a true law is at most that
// often: the levels mean what they say.
class Calibration {
 public:
  void add(const Judgement& judgement) {
    for (const Reason& reason : judgement.reasons) {
      if (reason.criterion == "law" || reason.bound == 0) continue;
      Count& count = counts_[reason.criterion];
      ++count.all;
      for (int k = 0; k < 3; ++k) count.below[k] += reason.figure < kLevels[k];
    }
  }
  void check() const {
    for (const auto& [criterion, count] : counts_)
      for (int k = 0; k < 3; ++k) {
        RecordProperty(criterion, k, count);
        EXPECT_GT(binomial_upper(count.below[k], count.all, kLevels[k]), 1e-4)
            << criterion << ": " << count.below[k] << " of " << count.all
            << " below " << kLevels[k];
      }
  }

 private:
  static constexpr double kLevels[] = {1e-1, 1e-2, 1e-3};
  struct Count {
    std::int64_t all = 0;
    std::int64_t below[3] = {};
  };
  static void RecordProperty(const std::string& criterion, int level,
                             const Count& count) {
    testing::Test::RecordProperty(
        criterion + "_" + std::to_string(kLevels[level]),
        std::to_string(count.below[level]) + "/" + std::to_string(count.all));
  }
  std::map<std::string, Count> counts_;
};

TEST(RandomHealthy, LevelsMeanWhatTheySayForDropouts) {
  Calibration calibration;
  std::uint64_t key = 7'000'000;
  for (const double p : {0.02, 0.1, 0.5})
    for (int k = 0; k < draws(300); ++k) {
      TestCall call("Functional.dropout");
      const Shape shape = {40, 100};
      call.input("0", filled(DType::kF32, shape, [](auto) { return 1; }));
      call.value("p", "float", std::to_string(p));
      const auto run = [&] {
        const auto kept = coins(++key, 1 - p, 4000);
        return filled(DType::kF32, shape, [&](std::int64_t i) {
          return kept[static_cast<std::size_t>(i)] / (1 - p);
        });
      };
      calibration.add(judge_random(call.call(), "output.0", run(), run()));
    }
  calibration.check();
}

TEST(RandomHealthy, LevelsMeanWhatTheySayForNumbers) {
  Calibration calibration;
  std::uint64_t key = 9'000'000;
  for (int k = 0; k < draws(300); ++k) {
    const Tensor u = drawn(++key, Law::kUniform, 0, 1, DType::kF32, {1000});
    calibration.add(
        judge_random(TestCall("Torch.rand").call(), "output.0", u, u));
    const Tensor z = drawn(++key, Law::kNormal, 0, 1, DType::kBF16, {1000});
    calibration.add(
        judge_random(TestCall("Torch.randn").call(), "output.0", z, z));
    Tensor whole = Tensor::empty(DType::kI64, {2000});
    random_integers({++key, 3}, 0, 37, whole.mutable_data<std::int64_t>(),
                    2000);
    TestCall call("Torch.randint");
    call.value("0", "int", "37");
    calibration.add(judge_random(call.call(), "output.0", whole, whole));
    random_permutation({key, 4}, whole.mutable_data<std::int64_t>(), 2000);
    calibration.add(judge_random(TestCall("Torch.randperm").call(), "output.0",
                                 whole, whole));
  }
  calibration.check();
}

}  // namespace
}  // namespace assay::precheck
