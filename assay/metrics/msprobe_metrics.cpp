#include "assay/metrics/msprobe_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "assay/base/error.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

constexpr double kFloatEpsilon = 2.220446049250313e-16;  // sys.float_info
constexpr std::int64_t kChunk = 1 << 14;

// repr() of a Python float.
std::string python_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

MsprobeCell number(double value) { return {python_repr(value), value}; }
MsprobeCell word(const char* text) { return {text, std::nullopt}; }

double round_decimals(double value, int decimals) {
  return std::strtod(fmt::format("{:.{}f}", value, decimals).c_str(), nullptr);
}

MsprobeMetrics all_words(const char* text, const char* message) {
  const MsprobeCell cell = word(text);
  return {cell, cell, cell, cell, cell, cell, message};
}

Shape squeezed(const Shape& shape) {
  Shape kept;
  for (const std::int64_t dim : shape)
    if (dim != 1) kept.push_back(dim);
  return kept;
}

// numpy.result_type(dtype, float32) is float32.
bool fits_float32(DType dtype) {
  const DTypeTraits& t = traits(dtype);
  if (t.kind == DTypeKind::kFloat || t.kind == DTypeKind::kComplex)
    return traits(component(dtype)).bits <= 32;
  return t.bits <= 16;
}

// Real parts of elements [begin, begin + count) as doubles.
void read_chunk(const TensorView& view, std::int64_t begin, std::int64_t count,
                std::vector<std::byte>& bytes, std::vector<double>& values) {
  const std::optional<std::int64_t> size = storage_bytes(view.dtype, count);
  bytes.resize(static_cast<std::size_t>(size.value_or(0)));
  gather(view, begin, count, bytes.data());
  const std::int64_t stride = is_complex(view.dtype) ? 2 : 1;
  values.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] =
        load_as_double(view.dtype, bytes.data(), i * stride);
}

template <typename Real>
double relative_error(double target, double golden) {
  Real n = static_cast<Real>(target);
  Real b = static_cast<Real>(golden);
  if (b == 0) {
    n += std::numeric_limits<Real>::epsilon();
    b += std::numeric_limits<Real>::epsilon();
  }
  return std::fabs((n - b) / b);
}

struct Sums {
  double dot = 0, n2 = 0, b2 = 0, d2 = 0;
  double max_abs = 0, max_rel = 0;
  std::int64_t under_1e3 = 0, under_5e3 = 0;
  bool nonfinite_differ = false;
};

void add_pair(double n, double b, bool in_float32, Sums& sums) {
  if (std::isinf(n) != std::isinf(b) || std::isnan(n) != std::isnan(b))
    sums.nonfinite_differ = true;
  if (!std::isfinite(n) || !std::isfinite(b)) n = b = 0;
  const double rel =
      in_float32 ? relative_error<float>(n, b) : relative_error<double>(n, b);
  // In fp32 the comparison is against the fp32 threshold, as numpy does.
  sums.under_1e3 += in_float32 ? static_cast<float>(rel) < 0.001f : rel < 0.001;
  sums.under_5e3 += in_float32 ? static_cast<float>(rel) < 0.005f : rel < 0.005;
  sums.max_rel = std::isnan(rel) ? rel : std::max(sums.max_rel, rel);
  sums.max_abs = std::max(sums.max_abs, std::fabs(n - b));
  sums.dot += n * b;
  sums.n2 += n * n;
  sums.b2 += b * b;
  sums.d2 += (n - b) * (n - b);
}

Sums accumulate(const TensorView& golden, const TensorView& target) {
  const bool in_float32 =
      fits_float32(golden.dtype) && fits_float32(target.dtype);
  const std::int64_t count = golden.numel();
  std::vector<std::byte> bytes;
  std::vector<double> b, n;
  Sums sums;
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const std::int64_t size = std::min(kChunk, count - begin);
    read_chunk(golden, begin, size, bytes, b);
    read_chunk(target, begin, size, bytes, n);
    for (std::size_t i = 0; i < n.size(); ++i)
      add_pair(n[i], b[i], in_float32, sums);
  }
  return sums;
}

// `both`, `n_zero` and `b_zero` by norms <= 2.2e-16.
MsprobeCell cosine_cell(double dot, double n_norm, double b_norm,
                        std::string& message) {
  const bool n_zero = n_norm <= kFloatEpsilon;
  const bool b_zero = b_norm <= kFloatEpsilon;
  if (n_zero && b_zero) return number(1.0);
  if (n_zero || b_zero) {
    message += fmt::format(
        "Cannot compare by Cosine Similarity, All the data is Zero in {} dump "
        "data.",
        n_zero ? "npu" : "bench");
    return word("Nan");
  }
  const double cosine = dot / (n_norm * b_norm);
  if (std::isnan(cosine)) {
    message += "Cannot compare by Cosine Similarity, the dump data has NaN.";
    return word("Nan");
  }
  const double rounded = round_decimals(cosine, 12);
  return number(rounded > 0.9999 ? round_decimals(rounded, 6) : rounded);
}

