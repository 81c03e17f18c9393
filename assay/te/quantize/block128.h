// Block-128 scaling: fp32 scales of 1 x 128 blocks or 128 x 128 tiles.
//
// Of every block: scale = compute_scale(max |x|, fp8_max, {pow2, epsilon,
// largest finite value of the input dtype}), code = sat(RN(x * scale)), stored
// scale_inv = rn(1 / scale) (NVTE, docs/numerics.md; where NVTE's references
// disagree the kernel's rule is followed: an infinite block has scale 1, NaN
// elements do not count). Short blocks at the edges have scales of their own.
// 1 x 128: rowwise and columnwise blocks are quantised independently from x.
// 128 x 128: one scale a tile, the columnwise data are the transposed codes
// and scales. Scales come in ScaleLayout::kCompact. The same bits for any
// number of threads; thread-safe.
#pragma once

#include <span>
#include <vector>

#include "assay/te/quantize/quantizer.h"
#include "assay/te/quantize/scale.h"

namespace assay::te {

struct Block128Options {
  DType format = DType::kE4M3FN;  // any of kCastFormats
  int block_dim = 2;              // 1: 1 x 128, 2: 128 x 128
  bool pow2 = true;
  float epsilon = 0;
};

class Block128Quantizer : public Quantizer {
 public:
  // Throws Error{kUsage} for a format that is no 8-bit float, a block_dim
  // that is not 1 or 2, a negative epsilon.
  explicit Block128Quantizer(const Block128Options& options);

  QuantizedTensor quantize(const Tensor& x) override;
  // Rounds x to `dtype` first.
  QuantizedTensor quantize_fused(const Tensor& x_f32, DType dtype) override;
  std::vector<QuantizedTensor> quantize_multi(
      std::span<const Tensor> xs) override;
  ScalingMode mode() const override;
  DType format() const override { return options_.format; }
  std::unique_ptr<Quantizer> clone() const override;

  const Block128Options& options() const { return options_; }

 private:
  Block128Options options_;
};

// Sharded weights: `shard` holds the elements [start, start + n) of a flat
// h x w matrix.
//
// max |x| of the shard's elements in each 128 x 128 tile, 0 in tiles that it
// does not touch: float32 [ceil(h / 128), ceil(w / 128)]. The maximum over all
// shards is the tile's amax; scales_from_amax makes scales of it.
Tensor block128_partial_amax(const Tensor& shard, std::int64_t h,
                             std::int64_t w, std::int64_t start);
// The shard's codes, as a flat tensor of its shape, under the scales (not
// inverses) of all tiles: bytes [start, start + n) of the rowwise data.
// Both throw Error{kUsage} for a shard that does not lie in the matrix.
Tensor block128_partial_cast(const Tensor& shard, const Tensor& scale,
                             std::int64_t h, std::int64_t w, std::int64_t start,
                             DType format);

}  // namespace assay::te
