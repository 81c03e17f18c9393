#include "assay/precheck/random/dropout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/metrics/distribution.h"
#include "assay/numerics/element.h"

namespace assay::precheck {
namespace {

// -scale * alpha of SELU: what alpha dropout puts in place of an element
// (torch/nn/functional.py, aten/src/ATen/native/Dropout.cpp).
constexpr double kAlpha = 1.7580993408473766;

double alpha_scale(double p) {
  return 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
}

// Channels are told apart by batch and channel, or by the channel alone where
// there is no batch. dropout2d takes three dimensions for (N, C, L).
int channel_dims(const std::string& name, std::size_t rank) {
  if (name == "dropout1d") return rank == 2 ? 1 : 2;
  if (name == "dropout3d") return rank == 4 ? 1 : 2;
  if (name == "dropout2d" || name.starts_with("feature_")) return 2;
  return 0;
}

std::int64_t channel_size(const Dropout& dropout) {
  const Shape& shape = dropout.input->shape();
  std::int64_t size = 1;
  for (auto d = static_cast<std::size_t>(dropout.channel_dims);
       d < shape.size(); ++d)
    size *= shape[d];
  return size;
}

// Of one element that the input tells something about; nullopt: neither.
std::optional<Fate> fate_of(const Dropout& dropout, DType dtype, double x,
                            double y) {
  const double u = unit_roundoff(dtype);
  const double kept = dropout.kept(x), dropped = dropout.dropped();
  // Two roundings, of the scale and of the product; alpha dropout has four.
  const double tolerance =
      dropout.alpha ? 5 * u * (std::abs(kept) + 2 * kAlpha * dropout.scale())
                    : 2.02 * u * std::abs(kept) + min_positive(dtype);
  const bool is_dropped =
      dropout.alpha ? std::abs(y - dropped) <= tolerance : y == 0;
  const bool is_kept =
      std::abs(y - kept) <= tolerance ||
      (std::isinf(y) && std::abs(kept) + tolerance > max_finite(dtype) &&
       std::signbit(y) == std::signbit(kept));
  if (is_dropped && is_kept) return Fate::kUnknown;
  if (is_dropped)  // subnormals may be flushed to 0
    return std::abs(x) < min_normal(dtype) && !dropout.alpha ? Fate::kUnknown
                                                             : Fate::kDropped;
  if (is_kept) return Fate::kKept;
  return std::nullopt;
}

void require_unchanged(Findings& findings, const Dropout& dropout,
                       const Tensor& output) {
  const std::vector<double> x = elements(*dropout.input);
  const std::vector<double> y = elements(output);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double expected = dropout.training && dropout.p == 1 ? 0 : x[i];
    if (y[i] == expected || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!std::isfinite(x[i]) && expected == 0) continue;  // inf times 0
    findings.require(false, "unchanged",
                     fmt::format("{:.9g} at {}, expected {:.9g}: nothing is "
                                 "drawn with these arguments",
                                 y[i], i, expected),
                     static_cast<std::int64_t>(i));
    return;
  }
  findings.note("law", "nothing to draw: p is 0 or 1, or no training");
}

// Masks of two runs: the same one, or independent.
void test_independence(Findings& findings, double p,
                       const std::vector<Fate>& golden,
                       const std::vector<Fate>& device) {
  std::int64_t n = 0, both = 0, equal = 0;
  for (std::size_t i = 0; i < device.size(); ++i) {
    if (golden[i] == Fate::kUnknown || device[i] == Fate::kUnknown) continue;
    ++n;
    equal += golden[i] == device[i];
    both += golden[i] == Fate::kDropped && device[i] == Fate::kDropped;
  }
  if (n == 0) return;
  if (equal == n)
    return findings.note("same_mask", "the golden has the same mask");
  findings.test(binomial_p(both, n, p * p), "independence",
                fmt::format("{} of {} dropped in the golden too, expected "
                            "{:.1f}",
                            both, n, static_cast<double>(n) * p * p));
}

// One fate a channel, or each element's.
std::vector<Fate> drawn(const Dropout& dropout, std::vector<Fate> fates) {
  if (dropout.channel_dims == 0) return fates;
  const std::int64_t size = channel_size(dropout);
  std::vector<Fate> channels;
  for (std::size_t i = 0; i < fates.size(); i += static_cast<std::size_t>(size))
    channels.push_back(fates[i]);
  return channels;
}

void test_fates(Findings& findings, const Dropout& dropout,
                const std::vector<Fate>& fates) {
  const double p = dropout.p;
  std::vector<std::uint8_t> coins;
  std::vector<float> centred;
  for (const Fate fate : fates) {
    const bool one = fate == Fate::kDropped;
    centred.push_back(
        fate == Fate::kUnknown ? 0.0F : static_cast<float>(one ? 1 - p : -p));
    if (fate != Fate::kUnknown) coins.push_back(one);
  }
  const bool channels = dropout.channel_dims > 0;
  const std::string what = channels ? "channels dropped" : "elements dropped";
  test_coins(findings, coins, p, what);
  Shape shape = dropout.input->shape();
  if (channels)
    shape.resize(
        std::min(shape.size(), static_cast<std::size_t>(dropout.channel_dims)));
  if (!coins.empty())
    test_lags(findings, centred, p * (1 - p), std::max(p, 1 - p), shape);
  findings.enough(
      static_cast<std::int64_t>(coins.size()), coins_needed(p),
      channels ? "channels that are not zero" : "elements that are not zero");
}

}  // namespace

