#include "assay/report/row_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "assay/base/text.h"

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// |b - a| / |a| of one statistic; -1 when a side lacks it.
double relative(const std::optional<double>& golden,
                const std::optional<double>& target) {
  if (!golden || !target) return -1;
  const double difference = std::abs(*target - *golden);
  if (std::isnan(difference)) {
    // Two equal infinities, or NaN on both sides, differ by nothing.
    const bool alike =
        *golden == *target || (std::isnan(*golden) && std::isnan(*target));
    return alike ? 0 : kInfinity;
  }
  if (difference == 0) return 0;
  return difference / std::abs(*golden);
}

double statistics_error(const Row& row) {
  const TensorStatistics& g = row.golden.stats;
  const TensorStatistics& t = row.target.stats;
  if (g.norm && t.norm) return relative(g.norm, t.norm);
  return std::max({relative(g.max, t.max), relative(g.min, t.min),
                   relative(g.mean, t.mean)});
}

// Smaller is shown earlier.
int verdict_order(const Row& row) {
  switch (row.verdict) {
    case Verdict::kMismatch:
      return row.origin == Origin::kInherited ? 1 : 0;
    case Verdict::kIncomplete:
      return 2;
    case Verdict::kEmpty:
      return 3;
    default:
      return 4;
  }
}

// A mismatch without figures (shape, dtype) is worse than any figure.
double severity(const Row& row) {
  if (row.verdict != Verdict::kMismatch) return 0;
  const double error = row_error(row);
  return error < 0 ? kInfinity : error;
}

bool is_library_frame(std::string_view frame) {
  constexpr std::array<std::string_view, 8> kLibraries = {
      "site-packages", "dist-packages", "/torch/",  "msprobe",
      "<frozen",       "/mindspore/",   "python3.", "importlib"};
  return std::any_of(kLibraries.begin(), kLibraries.end(),
                     [&](std::string_view library) {
                       return frame.find(library) != std::string_view::npos;
                     });
}

// Text between `after` and the next `end` character; nullopt without `after`.
std::optional<std::string_view> between(std::string_view text,
                                        std::string_view after, char end) {
  const std::size_t at = text.find(after);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(at + after.size());
  return trim(rest.substr(0, rest.find(end)));
}

}  // namespace

std::string_view role_text(Role role) {
  switch (role) {
    case Role::kInput:
      return "input";
    case Role::kOutput:
      return "output";
    case Role::kParameter:
      return "parameter";
    case Role::kGradient:
      return "gradient";
    case Role::kTensor:
      break;
  }
  return "tensor";
}

std::string_view missing_text(const Row& row) {
  if (!row.golden.present) return "missing in the golden";
  return row.target.present ? "" : "missing in the target";
}

std::string_view dtype_text(const RowSide& side) {
  if (!side.facts.dtype_text.empty()) return side.facts.dtype_text;
  return side.facts.dtype ? traits(*side.facts.dtype).name : std::string_view{};
}

const Shape& index_shape(const Row& row) {
  return row.golden.present ? row.golden.facts.shape : row.target.facts.shape;
}

bool has_complex_components(const Row& row) {
  const auto& side = row.golden.present ? row.golden : row.target;
  return side.facts.dtype && is_complex(*side.facts.dtype);
}

std::string place_text(const Row& row, std::int64_t flat) {
  if (flat < 0) return "";
  if (!has_complex_components(row)) return index_text(index_shape(row), flat);
  return index_text(index_shape(row), flat / 2) +
         (flat % 2 == 0 ? ".real" : ".imag");
}

double row_error(const Row& row) {
  if (row.stats) {
    if (row.stats->nonfinite_mismatches > 0) return kInfinity;
    return std::isnan(row.stats->norm_l2) ? kInfinity : row.stats->norm_l2;
  }
  return statistics_error(row);
}

std::vector<std::size_t> worst_first(const Comparison& comparison) {
  const auto& rows = comparison.rows;
  std::vector<double> keys(rows.size());
  std::transform(rows.begin(), rows.end(), keys.begin(), severity);
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) {
                     const int va = verdict_order(rows[a]);
                     const int vb = verdict_order(rows[b]);
                     return va != vb ? va < vb : keys[a] > keys[b];
                   });
  return order;
}

std::string short_frame(std::string_view frame) {
  const auto file = between(frame, "File ", ',');
  const auto line = between(frame, "line ", ',');
  const auto function = between(frame, ", in ", ',');
  if (!file || !line || !function) {
    const std::string_view first = trim(frame.substr(0, frame.find('\n')));
    return std::string(first);
  }
  std::string_view path = *file;
  if (path.size() >= 2 && path.front() == '"' && path.back() == '"')
    path = path.substr(1, path.size() - 2);
  const std::string_view name = trim(function->substr(0, function->find('\n')));
  return std::string(path) + ":" + std::string(*line) + " in " +
         std::string(name);
}

std::string user_frame(const std::vector<std::string>& stack) {
  if (stack.empty()) return "";
  const auto own =
      std::find_if_not(stack.begin(), stack.end(), is_library_frame);
  return short_frame(own == stack.end() ? stack.front() : *own);
}

std::string likely_text(std::string_view cause) {
  if (cause.empty() || cause.starts_with("likely")) return std::string(cause);
  return "likely: " + std::string(cause);
}

}  // namespace assay
