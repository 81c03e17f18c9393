// What each recipe costs in accuracy: the forward product and both gradients
// of one linear layer, against the same products in fp64.
#include <cmath>
#include <cstdio>

#include "assay/core/philox.h"
#include "assay/numerics/element.h"
#include "assay/te/ops/gemm.h"
#include "assay/te/recipe/recipe_state.h"

using namespace assay;
using namespace assay::te;

namespace {

Tensor normal(Shape shape, std::uint64_t seed, double sigma) {
  Tensor t = Tensor::empty(DType::kBF16, std::move(shape));
  PhiloxStream random(seed);
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(t.dtype(), sigma * random.next_normal(), t.mutable_data(),
                      i);
  return t;
}

Tensor on_reference(Tensor t) {
  t.device = Device::kReference;
  return t;
}

// Signal to noise in dB: 20 dB is an error of 10 %, 40 dB of 1 %.
double sqnr(const Tensor& exact, const Tensor& ours) {
  double signal = 0, noise = 0;
  for (std::int64_t i = 0; i < exact.numel(); ++i) {
    const double e = load_as_double(exact.dtype(), exact.view.data, i);
    const double d = load_as_double(ours.dtype(), ours.view.data, i) - e;
    signal += e * e;
    noise += d * d;
  }
  return 10 * std::log10(signal / noise);
}

}  // namespace

int main() {
  const Tensor x = normal({256, 512}, 1, 1.0);
  const Tensor w = normal({384, 512}, 2, 0.04);
  const Tensor dy = normal({256, 384}, 3, 1e-3);
  GemmOptions f32;
  f32.out_dtype = DType::kF32;
  const Tensor rx = on_reference(x), rw = on_reference(w),
               rdy = on_reference(dy);
  const Tensor y = gemm_fprop(rx, rw, f32).d;
  const Tensor dx = gemm_dgrad(rdy, rw, f32).d;
  const Tensor dw = gemm_wgrad(rdy, rx, f32).d;

  const Recipe recipes[] = {
      recipe::Float8CurrentScaling{}, recipe::Float8BlockScaling{},
      recipe::MXFP8BlockScaling{}, recipe::NVFP4BlockScaling{}};
  std::printf("%-22s %8s %8s %8s   (SQNR, dB)\n", "recipe", "y", "dx", "dw");
  for (const Recipe& r : recipes) {
    RecipeState forward =
        make_recipe_state(r, gemm_roles(Direction::kForward, 1));
    RecipeState backward =
        make_recipe_state(r, gemm_roles(Direction::kBackward, 1));
    const QuantizedTensor qx = forward.at(0).quantize(x);
    const QuantizedTensor qw = forward.at(1).quantize(w);
    const QuantizedTensor qdy = backward.at(0).quantize(dy);
    std::printf("%-22s %8.1f %8.1f %8.1f\n", recipe_name(r).data(),
                sqnr(y, gemm_fprop(qx, qw, f32).d),
                sqnr(dx, gemm_dgrad(qdy, qw, f32).d),
                sqnr(dw, gemm_wgrad(qdy, qx, f32).d));
  }
}
