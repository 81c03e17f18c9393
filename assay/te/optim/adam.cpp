#include "assay/te/optim/adam.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "assay/kernels/optim.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/optim/in_place.h"

namespace assay::te {
namespace {

AdamStep step_of(std::string_view op, const AdamOptions& o, double lr,
                 std::int64_t step) {
  require(step >= 1, op, "step", std::to_string(step), ">= 1");
  require_value(std::isfinite(lr), op, "lr", lr, "a finite number");
  require_value(o.beta1 >= 0 && o.beta1 < 1, op, "beta1", o.beta1,
                "at least 0 and below 1");
  require_value(o.beta2 >= 0 && o.beta2 < 1, op, "beta2", o.beta2,
                "at least 0 and below 1");
  require_value(o.eps >= 0 && std::isfinite(o.eps), op, "eps", o.eps,
                "finite and at least 0");
  require_value(std::isfinite(o.weight_decay), op, "weight_decay",
                o.weight_decay, "a finite number");
  const auto correction = [&](double beta) {
    return o.bias_correction
               ? static_cast<float>(1 -
                                    std::pow(beta, static_cast<double>(step)))
               : 1.0f;
  };
  return {static_cast<float>(lr),
          static_cast<float>(o.eps),
          static_cast<float>(o.weight_decay),
          static_cast<float>(o.beta1),
          static_cast<float>(1 - o.beta1),
          static_cast<float>(o.beta2),
          static_cast<float>(1 - o.beta2),
          correction(o.beta1),
          correction(o.beta2),
          o.mode == AdamMode::kDecoupled};
}

void require_count(std::string_view op, std::string_view argument,
                   std::size_t found, std::size_t expected) {
  require(found == expected, op, argument, std::to_string(found) + " tensors",
          std::to_string(expected));
}

// The operands of one index.
struct Operands {
  InPlace grad, exp_avg, exp_avg_sq;
  std::optional<InPlace> param, master;
};

struct Opening {
  bool params = true;  // as operands, else the caller's
  Access grads = Access::kRead;
};

std::vector<Operands> open(std::string_view op, const AdamTensors& t,
                           Opening opening = {}) {
  const std::size_t count = t.grads.size();
  require_count(op, "params", t.params.size(), count);
  require_count(op, "exp_avg", t.exp_avg.size(), count);
  require_count(op, "exp_avg_sq", t.exp_avg_sq.size(), count);
  if (!t.master.empty()) require_count(op, "master", t.master.size(), count);
  std::vector<Operands> out;
  for (std::size_t i = 0; i < count; ++i) {
    const Shape& shape = t.grads[i].shape();
    require_shape(op, "params", t.params[i], shape);
    require_shape(op, "exp_avg", t.exp_avg[i], shape);
    require_shape(op, "exp_avg_sq", t.exp_avg_sq[i], shape);
    common_device(op, {&t.grads[0], &t.grads[i], &t.params[i], &t.exp_avg[i],
                       &t.exp_avg_sq[i]});
    out.push_back({InPlace(op, "grads", t.grads[i], opening.grads),
                   InPlace(op, "exp_avg", t.exp_avg[i]),
                   InPlace(op, "exp_avg_sq", t.exp_avg_sq[i]),
                   {},
                   {}});
    if (opening.params) out.back().param.emplace(op, "params", t.params[i]);
    if (t.master.empty()) continue;
    require_shape(op, "master", t.master[i], shape);
    common_device(op, {&t.grads[0], &t.master[i]});
    out.back().master.emplace(op, "master", t.master[i]);
  }
  return out;
}

void commit(std::vector<Operands>& all, bool with_grads) {
  for (Operands& o : all) {
    o.exp_avg.commit();
    o.exp_avg_sq.commit();
    if (o.param) o.param->commit();
    if (o.master) o.master->commit();
    if (with_grads) o.grad.commit();
  }
}

std::vector<std::int64_t> sizes_of(const std::vector<Operands>& all) {
  std::vector<std::int64_t> sizes;
  for (const Operands& o : all) sizes.push_back(o.grad.numel());
  return sizes;
}

// fp32 views of one chunk of the operands that every form has.
class Chunk {
 public:
  Chunk(Operands& o, std::int64_t begin, std::int64_t n)
      : o_(o),
        begin_(begin),
        n_(n),
        g(o.grad.load(begin, n, scratch_[0].values)),
        m(o.exp_avg.load(begin, n, scratch_[1].values)),
        v(o.exp_avg_sq.load(begin, n, scratch_[2].values)) {}

  void store_moments() {
    o_.exp_avg.store(begin_, n_, m);
    o_.exp_avg_sq.store(begin_, n_, v);
  }
  void store_grad() { o_.grad.store(begin_, n_, g); }

 private:
  ChunkScratch scratch_[3];
  Operands& o_;
  std::int64_t begin_, n_;

