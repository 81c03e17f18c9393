// Dropout with a mask of one bit an element, forward and backward.
//
// Source: NVTE (docs/numerics.md, dropout), kernels/dropout.h. The probability
// counts in steps of 1/256: an element is dropped where its random byte is
// below floor(256 p), while what is kept is multiplied by 1 / (1 - p) in fp32
// and rounded once. Whether an element is dropped is a function of the state
// and its flat index alone, so that a recomputed forward with the same state
// draws the same mask. A dropped element is +0 whatever stood there, NaN
// included. x and dy are float32, bfloat16 or float16 of any size. Thread-safe;
// results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "assay/core/tensor.h"

namespace assay::te {

struct DropoutState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;  // in words of each element chunk's stream
};

// The state of the next call: one call takes four words of every stream.
constexpr DropoutState next_state(DropoutState state) {
  return {state.seed, state.offset + 4};
}

struct DropoutForward {
  Tensor y;
  Tensor mask;  // uint8 [2 ceil(n / 16)], bit i % 8 of byte i / 8 is element
                // i: 1 is kept (NVTE's layout)
};

// p in [0, 1).
DropoutForward dropout_forward(const Tensor& x, float p,
                               const DropoutState& state);
// dy / (1 - p) where the mask keeps, else 0.
Tensor dropout_backward(const Tensor& dy, const Tensor& mask, float p);

}  // namespace assay::te
