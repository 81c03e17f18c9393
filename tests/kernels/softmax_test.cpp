// The vector softmax kernels give the same bits whatever their width.
#include "assay/kernels/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "assay/kernels/scalar_half.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

struct Results {
  std::vector<std::byte> y, dx;
  float extra;
  double dot;
};

Results run(const SoftmaxKernels& kernels, DType dtype, std::int64_t columns,
            std::int64_t visible, bool masked) {
  const auto count = static_cast<std::size_t>(columns);
  std::mt19937_64 rng(3);
  std::normal_distribution<double> normal(0, 3);
  std::vector<std::byte> x(count * 4), dy(count * 4);
  std::vector<std::uint8_t> mask(count);
  for (std::int64_t i = 0; i < columns; ++i) {
    store_from_double(dtype, normal(rng), x.data(), i);
    store_from_double(dtype, normal(rng), dy.data(), i);
    mask[static_cast<std::size_t>(i)] = rng() % 3 == 0;
  }
  SoftmaxRow row;
  row.columns = columns;
  row.visible = visible;
  row.scale = 0.375f;
  row.mask = masked ? mask.data() : nullptr;
  row.has_extra = true;
  row.extra_logit = 0.5f;
  Results r;
  r.y.resize(count * 4);
  r.dx.resize(count * 4);
  r.extra = kernels.forward(dtype)(row, x.data(), r.y.data());
  r.dot = kernels.backward(dtype)(row, dy.data(), r.y.data(), r.dx.data());
  return r;
}

TEST(Softmax, SetsAgreeBitForBit) {
  const auto all = all_softmax_kernels();
  if (all.size() < 3) GTEST_SKIP() << "fewer than two vector sets here";
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (std::int64_t columns : {1, 16, 31, 32, 33, 100, 256}) {
      for (std::int64_t visible : {columns, columns / 2}) {
        for (bool masked : {false, true}) {
          const Results a = run(*all[0], dtype, columns, visible, masked);
          const Results b = run(*all[1], dtype, columns, visible, masked);
          EXPECT_EQ(a.y, b.y) << columns;
          EXPECT_EQ(a.dx, b.dx) << columns;
          EXPECT_EQ(a.extra, b.extra) << columns;
          EXPECT_EQ(a.dot, b.dot) << columns;
        }
      }
    }
  }
}

// e^x / (1 + e^x) from the row {0, x}: the exponential, a sum, a division and
// a product. Every bf16 x from -104 to 0, and floats between them.
TEST(Softmax, TheExponentialIsWithinItsBound) {
  std::vector<float> inputs;
  for (unsigned code = 0x8000; code < 0x10000; ++code) {
    const float x = bf16_value(static_cast<std::uint16_t>(code));
    if (x >= -104) inputs.push_back(x);
  }
  std::mt19937_64 rng(9);
  std::uniform_real_distribution<float> uniform(-104, 0);
  for (int i = 0; i < 300000; ++i) inputs.push_back(uniform(rng));
  for (const SoftmaxKernels* kernels : all_softmax_kernels()) {
    SoftmaxRow row;
    row.columns = row.visible = 2;
    double worst = 0;
    for (float x : inputs) {
      const float in[2] = {0, x};
      float out[2];
      kernels->forward(DType::kF32)(row, in, out);
      const double e = std::exp(static_cast<double>(x)), y = e / (1 + e);
      const double d = std::fabs(static_cast<double>(out[1]) - y);
      const double bound =
          (4 - static_cast<double>(x) / 20) * 0x1p-24 * y + 0x1p-149;
      worst = std::max(worst, d / bound);
    }
    EXPECT_LE(worst, 1) << kernels->isa;
  }
}

}  // namespace
}  // namespace assay
