// Faults of operators that choose, or that take their chances from a tensor.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/precheck/random_call.h"

namespace assay::precheck {
namespace {

Verdict verdict(const TestCall& call, const Tensor& golden,
                const Tensor& device) {
  const Judgement result =
      judge_random(call.call(), "output.0", golden, device);
  if (result.verdict == Verdict::kIncomplete) ADD_FAILURE() << reasons(result);
  return result.verdict;
}

TEST(RandomChoice, BernoulliOfChances) {
  const std::int64_t n = 20000;
  const auto p = uniforms(1, n);
  TestCall call("Torch.bernoulli");
  call.input("0", filled(DType::kF32, {n}, [&](auto i) {
               return i % 10 ? p[static_cast<std::size_t>(i)] : i % 20 ? 1 : 0;
             }));
  const Tensor& chances = call.tensor("0");
  const auto run = [&](std::uint64_t key, double bias) {
    const auto u = uniforms(key, n);
    return filled(DType::kF32, {n}, [&](std::int64_t i) {
      const double chance = chances.data<float>()[i];
      return u[static_cast<std::size_t>(i)] < std::pow(chance, 1 + bias);
    });
  };
  EXPECT_EQ(verdict(call, run(2, 0), run(3, 0)), Verdict::kMatch);
  EXPECT_EQ(verdict(call, run(2, 0), run(3, 0.3)), Verdict::kMismatch);
  // p < u in place of u < p: the whole share stays, 1/2 here.
  const auto u = uniforms(5, n);
  const Tensor turned = filled(DType::kF32, {n}, [&](std::int64_t i) {
    const double chance = chances.data<float>()[i];
    return chance == 0 || chance == 1                    ? chance
           : u[static_cast<std::size_t>(i)] < 1 - chance ? 1
                                                         : 0;
  });
  EXPECT_EQ(verdict(call, run(2, 0), turned), Verdict::kMismatch);
  // A one where the chance is 0.
  Tensor one = run(3, 0);
  one.mutable_data<float>()[0] = 1;
  EXPECT_EQ(verdict(call, run(2, 0), one), Verdict::kMismatch);
}

TEST(RandomChoice, PoissonOfRates) {
  const std::int64_t n = 5000;
  TestCall call("Torch.poisson");
  call.input("0", filled(DType::kF32, {n}, [](auto i) { return i % 4; }));
  // The sum of uniforms' products (Knuth 1969).
  const auto run = [&](std::uint64_t key, double factor) {
    const auto u = uniforms(key, n * 32);
    std::size_t at = 0;
    return filled(DType::kF32, {n}, [&](std::int64_t i) {
      double product = 1;
      const double limit = std::exp(-factor * static_cast<double>(i % 4));
      int k = 0;
      while ((product *= u[at++]) > limit) ++k;
      return k;
    });
  };
  EXPECT_EQ(verdict(call, run(2, 1), run(3, 1)), Verdict::kMatch);
  EXPECT_EQ(verdict(call, run(2, 1), run(3, 1.5)), Verdict::kMismatch);
  Tensor half = run(3, 1);
  half.mutable_data<float>()[1] = 0.5;
  EXPECT_EQ(verdict(call, run(2, 1), half), Verdict::kMismatch);
}

TEST(RandomChoice, Multinomial) {
  const std::int64_t rows = 2000, classes = 5;
  TestCall call("Torch.multinomial");
  call.input(
      "0", filled(DType::kF32, {rows, classes}, [](auto i) { return i % 5; }));
  call.value("num_samples", "int", "3");
  const auto run = [&](std::uint64_t key, bool flat) {
    std::vector<double> weights(static_cast<std::size_t>(rows * classes));
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = flat ? (i % 5 ? 1 : 0) : static_cast<double>(i % 5);
    Tensor out = Tensor::empty(DType::kI64, {rows, 3});
    random_choice({key, 0}, {rows, classes, 3, false}, weights.data(),
                  out.mutable_data<std::int64_t>());
    return out;
  };
  const Tensor golden = run(1, false);
  EXPECT_EQ(verdict(call, golden, run(2, false)), Verdict::kMatch);
  EXPECT_EQ(verdict(call, golden, run(2, true)), Verdict::kMismatch);
  const auto changed = [&](std::int64_t value) {
    Tensor out = run(2, false);
    out.mutable_data<std::int64_t>()[1] =
        value < 0 ? out.data<std::int64_t>()[0] : value;
    return verdict(call, golden, out);
  };
  EXPECT_EQ(changed(0), Verdict::kMismatch);   // has no weight
  EXPECT_EQ(changed(5), Verdict::kMismatch);   // is no class
  EXPECT_EQ(changed(-1), Verdict::kMismatch);  // twice
}

TEST(RandomChoice, HardGumbelSoftmax) {
  const std::int64_t rows = 2000;
  TestCall call("Functional.gumbel_softmax");
  call.input("0", filled(DType::kF32, {rows, 4}, [](auto i) { return i % 4; }));
  call.value("2", "bool", "True");
  const auto run = [&](std::uint64_t key, double noise, double one) {
    const auto u = uniforms(key, rows * 4);
    return filled(DType::kF32, {rows, 4}, [&](std::int64_t i) {
      std::int64_t best = i / 4 * 4;
      const auto score = [&](std::int64_t k) {
        return static_cast<double>(k % 4) -
               noise * std::log(-std::log(u[static_cast<std::size_t>(k)]));
      };
      for (std::int64_t k = best + 1; k < i / 4 * 4 + 4; ++k)
        if (score(k) > score(best)) best = k;
      return i == best ? one : 0;
    });
  };
  EXPECT_EQ(verdict(call, run(1, 1, 1), run(2, 1, 1)), Verdict::kMatch);
  EXPECT_EQ(verdict(call, run(1, 1, 1), run(2, 0, 1)), Verdict::kMismatch);
  EXPECT_EQ(verdict(call, run(1, 1, 1), run(2, 1.3, 1)), Verdict::kMismatch);
  EXPECT_EQ(verdict(call, run(1, 1, 1), run(2, 1, 0.9)), Verdict::kMismatch);
}

TEST(RandomChoice, Rrelu) {
  const std::int64_t n = 6000;
  TestCall call("Functional.rrelu");
  call.input("0", drawn(1, Law::kNormal, 0, 1, DType::kBF16, {n}));
  call.value("training", "bool", "True");
  const auto run = [&](std::uint64_t key, double lower, double upper) {
    const auto u = uniforms(key, n);
    return filled(DType::kBF16, {n}, [&](std::int64_t i) {
      const double x =
          load_as_double(DType::kBF16, call.tensor("0").view.data, i);
      const double at = u[static_cast<std::size_t>(i)];
      return x < 0 ? x * (lower + (upper - lower) * at) : x;
    });
  };
  const Tensor golden = run(2, 0.125, 1.0 / 3);
  EXPECT_EQ(verdict(call, golden, run(3, 0.125, 1.0 / 3)), Verdict::kMatch);
  EXPECT_EQ(verdict(call, golden, run(3, 0.2, 0.2)), Verdict::kMismatch);
  EXPECT_EQ(verdict(call, golden, run(3, 0.125, 0.3)), Verdict::kMismatch);
  EXPECT_EQ(verdict(call, golden, run(3, 0.1, 1.0 / 3)), Verdict::kMismatch);
}

TEST(RandomChoice, BitsOfAnNpuMask) {
  const std::int64_t n = 8192;
  TestCall call("NPU._npu_dropout");
  call.input("0", filled(DType::kF16, {n}, [](auto) { return 1; }));
  call.value("1", "float", "0.25");
  const auto run = [&](double keep) {
    const auto kept = coins(3, keep, n);
    return filled(DType::kU8, {n / 8}, [&](std::int64_t i) {
      int byte = 0;
      for (int b = 0; b < 8; ++b)
        byte |= kept[static_cast<std::size_t>(8 * i + b)] << b;
      return byte;
    });
  };
  const auto judge = [&](const Tensor& mask) {
    return judge_random(call.call(), "output.1", run(0.75), mask).verdict;
  };
  EXPECT_EQ(judge(run(0.75)), Verdict::kMatch);
  EXPECT_EQ(judge(run(0.25)), Verdict::kMismatch);
  EXPECT_EQ(judge(run(0.7)), Verdict::kMismatch);
}

TEST(RandomChoice, OperatorsOfNoLaw) {
  const Tensor golden = drawn(1, Law::kNormal, 0, 1, DType::kF32, {4000});
  const Tensor other = drawn(2, Law::kNormal, 0, 1, DType::kF32, {4000});
  const Tensor wide = drawn(2, Law::kNormal, 0, 1.5, DType::kF32, {4000});
  const TestCall call("Torch.binomial");
  EXPECT_EQ(verdict(call, golden, other), Verdict::kMatch);
  EXPECT_EQ(verdict(call, golden, wide), Verdict::kMismatch);
  TestCall attention("Functional.scaled_dot_product_attention");
  EXPECT_FALSE(draws_random(attention.call()));
  attention.value("dropout_p", "float", "0.1");
  EXPECT_TRUE(draws_random(attention.call()));
  EXPECT_EQ(judge_random(attention.call(), "output.0", golden, golden).verdict,
            Verdict::kIncomplete);
}

TEST(RandomChoice, OverloadsOfAtenAreReadAsWhatTheyAre) {
  const Tensor x = drawn(1, Law::kNormal, 3, 2, DType::kF32, {2000});
  const Tensor y = drawn(1, Law::kNormal, 0, 2, DType::kF32, {2000});
  TestCall fill("Aten.normal_.default");
  fill.input("0", x).value("1", "float", "3").value("2", "float", "2");
  EXPECT_EQ(verdict(fill, x, x), Verdict::kMatch);
  EXPECT_EQ(verdict(fill, x, y), Verdict::kMismatch);
  TestCall made("Aten.normal.float_float");
  made.value("0", "float", "3").value("1", "float", "2");
  EXPECT_EQ(verdict(made, x, x), Verdict::kMatch);
  EXPECT_EQ(verdict(made, x, y), Verdict::kMismatch);
  // What was recorded is not what it is filled with: the result alone counts.
  fill.value("1", "float", "0");
  EXPECT_EQ(judge_random(fill.call(), "after.input.0", y, y).verdict,
            Verdict::kMatch);
}

TEST(RandomChoice, ArgumentsThatCannotBeReadAreIncomplete) {
  const Tensor x = drawn(1, Law::kNormal, 0, 1, DType::kF32, {2000});
  const auto judge = [&](const TestCall& call) {
    return judge_random(call.call(), "output.0", x, x).verdict;
  };
  EXPECT_EQ(judge(TestCall("Functional.dropout")), Verdict::kIncomplete);
  TestCall nan("Tensor.normal_");
  nan.value("1", "float", "nan");
  EXPECT_EQ(judge(nan), Verdict::kIncomplete);
  TestCall text("Tensor.uniform_");
  text.value("from", "str", "low");
  EXPECT_EQ(judge(text), Verdict::kIncomplete);
  TestCall chance("Torch.bernoulli");
  chance.input("0", filled(DType::kF32, {2000}, [](auto) { return 2; }));
  EXPECT_EQ(judge(chance), Verdict::kIncomplete);
  EXPECT_EQ(judge(TestCall("Torch.multinomial")), Verdict::kIncomplete);
  const RandomCall bare{"Tensor.exponential_", nullptr, nullptr};
  EXPECT_EQ(judge_random(bare, "output.0", x, x).verdict,
            Verdict::kIncomplete);  // the golden is negative
}

}  // namespace
}  // namespace assay::precheck
