// Patterns of order: the right values in the wrong places.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "assay/metrics/pattern_sample.h"

namespace assay {
namespace {

constexpr std::size_t kMaxRank = 5;  // 120 orders of the axes

// Where element `flat` of a tensor of `shape` lies in memory that holds the
// same tensor with its axes in `order`.
class Reordered {
 public:
  Reordered(const Shape& shape, const std::vector<int>& order)
      : shape_(shape), strides_(shape.size()) {
    std::int64_t stride = 1;
    for (std::size_t k = order.size(); k-- > 0;) {
      strides_[static_cast<std::size_t>(order[k])] = stride;
      stride *= shape[static_cast<std::size_t>(order[k])];
    }
  }
  std::int64_t operator()(std::int64_t flat) const {
    std::int64_t position = 0;
    for (std::size_t axis = shape_.size(); axis-- > 0;) {
      position += flat % shape_[axis] * strides_[axis];
      flat /= shape_[axis];
    }
    return position;
  }

 private:
  Shape shape_;
  std::vector<std::int64_t> strides_;
};

double at(const std::vector<double>& values, std::int64_t i) {
  return values[static_cast<std::size_t>(i)];
}

std::string layout_hint(const std::vector<int>& order) {
  if (order == std::vector<int>{0, 2, 3, 1}) return ", NHWC for NCHW";
  if (order == std::vector<int>{0, 3, 1, 2}) return ", NCHW for NHWC";
  return "";
}

// splitmix64: sums of it do not depend on the order of the values.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

struct MultisetHash {
  std::uint64_t a = 0, b = 0;
  bool operator==(const MultisetHash&) const = default;
};

MultisetHash hash_multiset(const std::vector<double>& values) {
  MultisetHash hash;
  for (const double value : values) {
    const auto bits = std::bit_cast<std::uint64_t>(value + 0.0);  // -0 is 0
    hash.a += mix(bits + 0x9e3779b97f4a7c15u);
    hash.b += mix(~bits * 0xd1342543de82ef95u);
  }
  return hash;
}

bool has_two_values(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(),
                     [&](double v) { return v != values[0]; });
}

}  // namespace

// The target's memory holds the golden's axes in another order (or the other
// way round) under the golden's shape.
std::string detect_transpose(const PatternSample& sample) {
  const std::size_t rank = sample.shape.size();
  if (!sample.whole || rank < 2 || rank > kMaxRank || sample.size() < 4)
    return "";
  std::vector<int> order(rank);
  std::iota(order.begin(), order.end(), 0);
  while (std::next_permutation(order.begin(), order.end())) {
    const Reordered place(sample.shape, order);
    // target at place(i) is golden at i: compare there.
    double rest = 0;
    const double limit = 0.01 * sample.dd;
    for (std::int64_t i = 0; i < sample.size() && rest <= limit; ++i) {
      const double r = at(sample.target, place(i)) - at(sample.golden, i);
      rest += r * r;
    }
    if (rest <= limit)
      return fmt::format(
          "permuted axes: the target holds the golden's axes in "
          "the order ({}){}",
          fmt::join(order, ", "), layout_hint(order));
  }
  return "";
}

// The last axis as pairs (0, 1), (2, 3) ... against halves (0, d/2) ...
std::string detect_interleave(const PatternSample& sample) {
  if (sample.shape.empty() || sample.shape.back() < 4 ||
      sample.shape.back() % 2 != 0)
    return "";
  const std::int64_t d = sample.shape.back();
  const auto source = [&](std::int64_t i, bool interleaved) {
    const std::int64_t j = i % d;
    const std::int64_t from =
        interleaved ? j / 2 + j % 2 * (d / 2) : j % (d / 2) * 2 + j / (d / 2);
    return at(sample.golden, i - j + from);
  };
  for (const bool interleaved : {true, false})
    if (sample.explains([&](std::int64_t i) { return source(i, interleaved); }))
      return fmt::format("the last axis is {}: RoPE pairs in the other layout",
                         interleaved
                             ? "interleaved where the golden has halves"
                             : "in halves where the golden is interleaved");
  return "";
}

// Equal after moving by one along an axis; what falls off the end is free.
std::string detect_shift(const PatternSample& sample) {
  const Shape strides = contiguous_strides(sample.shape);
  for (std::size_t axis = 0; axis < sample.shape.size(); ++axis) {
    const std::int64_t dim = sample.shape[axis], stride = strides[axis];
    if (dim < 3) continue;
    for (const int by : {1, -1}) {
      const auto inside = [&](std::int64_t i) {
        const std::int64_t from = i / stride % dim - by;
        return from >= 0 && from < dim;
      };
      const bool explained = sample.explains([&](std::int64_t i) {
        return inside(i) ? at(sample.golden, i - by * stride)
                         : at(sample.target, i);
      });
      if (explained && has_two_values(sample.golden))
        return fmt::format("shifted by {} along axis {}", by, axis);
    }
  }
  return "";
}

std::string detect_permutation(const PatternSample& sample) {
  if (sample.size() < 4 || sample.differing < 2) return "";
  if (hash_multiset(sample.golden) != hash_multiset(sample.target)) return "";
  return fmt::format(
      "a permutation: both {} hold the same values in another "
      "order",
      sample.whole ? "sides" : "windows");
}

}  // namespace assay
