// One branch of a transformer layer joined to its residual connection:
// residual + drop_path(dropout(x + bias)), NVTE's _bias_dropout_add.
#pragma once

#include <optional>

#include "assay/te/modules/module.h"
#include "assay/te/ops/residual.h"

namespace assay::te {

class ResidualBranch {
 public:
  struct Options {
    float dropout = 0;
    float drop_path_rate = 0;
    std::int64_t batch_dim = 0;  // of drop path: te/ops/residual.h
    // The rows of each rank are others: dropout draws from
    // kModelParallelRandom. Drop path never does: a sample is on all ranks.
    bool own_rows = false;
  };
  struct Saved {
    Tensor mask;
    DropPath drop_path;
    std::optional<Tensor> kept;  // samples; absent without drop path
    void visit_tensors(const TensorVisitor& visit) const;
  };

  explicit ResidualBranch(const Options& options) : options_(options) {}

  // `bias` (may be null) is a parameter that the layer before did not add; it
  // is converted to x's dtype. `saved` null: inference, nothing is dropped.
  Tensor forward(const Tensor& x, const Parameter* bias, const Tensor& residual,
                 Saved* saved) const;
  // The gradient of x, which is that of the bias before its rows are summed;
  // the gradient of the residual is dy. `saved` is used up.
  Tensor backward(const Tensor& dy, Saved& saved) const;

 private:
  Options options_;
};

}  // namespace assay::te
