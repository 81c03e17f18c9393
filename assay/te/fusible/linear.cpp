#include "assay/te/fusible/linear.h"

#include <cstring>

#include "assay/te/fusible/collective.h"
#include "assay/te/modules/parameter_init.h"

namespace assay::te::ops {
namespace {

// This rank's columns of a weight that is initialised whole.
InitMethod columns_init(InitMethod init, std::int64_t in_features,
                        const TensorParallel& tp) {
  return [=, size = tp.size(), rank = tp.rank()](Tensor& mine,
                                                 std::uint64_t seed) {
    Tensor whole = Tensor::zeros(mine.dtype(), {mine.shape()[0], in_features});
    init(whole, seed);
    const Tensor columns = cut(whole, 1, size, rank);
    std::memcpy(mine.mutable_data(), columns.view.data,
                columns.view.bytes().size());
  };
}

}  // namespace

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool bias,
               const BasicLinearOptions& options)
    : CompoundOperation("Linear", "") {
  const TensorParallel& tp = options.tensor_parallel;
  const bool row = options.tensor_parallel_mode == ParallelMode::kRow;
  const bool column = options.tensor_parallel_mode == ParallelMode::kColumn;
  BasicLinearOptions own = options;
  if (row) {
    const std::int64_t whole = in_features;
    in_features = shard_size("Linear", "in_features", in_features, tp.size());
    own.tensor_parallel_mode = ParallelMode::kNone;
    own.tensor_parallel = {};
    own.init_method = columns_init(
        options.init_method ? options.init_method : default_init(whole), whole,
        tp);
  }
  linear_ = std::make_unique<BasicLinear>(in_features, out_features, own);
  if (row) {
    linear_->weight().tensor_model_parallel = true;
    linear_->weight().partition_dim = 1;
  }
  add_operation(*linear_);
  if (bias) {
    bias_ = std::make_unique<Bias>(
        out_features, BiasOptions{options.dtype, options.device, column, tp});
    add_operation(*bias_);
  }
  if (!row || tp.size() == 1) return;
  if (tp.sequence_parallel) {
    sum_ = std::make_unique<ReduceScatter>(tp.group);
  } else {
    sum_ = std::make_unique<AllReduce>(tp.group);
  }
  add_operation(*sum_);
}

}  // namespace assay::te::ops
