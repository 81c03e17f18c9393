#include "assay/precheck/indices.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "assay/base/hash.h"
#include "assay/core/philox.h"
#include "assay/numerics/element.h"
#include "assay/precheck/generate.h"
#include "assay/precheck/index_places.h"
#include "assay/precheck/random/arguments.h"

namespace assay::precheck {
namespace {

using Numbers = std::vector<std::int64_t>;

class Dice {
 public:
  explicit Dice(std::uint64_t key) : stream_(key, 3) {}

  std::int64_t below(std::int64_t end) {
    const double u = stream_.next_uniform() + stream_.next_uniform() * 0x1p-32;
    return std::min(end - 1,
                    static_cast<std::int64_t>(u * static_cast<double>(end)));
  }

  void shuffle(Numbers& numbers) {
    for (std::size_t i = numbers.size(); i > 1; --i)
      std::swap(numbers[i - 1], numbers[static_cast<std::size_t>(
                                    below(static_cast<std::int64_t>(i)))]);
  }

  // `count` different numbers of [0, end), the first and the last among them.
  Numbers distinct(std::int64_t count, std::int64_t end) {
    Numbers numbers;
    if (end <= 4 * count) {
      numbers.resize(
          static_cast<std::size_t>(std::max<std::int64_t>(0, end - 2)));
      std::iota(numbers.begin(), numbers.end(), 1);
      shuffle(numbers);
      numbers.insert(numbers.begin(), 0);
      if (end > 1) numbers.insert(numbers.begin() + 1, end - 1);
      numbers.resize(static_cast<std::size_t>(count));
    } else {
      std::unordered_set<std::int64_t> seen;
      const auto add = [&](std::int64_t number) {
        if (seen.insert(number).second) numbers.push_back(number);
      };
      add(0);
      if (count > 1) add(end - 1);
      while (static_cast<std::int64_t>(numbers.size()) < count) add(below(end));
    }
    shuffle(numbers);
    return numbers;
  }

