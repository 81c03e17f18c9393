// NVFP4: E2M1 elements in blocks of 16 under E4M3 scales and one fp32 amax.
//
// Source: NVTE, section NVFP4BlockScaling. Where its kernel and its references
// disagree this is the kernel: -0 is code 8, NaN is code 7 (+6, NaN is passed
// over by amax), a block whose scale underflows to 0 has codes of +-6 (which
// decode to 0), the rotated columns are rounded to bfloat16.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "assay/kernels/block_quant.h"
#include "assay/te/quantize/hadamard.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

class Nvfp4Work;

struct NVFP4Options {
  // 16 x 16 tiles with one scale, replicated to both directions: for weights.
  bool with_2d = false;
  // Columns (the operand of wgrad) go through the random Hadamard transform in
  // runs of 16 down the column; their amax is taken after it. Needs bfloat16.
  bool rht = false;
  std::uint16_t rht_sign_mask = kDefaultSignMask;
  // Stochastic rounding of both directions, for gradients. Each quantize()
  // takes `random_offset` for rows and random_offset + 1 for columns and moves
  // it on by 2, so a seed and an offset fix the result.
  bool stochastic_rounding = false;
  std::uint64_t random_seed = 0;
  std::uint64_t random_offset = 0;
  // One amax for each row; row-wise only, no rht, 2-D, stochastic rounding.
  bool row_scaled = false;
  // Each block takes the better of two scales, its amax becoming 6 or 4. Not
  // with rht, stochastic rounding.
  FourOverSix four_over_six = FourOverSix::kNone;
  // The largest block scale that the global scale is made for: 448, or 256
  // (4-over-6 only).
  float scale_max = 448.0f;
  // The amax becomes the maximum over a group of processes. May be null.
  std::shared_ptr<AmaxReduction> amax_reduction;
};

// Row-wise codes are M x K/2 bytes, column-wise ones of the transposed matrix,
// K x M/2 bytes; the even element is the low nibble.
//
// With A = amax of the direction, all in fp32, each operation rounded:
//   S_enc = min(6 * scale_max / A, FLT_MAX), 1 where A is 0 or infinite
//   block scale sd = sat(rn_e4m3(min(b * (S_enc * 1/6), FLT_MAX))), b its amax
//   code = sat(rn_e2m1(x * min(1 / (sd * (1 / S_enc)), FLT_MAX)))
// 4-over-6: base = b / 6 * S_enc, candidates sd = rn_e4m3(min(base, 448)) and
// rn_e4m3(min(1.5 base, 448)); the second where its error, the fp32 sum of |d|
// or d^2 over the block (or tile) with d = decoded - x, is strictly smaller.
// Stochastic rounding: e2m1_code_stochastic() with the bytes of nvfp4_random(),
// blocks numbered in the order of the direction's codes.
//
// The constructor throws Error{kUsage} for options that exclude each other;
// quantize() for dimensions that are no multiples of 16, and with rht for an
// input that is not bfloat16. Where a direction is not wanted nothing of it is
// computed. Not thread-safe with stochastic_rounding (the offset moves).
class NVFP4Quantizer : public Quantizer {
 public:
  explicit NVFP4Quantizer(const NVFP4Options& options = {});

  QuantizedTensor quantize(const Tensor& x) override;
  QuantizedTensor quantize_fused(const Tensor& x_f32, DType dtype) override;
  // One loop over all of them for the amax, one reduction, one for the codes.
  std::vector<QuantizedTensor> quantize_multi(
      std::span<const Tensor> xs) override;
  ScalingMode mode() const override { return ScalingMode::kNVFP4; }
  DType format() const override { return DType::kE2M1; }
  std::unique_ptr<Quantizer> clone() const override;

  const NVFP4Options& options() const { return options_; }
  // Where the next quantize() draws from.
  std::uint64_t random_offset() const { return options_.random_offset; }
  void set_random_offset(std::uint64_t offset) {
    options_.random_offset = offset;
  }

 private:
  void check(const Tensor& x) const;
  void agree_on_amax(std::deque<Nvfp4Work>& works) const;

  NVFP4Options options_;
};

}  // namespace assay::te
