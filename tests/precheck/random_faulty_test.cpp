// Faulty generators are mismatches, each by the test that is there for it.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/precheck/random_call.h"

namespace assay::precheck {
namespace {

std::string deciding(const Judgement& judgement) {
  if (judgement.verdict != Verdict::kMismatch) return reasons(judgement);
  std::string all;
  for (const Reason& reason : judgement.reasons)
    if (!reason.note) all += reason.criterion + " ";
  return all;
}

bool has(const std::string& all, const std::string& one) {
  return all.find(one + " ") != std::string::npos;
}

// A dropout of 64 x 256 ones-like values, by a mask of (row, column).
struct DropoutCase {
  double p = 0.25;
  Shape shape = {64, 256};
  DType dtype = DType::kF32;
  TestCall call{"Functional.dropout"};
  Tensor x;

  explicit DropoutCase(DType type = DType::kF32) : dtype(type) {
    x = drawn(9, Law::kNormal, 0, 1, dtype, shape);
    call.input("0", x).value("1", "float", "0.25");
  }
  // Dropped where `mask` is 1.
  Tensor run(const std::function<bool(std::int64_t)>& mask,
             double scale = 1 / 0.75) const {
    return filled(dtype, shape, [&](std::int64_t i) {
      return mask(i) ? 0 : scale * load_as_double(dtype, x.view.data, i);
    });
  }
  Tensor healthy(std::uint64_t key, double drop = 0.25,
                 double scale = 1 / 0.75) const {
    const auto mask = coins(key, drop, 64 * 256);
    return run(
        [&](std::int64_t i) { return mask[static_cast<std::size_t>(i)] != 0; },
        scale);
  }
  std::string fault(const Tensor& device) const {
    return deciding(judge_random(call.call(), "output.0", healthy(77), device));
  }
};

TEST(RandomFaulty, Dropout) {
  const DropoutCase c;
  EXPECT_TRUE(has(c.fault(c.healthy(5, 0.5)), "share"));
  EXPECT_TRUE(has(c.fault(c.healthy(5, 0.75)), "share"));
  EXPECT_TRUE(has(c.fault(c.healthy(5, 0.25, 1)), "survivor"));
  EXPECT_TRUE(has(c.fault(c.healthy(5, 0.75, 4)), "survivor"));
  EXPECT_TRUE(has(c.fault(c.healthy(5, 0.25, 1.3334)), "survivor"));
  EXPECT_TRUE(has(c.fault(c.run([](auto) { return false; })), "share"));
  EXPECT_TRUE(has(c.fault(c.run([](auto i) { return i < 4096; })), "blocks"));
  EXPECT_TRUE(
      has(c.fault(c.run([](auto i) { return i % 4 == 0; })), "correlation"));
}

TEST(RandomFaulty, MasksThatAreNotIndependent) {
  const DropoutCase c;
  const auto few = coins(3, 0.25, 16384);
  const auto at = [&](std::int64_t i) {
    return few[static_cast<std::size_t>(i)] != 0;
  };
  // One decision a row, one a column, one for two neighbours, 1024 decisions.
  EXPECT_TRUE(
      has(c.fault(c.run([&](auto i) { return at(i / 256); })), "correlation"));
  EXPECT_TRUE(
      has(c.fault(c.run([&](auto i) { return at(i % 256); })), "correlation"));
  EXPECT_TRUE(
      has(c.fault(c.run([&](auto i) { return at(i / 2); })), "correlation"));
  EXPECT_TRUE(
      has(c.fault(c.run([&](auto i) { return at(i % 1024); })), "repeats"));
  // A period that is no lag.
  EXPECT_TRUE(
      has(c.fault(c.run([&](auto i) { return at(i % 1000); })), "repeats"));
  // The golden's mask in one half.
  const auto gold = coins(77, 0.25, 16384);
  EXPECT_TRUE(has(c.fault(c.run([&](auto i) {
    return i < 8192 ? gold[static_cast<std::size_t>(i)] != 0 : at(i);
  })),
                  "independence"));
}

TEST(RandomFaulty, DropoutsOfHealthyAndSpecialForms) {
  const DropoutCase c;
  const auto verdict = [&](const TestCall& call, const Tensor& device) {
    return judge_random(call.call(), "output.0", c.healthy(77), device).verdict;
  };
  EXPECT_EQ(verdict(c.call, c.healthy(5)), Verdict::kMatch);
  EXPECT_EQ(verdict(c.call, c.healthy(77)), Verdict::kMatch);  // the same mask
  TestCall eval = c.call;
  eval.value("training", "bool", "False");
  EXPECT_FALSE(draws_random(eval.call()));
  EXPECT_TRUE(draws_random(c.call.call()));
  // In evaluation a dropped element is one too many, also of the golden here.
  EXPECT_EQ(judge_random(eval.call(), "output.0", c.x, c.healthy(5)).verdict,
            Verdict::kMismatch);
  EXPECT_EQ(judge_random(eval.call(), "output.0", c.x, c.x).verdict,
            Verdict::kMatch);
  TestCall all = c.call;
  all.value("1", "float", "1.0");
  const Tensor zero = Tensor::zeros(DType::kF32, c.shape);
  EXPECT_EQ(judge_random(all.call(), "output.0", zero, zero).verdict,
            Verdict::kMatch);
  EXPECT_EQ(judge_random(all.call(), "output.0", zero, c.x).verdict,
            Verdict::kMismatch);
}

TEST(RandomFaulty, ZerosOfTheInputAreNoneOfTheMask) {
  // Half the input is zero: twice p of zeros, and healthy.
  TestCall call("Functional.dropout");
  const Tensor x = filled(DType::kF32, {8192}, [](auto i) { return i % 2; });
  call.input("input", x).value("p", "float", "0.25");
  const auto run = [&](std::uint64_t key) {
    const auto mask = coins(key, 0.25, 8192);
    return filled(DType::kF32, {8192}, [&](std::int64_t i) {
      return mask[static_cast<std::size_t>(i)] ? 0 : (i % 2) / 0.75;
    });
  };
  const Judgement good = judge_random(call.call(), "output.0", run(1), run(2));
  EXPECT_EQ(good.verdict, Verdict::kMatch) << reasons(good);
  // All zero: nothing can be told.
  TestCall none("Functional.dropout");
  const Tensor zero = Tensor::zeros(DType::kF32, {8192});
  none.input("0", zero);
  EXPECT_EQ(judge_random(none.call(), "output.0", zero, zero).verdict,
            Verdict::kIncomplete);
}

TEST(RandomFaulty, TooFewSayHowManyWouldDo) {
  TestCall call("Functional.dropout");
  const Tensor x = filled(DType::kF32, {100}, [](auto) { return 1; });
  call.input("0", x).value("p", "float", "0.5");
  const auto mask = coins(4, 0.5, 100);
  const Tensor y = filled(DType::kF32, {100}, [&](std::int64_t i) {
    return mask[static_cast<std::size_t>(i)] ? 2 : 0;
  });
  const Judgement result = judge_random(call.call(), "output.0", y, y);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  ASSERT_FALSE(result.reasons.empty());
  EXPECT_EQ(result.reasons[0].criterion, "too_few");
  EXPECT_EQ(result.reasons[0].bound, 711);
}

TEST(RandomFaulty, ChannelsAreWhole) {
  TestCall call("Functional.dropout2d");
  const Shape shape = {32, 64, 4, 4};
  const Tensor x = filled(DType::kF32, shape, [](auto) { return 3; });
  call.input("0", x).value("p", "float", "0.5");
  const auto run = [&](std::uint64_t key, std::int64_t size) {
    const auto mask = coins(key, 0.5, 32768);
    return filled(DType::kF32, shape, [&](std::int64_t i) {
      return mask[static_cast<std::size_t>(i / size)] ? 6 : 0;
    });
  };
  const Tensor golden = run(1, 16);
  const Judgement good =
      judge_random(call.call(), "output.0", golden, run(2, 16));
  EXPECT_EQ(good.verdict, Verdict::kMatch) << reasons(good);
  EXPECT_TRUE(
      has(deciding(judge_random(call.call(), "output.0", golden, run(2, 1))),
          "channel"));
  // Two channels at a time.
  EXPECT_TRUE(
      has(deciding(judge_random(call.call(), "output.0", golden, run(2, 32))),
          "correlation"));
}

std::string fill_fault(const TestCall& call, const Tensor& device,
                       const Tensor& golden) {
  return deciding(judge_random(call.call(), "output.0", golden, device));
}

TEST(RandomFaulty, Uniforms) {
  const std::int64_t n = 100000;
  const auto u = uniforms(4, n);
  const auto at = [&](std::int64_t i) {
    return u[static_cast<std::size_t>(i)];
  };
  const Tensor golden = drawn(1, Law::kUniform, 0, 1, DType::kF32, {n});
  const TestCall call("Torch.rand");
  const auto fault = [&](const std::function<double(std::int64_t)>& value) {
    return fill_fault(call, filled(DType::kF32, {n}, value), golden);
  };
  EXPECT_TRUE(has(fault([&](auto i) { return i == 5 ? 1 : at(i); }), "range"));
  EXPECT_TRUE(
      has(fault([&](auto i) { return i == 5 ? NAN : at(i); }), "finite"));
  EXPECT_TRUE(has(fault([](auto) { return 0.5; }), "ks"));
  EXPECT_TRUE(has(fault([&](auto i) { return at(i) * 0.98; }), "ks"));
  EXPECT_TRUE(has(fault([&](auto i) { return at(i % 1024); }), "repeats"));
  EXPECT_TRUE(has(fault([&](auto i) { return at(i % 30011); }), "repeats"));
  EXPECT_TRUE(has(fault([&](auto i) { return at(i / 2 * 2); }), "correlation"));
  // Neighbours that are partly the same, uniform all the same.
  EXPECT_TRUE(has(fault([&](auto i) {
                    return std::fmod(at(i) * 0.25 + (i > 0 ? at(i - 1) : 0), 1);
                  }),
                  "correlation"));
  // Ten bits only, in a dtype of 24.
  EXPECT_TRUE(
      has(fault([&](auto i) { return std::floor(at(i) * 64) / 64; }), "ks"));
}

TEST(RandomFaulty, Normals) {
  const std::int64_t n = 1000000;
  const TestCall call("Torch.randn");
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor golden = drawn(1, Law::kNormal, 0, 1, dtype, {n});
    const Tensor wide = drawn(2, Law::kNormal, 0, 1.02, dtype, {n});
    EXPECT_TRUE(has(fill_fault(call, wide, golden), "moments"));
    if (dtype == DType::kF32) {
      const Tensor moved = drawn(2, Law::kNormal, 0.02, 1, dtype, {n});
      EXPECT_TRUE(has(fill_fault(call, moved, golden), "ks"));
      continue;
    }
    const Tensor clipped = filled(dtype, {n}, [&](std::int64_t i) {
      return std::clamp(load_as_double(dtype, golden.view.data, i), -3.0, 3.0);
    });
    EXPECT_EQ(fill_fault(call, clipped, golden), "tails ");
  }
}

TEST(RandomFaulty, NormalsOfTensorParameters) {
  const std::int64_t n = 20000;
  const Tensor mean = filled(DType::kF32, {n}, [](auto i) { return i % 7; });
  const Tensor std = filled(DType::kF32, {n}, [](auto i) { return i % 3; });
  TestCall call("Torch.normal");
  call.input("mean", mean).input("std", std);
  const auto run = [&](std::uint64_t key, double scale) {
    const Tensor z = drawn(key, Law::kNormal, 0, 1, DType::kF32, {n});
    return filled(DType::kF32, {n}, [&](std::int64_t i) {
      return static_cast<double>(i % 7) +
             scale * static_cast<double>(i % 3) * z.data<float>()[i];
    });
  };
  const Judgement good =
      judge_random(call.call(), "output.0", run(1, 1), run(2, 1));
  EXPECT_EQ(good.verdict, Verdict::kMatch) << reasons(good);
  EXPECT_TRUE(has(fill_fault(call, run(2, 1.1), run(1, 1)), "ks"));
  Tensor wrong = run(2, 1);
  wrong.mutable_data<float>()[0] += 1;  // where std is 0
  EXPECT_TRUE(has(fill_fault(call, wrong, run(1, 1)), "fixed"));
}

TEST(RandomFaulty, ExponentialsOfAnotherRate) {
  TestCall call("Tensor.exponential_");
  const Shape shape = {50000};
  call.input("0", Tensor::zeros(DType::kF32, shape)).value("1", "float", "2.0");
  const auto run = [&](double rate) {
    return drawn(3, Law::kExponential, rate, 0, DType::kF32, shape);
  };
  EXPECT_EQ(judge_random(call.call(), "after.input.0", run(2), run(2)).verdict,
            Verdict::kMatch);
  EXPECT_TRUE(has(fill_fault(call, run(1), run(2)), "ks"));
  EXPECT_TRUE(has(fill_fault(call, run(2.1), run(2)), "ks"));
}

TEST(RandomFaulty, Integers) {
  const std::int64_t n = 100000;
  TestCall call("Torch.randint");
  call.value("high", "int", "200");
  Tensor golden = Tensor::empty(DType::kI64, {n});
  random_integers({1, 0}, 0, 200, golden.mutable_data<std::int64_t>(), n);
  const auto fault = [&](const std::function<double(std::int64_t)>& value) {
    return fill_fault(call, filled(DType::kI64, {n}, value), golden);
  };
  const auto u = uniforms(5, n);
  const auto at = [&](std::int64_t i) {
    return u[static_cast<std::size_t>(i)];
  };
  // 8 bits modulo 200: 0 to 55 come twice as often.
  EXPECT_TRUE(has(
      fault([&](auto i) { return std::fmod(std::floor(at(i) * 256), 200); }),
      "ks"));
  EXPECT_TRUE(
      has(fault([&](auto i) { return std::floor(at(i) * 201); }), "range"));
  EXPECT_TRUE(
      has(fault([&](auto i) { return std::floor(at(i) * 199); }), "digits"));
  EXPECT_TRUE(has(fault([&](auto i) { return std::floor(at(i) * 100) * 2; }),
                  "digits"));
}

TEST(RandomFaulty, Permutations) {
  const std::int64_t n = 5000;
  const TestCall call("Torch.randperm");
  Tensor golden = Tensor::empty(DType::kI64, {n});
  random_permutation({1, 0}, golden.mutable_data<std::int64_t>(), n);
  Tensor twice = Tensor::empty(DType::kI64, {n});
  random_permutation({2, 0}, twice.mutable_data<std::int64_t>(), n);
  twice.mutable_data<std::int64_t>()[7] = twice.data<std::int64_t>()[8];
  EXPECT_TRUE(has(fill_fault(call, twice, golden), "permutation"));
  const auto fault = [&](const std::function<double(std::int64_t)>& value) {
    return fill_fault(call, filled(DType::kI64, {n}, value), golden);
  };
  EXPECT_TRUE(has(fault([](auto i) { return i; }), "fixed"));
  // Each half shuffled for itself.
  Tensor halves = Tensor::empty(DType::kI64, {n});
  random_permutation({3, 0}, halves.mutable_data<std::int64_t>(), n / 2);
  random_permutation({4, 0}, halves.mutable_data<std::int64_t>() + n / 2,
                     n / 2);
  for (std::int64_t i = n / 2; i < n; ++i)
    halves.mutable_data<std::int64_t>()[i] += n / 2;
  EXPECT_TRUE(has(fill_fault(call, halves, golden), "bands"));
}

TEST(RandomFaulty, FormsAreExact) {
  const TestCall call("Torch.randn");
  const Tensor golden = drawn(1, Law::kNormal, 0, 1, DType::kF64, {2000});
  EXPECT_TRUE(
      has(fill_fault(call, drawn(2, Law::kNormal, 0, 1, DType::kF32, {1000, 2}),
                     golden),
          "shape"));
  EXPECT_TRUE(has(fill_fault(call, Tensor::zeros(DType::kI64, {2000}), golden),
                  "dtype"));
  // A golden that is no such draw holds nothing.
  const Tensor zeros = Tensor::zeros(DType::kF32, {2000});
  EXPECT_EQ(judge_random(call.call(), "output.0", zeros, zeros).verdict,
            Verdict::kIncomplete);
}

}  // namespace
}  // namespace assay::precheck
