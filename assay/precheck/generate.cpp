#include "assay/precheck/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/compare/overflow/value_state.h"
#include "assay/core/philox.h"
#include "assay/numerics/basic_math.h"
#include "assay/numerics/element.h"
#include "assay/precheck/spread.h"

namespace assay::precheck {
namespace {

constexpr std::int64_t kBlock = 1 << 14;  // even: two e2m1 share a byte
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What an element is. The last kind is drawn.
enum Kind { kNaN, kPositive, kNegative, kZero, kMin, kMax, kDrawn, kKinds };
using Counts = std::array<std::int64_t, kKinds>;

// In (0, 1), a function of key and place.
double uniform_at(std::uint64_t key, std::int64_t index) {
  const auto words = philox4x32(
      {static_cast<std::uint32_t>(index),
       static_cast<std::uint32_t>(index >> 32), 0, 0},
      {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)});
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

// Components of complex dtypes are elements here, as statistics count them.
std::int64_t components(const Tensor& tensor) {
  return tensor.numel() * (is_complex(tensor.dtype()) ? 2 : 1);
}

template <typename F>
void fill(Tensor& tensor, F value) {
  std::byte* data = tensor.mutable_data();
  const DType dtype = tensor.dtype();
  const std::int64_t count = components(tensor);
  parallel_for((count + kBlock - 1) / kBlock, [&](std::int64_t block) {
    const std::int64_t end = std::min(count, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; ++i)
      store_from_double(dtype, value(i), data, i);
  });
}

// How many of each kind there are to be among `count` elements. Where a dump
// only says that there are some, it is one.
Counts counts_of(const ValueState& state, std::int64_t count, bool forced) {
  Counts counts{};
  std::int64_t left = count;
  const auto take = [&](Kind kind, std::int64_t wanted) {
    counts[kind] = std::clamp<std::int64_t>(wanted, 0, left);
    left -= counts[kind];
  };
  const auto some = [](std::int64_t n) {
    return n == ValueState::kSome ? 1 : n;
  };
  take(kNaN, some(state.nan));
  take(kPositive, some(state.positive_inf));
  take(kNegative, some(state.negative_inf));
  const bool zero_is_extreme = state.min == 0 || state.max == 0;
  take(kZero, std::max<std::int64_t>(state.zeros, 0) -
                  (forced && zero_is_extreme && state.zeros > 0 ? 1 : 0));
  if (forced) {
    take(kMin, 1);
    take(kMax, state.max > state.min ? 1 : 0);
  }
  counts[kDrawn] = left;
  return counts;
}

// The kinds in random order, every count met: an urn without replacement.
class Urn {
 public:
  Urn(Counts counts, std::uint64_t key)
      : counts_(counts),
        left_(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})),
        stream_(key, 1) {}

  Kind next() {
    double at = stream_.next_uniform() * static_cast<double>(left_--);
    int kind = 0;
    for (; kind + 1 < kKinds; ++kind) {
      at -= static_cast<double>(counts_[kind]);
      if (at < 0 && counts_[kind] > 0) break;
    }
    if (counts_[kind] == 0) kind = last();
    --counts_[kind];
    return static_cast<Kind>(kind);
  }

 private:
  int last() const {
    int kind = kKinds - 1;
    while (kind > 0 && counts_[kind] == 0) --kind;
    return kind;
  }
  Counts counts_;
  std::int64_t left_;
  PhiloxStream stream_;
};

void put_kinds(Tensor& tensor, const ValueState& state, const Counts& counts,
               std::uint64_t key) {
  const std::int64_t count = components(tensor);
  if (counts[kDrawn] == count) return;
  const double values[] = {kNan, kInfinity, -kInfinity,
                           0,    state.min, state.max};
  std::byte* data = tensor.mutable_data();
  Urn urn(counts, key);
  for (std::int64_t i = 0; i < count; ++i) {
    const Kind kind = urn.next();
    if (kind != kDrawn)
      store_from_double(tensor.dtype(), values[kind], data, i);
  }
}

