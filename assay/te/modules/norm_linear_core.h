// A norm and the linear layer that takes its result: what LayerNormLinear is,
// and LayerNormMLP begins with.
//
//   z = norm(x);  y = z W^T (+ b)
// Where the layer quantises its input, z is made quantised (quantize/fused.h
// says what is rounded when) unless the caller wants it. z is not kept: the
// backward makes it, or its codes, again from x, bit for bit, with a copy of
// the quantiser as the forward found it.
#pragma once

#include <memory>
#include <optional>

#include "assay/te/modules/linear_core.h"
#include "assay/te/modules/norm_core.h"

namespace assay::te {

class NormLinearCore {
 public:
  struct Saved {
    NormCore::Saved norm;
    LinearCore::Saved linear;  // without z
    std::unique_ptr<Quantizer> requantizer;
    // z was rounded before it was quantised: not quantised by the norm.
    bool rounded_first = false;
    // It was gathered over the sequence in high precision.
    bool gathered_first = false;
    bool drops_input = false;  // to be made again
    void visit_tensors(const TensorVisitor& visit) const;
  };

  NormLinearCore(NormCore& norm, LinearCore& linear)
      : norm_(norm), linear_(linear) {}

  // `z`: filled with the norm's result, of this rank's rows. `saved` null:
  // inference.
  Tensor forward(const QuantizedPass& pass, const Tensor& x, Saved* saved,
                 const LinearCall& call, bool add_bias, Tensor* z);
  // y of the forward once more. Not under a backward override.
  Tensor forward_again(Saved& saved);
  // dx; no elements where call.input_requires_grad was false and the norm has
  // nothing to train. `dz_of_caller` (may be null) is the gradient of z from
  // elsewhere: added in fp32, rounded once.
  Tensor backward(LinearGrad dy, Saved& saved, const Tensor* dz_of_caller);

 private:
  void make_input(Saved& saved, bool rowwise, bool columnwise) const;

  NormCore& norm_;
  LinearCore& linear_;
};

}  // namespace assay::te
