// Delayed and current scaling.
#include <algorithm>
#include <cstring>
#include <string>

#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed_state.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/tensor_scaled.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

using namespace te;

Tensor scalar(float value) {
  Tensor t = Tensor::empty(DType::kF32, {1});
  *t.mutable_data<float>() = value;
  return t;
}

void run_cast(const Case& c, Answers& answers) {
  const auto scale = static_cast<float>(c.scalar("scale"));
  const auto q = quantize_scaled(c.input("x"), scale,
                                 {.format = c.fp8_format(), .with_amax = true});
  c.states("scale", scale);
  c.states("scale_inv", *q.rowwise->scale_inv.data<float>());
  answers.give("code", q.rowwise->data);
  answers.give("code_t", q.columnwise->data);
  answers.give("amax", q.rowwise->amax);
  answers.give("dequant_f32", dequantize(q, DType::kF32));
  answers.give("dequant_bf16", dequantize(q, DType::kBF16));
}

void run_current(const Case& c, Answers& answers) {
  c.describes({"data"});
  CurrentScalingOptions options;
  options.format = c.fp8_format();
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
  c.one_of("value_for_inf", {"FLT_MAX"});
  for (const std::string format : {"e4m3", "e5m2"})
    for (const bool pow2 : {false, true})
      for (const bool eps : {false, true}) {
        const std::string name = "_" + format + (pow2 ? "_pow2" : "_fp32") +
                                 (eps ? "_eps" : "_eps0");
        ScaleOptions options;
        options.pow2 = pow2;
        if (eps) options.epsilon = static_cast<float>(c.number("eps"));
        const Scales scales = scales_from_amax(
            amax, format == "e4m3" ? DType::kE4M3FN : DType::kE5M2, options);
        answers.give("scale" + name, scales.scale);
        answers.give("scale_inv" + name, scales.scale_inv);
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
  options.fp8_max = format_max(c.fp8_format());
  c.states("fp8_max", options.fp8_max);
  options.margin = static_cast<int>(c.integer("margin"));
  options.algorithm = c.choice<AmaxAlgorithm>(
      "amax_compute_algo", {{"max", AmaxAlgorithm::kMax},
                            {"most_recent", AmaxAlgorithm::kMostRecent}});
  return options;
}

enum class Update { kFused, kUnfused, kSingle };

void run_delayed(const Case& c, Answers& answers) {
  const Tensor amax = c.array("amax_in");
  const std::int64_t steps = amax.shape()[0], slots = amax.shape()[1];
  Series series(c.array("history_init"), steps);
  std::copy_n(c.array("scale_init").data<float>(), slots,
              series.state.scale.mutable_data<float>());
  const DelayedUpdateOptions options = update_options(c);
  const auto semantics = c.choice<Update>(
      "semantics",
      {{"fused", Update::kFused},
       {"unfused", Update::kUnfused},
       {"single-tensor C API: history always rotates", Update::kSingle}});
  c.states("steps", steps);
  c.states("slots", slots);
  c.states("history_len", c.dim("history_init", 0));
  for (std::int64_t t = 0; t < steps; ++t) {
    const float* row = amax.data<float>() + t * slots;
    const std::span<const float> reduced(row, static_cast<std::size_t>(slots));
    series.stage(row);
    if (semantics == Update::kFused)
      delayed_update_fused(series.state, reduced, options);
    else if (semantics == Update::kUnfused)
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
  c.one_of("semantics", {"fused"});
  c.states("steps", steps);
  c.states_list("slots", {a.state.slots(), b.state.slots()});
  c.states("history_len", c.dim("history0_init", 0));
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
