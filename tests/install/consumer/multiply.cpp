// Quantises two matrices to MXFP8 and multiplies them.
#include <assay/numerics/element.h>
#include <assay/te/ops/gemm.h>
#include <assay/te/recipe/recipe_state.h>

#include <cstdio>

using namespace assay;

Tensor filled(double value) {
  Tensor t = Tensor::empty(DType::kBF16, {32, 64});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_from_double(t.dtype(), value, t.mutable_data(), i);
  return t;
}

int main() {
  auto state =
      te::make_recipe_state(te::recipe::MXFP8BlockScaling{},
                            te::gemm_roles(te::Direction::kForward, 1));
  const auto x = state.at(0).quantize(filled(1.5));
  const auto w = state.at(1).quantize(filled(-2));
  const Tensor y = te::gemm_fprop(x, w, {}).d;
  std::printf("%s %g\n", to_string(y.shape()).c_str(),
              load_as_double(y.dtype(), y.view.data, 0));
}