 public:
  float *g, *m, *v;
};

// The plain forms; `inv_scale` where gradients are unscaled first.
void run(std::string_view op, const AdamTensors& tensors, const AdamStep& step,
         const std::optional<float>& inv_scale) {
  std::vector<Operands> all =
      open(op, tensors, {true, inv_scale ? Access::kReadWrite : Access::kRead});
  if (all.empty()) return;
  const OptimKernels& kernels = optim_kernels(tensors.grads[0].device);
  for_each_task(sizes_of(all), [&](std::size_t i, std::int64_t begin,
                                   std::int64_t count) {
    ChunkScratch scratch;
    Operands& o = all[i];
    InPlace& weights = o.master ? *o.master : *o.param;
    for_each_chunk(begin, count, [&](std::int64_t at, std::int64_t n) {
      Chunk chunk(o, at, n);
      if (inv_scale) {
        kernels.scale(chunk.g, *inv_scale, n, chunk.g);
        chunk.store_grad();
      }
      float* p = weights.load(at, n, scratch.values);
      kernels.adam(chunk.g, p, chunk.m, chunk.v, n, step);
      chunk.store_moments();
      weights.store(at, n, p);
      if (o.master) o.param->store(at, n, p);
    });
  });
  commit(all, inv_scale.has_value());
}

// Of scaled states: the largest stored magnitude.
double state_range(std::string_view op, const Tensor& codes) {
  require_dtype(op, "codes", codes, {DType::kF16, DType::kE4M3FN});
  return codes.dtype() == DType::kF16 ? max_finite(DType::kF16) / 2
                                      : max_finite(DType::kE4M3FN);
}

// Of a list that is written element by element, without InPlace.
void require_plain(std::string_view op, std::string_view argument,
                   const Tensor& tensor) {
  require_contiguous(op, argument, tensor);
  require_writable(op, argument, tensor);
}

float absmax(const Tensor& x) {
  const OptimKernels& kernels = optim_kernels(x.device);
  const std::int64_t n = x.numel();
  std::vector<float> parts(
      static_cast<std::size_t>((n + kOptimTask - 1) / kOptimTask));
  for_each_task({n}, [&](std::size_t, std::int64_t begin, std::int64_t count) {
    parts[static_cast<std::size_t>(begin / kOptimTask)] =
        kernels.absmax(x.data<float>() + begin, count);
  });
  float top = 0;
  for (float part : parts) top = std::max(top, part);
  return top;
}

}  // namespace

void multi_tensor_adam(const AdamTensors& tensors, const AdamOptions& options,
                       std::int64_t step) {
  constexpr std::string_view kOp = "multi_tensor_adam";
  run(kOp, tensors, step_of(kOp, options, options.lr, step), {});
}

void multi_tensor_adam_capturable(const AdamTensors& tensors,
                                  const AdamOptions& options,
                                  const AdamScalars& scalars) {
  constexpr std::string_view kOp = "multi_tensor_adam_capturable";
  if (!tensors.grads.empty())
    common_device(kOp, {&tensors.grads[0], scalars.lr, scalars.step,
                        scalars.inv_scale, scalars.found_inf});
  if (scalar_value(kOp, "found_inf", *scalars.found_inf) != 0) return;
  const auto step =
      static_cast<std::int64_t>(scalar_value(kOp, "step", *scalars.step));
  const double lr = scalar_value(kOp, "lr", *scalars.lr);
  const auto inv_scale =
      static_cast<float>(scalar_value(kOp, "inv_scale", *scalars.inv_scale));
  run(kOp, tensors, step_of(kOp, options, lr, step), inv_scale);
}

void multi_tensor_adam_param_remainder(const AdamTensors& tensors,
                                       std::span<Tensor> remainders,
                                       const AdamOptions& options,
                                       std::int64_t step) {
  constexpr std::string_view kOp = "multi_tensor_adam_param_remainder";
  const AdamStep constants = step_of(kOp, options, options.lr, step);
  require(tensors.master.empty(), kOp, "master", "given",
          "none: params and remainders hold it");
  std::vector<Operands> all = open(kOp, tensors);
  require_count(kOp, "remainders", remainders.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    require_dtype(kOp, "params", tensors.params[i], {DType::kBF16});
    require_dtype(kOp, "remainders", remainders[i], {DType::kI16});
    require_shape(kOp, "remainders", remainders[i], all[i].grad.shape());
    require_plain(kOp, "remainders", remainders[i]);
    common_device(kOp, {&tensors.grads[0], &remainders[i]});
  }
  if (all.empty()) return;
  const OptimKernels& kernels = optim_kernels(tensors.grads[0].device);
  for_each_task(sizes_of(all), [&](std::size_t i, std::int64_t begin,
                                   std::int64_t count) {
    ChunkScratch p;
    for_each_chunk(begin, count, [&](std::int64_t at, std::int64_t n) {
      Chunk chunk(all[i], at, n);
      auto* high = reinterpret_cast<std::uint16_t*>(all[i].param->at(at));
      auto* low = remainders[i].mutable_data<std::int16_t>() + at;
      kernels.join(high, low, n, p.values);
      kernels.adam(chunk.g, p.values, chunk.m, chunk.v, n, constants);
      kernels.split(p.values, n, high, low);
      chunk.store_moments();
    });
  });
  commit(all, false);
}

void multi_tensor_adam_fp8(const AdamTensors& tensors,
                           std::span<const Tensor> scales,
                           std::span<Tensor> amaxes,
                           std::span<Tensor> scale_invs,
                           const AdamOptions& options, std::int64_t step) {
  constexpr std::string_view kOp = "multi_tensor_adam_fp8";
  const AdamStep constants = step_of(kOp, options, options.lr, step);
  std::vector<Operands> all = open(kOp, tensors, {false, Access::kRead});
  require_count(kOp, "master", tensors.master.size(), all.size());
  require_count(kOp, "scales", scales.size(), all.size());
  require_count(kOp, "amaxes", amaxes.size(), all.size());
  require_count(kOp, "scale_invs", scale_invs.size(), all.size());
  std::vector<float> scale;
  for (std::size_t i = 0; i < all.size(); ++i) {
    require_dtype(kOp, "params", tensors.params[i],
                  {DType::kE4M3FN, DType::kE5M2});
    require_plain(kOp, "params", tensors.params[i]);
    require_dtype(kOp, "amaxes", amaxes[i], {DType::kF32});
    require_dtype(kOp, "scale_invs", scale_invs[i], {DType::kF32});
    scalar_value(kOp, "amaxes", amaxes[i]);
    scalar_value(kOp, "scale_invs", scale_invs[i]);
    require_writable(kOp, "amaxes", amaxes[i]);
    require_writable(kOp, "scale_invs", scale_invs[i]);
    common_device(kOp,
                  {&tensors.grads[0], &scales[i], &amaxes[i], &scale_invs[i]});
    scale.push_back(static_cast<float>(scalar_value(kOp, "scales", scales[i])));
  }
  if (all.empty()) return;
  const OptimKernels& kernels = optim_kernels(tensors.grads[0].device);
  std::vector<std::vector<float>> tops;
  for (const Operands& o : all)
    tops.emplace_back(static_cast<std::size_t>(
        (o.grad.numel() + kOptimTask - 1) / kOptimTask));
  for_each_task(sizes_of(all), [&](std::size_t i, std::int64_t begin,
                                   std::int64_t count) {
    ChunkScratch scratch;
    Tensor& codes = tensors.params[i];
    float& top = tops[i][static_cast<std::size_t>(begin / kOptimTask)];
    for_each_chunk(begin, count, [&](std::int64_t at, std::int64_t n) {
      Chunk chunk(all[i], at, n);
      float* p = all[i].master->load(at, n, scratch.values);
      kernels.adam(chunk.g, p, chunk.m, chunk.v, n, constants);
      chunk.store_moments();
      all[i].master->store(at, n, p);
      top = std::max(top, kernels.absmax(p, n));
      for (std::int64_t k = 0; k < n; ++k)
        store_from_double(codes.dtype(), static_cast<double>(p[k] * scale[i]),
                          codes.mutable_data(), at + k);
    });
  });
  commit(all, false);
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto& amax = *amaxes[i].mutable_data<float>();
    for (float top : tops[i]) amax = std::max(amax, top);
    *scale_invs[i].mutable_data<float>() = 1.0f / scale[i];
  }
}