 private:
  PhiloxStream stream_;
};

void put(Tensor& tensor, std::int64_t i, std::int64_t value) {
  store_from_double(tensor.dtype(), static_cast<double>(value),
                    tensor.mutable_data(), i);
}

// ---- class targets

struct Target {
  std::string name;
  std::int64_t ignored, classes;
};

std::optional<Target> target_of(const std::string& api,
                                const CallInputs& inputs) {
  static const std::unordered_set<std::string> kLosses = {
      "cross_entropy",      "cross_entropy_loss",    "nll_loss",
      "nll_loss2d",         "nll_loss_nd",           "nll_loss_forward",
      "nll_loss2d_forward", "npu_cross_entropy_loss"};
  if (kLosses.count(random_name(api)) == 0) return std::nullopt;
  const RandomCall call{api, &inputs.arguments, &inputs.tensors};
  const RandomArguments arguments(call);
  const Tensor* scores = arguments.tensor(0, {"input", "self"});
  const conform::Value* target = arguments.find(1, {"target"});
  const conform::Value* name = target ? target->find("tensor") : nullptr;
  const auto ignored = arguments.number(4, {"ignore_index"}, -100);
  if (!scores || scores->shape().empty() || !name || !name->is_text() ||
      !ignored)
    return std::nullopt;
  const Shape& shape = scores->shape();
  return Target{name->text(), static_cast<std::int64_t>(*ignored),
                shape.size() > 1 ? shape[1] : shape[0]};
}

// How many of `count` targets are ignored, from their mean and that classes
// between `low` and `high` are equally frequent.
std::int64_t ignored_count(const Record& record, std::int64_t count,
                           double ignored, double low, double high) {
  const double middle = 0.5 * (low + high);
  double share = 0.125;  // where nothing is known
  if (record.stats.mean && std::isfinite(*record.stats.mean))
    share = (*record.stats.mean - middle) / (ignored - middle);
  const double wanted = share * static_cast<double>(count);
  return std::llround(std::clamp(wanted, 1.0, static_cast<double>(count - 1)));
}

void settle_target(const Target& target, const Record& record,
                   std::uint64_t key, Tensor& tensor) {
  const auto& [max, min, mean, norm] = record.stats;
  const auto count = tensor.numel();
  const auto ignored = static_cast<double>(target.ignored);
  if (!min || !max || count < 2 || !is_exact(tensor.dtype()) || *min == *max ||
      (target.ignored >= 0 && target.ignored < target.classes))
    return;
  Record rest = record;
  if (*min == ignored)
    rest.stats.min = 0;
  else if (*max == ignored)
    rest.stats.max = static_cast<double>(target.classes - 1);
  else
    return;
  const std::int64_t left_out =
      ignored_count(record, count, ignored, *rest.stats.min, *rest.stats.max);
  const auto lost = static_cast<double>(left_out);
  const auto kept = static_cast<double>(count - left_out);
  rest.facts.shape = {count - left_out};
  if (mean)
    rest.stats.mean =
        (*mean * static_cast<double>(count) - lost * ignored) / kept;
  if (norm)
    rest.stats.norm =
        std::sqrt(std::max(0.0, *norm * *norm - lost * ignored * ignored));
  const std::vector<double> classes = elements(generate(rest, key));
  Numbers order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  Dice(key).shuffle(order);
  for (std::size_t i = 0; i < order.size(); ++i)
    put(tensor, order[i],
        i < classes.size() ? static_cast<std::int64_t>(classes[i])
                           : target.ignored);
}

// ---- places

struct Range {
  std::int64_t low = 0, count = 0;
};

// Of the recorded numbers, cut where it goes round the dimension.
std::optional<Range> range_of(const Record& record, std::int64_t size) {
  const auto& stats = record.stats;
  if (!stats.min || !stats.max || !(std::fabs(*stats.min) < 0x1p52) ||
      !(std::fabs(*stats.max) < 0x1p52) || *stats.max < *stats.min)
    return std::nullopt;
  Range range;
  range.low = static_cast<std::int64_t>(*stats.min);
  range.count = static_cast<std::int64_t>(*stats.max) - range.low + 1;
  if (size > 0) range.count = std::min(range.count, size);
  return range;
}

void settle_lines(Tensor& tensor, std::int64_t along, const Range& range,
                  Dice& dice) {
  const Shape& shape = tensor.shape();
  const std::int64_t length = shape[static_cast<std::size_t>(along)];
  std::int64_t inner = 1;
  for (std::size_t d = static_cast<std::size_t>(along) + 1; d < shape.size();
       ++d)
    inner *= shape[d];
  const std::int64_t lines = tensor.numel() / length;
  for (std::int64_t line = 0; line < lines; ++line) {
    const Numbers numbers = dice.distinct(length, range.count);
    const std::int64_t begin = line / inner * inner * length + line % inner;
    for (std::int64_t i = 0; i < length; ++i)
      put(tensor, begin + i * inner,
          range.low + numbers[static_cast<std::size_t>(i)]);
  }
}

class PlaceSettler {
 public:
  PlaceSettler(const Places& places, const Generated& generated,
               std::uint64_t key, CallInputs& inputs)
      : places_(places), generated_(generated), inputs_(inputs), dice_(key) {}

  void run() {
    bool one_is_enough = false;
    for (const IndexTensor& index : places_.indices) {
      const Record* record = made(index);
      const auto range = record ? range_of(*record, index.size) : std::nullopt;
      if (!range) continue;
      Tensor& tensor = inputs_.tensors.at(index.name);
      if (places_.along >= 0) {
        const auto along = static_cast<std::size_t>(places_.along);
        if (along < tensor.shape().size() && tensor.numel() > 0 &&
            tensor.shape()[along] <= range->count)
          settle_lines(tensor, places_.along, *range, dice_);
      } else if (tensor.numel() <= range->count) {
        const Numbers numbers = dice_.distinct(tensor.numel(), range->count);
        for (std::size_t i = 0; i < numbers.size(); ++i)
          put(tensor, static_cast<std::int64_t>(i), range->low + numbers[i]);
        one_is_enough = true;
      }
    }
    if (!one_is_enough && places_.along < 0) settle_together();
  }

 private:
  // Null: not generated, or without elements.
  const Record* made(const IndexTensor& index) const {
    const auto found = generated_.find(index.name);
    if (found == generated_.end()) return nullptr;
    return inputs_.tensors.at(index.name).numel() > 0 ? found->second : nullptr;
  }

  // Several indices of one shape: the tuples are distinct.
  void settle_together() {
    std::vector<std::pair<Tensor*, Range>> all;
    double room = 1;
    for (const IndexTensor& index : places_.indices) {
      const Record* record = made(index);
      const auto range = record ? range_of(*record, index.size) : std::nullopt;
      if (!range) return;
      all.emplace_back(&inputs_.tensors.at(index.name), *range);
      room *= static_cast<double>(range->count);
      if (all.back().first->shape() != all.front().first->shape()) return;
    }
    if (all.size() < 2 || room > 0x1p52) return;
    const std::int64_t count = all[0].first->numel();
    if (static_cast<double>(count) > room) return;
    const Numbers numbers =
        dice_.distinct(count, static_cast<std::int64_t>(room));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::int64_t number = numbers[i];
      for (const auto& [tensor, range] : all) {
        put(*tensor, static_cast<std::int64_t>(i),
            range.low + number % range.count);
        number /= range.count;
      }
    }
  }

