// What delayed scaling remembers of earlier steps, and how a step's maxima
// become the next scales.
//
// Source: NVTE, delayed_scaling.cu and quantization.py. Row 0 of the history is
// the staging row: every quantisation leaves its amax there; an update moves it
// to the last row, so row 1 is the oldest. Not thread-safe: one state belongs
// to one module.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

struct DelayedScalingState {
  Tensor amax_history;  // float32 [length, slots]
  Tensor scale;         // float32 [slots]

  // Zero history, scales of one. Throws Error{kUsage} for length < 1 or
  // slots < 0.
  DelayedScalingState(std::int64_t length, std::int64_t slots);

  std::int64_t length() const { return amax_history.shape()[0]; }
  std::int64_t slots() const { return amax_history.shape()[1]; }
  float* staging() { return amax_history.mutable_data<float>(); }

  // staging()[slot] = fmax(staging()[slot], amax), as the kernels' atomic
  // maximum: a slot used twice in a step keeps the larger.
  void record(std::int64_t slot, float amax);
  // Zero rows are appended, or the last rows dropped. Throws Error{kUsage} for
  // length < 1.
  void set_length(std::int64_t length);
  // A state with memory of its own.
  DelayedScalingState copy() const;
};

enum class AmaxAlgorithm : std::uint8_t { kMax, kMostRecent };

// Of [length, slots] histories, row 0 the newest: [slots] maxima.
using AmaxFunction = std::function<Tensor(const Tensor& amax_history)>;
// (amax [slots], scale [slots], fp8_max): [slots] scales.
using ScaleFunction = std::function<Tensor(const Tensor& amax,
                                           const Tensor& scale, float fp8_max)>;

struct DelayedUpdateOptions {
  float fp8_max = 448.0f;
  int margin = 0;  // scales are made for fp8_max * 2^-margin
  AmaxAlgorithm algorithm = AmaxAlgorithm::kMax;
  // Either of them makes the update an unfused one.
  AmaxFunction amax_function;
  ScaleFunction scale_function;
  // What NVTE_UNFUSED_FP8_UPDATE=1 asks for.
  bool unfused = false;
};

// NVTE's default. Of each slot: last = reduced[slot] where that is not 0 (or
// reduced is empty), else the staging amax. last = 0: history and scale stay.
// Else the column moves up by one, last goes to the last row, row 0 becomes 0;
// amax = the largest entry of the moved column before row 0 is cleared (NaN
// skipped) or last; and where amax is finite and positive scale =
// rn(fp8_max * 2^-margin / amax), FLT_MAX where that is infinite. A length of
// 1 is used up and cleared.
void delayed_update_fused(DelayedScalingState& state,
                          std::span<const float> reduced,
                          const DelayedUpdateOptions& options);

// The single-tensor call of the C API: the same, but a zero moves the history
// like any other value.
void delayed_update_single(DelayedScalingState& state,
                           const DelayedUpdateOptions& options);

// NVTE's Python form: amax = the column's maximum, where one NaN makes NaN, or
// row 0; the history always moves; scale = rn(rn(1 / amax) * fp8_max) /
// 2^margin, in this order, as torch divides a number by a tensor (1 ulp beside
// the fused scale in a quarter of cases). Same guards. `reduced`, where not
// empty, replaces row 0 first.
void delayed_update_unfused(DelayedScalingState& state,
                            std::span<const float> reduced,
                            const DelayedUpdateOptions& options);

// All states of a region, in order. Their staging rows are put in one buffer,
// reduced over the group (null: one process), and every state is updated:
// unfused where `options` asks for it, else fused.
void delayed_bulk_update(std::span<DelayedScalingState* const> states,
                         AmaxReduction* reduction,
                         const DelayedUpdateOptions& options);
// The same for a buffer that is reduced already: staging rows of all states
// one after the other. Throws Error{kUsage} for a wrong count.
void delayed_bulk_update(std::span<DelayedScalingState* const> states,
                         std::span<const float> reduced,
                         const DelayedUpdateOptions& options);

// Activation checkpointing: the recomputed forward pass must quantise with the
// scales of the first, though updates have come between, and must not leave
// its maxima behind. save() after the first pass; begin() and end() around the
// recomputation take the oldest saved pass. Throws Error{kUsage} for begin()
// without a saved pass or inside another, and end() without begin().
class RecomputeStash {
 public:
  void save(const DelayedScalingState& state);
  void begin(DelayedScalingState& state);
  void end(DelayedScalingState& state);
  std::size_t saved() const { return stash_.size(); }

 private:
  std::deque<DelayedScalingState> stash_;
  std::vector<DelayedScalingState> current_;  // none or one
};

}  // namespace assay::te
