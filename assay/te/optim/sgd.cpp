#include "assay/te/optim/sgd.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "assay/kernels/optim.h"
#include "assay/te/check.h"
#include "assay/te/optim/in_place.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "multi_tensor_sgd";

SgdStep step_of(const SgdOptions& o) {
  require_value(std::isfinite(o.lr), kOp, "lr", o.lr, "a finite number");
  require_value(o.momentum >= 0 && std::isfinite(o.momentum), kOp, "momentum",
                o.momentum, "finite and at least 0");
  require_value(std::isfinite(o.dampening), kOp, "dampening", o.dampening,
                "a finite number");
  require_value(std::isfinite(o.weight_decay), kOp, "weight_decay",
                o.weight_decay, "a finite number");
  require(!o.nesterov || (o.momentum > 0 && o.dampening == 0), kOp, "nesterov",
          "set with momentum " + std::to_string(o.momentum) +
              " and dampening " + std::to_string(o.dampening),
          "momentum > 0 and dampening 0");
  return {static_cast<float>(o.lr),
          static_cast<float>(o.momentum),
          static_cast<float>(1 - o.dampening),
          static_cast<float>(o.weight_decay),
          o.nesterov,
          o.first_run,
          o.decay_after_momentum};
}

struct Operands {
  Tensor grad_tensor;  // a handle of our own: InPlace never writes it
  std::optional<InPlace> grad, param, buffer, copy;
};

void open(std::string_view argument, std::span<Tensor> list, std::size_t i,
          const Shape& shape, std::optional<InPlace>& out) {
  if (list.empty()) return;
  require_shape(kOp, argument, list[i], shape);
  out.emplace(kOp, argument, list[i]);
}

void require_count(std::string_view argument, std::size_t found,
                   std::size_t expected, bool needed) {
  if (found == 0 && !needed) return;
  require(found == expected, kOp, argument, std::to_string(found) + " tensors",
          std::to_string(expected));
}

}  // namespace

void multi_tensor_sgd(const SgdTensors& tensors, const SgdOptions& options,
                      const Tensor* noop) {
  const SgdStep step = step_of(options);
  const std::size_t count = tensors.grads.size();
  require_count("params", tensors.params.size(), count, true);
  require_count("momentum", tensors.momentum.size(), count,
                options.momentum != 0);
  require_count("copies", tensors.copies.size(), count, false);
  if (noop != nullptr && scalar_value(kOp, "noop", *noop) != 0) return;
  std::vector<Operands> all(count);
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) {
    const Shape& shape = tensors.grads[i].shape();
    const auto at = [&](std::span<Tensor> list) {
      return list.empty() ? nullptr : &list[i];
    };
    common_device(kOp,
                  {&tensors.grads[0], &tensors.grads[i], &tensors.params[i],
                   at(tensors.momentum), at(tensors.copies)});
    all[i].grad_tensor = tensors.grads[i];
    all[i].grad.emplace(kOp, "grads", all[i].grad_tensor, Access::kRead);
    open("params", tensors.params, i, shape, all[i].param);
    open("momentum", tensors.momentum, i, shape, all[i].buffer);
    open("copies", tensors.copies, i, shape, all[i].copy);
    sizes.push_back(tensors.grads[i].numel());
  }
  if (all.empty()) return;
  const OptimKernels& kernels = optim_kernels(tensors.grads[0].device);
  const auto scale = static_cast<float>(options.scale);
  for_each_task(
      sizes, [&](std::size_t i, std::int64_t begin, std::int64_t length) {
        ChunkScratch scratch[4];
        Operands& o = all[i];
        for_each_chunk(begin, length, [&](std::int64_t at, std::int64_t n) {
          const float* g = o.grad->load(at, n, scratch[0].values);
          if (scale != 1.0f) {
            kernels.scale(g, scale, n, scratch[3].values);
            g = scratch[3].values;
          }
          float* p = o.param->load(at, n, scratch[1].values);
          float* buffer =
              o.buffer ? o.buffer->load(at, n, scratch[2].values) : nullptr;
          kernels.sgd(g, p, buffer, n, step);
          if (o.buffer && options.momentum != 0) o.buffer->store(at, n, buffer);
          o.param->store(at, n, p);
          if (o.copy) o.copy->store(at, n, p);
        });
      });
  for (Operands& o : all) {
    o.param->commit();
    if (o.buffer) o.buffer->commit();
    if (o.copy) o.copy->commit();
  }
}

}  // namespace assay::te
