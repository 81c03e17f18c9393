#include "assay/te/quantize/identity.h"

#include <algorithm>

#include "assay/base/parallel.h"
#include "assay/kernels/decode.h"
#include "assay/te/check.h"
#include "assay/te/quantize/round_input.h"

namespace assay::te {
namespace {

QuantizedData as_it_is(const Tensor& x, bool columnwise) {
  const auto [m, k] = matrix_shape(x.shape());
  QuantizedData q;
  q.mode = ScalingMode::kIdentity;
  q.format = x.dtype();
  q.columnwise = columnwise;
  q.data = x;
  q.data.view.shape = {m, k};
  return q;
}

}  // namespace

Tensor convert_high_precision(const Tensor& input, DType dtype) {
  require_high_precision("convert", "x", input);
  if (input.dtype() == dtype) return contiguous(input);
  const Tensor x = contiguous(input);
  if (x.dtype() == DType::kF32) return round_input(x, dtype);
  constexpr std::int64_t kBlock = std::int64_t{1} << 16;
  Tensor wide = Tensor::empty(DType::kF32, x.shape(), x.device);
  auto* out = wide.mutable_data<float>();
  const std::int64_t n = x.numel();
  parallel_for((n + kBlock - 1) / kBlock, [&](std::int64_t b) {
    const std::int64_t i = b * kBlock;
    decode_f32(x.dtype(), x.view.data + 2 * i, std::min(kBlock, n - i),
               out + i);
  });
  return round_input(wide, dtype);
}

IdentityQuantizer::IdentityQuantizer(std::optional<DType> dtype)
    : dtype_(dtype) {
  const DType d = format();
  require(d == DType::kF32 || d == DType::kBF16 || d == DType::kF16,
          "IdentityQuantizer", "dtype", std::string(traits(d).name),
          "float32, bfloat16 or float16");
}

QuantizedTensor IdentityQuantizer::quantize(const Tensor& input) {
  require_high_precision("IdentityQuantizer", "x", input);
  const Tensor x =
      convert_high_precision(input, dtype_.value_or(input.dtype()));
  QuantizedTensor q{input.shape(), input.dtype(), input.device, {}, {}};
  if (usage().rowwise) q.rowwise = as_it_is(x, false);
  if (usage().columnwise) q.columnwise = as_it_is(x, true);
  return q;
}

QuantizedTensor IdentityQuantizer::quantize_fused(const Tensor& x_f32,
                                                  DType dtype) {
  return quantize(round_input(x_f32, dtype));
}

std::unique_ptr<Quantizer> IdentityQuantizer::clone() const {
  return std::make_unique<IdentityQuantizer>(*this);
}

}  // namespace assay::te
