#include "assay/kernels/ref/ref_random.h"

#include "assay/core/philox.h"
#include "assay/numerics/basic_math.h"

namespace assay {
namespace {

constexpr std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
constexpr std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

void words(std::uint64_t key, std::uint64_t stream, std::uint64_t block,
           std::uint64_t* out) {
  for (std::int64_t i = 0; i < kRandomPart; i += 2, ++block) {
    const auto word =
        philox4x32({low(block), high(block), low(stream), high(stream)},
                   {low(key), high(key)});
    out[i] = std::uint64_t{word[0]} << 32 | word[1];
    out[i + 1] = std::uint64_t{word[2]} << 32 | word[3];
  }
}

void quantiles(double* p) {
  for (std::int64_t i = 0; i < kRandomPart; ++i) p[i] = normal_quantile(p[i]);
}

}  // namespace

const RandomKernels kRefRandomKernels = {"scalar", &words, &quantiles};

}  // namespace assay
