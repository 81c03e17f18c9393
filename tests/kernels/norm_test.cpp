// The vector norms give the same bits whatever the width of their vectors.
#include "assay/kernels/norm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "assay/numerics/element.h"

namespace assay {
namespace {

struct Results {
  std::vector<std::byte> z, dx;
  std::vector<float> mean, rsigma;
  std::vector<double> dgamma, dbeta;
};

Results run(const NormKernels& kernels, DType dtype, DType out,
            std::int64_t rows, std::int64_t columns) {
  const auto count = static_cast<std::size_t>(rows * columns);
  const auto padded = static_cast<std::size_t>(padded_columns(columns));
  std::mt19937_64 rng(1);
  std::normal_distribution<double> normal;
  std::vector<std::byte> x(count * 4), dz(count * 4);
  for (std::size_t i = 0; i < count; ++i) {
    store_from_double(dtype, normal(rng), x.data(),
                      static_cast<std::int64_t>(i));
    store_from_double(dtype, normal(rng), dz.data(),
                      static_cast<std::int64_t>(i));
  }
  std::vector<double> weights;
  for (std::int64_t j = 0; j < columns; ++j) weights.push_back(normal(rng));
  const auto arranged = [&](DType to) {
    std::vector<float> v(padded);
    for (std::int64_t j = 0; j < columns; ++j)
      v[static_cast<std::size_t>(column_place(kernels.order(dtype, to), j))] =
          static_cast<float>(weights[static_cast<std::size_t>(j)]);
    return v;
  };
  Results r;
  r.z.resize(count * 4);
  r.dx.resize(count * 4);
  r.mean.resize(static_cast<std::size_t>(rows));
  r.rsigma.resize(static_cast<std::size_t>(rows));
  r.dgamma.resize(padded);
  r.dbeta.resize(padded);
  const auto gamma = arranged(out), back_gamma = arranged(dtype);
  NormForwardArgs f;
  f.dtype = dtype;
  f.columns = columns;
  f.centred = true;
  f.divisor = static_cast<double>(columns);
  f.eps = 1e-5f;
  f.x = x.data();
  f.gamma = f.beta = gamma.data();
  f.mean = r.mean.data();
  f.rsigma = r.rsigma.data();
  f.out = out;
  f.z = r.z.data();
  kernels.forward(f, 0, rows);
  NormBackwardArgs b;
  static_cast<NormArgs&>(b) = f;
  b.gamma = back_gamma.data();
  b.dz = dz.data();
  b.dx = r.dx.data();
  kernels.backward(b, 0, rows);
  kernels.param_grads(b, 0, rows, r.dgamma.data(), r.dbeta.data());
  return r;
}

TEST(Norm, SetsAgreeBitForBit) {
  const auto all = all_norm_kernels();
  if (all.size() < 3) GTEST_SKIP() << "fewer than two vector sets here";
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (DType out : {dtype, DType::kF32}) {
      for (std::int64_t columns : {1, 15, 31, 32, 33, 100, 256}) {
        const Results a = run(*all[0], dtype, out, 19, columns);
        const Results b = run(*all[1], dtype, out, 19, columns);
        EXPECT_EQ(a.mean, b.mean);
        EXPECT_EQ(a.rsigma, b.rsigma);
        EXPECT_EQ(a.z, b.z) << columns;
        EXPECT_EQ(a.dx, b.dx) << columns;
        EXPECT_EQ(a.dgamma, b.dgamma) << columns;
        EXPECT_EQ(a.dbeta, b.dbeta) << columns;
      }
    }
  }
}

// Within a block of 32 the even columns come first.
TEST(Norm, PairedColumnsAreAPermutation) {
  EXPECT_EQ(column_place(ColumnOrder::kPaired, 0), 0);
  EXPECT_EQ(column_place(ColumnOrder::kPaired, 1), 16);
  EXPECT_EQ(column_place(ColumnOrder::kPaired, 2), 1);
  EXPECT_EQ(column_place(ColumnOrder::kPaired, 33), 48);
  EXPECT_EQ(column_place(ColumnOrder::kPlain, 33), 33);
  EXPECT_EQ(padded_columns(33), 64);
}

}  // namespace
}  // namespace assay
