#include "assay/te/quantize/amax.h"

#include <algorithm>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/kernels/cast.h"

namespace assay::te {

float amax_of(Device device, DType dtype, const std::byte* x, std::int64_t n) {
  return with_cast_type(cast_kernels(device), dtype,
                        [&]<typename T>(const auto& type, T) {
                          return type.amax(reinterpret_cast<const T*>(x), n);
                        });
}

float tensor_amax(const Tensor& x) {
  constexpr std::int64_t kBlock = 1 << 16;
  const std::int64_t n = x.numel();
  const std::int64_t size = traits(x.dtype()).bits / 8;
  const std::int64_t blocks = (n + kBlock - 1) / kBlock;
  std::vector<float> parts(static_cast<std::size_t>(blocks));
  parallel_for(blocks, [&](std::int64_t b) {
    parts[static_cast<std::size_t>(b)] =
        amax_of(x.device, x.dtype(), x.view.data + b * kBlock * size,
                std::min(kBlock, n - b * kBlock));
  });
  float amax = 0;
  for (float part : parts) amax = std::max(amax, part);
  return amax;
}

}  // namespace assay::te