  const Places& places_;
  const Generated& generated_;
  CallInputs& inputs_;
  Dice dice_;
};

// ---- whether a place comes twice

bool twice_along(const Tensor& index, std::int64_t along, std::int64_t size) {
  const std::vector<double> numbers = elements(index);
  const Shape& shape = index.shape();
  if (static_cast<std::size_t>(along) >= shape.size() || numbers.empty())
    return false;
  const std::int64_t length = shape[static_cast<std::size_t>(along)];
  std::int64_t inner = 1;
  for (std::size_t d = static_cast<std::size_t>(along) + 1; d < shape.size();
       ++d)
    inner *= shape[d];
  std::unordered_set<double> seen;
  for (std::int64_t line = 0; line < index.numel() / length; ++line) {
    seen.clear();
    const std::int64_t begin = line / inner * inner * length + line % inner;
    for (std::int64_t i = 0; i < length; ++i) {
      double at = numbers[static_cast<std::size_t>(begin + i * inner)];
      if (at < 0 && size > 0) at += static_cast<double>(size);
      if (!seen.insert(at).second) return true;
    }
  }
  return false;
}

// The numbers of a tensor, repeated to `shape`; empty where it does not fit.
std::vector<double> repeated(const Tensor& tensor, const Shape& shape) {
  const Shape& from = tensor.shape();
  const std::vector<double> numbers = elements(tensor);
  const std::int64_t count = checked_numel(shape).value_or(0);
  const Shape own = contiguous_strides(from);
  std::vector<double> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, at = 0;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      const std::size_t skipped = shape.size() - from.size();
      if (d >= skipped && from[d - skipped] != 1)
        at += rest % shape[d] * own[d - skipped];
    }
    out.push_back(numbers[static_cast<std::size_t>(at)]);
  }
  return out;
}

std::optional<Shape> common_shape(const Places& places,
                                  const CallInputs& inputs) {
  Shape shape;
  for (const IndexTensor& index : places.indices) {
    const Shape& one = inputs.tensors.at(index.name).shape();
    if (one.size() > shape.size())
      shape.insert(shape.begin(), one.size() - shape.size(), 1);
    for (std::size_t i = 0; i < one.size(); ++i) {
      std::int64_t& size = shape[shape.size() - one.size() + i];
      if (size != one[i] && size != 1 && one[i] != 1) return std::nullopt;
      if (size == 1) size = one[i];
    }
  }
  return shape;
}

bool twice_together(const Places& places, const CallInputs& inputs) {
  const auto shape = common_shape(places, inputs);
  if (!shape) return false;
  const auto count =
      static_cast<std::size_t>(checked_numel(*shape).value_or(0));
  std::vector<std::vector<double>> tuples(count);
  for (const IndexTensor& index : places.indices) {
    const auto numbers = repeated(inputs.tensors.at(index.name), *shape);
    for (std::size_t i = 0; i < count; ++i)
      tuples[i].push_back(numbers[i] < 0 && index.size > 0
                              ? numbers[i] + static_cast<double>(index.size)
                              : numbers[i]);
  }
  std::sort(tuples.begin(), tuples.end());
  return std::adjacent_find(tuples.begin(), tuples.end()) != tuples.end();
}

}  // namespace

void settle_indices(const std::string& api, const Generated& generated,
                    std::uint64_t key, CallInputs& inputs) {
  if (generated.empty()) return;
  if (const auto target = target_of(api, inputs)) {
    const auto found = generated.find(target->name);
    if (found != generated.end())
      settle_target(*target, *found->second, hash128("target", key).low,
                    inputs.tensors.at(target->name));
  }
  const Places places = places_of(api, inputs);
  PlaceSettler(places, generated, hash128("places", key).low, inputs).run();
}

bool writes_twice(const std::string& api, const CallInputs& inputs) {
  const Places places = places_of(api, inputs);
  if (places.empty()) return false;
  if (places.along < 0) return twice_together(places, inputs);
  const IndexTensor& index = places.indices[0];
  return twice_along(inputs.tensors.at(index.name), places.along, index.size);
}

}  // namespace assay::precheck
