// Delayed and current scaling.
#include <algorithm>
#include <cstring>

#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed_state.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/tensor_scaled.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

using namespace te;

DType format_of(const Case& c) {
  return c.text("format") == "e4m3" ? DType::kE4M3FN : DType::kE5M2;
}

Tensor scalar(float value) {
  Tensor t = Tensor::empty(DType::kF32, {1});
  *t.mutable_data<float>() = value;
  return t;
}

void run_cast(const Case& c, Answers& answers) {
  const auto scale = static_cast<float>(c.values("scale").front());
  const auto q = quantize_scaled(c.input("x"), scale,
                                 {.format = format_of(c), .with_amax = true});
  answers.give("code", q.rowwise->data);
  answers.give("code_t", q.columnwise->data);
  answers.give("amax", q.rowwise->amax);
  answers.give("dequant_f32", dequantize(q, DType::kF32));
  answers.give("dequant_bf16", dequantize(q, DType::kBF16));
}

void run_current(const Case& c, Answers& answers) {
  CurrentScalingOptions options;
  options.format = format_of(c);
  options.pow2 = c.flag("force_pow_2_scales");
  options.epsilon = static_cast<float>(c.number("amax_epsilon"));
  CurrentScalingQuantizer quantizer(options);
  const auto q = quantizer.quantize(c.input("x"));
  answers.give("amax", q.rowwise->amax);
  answers.give("scale", scalar(compute_scale(*q.rowwise->amax.data<float>(),
                                             format_max(options.format),
                                             {options.pow2, options.epsilon})));
  answers.give("scale_inv", q.rowwise->scale_inv);
  answers.give("code", q.rowwise->data);
  answers.give("code_t", q.columnwise->data);
  answers.give("dequant_f32", dequantize(*q.columnwise, q.shape, DType::kF32));
}

void run_scale_table(const Case& c, Answers& answers) {
  const Tensor amax = c.array("amax");
  for (const std::string& name : c.arrays()) {
    if (name.rfind("scale_e", 0) != 0) continue;
    const bool e4m3 = name.find("e4m3") != std::string::npos;
    ScaleOptions options;
    options.pow2 = name.find("pow2") != std::string::npos;
    if (name.find("eps0") == std::string::npos)
      options.epsilon = static_cast<float>(c.number("eps"));
    const Scales scales =
        scales_from_amax(amax, e4m3 ? DType::kE4M3FN : DType::kE5M2, options);
    answers.give(name, scales.scale);
    answers.give("scale_inv" + name.substr(5), scales.scale_inv);
  }
}

// A history that grows by one state each step.
struct Series {
  DelayedScalingState state;
  Tensor histories, scales;
  std::int64_t step = 0;

  Series(const Tensor& history, std::int64_t steps)
      : state(history.shape()[0], history.shape()[1]),
        histories(Tensor::empty(
            DType::kF32, {steps, history.shape()[0], history.shape()[1]})),
        scales(Tensor::empty(DType::kF32, {steps, history.shape()[1]})) {
    std::copy_n(history.data<float>(), history.numel(), state.staging());
  }

  void stage(const float* amax) {
    std::copy_n(amax, state.slots(), state.staging());
  }
  void keep() {
    const std::int64_t size = state.amax_history.numel();
    std::copy_n(state.staging(), size,
                histories.mutable_data<float>() + step * size);
    std::copy_n(state.scale.data<float>(), state.slots(),
                scales.mutable_data<float>() + step * state.slots());
    ++step;
  }
};

DelayedUpdateOptions update_options(const Case& c) {
  DelayedUpdateOptions options;
  options.fp8_max = format_max(format_of(c));
  options.margin = static_cast<int>(c.number("margin"));
  options.algorithm = c.text("amax_compute_algo") == "max"
                          ? AmaxAlgorithm::kMax
                          : AmaxAlgorithm::kMostRecent;
  return options;
}

void run_delayed(const Case& c, Answers& answers) {
  const Tensor amax = c.array("amax_in");
  const std::int64_t steps = amax.shape()[0], slots = amax.shape()[1];
  Series series(c.array("history_init"), steps);
  std::copy_n(c.array("scale_init").data<float>(), slots,
              series.state.scale.mutable_data<float>());
  const DelayedUpdateOptions options = update_options(c);
  const std::string semantics = c.text("semantics");
  for (std::int64_t t = 0; t < steps; ++t) {
    const float* row = amax.data<float>() + t * slots;
    const std::span<const float> reduced(row, static_cast<std::size_t>(slots));
    series.stage(row);
    if (semantics == "fused")
      delayed_update_fused(series.state, reduced, options);
    else if (semantics == "unfused")
      delayed_update_unfused(series.state, reduced, options);
    else
      delayed_update_single(series.state, options);
    series.keep();
  }
  answers.give("history_after", series.histories);
  answers.give("scale_after", series.scales);
}

void run_bulk(const Case& c, Answers& answers) {
  const Tensor local = c.array("row0_local"), reduced = c.array("reduced");
  const std::int64_t steps = local.shape()[0], slots = local.shape()[1];
  Series a(c.array("history0_init"), steps), b(c.array("history1_init"), steps);
  DelayedScalingState* const states[] = {&a.state, &b.state};
  for (std::int64_t t = 0; t < steps; ++t) {
    a.stage(local.data<float>() + t * slots);
    b.stage(local.data<float>() + t * slots + a.state.slots());
    delayed_bulk_update(states,
                        std::span(reduced.data<float>() + t * slots,
                                  static_cast<std::size_t>(slots)),
                        update_options(c));
    a.keep();
    b.keep();
  }
  answers.give("history0_after", a.histories);
  answers.give("history1_after", b.histories);
  answers.give("scale0_after", a.scales);
  answers.give("scale1_after", b.scales);
}

const Registration kCast{"cast_", run_cast};
const Registration kCurrent{"current_", run_current};
const Registration kTable{"scale_from_amax", run_scale_table};
const Registration kDelayed{"delayed_", run_delayed};
const Registration kBulk{"delayed_bulk", run_bulk};

}  // namespace
}  // namespace assay::oracle
