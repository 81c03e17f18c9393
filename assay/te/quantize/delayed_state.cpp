#include "assay/te/quantize/delayed_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "assay/te/check.h"

namespace assay::te {
namespace {

Tensor copy_of(const Tensor& t) {
  Tensor out = Tensor::empty(t.dtype(), t.shape(), t.device);
  const Tensor from = contiguous(t);
  std::memcpy(out.mutable_data(), from.view.data, from.view.bytes().size());
  return out;
}

void require_length(std::int64_t length) {
  require(length >= 1, "DelayedScalingState", "amax_history_len",
          std::to_string(length), "1 or more");
}

// The scale of one slot under the guards that every update shares.
float guarded(float amax, float quotient, float old) {
  if (!(amax > 0) || !std::isfinite(amax)) return old;
  return std::isinf(quotient) ? std::numeric_limits<float>::max() : quotient;
}

// A column of a row-major history.
class Column {
 public:
  Column(DelayedScalingState& state, std::int64_t slot)
      : first_(state.staging() + slot),
        length_(state.length()),
        stride_(state.slots()) {}

  float& operator[](std::int64_t row) { return first_[row * stride_]; }
  std::int64_t length() const { return length_; }

  void move_up(float last) {
    for (std::int64_t i = 0; i + 1 < length_; ++i) (*this)[i] = (*this)[i + 1];
    (*this)[length_ - 1] = last;
  }
  float most() {  // NaN skipped
    float most = 0;
    for (std::int64_t i = 0; i < length_; ++i)
      most = std::fmax(most, (*this)[i]);
    return most;
  }

