#include "assay/kernels/ref/ref_dropout.h"

#include "assay/core/philox.h"
#include "assay/kernels/ref/ref_stored.h"

namespace assay {

std::uint16_t dropout_mask(const DropoutDraw& draw, std::uint64_t chunk) {
  PhiloxStream stream(draw.seed, chunk);
  stream.seek(draw.offset);
  unsigned mask = 0;
  for (unsigned k = 0; k < 4; ++k) {
    const std::uint32_t word = stream.next();
    // The element of byte b of word k.
    const unsigned element[4] = {2 * k + 1, 2 * k + 9, 2 * k, 2 * k + 8};
    for (unsigned b = 0; b < 4; ++b) {
      const bool kept = (word >> 8 * b & 0xff) >= draw.threshold;
      mask |= static_cast<unsigned>(kept) << element[b];
    }
  }
  return static_cast<std::uint16_t>(mask);
}

namespace {

void draw_masks(const DropoutDraw& draw, std::int64_t begin, std::int64_t count,
                std::uint16_t* mask) {
  for (std::int64_t c = 0; c < count; ++c)
    mask[c] = dropout_mask(draw, static_cast<std::uint64_t>(begin + c));
}

void apply(DType dtype, const void* x, const std::uint8_t* mask, std::int64_t n,
           float scale, void* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    const bool kept = mask[i / 8] >> i % 8 & 1;
    // The product of two fp32 numbers is exact here; the kernels round it to
    // fp32 first, and so does this.
    const auto value = static_cast<float>(ref::load(dtype, x, i)) * scale;
    ref::store(dtype, kept ? static_cast<double>(value) : 0.0, y, i);
  }
}

}  // namespace

const DropoutKernels kRefDropoutKernels = {"scalar", &draw_masks, &apply};

}  // namespace assay
