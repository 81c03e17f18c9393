#include <cmath>

#include "assay/te/ops/transpose.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

void expect_same_direction(const QuantizedData& a, const QuantizedData& e,
                           const std::string& what) {
  EXPECT_EQ(a.mode, e.mode) << what;
  EXPECT_EQ(a.format, e.format) << what;
  EXPECT_EQ(a.columnwise, e.columnwise) << what;
  EXPECT_EQ(a.layout, e.layout) << what;
  EXPECT_EQ(a.nvfp4_scale_max, e.nvfp4_scale_max) << what;
  expect_same_bits(a.data, e.data, what + " codes");
  if (e.mode != ScalingMode::kIdentity)
    expect_same_bits(a.scale_inv, e.scale_inv, what + " scales");
  if (e.amax.view.data) expect_same_bits(a.amax, e.amax, what + " amax");
}

double gamma(std::int64_t n) {
  const double nu = static_cast<double>(n) * std::ldexp(1.0, -24);
  return nu / (1 - nu);
}

}  // namespace

Tensor part_of(const Tensor& whole) { return slice_first_dim(whole, *group()); }
Tensor columns_of(const Tensor& whole) {
  return slice_last_dim(whole, *group());
}
Tensor gathered(const Tensor& part) {
  return all_gather_first_dim(part, *group());
}

void expect_same_quantized(const QuantizedTensor& actual,
                           const QuantizedTensor& expected,
                           const std::string& what) {
  EXPECT_EQ(actual.shape, expected.shape) << what;
  EXPECT_EQ(actual.dtype, expected.dtype) << what;
  EXPECT_EQ(actual.device, expected.device) << what;
  ASSERT_EQ(actual.rowwise.has_value(), expected.rowwise.has_value()) << what;
  ASSERT_EQ(actual.columnwise.has_value(), expected.columnwise.has_value())
      << what;
  if (expected.rowwise)
    expect_same_direction(*actual.rowwise, *expected.rowwise,
                          what + " rowwise");
  if (expected.columnwise)
    expect_same_direction(*actual.columnwise, *expected.columnwise,
                          what + " columnwise");
}

void expect_within_reordered_sum(const Tensor& actual, const Tensor& expected,
                                 const Tensor& terms, std::int64_t count,
                                 const std::string& what) {
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  ASSERT_EQ(terms.shape(), expected.shape()) << what;
  const double v =
      actual.dtype() == DType::kF32 ? 0 : unit_roundoff(actual.dtype());
  const double factor = 2 * gamma(count + 4) + 3 * v * (1 + v);
  for (std::int64_t i = 0; i < actual.numel(); ++i) {
    const double a = load_as_double(actual.dtype(), actual.view.data, i);
    const double e = load_as_double(expected.dtype(), expected.view.data, i);
    const double bound = factor * terms.data<double>()[i];
    ASSERT_LE(std::abs(a - e), bound)
        << what << " at " << index_text(actual.shape(), i) << ": " << a
        << ", one process has " << e;
  }
}

Tensor magnitude(const Tensor& x, const Tensor& w) {
  const std::int64_t k = w.shape()[1], n = w.shape()[0], m = x.numel() / k;
  const auto magnitudes = [](const Tensor& t) {
    std::vector<double> out(static_cast<std::size_t>(t.numel()));
    load_as_doubles(t.dtype(), t.view.data, 0, t.numel(), out.data());
    for (double& value : out) value = std::abs(value);
    return out;
  };
  const auto xs = magnitudes(x), ws = magnitudes(transpose(w));
  Tensor out = Tensor::zeros(DType::kF64, {m, n});
  for (std::int64_t i = 0; i < m; ++i) {
    double* row = out.mutable_data<double>() + i * n;
    for (std::int64_t p = 0; p < k; ++p) {
      const double factor = xs[static_cast<std::size_t>(i * k + p)];
      const double* terms = ws.data() + p * n;
      for (std::int64_t j = 0; j < n; ++j) row[j] += factor * terms[j];
    }
  }
  return out;
}

}  // namespace assay::te