double Dropout::scale() const { return alpha ? alpha_scale(p) : 1 / (1 - p); }
double Dropout::kept(double x) const {
  return alpha ? scale() * (x + kAlpha * p) : x * scale();
}
double Dropout::dropped() const {
  return alpha ? -kAlpha * scale() * (1 - p) : 0;
}

std::optional<Dropout> find_dropout(const RandomCall& call,
                                    const std::string& name) {
  Dropout dropout;
  dropout.alpha = name == "alpha_dropout" || name == "feature_alpha_dropout";
  if (!dropout.alpha && name != "dropout" && name != "native_dropout" &&
      name != "npu_dropout" && name != "dropout1d" && name != "dropout2d" &&
      name != "dropout3d" && name != "feature_dropout")
    return std::nullopt;
  const RandomArguments arguments(call);
  dropout.input = arguments.tensor(0, {"input", "self"});
  const std::optional<double> p = arguments.number(1, {"p"}, 0.5);
  // F.alpha_dropout and its like are off unless told.
  const bool absent = !(dropout.alpha && call.api.starts_with("Functional."));
  const std::optional<bool> training =
      arguments.flag(2, {"training", "train"}, absent);
  if (!p || !training || !dropout.input || !(*p >= 0 && *p <= 1) ||
      !is_float(dropout.input->dtype()))
    throw Error(Code::kUsage,
                std::string(call.api) +
                    ": expected an input of a float dtype, p in [0, 1] and "
                    "whether it trains");
  dropout.p = *p;
  dropout.training = *training;
  dropout.channel_dims = channel_dims(name, dropout.input->shape().size());
  return dropout;
}

std::vector<Fate> fates(Findings& findings, const Dropout& dropout,
                        const Tensor& output) {
  const std::vector<double> x = elements(*dropout.input);
  const std::vector<double> y = elements(output);
  std::vector<Fate> all(y.size(), Fate::kUnknown);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!std::isfinite(x[i])) continue;
    if (x[i] == 0 && !dropout.alpha) {
      if (y[i] == 0) continue;
    } else if (const auto fate = fate_of(dropout, output.dtype(), x[i], y[i])) {
      all[i] = *fate;
      continue;
    }
    findings.require(
        false, "survivor",
        fmt::format("{:.9g} at {} of {:.9g}, expected {:.9g}, or {:.9g} where "
                    "it is dropped",
                    y[i], i, x[i], dropout.kept(x[i]), dropout.dropped()),
        static_cast<std::int64_t>(i));
    break;
  }
  return all;
}

void share_fates(Findings& findings, const Dropout& dropout,
                 std::vector<Fate>& fates) {
  if (dropout.channel_dims == 0 || fates.empty()) return;
  const auto size = static_cast<std::size_t>(channel_size(dropout));
  for (std::size_t begin = 0; begin < fates.size(); begin += size) {
    Fate fate = Fate::kUnknown;
    for (std::size_t i = begin; i < begin + size; ++i) {
      if (fates[i] == Fate::kUnknown || fates[i] == fate) continue;
      if (fate == Fate::kUnknown) {
        fate = fates[i];
        continue;
      }
      findings.require(false, "channel",
                       fmt::format("the channel from {} is dropped in part: "
                                   "{} differs from those before",
                                   begin, i),
                       static_cast<std::int64_t>(i));
      return;
    }
    std::fill_n(fates.begin() + static_cast<std::ptrdiff_t>(begin), size, fate);
  }
}

void judge_dropout(Findings& findings, const Dropout& dropout,
                   const Tensor& golden, const Tensor& device) {
  if (device.shape() != dropout.input->shape()) {
    findings.require(false, "shape",
                     "of the input " + to_string(dropout.input->shape()) +
                         ", found " + to_string(device.shape()));
    return;
  }
  if (!dropout.draws()) return require_unchanged(findings, dropout, device);
  std::vector<Fate> found = fates(findings, dropout, device);
  if (!findings.failed()) share_fates(findings, dropout, found);
  if (findings.failed()) return;
  found = drawn(dropout, std::move(found));
  test_fates(findings, dropout, found);
  Findings other;
  std::vector<Fate> expected = fates(other, dropout, golden);
  if (!other.failed()) share_fates(other, dropout, expected);
  if (other.failed())
    return findings.incomplete("golden", "the golden is no such dropout");
  test_independence(findings, dropout.p, drawn(dropout, std::move(expected)),
                    found);
}

void judge_dropout_mask(Findings& findings, const Dropout& dropout,
                        const Tensor& mask) {
  const std::int64_t n = dropout.input->numel();
  const std::vector<double> values = elements(mask);
  std::vector<std::uint8_t> coins;
  const bool bits =
      mask.dtype() == DType::kU8 && mask.shape() != dropout.input->shape();
  if (bits && mask.numel() * 8 < n) {
    findings.require(
        false, "shape",
        fmt::format("{} bytes of mask for {} elements", mask.numel(), n));
    return;
  }
  if (!bits && mask.numel() != n) {
    findings.require(
        false, "shape",
        fmt::format("{} elements of mask for {}", mask.numel(), n));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = values[static_cast<std::size_t>(bits ? i / 8 : i)];
    if (!bits && value != 0 && value != 1) {
      findings.require(false, "mask",
                       fmt::format("{} at {}, expected 0 or 1", value, i), i);
      return;
    }
    coins.push_back(bits ? (static_cast<unsigned>(value) >> (i % 8)) & 1U
                         : value != 0);
  }
  if (!dropout.draws()) return;
  test_coins(findings, coins, 1 - dropout.p, "kept by the mask");
  findings.enough(n, coins_needed(dropout.p), "elements");
}

}  // namespace assay::precheck
