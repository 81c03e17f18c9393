// Linear: y = x W^T + b of basic operations. (NVTE: ops.Linear)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "assay/te/fusible/basic_linear.h"
#include "assay/te/fusible/bias.h"

namespace assay::te::ops {

// BasicLinear and Bias; row-parallel: of this rank's columns, with a sum over
// the ranks behind the bias. There, as in NVTE, every rank has a bias of its
// own and what is added is the sum of them (te::Linear adds one bias after
// the sum). Parameters: "basic_ops.0.weight", "basic_ops.1.bias".
class Linear : public CompoundOperation {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true,
         const BasicLinearOptions& options = {});

  Parameter& weight() { return linear_->weight(); }
  // Null without.
  Parameter* bias() { return bias_ ? &bias_->bias() : nullptr; }

 private:
  std::unique_ptr<BasicLinear> linear_;
  std::unique_ptr<Bias> bias_;
  std::unique_ptr<BasicOperation> sum_;
};

}  // namespace assay::te::ops
