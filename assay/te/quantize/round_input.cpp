#include "assay/te/quantize/round_input.h"

#include <algorithm>

#include "assay/base/parallel.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"

namespace assay::te {

Tensor round_input(const Tensor& input, DType dtype) {
  require_dtype("round_input", "x", input, {DType::kF32});
  if (dtype == DType::kF32) return input;
  const Tensor x = contiguous(input);
  Tensor out = Tensor::empty(dtype, x.shape(), x.device);
  require_high_precision("round_input", "dtype", out);
  constexpr std::int64_t kBlock = 1 << 15;
  const std::int64_t n = x.numel();
  parallel_for((n + kBlock - 1) / kBlock, [&](std::int64_t b) {
    const std::int64_t end = std::min(n, (b + 1) * kBlock);
    for (std::int64_t i = b * kBlock; i < end; ++i) {
      store_from_double(dtype, x.data<float>()[i], out.mutable_data(), i,
                        Overflow::kSpecial);
    }
  });
  return out;
}

}  // namespace assay::te
