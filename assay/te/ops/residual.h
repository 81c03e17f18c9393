// What a transformer layer does between its GEMMs: residual connections, with
// bias, dropout and stochastic depth, and scaling by a constant.
//
// Source: NVTE's TransformerLayer (_bias_dropout_add, DropPath) and the
// operations ConstantScale and AddExtraInput; DropPath: Huang et al.,
// arXiv:1603.09382, as timm has it. Tensors are float32, bfloat16 or float16,
// all of one call of the same dtype; strided ones are read as such. Everything
// is fp32 inside, each operation rounded (fp64 on the reference device), and
// rounded once to the dtype at the end: torch outside of a fused kernel rounds
// a bf16 sum after the bias, after the dropout and after the residual. What is
// dropped adds nothing, whatever stood there, NaN included (torch multiplies
// it by 0). Zero rows give zero rows. Results are fresh and do not depend on
// the number of threads; thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "assay/core/tensor.h"
#include "assay/te/ops/dropout.h"

namespace assay::te {

// x + residual, of the same shape. The gradient of both is dy itself.
Tensor residual_add(const Tensor& x, const Tensor& residual);
// factor x, and the gradient for dy = factor dy. Throws for a NaN factor.
Tensor constant_scale(const Tensor& x, float factor);
// factor x + y.
Tensor scale_add(const Tensor& x, float factor, const Tensor& y);

struct BiasDropoutAdd {
  Tensor out;
  Tensor mask;  // dropout's (te/ops/dropout.h); without elements where p = 0
};

// residual + dropout(x + bias): bias [columns of x], residual of x's shape,
// either may be absent. The mask is dropout_forward's for the same state, a
// function of flat indices: a recomputed forward draws it again. p in [0, 1);
// at 0 nothing is drawn and the state is not used.
BiasDropoutAdd bias_dropout_add_forward(const Tensor& x,
                                        const std::optional<Tensor>& bias,
                                        const std::optional<Tensor>& residual,
                                        float p, const DropoutState& state);

struct BiasDropoutAddGrads {
  Tensor dx;                    // dy / (1 - p) where the mask keeps, else 0
  std::optional<Tensor> dbias;  // column sums of the rounded dx, in its dtype
  Tensor dresidual;             // dy itself, its bytes shared
};
BiasDropoutAddGrads bias_dropout_add_backward(const Tensor& dy,
                                              const Tensor& mask, float p,
                                              bool with_bias);

// Stochastic depth. `batch_dim` is the dimension whose entries are samples: 0
// for [b, s, h], 1 for [s, b, h]. NVTE's DropPath takes dimension 0 whatever
// the layout, which in [s, b, h] drops positions of the sequence. Sample i is
// dropped where the uniform number in [0, 1) at word `state.offset` of
// subsequence i is below p; next_state() moves on. Dropping is per sample of
// this process: ranks that share one need the same seed.
struct DropPath {
  float p = 0;  // in [0, 1)
  std::int64_t batch_dim = 0;
  DropoutState state;
};

struct DropPathForward {
  Tensor out;
  Tensor kept;  // uint8 [samples]: 1 is kept
};

// residual + (kept ? x / (1 - p) : 0); the residual may be absent.
DropPathForward drop_path_forward(const Tensor& x,
                                  const std::optional<Tensor>& residual,
                                  const DropPath& options);
// dy / (1 - p) where the sample is kept, else 0: the gradient of x.
Tensor drop_path_backward(const Tensor& dy, const Tensor& kept,
                          const DropPath& options);

}  // namespace assay::te