// Mean and mean square of what is drawn: those of the finite elements without
// the zeros and extremes that are put in their places.
Moments moments_of(const Record& record, const ValueState& state,
                   const Counts& counts) {
  Moments moments;
  const auto drawn = static_cast<double>(counts[kDrawn]);
  const auto finite =
      drawn + static_cast<double>(counts[kZero] + counts[kMin] + counts[kMax]);
  if (drawn <= 0) return moments;
  const auto lows = static_cast<double>(counts[kMin]);
  const auto highs = static_cast<double>(counts[kMax]);
  const auto& [max, min, mean, norm] = record.stats;
  if (mean && std::isfinite(*mean))
    moments.mean =
        (*mean * finite - lows * state.min - highs * state.max) / drawn;
  if (norm && std::isfinite(*norm))
    moments.square = (*norm * *norm - lows * state.min * state.min -
                      highs * state.max * state.max) /
                     drawn;
  return moments;
}

// 0 .. n - 1 in some order, by its moments: positions, the result of argsort.
bool is_permutation(const Record& record, const ValueState& state) {
  const auto& [max, min, mean, norm] = record.stats;
  const auto n = static_cast<double>(state.count);
  if (state.count < 2 || !min || !max || !mean || !norm || *min != 0 ||
      *max != n - 1)
    return false;
  const double square = n * (n - 1) * (2 * n - 1) / 6;
  const auto near = [](double a, double b) {
    return std::fabs(a - b) <= 1e-6 * b;
  };
  return near(*mean, (n - 1) / 2) && near(*norm * *norm, square);
}

void fill_permutation(Tensor& tensor, std::uint64_t key) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.numel()));
  std::iota(order.begin(), order.end(), 0);
  PhiloxStream stream(key, 2);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1],
              order[static_cast<std::size_t>(stream.next_uniform() *
                                             static_cast<double>(i))]);
  std::byte* data = tensor.mutable_data();
  for (std::size_t i = 0; i < order.size(); ++i)
    store_from_double(tensor.dtype(), static_cast<double>(order[i]), data,
                      static_cast<std::int64_t>(i));
}

void fill_bool(Tensor& tensor, const Record& record, const ValueState& state,
               std::uint64_t key) {
  double share = 0.5;
  if (record.stats.mean) share = *record.stats.mean;
  if (state.zeros >= 0 && state.count > 0)
    share =
        1 - static_cast<double>(state.zeros) / static_cast<double>(state.count);
  if (state.max == 0) share = 0;  // all are False
  if (state.min == 1) share = 1;
  Counts counts{};
  counts[kMax] = std::clamp<std::int64_t>(
      std::llround(share * static_cast<double>(state.count)), 0, state.count);
  counts[kMin] = state.count - counts[kMax];
  ValueState truth;
  truth.min = 0;
  truth.max = 1;
  put_kinds(tensor, truth, counts, key);
}

void fill_drawn(Tensor& tensor, const Spread& spread, std::uint64_t key) {
  const bool whole = is_exact(tensor.dtype());
  fill(tensor, [&](std::int64_t i) {
    const double x = spread.at(normal_quantile(uniform_at(key, i)));
    return whole ? std::nearbyint(x) : x;
  });
}

}  // namespace

Tensor generate(const Record& record, std::uint64_t key) {
  const DType dtype = record.facts.dtype.value();
  ValueState state = state_from_statistics(record);
  Tensor tensor = Tensor::zeros(dtype, record.facts.shape);
  const std::int64_t count = components(tensor);
  if (count == 0) return tensor;
  if (dtype == DType::kBool) {
    fill_bool(tensor, record, state, key);
    return tensor;
  }
  const bool extremes = std::isfinite(state.min) && std::isfinite(state.max) &&
                        state.min <= state.max;
  if (!extremes && is_exact(dtype))
    throw Error(Code::kUnsupported,
                "an argument of integers whose range was not recorded");
  if (is_exact(dtype) && is_permutation(record, state)) {
    fill_permutation(tensor, key);
    return tensor;
  }
  const Counts counts = counts_of(state, count, extremes);
  if (extremes) {
    fill_drawn(tensor,
               Spread(state.min, state.max, moments_of(record, state, counts)),
               key);
  } else if (counts[kDrawn] > 0) {
    fill(tensor,
         [&](std::int64_t i) { return normal_quantile(uniform_at(key, i)); });
  }
  put_kinds(tensor, state, counts, key);
  return tensor;
}

Tensor generate_unit(DType dtype, const Shape& shape, std::uint64_t key) {
  Tensor tensor = Tensor::zeros(dtype, shape);
  fill(tensor,
       [&](std::int64_t i) { return normal_quantile(uniform_at(key, i)); });
  return tensor;
}

}  // namespace assay::precheck