 private:
  float* first_;
  std::int64_t length_, stride_;
};

void update_slot(DelayedScalingState& state, std::int64_t slot, float last,
                 const DelayedUpdateOptions& options) {
  Column column(state, slot);
  column.move_up(last);
  const float amax =
      options.algorithm == AmaxAlgorithm::kMax ? column.most() : last;
  column[0] = 0;
  float& scale = state.scale.mutable_data<float>()[slot];
  const float most = std::ldexp(options.fp8_max, -options.margin);
  scale = guarded(amax, most / amax, scale);
}

void require_count(std::size_t found, std::int64_t expected) {
  require(static_cast<std::int64_t>(found) == expected, "delayed_update",
          "reduced", std::to_string(found) + " values",
          std::to_string(expected));
}

Tensor row_maxima(DelayedScalingState& state, AmaxAlgorithm algorithm) {
  Tensor amax = Tensor::empty(DType::kF32, {state.slots()});
  auto* out = amax.mutable_data<float>();
  for (std::int64_t s = 0; s < state.slots(); ++s) {
    Column column(state, s);
    out[s] = column[0];
    if (algorithm == AmaxAlgorithm::kMostRecent) continue;
    for (std::int64_t i = 1; i < column.length(); ++i)
      if (!(column[i] <= out[s]) && !std::isnan(out[s])) out[s] = column[i];
  }
  return amax;
}

void require_maximum(const DelayedUpdateOptions& options) {
  require_value(options.fp8_max > 0 && std::isfinite(options.fp8_max),
                "delayed_update", "fp8_max",
                static_cast<double>(options.fp8_max), "finite and above 0");
}

void require_slots(const Tensor& t, const char* what, std::int64_t slots) {
  require_dtype("delayed_update", what, t, {DType::kF32});
  require_shape("delayed_update", what, t, {slots});
}

Tensor default_scales(const Tensor& amax, const Tensor& old,
                      const DelayedUpdateOptions& options) {
  Tensor scale = Tensor::empty(DType::kF32, amax.shape());
  auto* out = scale.mutable_data<float>();
  const float divisor = std::ldexp(1.0f, options.margin);
  for (std::int64_t s = 0; s < amax.numel(); ++s) {
    const float a = amax.data<float>()[s];
    const float quotient = (1.0f / a) * options.fp8_max / divisor;
    out[s] = guarded(a, quotient, old.data<float>()[s]);
  }
  return scale;
}

bool is_unfused(const DelayedUpdateOptions& options) {
  return options.unfused || options.amax_function != nullptr ||
         options.scale_function != nullptr;
}

}  // namespace

DelayedScalingState::DelayedScalingState(std::int64_t length,
                                         std::int64_t slots) {
  require_length(length);
  require(slots >= 0, "DelayedScalingState", "slots", std::to_string(slots),
          "0 or more");
  amax_history = Tensor::zeros(DType::kF32, {length, slots});
  scale = Tensor::empty(DType::kF32, {slots});
  std::fill_n(scale.mutable_data<float>(), slots, 1.0f);
}

void DelayedScalingState::record(std::int64_t slot, float amax) {
  require(slot >= 0 && slot < slots(), "DelayedScalingState", "slot",
          std::to_string(slot), "below " + std::to_string(slots()));
  staging()[slot] = std::fmax(staging()[slot], amax);
}

void DelayedScalingState::set_length(std::int64_t length) {
  require_length(length);
  Tensor changed = Tensor::zeros(DType::kF32, {length, slots()});
  std::copy_n(amax_history.data<float>(),
              std::min(length, this->length()) * slots(),
              changed.mutable_data<float>());
  amax_history = std::move(changed);
}

DelayedScalingState DelayedScalingState::copy() const {
  DelayedScalingState out = *this;
  out.amax_history = copy_of(amax_history);
  out.scale = copy_of(scale);
  return out;
}

void delayed_update_fused(DelayedScalingState& state,
                          std::span<const float> reduced,
                          const DelayedUpdateOptions& options) {
  require_maximum(options);
  if (!reduced.empty()) require_count(reduced.size(), state.slots());
  for (std::int64_t s = 0; s < state.slots(); ++s) {
    float last = reduced.empty() ? 0 : reduced[static_cast<std::size_t>(s)];
    if (last == 0) last = state.staging()[s];
    if (last != 0) update_slot(state, s, last, options);
  }
}

void delayed_update_single(DelayedScalingState& state,
                           const DelayedUpdateOptions& options) {
  require_maximum(options);
  for (std::int64_t s = 0; s < state.slots(); ++s)
    update_slot(state, s, state.staging()[s], options);
}

void delayed_update_unfused(DelayedScalingState& state,
                            std::span<const float> reduced,
                            const DelayedUpdateOptions& options) {
  require_maximum(options);
  if (!reduced.empty()) {
    require_count(reduced.size(), state.slots());
    std::copy(reduced.begin(), reduced.end(), state.staging());
  }
  const Tensor amax = options.amax_function
                          ? options.amax_function(state.amax_history)
                          : row_maxima(state, options.algorithm);
  require_slots(amax, "amax", state.slots());
  for (std::int64_t s = 0; s < state.slots(); ++s) {
    Column column(state, s);
    column.move_up(column[0]);
    column[0] = 0;
  }
  const Tensor scale =
      options.scale_function
          ? options.scale_function(amax, state.scale, options.fp8_max)
          : default_scales(contiguous(amax), state.scale, options);
  require_slots(scale, "scale", state.slots());
  state.scale = copy_of(scale);
}

void delayed_bulk_update(std::span<DelayedScalingState* const> states,
                         AmaxReduction* reduction,
                         const DelayedUpdateOptions& options) {
  std::vector<float> buffer;
  for (DelayedScalingState* state : states)
    buffer.insert(buffer.end(), state->staging(),
                  state->staging() + state->slots());
  if (reduction != nullptr && !buffer.empty())
    reduction->reduce_max(buffer.data(),
                          static_cast<std::int64_t>(buffer.size()));
  delayed_bulk_update(states, buffer, options);
}

void delayed_bulk_update(std::span<DelayedScalingState* const> states,
                         std::span<const float> reduced,
                         const DelayedUpdateOptions& options) {
  std::int64_t slots = 0;
  for (const DelayedScalingState* state : states) slots += state->slots();
  require_count(reduced.size(), slots);
  for (DelayedScalingState* state : states) {
    const auto count = static_cast<std::size_t>(state->slots());
    const std::span<const float> own = reduced.first(count);
    reduced = reduced.subspan(count);
    if (is_unfused(options))
      delayed_update_unfused(*state, own, options);
    else
      delayed_update_fused(*state, own, options);
  }
}

void RecomputeStash::save(const DelayedScalingState& state) {
  stash_.push_back(state.copy());
}

void RecomputeStash::begin(DelayedScalingState& state) {
  require(current_.empty(), "RecomputeStash", "begin", "inside a recomputation",
          "end() before");
  require(!stash_.empty(), "RecomputeStash", "begin", "no saved pass",
          "save() after the first pass");
  current_.push_back(std::exchange(state, std::move(stash_.front())));
  stash_.pop_front();
}

void RecomputeStash::end(DelayedScalingState& state) {
  require(!current_.empty(), "RecomputeStash", "end", "no recomputation",
          "begin() before");
  state = std::move(current_.back());
  current_.clear();
}

}  // namespace assay::te