constexpr const char* kZeroRankMessage =
    "This is type of 0-d tensor, can not calculate 'Cosine', 'EucDist', 'One "
    "Thousandth Err Ratio' and 'Five Thousandths Err Ratio'. ";

void make_zero_rank(MsprobeMetrics& metrics) {
  metrics.cosine = metrics.euc_dist = word("unsupported");
  metrics.one_thousandth = metrics.five_thousandths = word("unsupported");
  metrics.message = kZeroRankMessage;
}

MsprobeCell rounded_cell(double value) {
  if (std::isnan(value)) return word("Nan");
  return number(round_decimals(value, 12));
}

MsprobeMetrics from_sums(const Sums& sums, std::int64_t count, bool zero_rank) {
  MsprobeMetrics metrics;
  metrics.max_abs = rounded_cell(sums.max_abs);
  metrics.max_rel = rounded_cell(sums.max_rel);
  if (zero_rank) {
    make_zero_rank(metrics);
    return metrics;
  }
  metrics.cosine = cosine_cell(sums.dot, std::sqrt(sums.n2), std::sqrt(sums.b2),
                               metrics.message);
  metrics.euc_dist = number(std::sqrt(sums.d2));
  const auto total = static_cast<double>(count);
  metrics.one_thousandth = number(static_cast<double>(sums.under_1e3) / total);
  metrics.five_thousandths =
      number(static_cast<double>(sums.under_5e3) / total);
  return metrics;
}

}  // namespace

MsprobeMetrics msprobe_metrics(const TensorView& golden,
                               const TensorView& target) {
  if (golden.numel() == 0 || target.numel() == 0)
    return all_words("unsupported", "This is empty data, can not compare.");
  const Shape shape = squeezed(golden.shape);
  if (shape != squeezed(target.shape))
    return all_words("shape unmatched",
                     "Shape of NPU and bench tensor do not match. Skipped.");
  const Sums sums = accumulate(golden, target);
  if (sums.nonfinite_differ && !shape.empty())
    return all_words("N/A",
                     "The position of inf or nan in NPU and bench Tensor do "
                     "not match.");
  MsprobeMetrics metrics = from_sums(sums, golden.numel(), shape.empty());
  if (golden.dtype != target.dtype && !shape.empty())
    metrics.message += "Dtype of NPU and bench tensor do not match.";
  return metrics;
}

MsprobeMetrics msprobe_metrics(const ErrorStats& stats, bool zero_rank) {
  if (stats.count == 0)
    return all_words("unsupported", "This is empty data, can not compare.");
  if (stats.nonfinite_mismatches > 0)
    return all_words("N/A",
                     "The position of inf or nan in NPU and bench Tensor do "
                     "not match.");
  MsprobeMetrics metrics;
  metrics.max_abs = rounded_cell(stats.max_abs);
  metrics.max_rel = rounded_cell(stats.max_rel);
  if (zero_rank || stats.count == 1) {
    make_zero_rank(metrics);
    return metrics;
  }
  metrics.cosine =
      cosine_cell(stats.cosine * stats.golden.l2 * stats.target.l2,
                  stats.target.l2, stats.golden.l2, metrics.message);
  metrics.euc_dist =
      number(stats.rmse * std::sqrt(static_cast<double>(stats.finite)));
  const bool equal = stats.mismatches == 0;
  metrics.one_thousandth = metrics.five_thousandths = word("N/A");
  if (!equal && !stats.detail) return metrics;
  // Elements that are not finite count as agreeing.
  const double share =
      static_cast<double>(stats.finite) / static_cast<double>(stats.count);
  const double over_1e3 = equal ? 0 : stats.detail->share_rel_over_1e3;
  const double over_5e3 = equal ? 0 : stats.detail->share_rel_over_5e3;
  metrics.one_thousandth = number(1 - over_1e3 * share);
  metrics.five_thousandths = number(1 - over_5e3 * share);
  return metrics;
}

std::string to_string(MsprobeResult result) {
  switch (result) {
    case MsprobeResult::kPass:
      return "pass";
    case MsprobeResult::kWarning:
      return "warning";
    case MsprobeResult::kError:
      break;
  }
  return "error";
}

MsprobeResult msprobe_result(const MsprobeMetrics& output,
                             const MsprobeInputs& inputs,
                             bool target_only_nonfinite) {
  if (target_only_nonfinite || output.cosine.text == "shape unmatched")
    return MsprobeResult::kError;
  const std::optional<double> thousandth = output.one_thousandth.value;
  if (thousandth && *thousandth < 0.1 &&
      inputs.min_one_thousandth.value_or(0) > 0.9)
    return MsprobeResult::kError;
  const std::optional<double> cosine = output.cosine.value;
  const double in = inputs.min_cosine.value_or(0);
  if (cosine && in > 0.9 && in - *cosine > 0.1) return MsprobeResult::kWarning;
  return MsprobeResult::kPass;
}

}  // namespace assay
