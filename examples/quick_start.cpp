// TransformerEngine's quick start in C++: one linear layer in FP8, forward and
// backward.
#include <cstdio>

#include "assay/te/modules/linear.h"

using namespace assay;
using namespace assay::te;

int main() {
  Linear model(768, 3072);
  Tensor x = Tensor::empty(DType::kF32, {2048, 768});
  normal_init(1.0)(x, /*seed=*/1);

  recipe::DelayedScaling fp8;
  fp8.margin = 0;
  fp8.fp8_format = Format::kE4M3;

  Linear::Context context;
  Autocast autocast(fp8);
  const Tensor y = model.forward(x, &context);
  autocast.end();

  double loss = 0;  // sum(y), whose gradient is 1 everywhere
  for (std::int64_t i = 0; i < y.numel(); ++i) loss += y.data<float>()[i];
  Tensor dy = Tensor::empty(DType::kF32, y.shape());
  constant_init(1.0)(dy, 0);
  const Tensor dx = model.backward(dy, context);

  const float* dw = model.weight().grad->data<float>();
  std::printf("loss %.1f   dx[0,0] %.4f   dw[0,0] %.4f\n", loss,
              dx.data<float>()[0], dw[0]);
}
