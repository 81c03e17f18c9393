#include "assay/te/fusible/collective.h"

#include "assay/te/parallel/collectives.h"

namespace assay::te::ops {

Value CollectiveOperation::forward(Value input, ForwardStep&) {
  if (!group_ || group_->size() == 1) return input;
  return exchange(tensor_of(input), *group_);
}

Value CollectiveOperation::backward(Value grad, BackwardStep&) {
  if (!group_ || group_->size() == 1) return grad;
  return exchange_grad(tensor_of(grad), *group_);
}

Tensor AllGather::exchange(const Tensor& x, Communicator& group) {
  return all_gather_first_dim(x, group);
}
Tensor AllGather::exchange_grad(const Tensor& dy, Communicator& group) {
  return reduce_scatter_first_dim(dy, group);
}

Tensor ReduceScatter::exchange(const Tensor& x, Communicator& group) {
  return reduce_scatter_first_dim(x, group);
}
Tensor ReduceScatter::exchange_grad(const Tensor& dy, Communicator& group) {
  return all_gather_first_dim(dy, group);
}

Tensor AllReduce::exchange(const Tensor& x, Communicator& group) {
  return all_reduce_sum(x, group);
}
Tensor AllReduce::exchange_grad(const Tensor& dy, Communicator&) { return dy; }

}  // namespace assay::te::ops
