#include "assay/te/modules/parameter.h"

#include "assay/te/check.h"
#include "assay/te/optim/in_place.h"

namespace assay::te {

Tensor values_of(const Parameter& parameter) {
  if (parameter.value) return *parameter.value;
  return dequantize(*parameter.quantized, parameter.dtype);
}

void add_in_place(Tensor& target, const Tensor& source) {
  constexpr const char* kOp = "add_in_place";
  require_shape(kOp, "source", source, target.shape());
  common_device(kOp, {&target, &source});
  Tensor addend = contiguous(source);
  InPlace to(kOp, "target", target);
  InPlace from(kOp, "source", addend, Access::kRead);
  for_each_task(
      {to.numel()}, [&](std::size_t, std::int64_t begin, std::int64_t count) {
        ChunkScratch a, b;
        for_each_chunk(begin, count, [&](std::int64_t at, std::int64_t n) {
          float* x = to.load(at, n, a.values);
          const float* y = from.load(at, n, b.values);
          for (std::int64_t i = 0; i < n; ++i) x[i] += y[i];
          to.store(at, n, x);
        });
      });
  to.commit();
}

void accumulate_grad(Parameter& parameter, const Tensor& gradient, bool fuse) {
  if (!parameter.requires_grad) return;
  if (fuse && parameter.main_grad) {
    add_in_place(*parameter.main_grad, gradient);
    parameter.grad_added_to_main_grad = true;
    return;
  }
  if (!parameter.grad)
    parameter.grad =
        Tensor::zeros(parameter.dtype, parameter.shape, parameter.device);
  add_in_place(*parameter.grad, gradient);
}

}  // namespace assay::te
