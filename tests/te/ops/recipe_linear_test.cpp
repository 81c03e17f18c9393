// The three products of a linear layer under every recipe: quantise by role,
// multiply, and compare with fp64 products of what the codes decode to, and
// with the products of the tensors themselves.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/te/ops/gemm.h"
#include "assay/te/recipe/recipe_state.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

constexpr std::int64_t kM = 160, kN = 128, kK = 256;

struct Named {
  std::string name;
  Recipe recipe;
  double sqnr_db;  // least signal to noise of a product of normal tensors
};

// Relative rms error of one rounding to m explicit bits is about
// 2^-(m + 1) / sqrt(3): 26.6 dB for e4m3 and 20.6 dB for e5m2 and, with its
// uneven grid, about 19 dB for e2m1 in blocks of 16; a product of two
// independent ones loses 3 dB.
std::vector<Named> recipes() {
  recipe::DelayedScaling delayed;
  recipe::Float8CurrentScaling current;
  recipe::Float8BlockScaling block, block_f32;
  block.use_f32_scales = false;
  block_f32.use_f32_scales = true;
  recipe::MXFP8BlockScaling mx, mx_2d;
  mx_2d.enable_2d_quantization = true;
  recipe::NVFP4BlockScaling fp4, fp4_plain;
  fp4_plain.disable_rht = fp4_plain.disable_stochastic_rounding = true;
  return {{"delayed", delayed, 18}, {"current", current, 18},
          {"block", block, 26},     {"block fp32", block_f32, 26},
          {"mxfp8", mx, 26},        {"mxfp8 2-D", mx_2d, 26},
          {"nvfp4", fp4, 12},       {"nvfp4 plain", fp4_plain, 14}};
}

std::vector<double> values(const Tensor& t) {
  std::vector<double> out(static_cast<std::size_t>(t.numel()));
  load_as_doubles(t.dtype(), t.view.data, 0, t.numel(), out.data());
  return out;
}

// b[m, k] a[n, k]^T with either operand transposed where its flag says so.
struct Product {
  std::vector<double> sum, absolute;
};
Product product(const std::vector<double>& b, bool b_transposed,
                const std::vector<double>& a, bool a_transposed, std::int64_t m,
                std::int64_t n, std::int64_t k) {
  Product p{std::vector<double>(static_cast<std::size_t>(m * n)), {}};
  p.absolute = p.sum;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l) {
        const double term = b[at(b_transposed ? l * m + i : i * k + l)] *
                            a[at(a_transposed ? l * n + j : j * k + l)];
        p.sum[at(i * n + j)] += term;
        p.absolute[at(i * n + j)] += std::fabs(term);
      }
  return p;
}

double sqnr_db(const std::vector<double>& exact, const Tensor& ours) {
  double signal = 0, noise = 0;
  const auto got = values(ours);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    signal += exact[i] * exact[i];
    noise += (got[i] - exact[i]) * (got[i] - exact[i]);
  }
  return 10 * std::log10(signal / noise);
}

// The GEMM adds nothing to the error of the codes: each element is within
// 2^-18 of the sum of magnitudes, whatever the scaling.
void expect_product_of_codes(const Tensor& d, const Product& p,
                             const std::string& what) {
  const auto got = values(d);
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], p.sum[i], 0x1p-18 * p.absolute[i]) << what << ' ' << i;
}

// Columnwise data of a rotated NVFP4 tensor decodes to the rotated values:
// fine, the rotation cancels in the product.
std::vector<double> decoded(const QuantizedData& q, const Shape& shape) {
  return values(dequantize(q, shape, DType::kF32));
}

class RecipeLinear : public testing::TestWithParam<std::size_t> {};

TEST_P(RecipeLinear, ThreeProductsAreThoseOfTheCodes) {
  const Named named = recipes()[GetParam()];
  const Tensor x = normal(DType::kBF16, {kM, kK}, 1, 1.0f);
  const Tensor w = normal(DType::kBF16, {kN, kK}, 2, 0.05f);
  const Tensor dy = normal(DType::kBF16, {kM, kN}, 3, 1e-3f);
  RecipeState forward =
      make_recipe_state(named.recipe, gemm_roles(Direction::kForward, 1));
  RecipeState backward =
      make_recipe_state(named.recipe, gemm_roles(Direction::kBackward, 1));
  // Delayed scaling needs one step to know the magnitudes.
  for (int step = 0; step < 2; ++step) {
    forward.at(0).quantize(x);
    forward.at(1).quantize(w);
    backward.at(0).quantize(dy);
    RecipeState* states[] = {&forward, &backward};
    update_delayed_scaling({&states[0], 1});
    update_delayed_scaling({&states[1], 1});
  }
  const QuantizedTensor qx = forward.at(0).quantize(x);
  const QuantizedTensor qw = forward.at(1).quantize(w);
  const QuantizedTensor qdy = backward.at(0).quantize(dy);

  GemmOptions options;
  options.out_dtype = DType::kF32;
  const Tensor y = gemm_fprop(qx, qw, options).d;
  const Tensor dx = gemm_dgrad(qdy, qw, options).d;
  const Tensor dw = gemm_wgrad(qdy, qx, options).d;

  expect_product_of_codes(
      y,
      product(decoded(*qx.rowwise, x.shape()), false,
              decoded(*qw.rowwise, w.shape()), false, kM, kN, kK),
      named.name + " y");
  expect_product_of_codes(
      dx,
      product(decoded(*qdy.rowwise, dy.shape()), false,
              decoded(*qw.columnwise, w.shape()), true, kM, kK, kN),
      named.name + " dx");
  expect_product_of_codes(
      dw,
      product(decoded(*qdy.columnwise, dy.shape()), true,
              decoded(*qx.columnwise, x.shape()), true, kN, kK, kM),
      named.name + " dw");

  const auto vx = values(x), vw = values(w), vdy = values(dy);
  EXPECT_GT(sqnr_db(product(vx, false, vw, false, kM, kN, kK).sum, y),
            named.sqnr_db);
  EXPECT_GT(sqnr_db(product(vdy, false, vw, true, kM, kK, kN).sum, dx),
            named.sqnr_db);
  EXPECT_GT(sqnr_db(product(vdy, true, vx, true, kN, kK, kM).sum, dw),
            named.sqnr_db);
}

INSTANTIATE_TEST_SUITE_P(Every, RecipeLinear,
                         testing::Range(std::size_t{0}, std::size_t{8}),
                         [](const auto& info) {
                           std::string name = recipes()[info.param].name;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

}  // namespace
}  // namespace assay::te
