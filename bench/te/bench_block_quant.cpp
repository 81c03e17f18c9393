// MXFP8 and NVFP4: quantise and decode a 4096 x 4096 bf16 matrix.
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

constexpr double kCount = 4096.0 * 4096.0;
// Bytes of an element: the input, a direction's codes and scales. NVFP4 needs
// the amax of the whole before the first code and so reads its input twice.
constexpr double kInput = 2, kMx = 1 + 1.0 / 32, kNv = 0.5 + 1.0 / 16;

Tensor input() { return random_tensor(DType::kBF16, {4096, 4096}); }

template <typename Q>
std::function<Body()> quantize(Q quantizer, te::Usage usage) {
  quantizer.set_usage(usage);
  return [quantizer] {
    auto own = std::make_shared<Q>(quantizer);
    return [own, x = input()] { own->quantize(x); };
  };
}

template <typename Q>
std::function<Body()> decode(Q quantizer, bool columnwise) {
  quantizer.set_usage({!columnwise, columnwise});
  return [quantizer]() mutable {
    return
        [q = quantizer.quantize(input())] { te::dequantize(q, DType::kBF16); };
  };
}

constexpr te::Usage kRow{true, false}, kColumn{false, true}, kBoth{true, true};
const te::MXFP8Quantizer kMxfp8(DType::kE4M3FN);
const te::NVFP4Quantizer kNvfp4;
const te::NVFP4Quantizer kGradient(te::NVFP4Options{
    .rht = true, .stochastic_rounding = true, .random_seed = 1});
const te::NVFP4Quantizer kWeight(te::NVFP4Options{.with_2d = true});

const Row kRows[] = {
    {.name = "mxfp8_quantize_row_bf16",
     .bytes = kCount * (kInput + kMx),
     .prepare = quantize(kMxfp8, kRow)},
    {.name = "mxfp8_quantize_column_bf16",
     .bytes = kCount * (kInput + kMx),
     .prepare = quantize(kMxfp8, kColumn)},
    {.name = "mxfp8_quantize_both_bf16",
     .bytes = kCount * (kInput + 2 * kMx),
     .prepare = quantize(kMxfp8, kBoth)},
    {.name = "mxfp8_dequantize_row_bf16",
     .bytes = kCount * (kInput + kMx),
     .prepare = decode(kMxfp8, false)},
    {.name = "mxfp8_dequantize_column_bf16",
     .bytes = kCount * (kInput + kMx),
     .prepare = decode(kMxfp8, true)},
    {.name = "nvfp4_quantize_row_bf16",
     .bytes = kCount * (2 * kInput + kNv),
     .prepare = quantize(kNvfp4, kRow)},
    {.name = "nvfp4_quantize_both_bf16",
     .bytes = kCount * (2 * kInput + 2 * kNv),
     .prepare = quantize(kNvfp4, kBoth)},
    {.name = "nvfp4_quantize_weight_bf16",
     .bytes = kCount * (2 * kInput + 2 * kNv),
     .prepare = quantize(kWeight, kBoth)},
    {.name = "nvfp4_quantize_gradient_bf16",
     .bytes = kCount * (2 * kInput + 2 * kNv),
     .memory_goal = 0,
     .prepare = quantize(kGradient, kBoth)},
    {.name = "nvfp4_dequantize_row_bf16",
     .bytes = kCount * (kInput + kNv),
     .prepare = decode(kNvfp4, false)},
};
const Registration kBlockQuant{kRows};

}  // namespace
}  // namespace assay::bench
