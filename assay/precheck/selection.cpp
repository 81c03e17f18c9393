#include "assay/precheck/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/base/text.h"
#include "assay/precheck/random/arguments.h"

namespace assay::precheck {
namespace {

enum class Kind : std::uint8_t { kOne, kSeveral, kRunning, kPool };

struct Chooser {
  std::string_view name, indices;
  int dim;  // place of the argument
  Kind kind;
  bool whole;    // without a dimension the whole tensor, else the last one
  int flat = 0;  // of a pool: dimensions that an index counts
};

constexpr std::array kChoosers = {
    Chooser{"topk", "output.1", 2, Kind::kSeveral, false},
    Chooser{"sort", "output.1", 1, Kind::kSeveral, false},
    Chooser{"argsort", "output.0", 1, Kind::kSeveral, false},
    Chooser{"argmax", "output.0", 1, Kind::kOne, true},
    Chooser{"argmin", "output.0", 1, Kind::kOne, true},
    Chooser{"max", "output.1", 1, Kind::kOne, false},
    Chooser{"min", "output.1", 1, Kind::kOne, false},
    Chooser{"median", "output.1", 1, Kind::kOne, false},
    Chooser{"nanmedian", "output.1", 1, Kind::kOne, false},
    Chooser{"mode", "output.1", 1, Kind::kOne, false},
    Chooser{"kthvalue", "output.1", 2, Kind::kOne, false},
    Chooser{"cummax", "output.1", 1, Kind::kRunning, false},
    Chooser{"cummin", "output.1", 1, Kind::kRunning, false},
    Chooser{"max_pool1d_with_indices", "output.1", -1, Kind::kPool, false, 1},
    Chooser{"max_pool2d_with_indices", "output.1", -1, Kind::kPool, false, 2},
    Chooser{"max_pool3d_with_indices", "output.1", -1, Kind::kPool, false, 3},
    Chooser{"adaptive_max_pool1d", "output.1", -1, Kind::kPool, false, 1},
    Chooser{"adaptive_max_pool2d", "output.1", -1, Kind::kPool, false, 2},
    Chooser{"adaptive_max_pool3d", "output.1", -1, Kind::kPool, false, 3},
};

const Chooser* chooser_of(const std::string& api) {
  const std::string name = random_name(api);
  const auto found =
      std::find_if(kChoosers.begin(), kChoosers.end(),
                   [&](const Chooser& each) { return each.name == name; });
  return found == kChoosers.end() ? nullptr : &*found;
}

const Tensor* find(const conform::TensorMap& tensors, std::string_view name) {
  const auto found = tensors.find(std::string(name));
  return found == tensors.end() ? nullptr : &found->second;
}

// The lines that are chosen from, in both tensors: element (line, i) of the
// input is `in(line, i)`, of the indices `out(line, i)`.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1, chosen = 1;

  std::int64_t count() const { return outer * inner; }
  std::int64_t place(std::int64_t line, std::int64_t i,
                     std::int64_t size) const {
    return (line / inner * size + i) * inner + line % inner;
  }
  std::int64_t in(std::int64_t line, std::int64_t i) const {
    return place(line, i, length);
  }
  std::int64_t out(std::int64_t line, std::int64_t i) const {
    return place(line, i, chosen);
  }
};

// Elements that may be equal: floats as numbers, all others by their bytes.
class Elements {
 public:
  explicit Elements(const Tensor& tensor)
      : tensor_(contiguous(tensor)), exact_(is_exact(tensor.dtype())) {
    if (!exact_) numbers_ = elements(tensor_);
  }

  bool equal(std::int64_t a, std::int64_t b) const {
    if (exact_) {
      const std::size_t bytes = traits(tensor_.dtype()).bits / 8;
      const std::byte* data = tensor_.view.data;
      return std::memcmp(data + static_cast<std::size_t>(a) * bytes,
                         data + static_cast<std::size_t>(b) * bytes,
                         bytes) == 0;
    }
    const double x = numbers_[static_cast<std::size_t>(a)];
    const double y = numbers_[static_cast<std::size_t>(b)];
    return x == y || (std::isnan(x) && std::isnan(y));
  }

 private:
  const Tensor tensor_;
  const bool exact_;
  std::vector<double> numbers_;
};

struct Difference {
  std::int64_t count = 0, differ = 0, wrong = 0;
  bool twice = false;

  bool ties_alone() const { return differ > 0 && wrong == 0 && !twice; }
};

class Looker {
 public:
  explicit Looker(const Selection& selection)
      : chooser_(chooser_of(selection.api)),
        call_{selection.api, &selection.inputs.arguments,
              &selection.inputs.tensors},
        arguments_(call_),
        input_(arguments_.tensor(0, {"input", "self"})) {
    if (!chooser_) return;
    golden_ = find(selection.golden, chooser_->indices);
    device_ = find(selection.device, chooser_->indices);
  }

  // Whether there is anything to look at, and how it lies.
  bool able() {
    if (!input_ || !golden_ || !device_ || is_complex(input_->dtype()) ||
        golden_->shape() != device_->shape() || golden_->numel() == 0 ||
        golden_->dtype() != DType::kI64 || device_->dtype() != DType::kI64)
      return false;
    return chooser_->kind == Kind::kPool ? lay_out_pool() : lay_out();
  }

