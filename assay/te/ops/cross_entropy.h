// Cross entropy over a vocabulary that may be cut across ranks.
//
// Sources: NVTE parallel_cross_entropy; label smoothing of Szegedy et al.,
// arXiv:1512.00567, section 7. With m the maximum and d = sum e^(x - m) over
// the whole vocabulary of V entries, ls the label smoothing:
//   nll  = m + log d - x_target
//   loss = (1 - ls) nll + ls (m + log d) - (ls / V) sum x
//   grad = d_loss (e^(x - m) / d - ls / V - (1 - ls) [i = target])
// Rows whose target is ignore_index have loss 0 and gradient 0. A reduced loss
// and its gradient are divided by the number of the other rows, not by all;
// where there is none the loss is NaN (as torch has it) and the gradient 0.
//
// Logits f32, bf16 or f16, widened; everything in fp32, losses formed from the
// sums in fp64; sums are those of the operator "cross_entropy". The gradient
// is rounded once to the dtype of the logits, the entry of the target too
// (NVTE rounds that one twice). NaN or +inf in a row makes its loss and whole
// gradient NaN. Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"

namespace assay::te {

// How ranks that hold slices of one vocabulary agree. Called once each per
// forward pass, in this order, by every rank, with equal lengths.
class VocabReducer {
 public:
  virtual ~VocabReducer() = default;
  virtual void all_reduce_max(std::span<float> values) = 0;
  virtual void all_reduce_sum(std::span<float> values) = 0;
};

struct CrossEntropyOptions {
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
  bool reduce_loss = false;
  // This rank's logits are entries [vocab_offset, vocab_offset + V_local) of
  // vocab_size. 0: V_local, the vocabulary is whole.
  std::int64_t vocab_offset = 0, vocab_size = 0;
  VocabReducer* reducer = nullptr;  // null: one rank
  InternalPrecision precision = InternalPrecision::kF32;
};

struct CrossEntropyResult {
  Tensor loss;   // f32, logits' shape without the last dimension; reduced: [1]
  Tensor stats;  // f32 [T, 2]: m and d of every row, for backward
  std::int64_t counted = 0;  // rows that are not ignored
};

// logits [..., V_local], target [...] i32 or i64. A target that is neither
// ignore_index nor in [0, vocab_size) is an Error{kUsage} that names its row:
// nothing is read beyond the row. Thread-safe.
CrossEntropyResult cross_entropy_forward(const Tensor& logits,
                                         const Tensor& target,
                                         const CrossEntropyOptions& options);

// d_loss f32 [...], reduced [1]. A fresh gradient in the dtype of the logits.
Tensor cross_entropy_backward(const Tensor& d_loss, const Tensor& logits,
                              const Tensor& target,
                              const CrossEntropyResult& forward,
                              const CrossEntropyOptions& options);

// As NVTE does it: the forward pass, after which `logits` (contiguous, memory
// of its own) holds the gradient for d_loss = 1. One exponential and one trip
// through memory where the two calls above need two.
CrossEntropyResult cross_entropy_forward_in_place(
    Tensor& logits, const Tensor& target, const CrossEntropyOptions& options);

// Throws what forward (`in_place`: the one in place) throws for these arguments
// and does nothing else: for ranks that agree before they reduce.
void check_cross_entropy(std::string_view op, const Tensor& logits,
                         const Tensor& target,
                         const CrossEntropyOptions& options, bool in_place);

// That gradient times d_loss, in place; rounded a second time unless d_loss
// is 1.
void cross_entropy_scale_in_place(Tensor& gradient, const Tensor& d_loss);

}  // namespace assay::te