Tensor scaled_state_values(const Tensor& codes_in, const Tensor& scale) {
  constexpr std::string_view kOp = "scaled_state_values";
  state_range(kOp, codes_in);
  const auto factor = static_cast<float>(scalar_value(kOp, "scale", scale));
  common_device(kOp, {&codes_in, &scale});
  const Tensor codes = contiguous(codes_in);
  Tensor out = Tensor::empty(DType::kF32, codes.shape(), codes.device);
  float* values = out.mutable_data<float>();
  for_each_task({codes.numel()}, [&](std::size_t, std::int64_t begin,
                                     std::int64_t count) {
    for (std::int64_t i = begin; i < begin + count; ++i)
      values[i] = factor * static_cast<float>(load_as_double(
                               codes.dtype(), codes.view.data, i));
  });
  return out;
}

void store_scaled_state(const Tensor& values_in, Tensor& codes, Tensor& scale) {
  constexpr std::string_view kOp = "store_scaled_state";
  require_dtype(kOp, "values", values_in, {DType::kF32});
  require_shape(kOp, "codes", codes, values_in.shape());
  require_plain(kOp, "codes", codes);
  require_dtype(kOp, "scale", scale, {DType::kF32});
  scalar_value(kOp, "scale", scale);
  require_writable(kOp, "scale", scale);
  common_device(kOp, {&values_in, &codes, &scale});
  const double range = state_range(kOp, codes);
  const Tensor values = contiguous(values_in);
  const float step = absmax(values) / static_cast<float>(range);
  const float inverse = step > 0 ? 1.0f / step : 0.0f;
  *scale.mutable_data<float>() = step;
  for_each_task({values.numel()}, [&](std::size_t, std::int64_t begin,
                                      std::int64_t count) {
    for (std::int64_t i = begin; i < begin + count; ++i)
      store_from_double(codes.dtype(),
                        static_cast<double>(values.data<float>()[i] * inverse),
                        codes.mutable_data(), i);
  });
}

}  // namespace assay::te
