// What holds for any shape: norms forget a power of two, dropout's mask is a
// function of the index, softmax of its row alone.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "assay/te/ops/activation.h"
#include "assay/te/ops/dropout.h"
#include "assay/te/ops/norm.h"
#include "assay/te/ops/softmax.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

constexpr DType kF32 = DType::kF32;

Shape any_shape() {
  return {*rc::gen::inRange<std::int64_t>(1, 5),
          *rc::gen::inRange<std::int64_t>(1, 200)};
}

// Multiplying by 2^k moves exponents alone: with eps 0 not a bit of z moves.
TEST(RowProperties, ANormForgetsAPowerOfTwo) {
  EXPECT_TRUE(rc::check([] {
    const Shape shape = any_shape();
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const double power = std::ldexp(1.0, *rc::gen::inRange(-20, 20));
    const Tensor gamma = normal_tensor({shape[1]}, kF32, seed + 1);
    NormOptions options;
    options.eps = 0;
    const auto a =
        rmsnorm_forward(normal_tensor(shape, kF32, seed), gamma, options);
    auto scaled = values_of(normal_tensor(shape, kF32, seed));
    for (double& v : scaled) v *= power;
    const auto b = rmsnorm_forward(make_tensor(scaled, shape), gamma, options);
    // rsigma is rounded once from fp64: exact under a power of two.
    RC_ASSERT(same_bits(a.z, b.z));
  }));
}

// The rows of a matrix do not know of each other.
TEST(RowProperties, ARowAloneGivesTheSameBits) {
  EXPECT_TRUE(rc::check([] {
    const Shape shape = any_shape();
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const Tensor x = normal_tensor(shape, DType::kBF16, seed);
    const std::int64_t row = *rc::gen::inRange<std::int64_t>(0, shape[0]);
    Tensor alone = x;
    alone.view.shape = {1, shape[1]};
    alone.view.data += 2 * row * shape[1];
    const Tensor gamma = normal_tensor({shape[1]}, kF32, seed + 1);
    const auto same_row = [&](const Tensor& all, const Tensor& one) {
      return std::memcmp(all.view.data + 2 * row * shape[1], one.view.data,
                         static_cast<std::size_t>(2 * shape[1])) == 0;
    };
    RC_ASSERT(same_row(softmax_forward(x).y, softmax_forward(alone).y));
    RC_ASSERT(same_row(layernorm_forward(x, gamma, gamma).z,
                       layernorm_forward(alone, gamma, gamma).z));
    RC_ASSERT(same_row(activation_forward(Activation::kGelu, x),
                       activation_forward(Activation::kGelu, alone)));
  }));
}

// A longer tensor begins with the mask of a shorter one.
TEST(RowProperties, AMaskIsAFunctionOfTheIndex) {
  EXPECT_TRUE(rc::check([] {
    const auto n = *rc::gen::inRange<std::int64_t>(1, 3000);
    const auto more = *rc::gen::inRange<std::int64_t>(0, 3000);
    const DropoutState state{*rc::gen::arbitrary<std::uint64_t>(),
                             *rc::gen::arbitrary<std::uint32_t>()};
    const float p = static_cast<float>(*rc::gen::inRange(0, 1000)) / 1000.0f;
    const auto a = dropout_forward(Tensor::zeros(kF32, {n}), p, state);
    const auto b = dropout_forward(Tensor::zeros(kF32, {n + more}), p, state);
    RC_ASSERT(std::memcmp(a.mask.view.data, b.mask.view.data,
                          static_cast<std::size_t>(n / 8)) == 0);
  }));
}

}  // namespace
}  // namespace assay::te
