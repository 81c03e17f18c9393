// quantization: what every quantiser makes of a tensor, in both directions, as
// codes, scales and decoded values; and delayed scaling's state over steps.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "assay/base/error.h"
#include "assay/conform/engine/engine.h"
#include "assay/conform/engine/recipe_contract.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/layout.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "assay/te/quantize/scale.h"

namespace assay::conform {
namespace {

using te::ScaleLayout;

[[noreturn]] void unknown(const AdapterCall& call, std::string_view name,
                          std::string_view expected) {
  throw Error(Code::kUsage, fmt::format("{}: {}: {}, expected {}", call.module,
                                        name, call.text(name), expected));
}

DType format_of(const AdapterCall& call) {
  const std::string& name = call.text("fp8_format");
  const bool backward = call.text("direction") == "backward";
  const auto direction =
      backward ? te::Direction::kBackward : te::Direction::kForward;
  if (name == "E4M3") return te::format_dtype(te::Format::kE4M3, direction);
  if (name == "HYBRID") return te::format_dtype(te::Format::kHybrid, direction);
  unknown(call, "fp8_format", "E4M3 or HYBRID");
}

std::unique_ptr<te::Quantizer> current_of(const AdapterCall& call) {
  te::CurrentScalingOptions options;
  options.format = format_of(call);
  options.pow2 = call.flag("force_pow_2_scales");
  options.epsilon = static_cast<float>(call.number("amax_epsilon"));
  return std::make_unique<te::CurrentScalingQuantizer>(options);
}

std::unique_ptr<te::Quantizer> block_of(const AdapterCall& call) {
  te::Block128Options options;
  options.format = format_of(call);
  options.block_dim = static_cast<int>(call.integer("block_scaling_dim"));
  options.pow2 = call.flag("force_pow_2_scales");
  options.epsilon = static_cast<float>(call.number("amax_epsilon"));
  return std::make_unique<te::Block128Quantizer>(options);
}

std::unique_ptr<te::Quantizer> nvfp4_of(const AdapterCall& call) {
  te::NVFP4Options options;
  options.with_2d = call.flag("with_2d_quantization");
  options.rht = call.flag("with_rht");
  if (!call.flag("with_random_sign_mask")) options.rht_sign_mask = 0;
  options.row_scaled = call.flag("row_scaled_nvfp4");
  options.scale_max = static_cast<float>(call.integer("nvfp4_e4m3_max"));
  const std::string& mode = call.text("nvfp4_4over6");
  if (mode == "MAE")
    options.four_over_six = FourOverSix::kMae;
  else if (mode == "MSE")
    options.four_over_six = FourOverSix::kMse;
  else if (mode != "none")
    unknown(call, "nvfp4_4over6", "none, MAE or MSE");
  auto quantizer = std::make_unique<te::NVFP4Quantizer>(options);
  if (options.row_scaled) quantizer->set_usage({.columnwise = false});
  return quantizer;
}

std::unique_ptr<te::Quantizer> quantizer_of(const AdapterCall& call) {
  const std::string& name = call.text("quantizer");
  if (name == "current") return current_of(call);
  if (name == "block") return block_of(call);
  if (name == "mxfp8")
    return std::make_unique<te::MXFP8Quantizer>(
        format_of(call), call.flag("with_2d_quantization"));
  if (name == "nvfp4") return nvfp4_of(call);
  unknown(call, "quantizer", "delayed, current, block, mxfp8 or nvfp4");
}

// One direction under `prefix`: codes and one-byte scales as raw bytes.
void put_direction(AdapterResult& result, const std::string& prefix,
                   const te::QuantizedData& q, const Tensor& x) {
  const te::QuantizedData compact =
      te::with_layout(q, x.shape(), ScaleLayout::kCompact);
  result.outputs[prefix + ".codes"] = raw_bytes(compact.data);
  result.outputs[prefix + ".scale_inv"] =
      compact.scale_inv.dtype() == DType::kF32 ? compact.scale_inv
                                               : raw_bytes(compact.scale_inv);
  result.outputs[prefix + ".values"] = te::dequantize(q, x.shape(), x.dtype());
  if (q.amax.view.data != nullptr) result.outputs[prefix + ".amax"] = q.amax;
  if (q.mode == te::ScalingMode::kMXFP8 || q.mode == te::ScalingMode::kNVFP4)
    result.outputs[prefix + ".scale_swizzled"] = raw_bytes(
        te::with_layout(q, x.shape(), ScaleLayout::kSwizzled).scale_inv);
}

void run_stateless(const AdapterCall& call, AdapterResult& result) {
  const std::unique_ptr<te::Quantizer> quantizer = quantizer_of(call);
  const Tensor& x = call.input("x");
  const te::QuantizedTensor q = quantizer->quantize(x);
  if (q.rowwise) put_direction(result, "row", *q.rowwise, x);
  if (q.columnwise) put_direction(result, "column", *q.columnwise, x);
}

te::DelayedUpdateOptions update_of(const AdapterCall& call) {
  te::DelayedUpdateOptions options;
  options.fp8_max = te::format_max(format_of(call));
  options.margin = static_cast<int>(call.integer("margin"));
  const std::string& algorithm = call.text("amax_compute_algo");
  if (algorithm == "most_recent")
    options.algorithm = te::AmaxAlgorithm::kMostRecent;
  else if (algorithm != "max")
    unknown(call, "amax_compute_algo", "max or most_recent");
  const std::string& update = call.text("update");
  options.unfused = update == "unfused";
  if (!options.unfused && update != "fused")
    unknown(call, "update", "fused or unfused");
  return options;
}

// Slot 0 quantises a tensor of its own at every step; the others take the
// magnitudes in `amax`, of every size and kind, as if tensors had left them.
void run_delayed(const AdapterCall& call, AdapterResult& result) {
  const Tensor& x = call.input("x");
  const Tensor amax = contiguous(call.input("amax"));
  const std::int64_t slots = amax.shape().at(1);
  const auto state = std::make_shared<te::DelayedScalingState>(
      call.integer("amax_history_len"), slots + 1);
  te::DelayedScalingQuantizer quantizer(format_of(call), state, 0);
  const te::DelayedUpdateOptions update = update_of(call);
  te::DelayedScalingState* const states[] = {state.get()};
  for (int step = 1; step <= call.steps; ++step) {
    const Tensor part = entry(x, step - 1);
    const te::QuantizedTensor q = quantizer.quantize(part);
    AdapterResult now;
    put_direction(now, "delayed.row", *q.rowwise, part);
    put_direction(now, "delayed.column", *q.columnwise, part);
    for (std::int64_t slot = 0; slot < slots; ++slot)
      state->staging()[slot + 1] =
          std::abs(amax.data<float>()[(step - 1) * slots + slot]);
    te::delayed_bulk_update(states, nullptr, update);
    const te::DelayedScalingState after = state->copy();
    now.outputs["delayed.amax_history"] = after.amax_history;
    now.outputs["delayed.scale"] = after.scale;
    for (const auto& [name, tensor] : now.outputs)
      put_step(result, call, step, name, tensor);
  }
}

}  // namespace

AdapterResult run_quantization(const AdapterCall& call) {
  AdapterResult result;
  if (call.text("quantizer") == "delayed")
    run_delayed(call, result);
  else
    run_stateless(call, result);
  result.contract = recipe_contract();
  return result;
}

}  // namespace assay::conform
