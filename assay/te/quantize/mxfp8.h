// MXFP8: blocks of 32 elements under one power-of-two scale.
//
// Source: NVTE, section MXFP8BlockScaling; OCP Microscaling Formats 1.0.
#pragma once

#include "assay/te/quantize/jobs.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

struct MXFP8Options {
  // One scale for each 32 x 32 tile, replicated to both directions, so that
  // the codes of both are the same: for weights.
  bool with_2d = false;
  // Take shapes that are no multiples of 32: the last block of a row or column
  // is short (blocks never run on into the next row). NVTE refuses them.
  bool partial_blocks = false;
};

// Row-wise 1 x 32 and column-wise 32 x 1 blocks, each quantised from the input
// by itself; column-wise codes are NOT transposed.
//
// For each block: scale code e = round_up_e8m0(fp32(amax * fp32(1 / max)));
// code = sat(rn(x * 2^(127 - e))), the product in fp32 for every input dtype.
// Blocks of zeros have e = 0 and codes of their zeros' signs.
// An infinity: e = 0xfe, the infinity saturates and finite elements are scaled
// by 2^-127 (NVTE's kernel; its Python reference has 0xff).
// A NaN: e = 0xff and every code of the block is NaN, wherever it stands and in
// both directions. NVTE leaves this open (fmax drops a NaN, its packed
// reduction keeps it); here a NaN is never turned into a number.
//
// quantize() throws Error{kUsage} where the last dimension or the product of
// the others is no multiple of 32 (see partial_blocks). Stateless, so one
// object may be used by several threads.
class MXFP8Quantizer : public Quantizer {
 public:
  // format: kE4M3FN (the recipe's default, for gradients too) or kE5M2.
  explicit MXFP8Quantizer(DType format, bool with_2d = false);
  MXFP8Quantizer(DType format, const MXFP8Options& options);

  QuantizedTensor quantize(const Tensor& x) override;
  QuantizedTensor quantize_fused(const Tensor& x_f32, DType dtype) override;
  // One parallel loop over the blocks of all of them.
  std::vector<QuantizedTensor> quantize_multi(
      std::span<const Tensor> xs) override;
  ScalingMode mode() const override { return ScalingMode::kMXFP8; }
  DType format() const override { return format_; }
  std::unique_ptr<Quantizer> clone() const override;

 private:
  // Checks, and empty results; the work, which fills them.
  QuantizedTensor prepare(const Tensor& x) const;
  Job job(const Tensor& x, QuantizedTensor& q) const;

  DType format_;
  MXFP8Options options_;
};

}  // namespace assay::te
