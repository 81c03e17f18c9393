// Softmax over the last dimension of attention scores, scaled and masked,
// forward and backward, and the rule by which TransformerEngine chooses its
// fused kernels for it.
//
// Formulas: NVTE (docs/numerics.md, softmax). x is float32, bfloat16 or
// float16; the computation is fp32, one rounding to x's dtype. Rows run over
// all leading dimensions. Causal masks exclude columns exactly: they are not
// read, their results are zeros. A masked column takes the logit -10000
// whatever x holds there, NaN included, and a row whose maximum is -10000 is
// zeros with zero gradients (the fused kernel; torch's fallback gives a uniform
// row). Else a NaN, or an infinite maximum, makes its row NaN. Thread-safe;
// results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"
#include "assay/te/ops/softmax_type.h"

namespace assay::te {

enum class SoftmaxMask : std::uint8_t {
  kNone,
  kPadding,          // a mask tensor, not 0 = masked
  kUpperTriangular,  // column j > row i excluded; sq == sk
  kAlignedCausal,    // j > i + (sk - sq) excluded: the bottom right corner
};

struct SoftmaxOptions {
  float scale = 1.0f;
  SoftmaxMask mask = SoftmaxMask::kNone;
  SoftmaxType type = SoftmaxType::kVanilla;
  InternalPrecision precision = InternalPrecision::kF32;
};

struct SoftmaxForward {
  Tensor y;
  Tensor extra;  // float32 [rows]: probability of the extra term; empty for
                 // kVanilla
};

// x [.., sq, sk]; at least two dimensions for a causal mask, [b, h, sq, sk] for
// a mask tensor (uint8 or bool [b or 1, 1, sq, sk], for kPadding) and an offset
// (float32 [h], for kLearnable).
SoftmaxForward softmax_forward(const Tensor& x,
                               const SoftmaxOptions& options = {},
                               const Tensor* mask = nullptr,
                               const Tensor* offset = nullptr);

struct SoftmaxBackward {
  Tensor dx;
  Tensor doffset;  // float32 [h], kLearnable: -sum of extra * sum(dy y) over
                   // the head's rows; else empty
};

// dy, y of one dtype and shape. y is zero where the forward masked, and so is
// dx; `extra` is needed for kLearnable.
SoftmaxBackward softmax_backward(const Tensor& dy, const Tensor& y,
                                 const SoftmaxOptions& options = {},
                                 const Tensor* extra = nullptr);

// What FusedScaleMaskSoftmax looks at to choose its kernels.
struct FusedSoftmaxQuery {
  DType dtype = DType::kBF16;
  std::int64_t batch = 0, heads = 0, sq = 0, sk = 0;
  SoftmaxMask mask = SoftmaxMask::kNone;
  Shape mask_shape;            // of kPadding; empty: no mask given
  bool fusion_enabled = true;  // NVTE_MASKED_SOFTMAX_FUSION
};

// True where TransformerEngine runs the fused kernel, whose fully masked rows
// are zeros; false where it falls back to torch, whose are uniform.
bool fused_softmax_available(const FusedSoftmaxQuery& query);

}  // namespace assay::te