  Difference look() const {
    const Elements values(*input_);
    const Tensor golden = contiguous(*golden_), device = contiguous(*device_);
    Difference found;
    found.count = golden.numel();
    for (std::int64_t line = 0; line < lines_.count(); ++line) {
      for (std::int64_t i = 0; i < lines_.chosen; ++i) {
        const std::int64_t at = lines_.out(line, i);
        const std::int64_t a = golden.data<std::int64_t>()[at];
        const std::int64_t b = device.data<std::int64_t>()[at];
        if (a == b) continue;
        ++found.differ;
        const bool fits = a >= 0 && b >= 0 && a < lines_.length &&
                          b < end_of(i) &&
                          values.equal(lines_.in(line, a), lines_.in(line, b));
        found.wrong += fits ? 0 : 1;
      }
      found.twice = found.twice || chosen_twice(device, line);
    }
    return found;
  }

  Tensor scattered(const Tensor& gradient) const {
    Tensor sums = Tensor::zeros(DType::kF64, input_->shape());
    const std::vector<double> given = elements(gradient);
    const Tensor device = contiguous(*device_);
    auto* out = sums.mutable_data<double>();
    for (std::int64_t line = 0; line < lines_.count(); ++line)
      for (std::int64_t i = 0; i < lines_.chosen; ++i) {
        const std::int64_t at = lines_.out(line, i);
        out[lines_.in(line, device.data<std::int64_t>()[at])] +=
            given[static_cast<std::size_t>(at)];
      }
    return sums;
  }

  bool is_pool() const { return chooser_->kind == Kind::kPool; }
  bool promises_order() const {
    return arguments_.flag(-1, {"stable"}, false) != false;
  }
  std::int64_t chosen() const { return golden_->numel(); }

 private:
  bool lay_out() {
    const Shape& shape = input_->shape();
    const auto rank = static_cast<std::int64_t>(shape.size());
    const auto given =
        arguments_.number(chooser_->dim, {"dim", "axis"}, std::nullopt);
    if (!given && chooser_->whole) {
      lines_.length = input_->numel();
      return golden_->numel() == 1;
    }
    auto dim = static_cast<std::int64_t>(given.value_or(-1));
    if (dim < 0) dim += rank;
    if (rank == 0) {
      dim = 0;
    } else if (dim < 0 || dim >= rank) {
      return false;
    }
    for (std::int64_t d = 0; d < rank; ++d) {
      const std::int64_t size = shape[static_cast<std::size_t>(d)];
      (d < dim ? lines_.outer : d > dim ? lines_.inner : lines_.length) *= size;
    }
    return divide();
  }

  bool lay_out_pool() {
    const Shape& shape = input_->shape();
    const auto flat = static_cast<std::size_t>(chooser_->flat);
    if (shape.size() < flat) return false;
    for (std::size_t d = 0; d < shape.size(); ++d)
      (d + flat < shape.size() ? lines_.outer : lines_.length) *= shape[d];
    return divide();
  }

  bool divide() {
    const std::int64_t lines = lines_.count();
    if (lines == 0 || golden_->numel() % lines != 0) return false;
    lines_.chosen = golden_->numel() / lines;
    return true;
  }

  // A running extreme lies before where it is asked for.
  std::int64_t end_of(std::int64_t i) const {
    return chooser_->kind == Kind::kRunning ? std::min(i + 1, lines_.length)
                                            : lines_.length;
  }

  bool chosen_twice(const Tensor& device, std::int64_t line) const {
    if (chooser_->kind != Kind::kSeveral) return false;
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < lines_.chosen; ++i)
      all.push_back(device.data<std::int64_t>()[lines_.out(line, i)]);
    std::sort(all.begin(), all.end());
    return std::adjacent_find(all.begin(), all.end()) != all.end();
  }

  const Chooser* chooser_;
  const RandomCall call_;
  const RandomArguments arguments_;
  const Tensor* input_;
  const Tensor* golden_ = nullptr;
  const Tensor* device_ = nullptr;
  Lines lines_;
};

std::string text_of(const Difference& found) {
  const std::string differ =
      fmt::format("{} of {} indices differ", human_count(found.differ),
                  human_count(found.count));
  if (found.twice) return differ + ", and some choose one element twice";
  if (found.wrong > 0)
    return fmt::format("{}, {} of them select another value", differ,
                       human_count(found.wrong));
  return differ + ", each selects an equal value (ties)";
}

}  // namespace

std::string chosen_indices(const std::string& api) {
  const Chooser* chooser = chooser_of(api);
  return chooser ? std::string(chooser->indices) : "";
}

void judge_selection(const Selection& selection, Row& row) {
  Looker looker(selection);
  if (row.verdict != Verdict::kMismatch || !looker.able()) return;
  const Difference found = looker.look();
  if (found.differ == 0) return;
  Reason reason{"ties", text_of(found), 0, 0, -1, true};
  if (found.ties_alone() && !looker.promises_order()) {
    for (Reason& each : row.reasons) each.note = true;
    row.origin = Origin::kNone;
    row.cause.clear();
    row.verdict = looker.is_pool() ? Verdict::kIncomplete : Verdict::kMatch;
    reason.note = !looker.is_pool();
    if (looker.is_pool())
      reason.text += "; whether in the same window was not checked";
    row.reasons.insert(row.reasons.begin(), std::move(reason));
    return;
  }
  if (found.ties_alone()) reason.text += ", but stable=True promises the order";
  row.reasons.push_back(std::move(reason));
}

std::optional<Tensor> gradient_of_choice(const Selection& selection) {
  const Tensor* gradient = find(selection.inputs.tensors, "gradient.output.0");
  Looker looker(selection);
  if (!gradient || chosen_indices(selection.api) == "output.0" ||
      !looker.able() || gradient->numel() != looker.chosen() ||
      is_complex(gradient->dtype()) || !looker.look().ties_alone())
    return std::nullopt;
  return looker.scattered(*gradient);
}

}  // namespace assay::precheck
