// What flows back through a LinearCore.
#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/fp8_result.h"
#include "assay/te/modules/linear_core.h"
#include "assay/te/modules/observer.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/parallel/collectives.h"

namespace assay::te {

Quantizer* LinearCore::grad_quantizer(const Saved& saved) const {
  if (!saved.states || saved.override != BackwardOverride::kNone)
    return nullptr;
  if (gathers_grad()) return nullptr;
  Quantizer& q = saved.states->backward->at(2 * gemm_);
  set_directions(q, saved.need_dgrad, saved.need_wgrad);
  return &q;
}

Tensor LinearCore::dgrad(const GemmOperand& dy, const Saved& saved,
                         const LinearGradEpilogue& epilogue) const {
  const bool plain = !epilogue.add && !epilogue.fp8;
  require(plain || options_.mode != ParallelMode::kColumn ||
              options_.tp.size() == 1,
          module_.name(), "epilogue", "before a sum over ranks", "none");
  GemmOptions options;
  options.alpha = epilogue.alpha;
  if (epilogue.add) {
    options.c = epilogue.add;
    options.beta = 1;
  }
  options.out_dtype = saved.dtype;
  Quantizer* q = nullptr;
  if (epilogue.fp8) {
    require(saved.states && saved.override == BackwardOverride::kNone,
            module_.name(), "fp8_grad", "of a forward in high precision",
            "a recipe with one scale a tensor");
    q = &saved.states->backward->at(2 * gemm_ + 1);
    options.fp8_output = fp8_output_of(module_.name(), *q);
  }
  GemmResult result;
  if (saved.weight) {
    result = gemm_dgrad(dy, *saved.weight, options);
  } else if (saved.override == BackwardOverride::kDequantized) {
    const Tensor w = dequantize(*saved.weight_quantized, saved.dtype);
    result = gemm_dgrad(dy, w, options);
  } else {
    result = gemm_dgrad(dy, *saved.weight_quantized, options);
  }
  if (q) {
    *epilogue.fp8 = fp8_result(*q, result);
    return {};
  }
  Tensor dx = std::move(result.d);
  if (options_.mode != ParallelMode::kColumn || options_.tp.size() == 1)
    return dx;
  Communicator& group = *options_.tp.group;
  return options_.tp.sequence_parallel ? reduce_scatter_first_dim(dx, group)
                                       : all_reduce_sum(dx, group);
}

Tensor LinearCore::input_for_wgrad(
    const Saved& saved, std::optional<QuantizedTensor>& quantized) const {
  Communicator* group = options_.tp.group.get();
  if (saved.input) {
    Tensor x = saved.input_is_local ? all_gather_first_dim(*saved.input, *group)
                                    : *saved.input;
    if (!saved.states || saved.override != BackwardOverride::kNone) return x;
    Quantizer& q = saved.states->forward->at(3 * gemm_);
    set_directions(q, false, true);
    quantized = q.quantize(x);
    return {};
  }
  quantized = saved.input_is_local
                  ? all_gather_first_dim(*saved.input_quantized, *group)
                  : *saved.input_quantized;
  if (saved.override != BackwardOverride::kDequantized) return {};
  Tensor x = dequantize(*quantized, saved.dtype);
  quantized.reset();
  return x;
}

void LinearCore::add_weight_grad(const GemmOperand& dy, const GemmOperand& x,
                                 float alpha) {
  const bool fused = options_.fuse_wgrad_accumulation && weight_.main_grad;
  std::optional<Tensor>& sum = fused ? weight_.main_grad : weight_.grad;
  GemmOptions options;
  options.alpha = alpha;
  if (matrix_shape(dy.shape()).rows == 0) {
    // GEMMs of 1 x 128 blocks refuse a sum over no rows.
    if (!sum) sum = Tensor::zeros(weight_.dtype, weight_.shape, weight_.device);
  } else if (!sum) {
    options.out_dtype = weight_.dtype;
    sum = gemm_wgrad(dy, x, options).d;
  } else {
    options.beta = 1;
    gemm_into(*sum, x, dy, GemmLayout::kNT, options);
  }
  weight_.grad_added_to_main_grad |= fused;
}

void LinearCore::wgrad(LinearGrad dy, Saved saved, float alpha) {
  std::optional<QuantizedTensor> quantized;
  const Tensor x = input_for_wgrad(saved, quantized);
  const GemmOperand left =
      dy.quantized ? GemmOperand(*dy.quantized) : GemmOperand(*dy.tensor);
  add_weight_grad(left, quantized ? GemmOperand(*quantized) : GemmOperand(x),
                  alpha);
}

void LinearCore::check_grad(const LinearGrad& dy, const Shape& shape,
                            const Saved& saved) const {
  require(saved.rows >= 0, module_.name(), "context",
          "not of a forward pass, or used up", "that of one");
  const MatrixShape m = matrix_shape(shape);
  require(m.columns == weight_.shape[0], module_.name(), "grad_output",
          "last dimension " + std::to_string(m.columns),
          std::to_string(weight_.shape[0]));
  require(m.rows == saved.rows, module_.name(), "grad_output",
          std::to_string(m.rows) + " rows", std::to_string(saved.rows));
  if (dy.tensor)
    require_dtype(module_.name(), "grad_output", *dy.tensor, {saved.dtype});
}

void LinearCore::add_bias_grad(const LinearGrad& dy, DType activations) {
  const bool fuse = options_.fuse_wgrad_accumulation;
  const DType dtype =
      fuse && bias_->main_grad ? bias_->main_grad->dtype() : bias_->dtype;
  Tensor sums;
  if (dy.bias_grad) {
    sums = *dy.bias_grad;
  } else if (dy.tensor) {
    sums = te::bias_grad(*dy.tensor, dtype);
  } else {
    sums = te::bias_grad(dequantize(*dy.quantized, activations), dtype);
  }
  accumulate_grad(*bias_, sums, fuse);
}

Tensor LinearCore::backward(LinearGrad dy, Saved& saved,
                            const LinearGradEpilogue& epilogue) {
  const Shape& shape = dy.tensor ? dy.tensor->shape() : dy.quantized->shape;
  check_grad(dy, shape, saved);
  if (bias_ && bias_->requires_grad) add_bias_grad(dy, saved.dtype);

  const bool quantizes =
      saved.states && saved.override == BackwardOverride::kNone;
  if (!dy.quantized && quantizes) {
    Quantizer& q = saved.states->backward->at(2 * gemm_);
    set_directions(q, saved.need_dgrad, saved.need_wgrad);
    const bool local =
        gathers_grad() && can_gather_quantized(q, shape, *options_.tp.group);
    if (gathers_grad() && !local)
      dy.tensor = all_gather_first_dim(*dy.tensor, *options_.tp.group);
    dy.quantized = q.quantize(*dy.tensor);
    if (local)
      dy.quantized = all_gather_first_dim(*dy.quantized, *options_.tp.group);
  } else if (gathers_grad() && !dy.quantized) {
    dy.tensor = all_gather_first_dim(*dy.tensor, *options_.tp.group);
  }
  if (dy.quantized)
    observe(module_, Role::kGradOutput, dy.tensor ? &*dy.tensor : nullptr,
            *dy.quantized);

  Tensor dx;
  if (saved.need_dgrad)
    dx = dgrad(
        dy.quantized ? GemmOperand(*dy.quantized) : GemmOperand(*dy.tensor),
        saved, epilogue);
  if (saved.need_wgrad) {
    if (dy.quantized) {
      dy.tensor.reset();
      keep_columnwise(*dy.quantized);
    }
    if (options_.delay_wgrad_compute) {
      auto work = std::make_shared<std::pair<LinearGrad, Saved>>(
          std::move(dy), std::exchange(saved, {}));
      delayed_.push_back([this, work, alpha = epilogue.alpha] {
        wgrad(std::move(work->first), std::move(work->second), alpha);
      });
    } else {
      wgrad(std::move(dy), std::exchange(saved, {}), epilogue.alpha);
    }
  }
  saved = {};
  return dx;
}

void LinearCore::run_delayed() {
  while (!delayed_.empty()) {
    const auto work = std::move(delayed_.front());
    delayed_.pop_front();
    work();
  }
}

}  // namespace assay::te
