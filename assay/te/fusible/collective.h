// Operations that exchange rows with the other ranks of a group. (NVTE:
// ops.AllGather, ops.ReduceScatter, ops.AllReduce)
//
// Collective: every rank runs them in the same order. Sums: collectives.h, in
// the order of the ranks. Quantised inputs are decoded. In a group of one, and
// without a group, they are the identity.
#pragma once

#include <memory>

#include "assay/te/fusible/operation.h"

namespace assay::te::ops {

class CollectiveOperation : public BasicOperation {
 public:
  CollectiveOperation(std::string type, std::shared_ptr<Communicator> group)
      : BasicOperation(std::move(type)), group_(std::move(group)) {}

  Value forward(Value input, ForwardStep& step) final;
  Value backward(Value grad, BackwardStep& step) final;

 private:
  virtual Tensor exchange(const Tensor& x, Communicator& group) = 0;
  virtual Tensor exchange_grad(const Tensor& dy, Communicator& group) = 0;
  std::shared_ptr<Communicator> group_;
};

// [n, ...] to [size n, ...]; the gradient is summed and scattered.
class AllGather : public CollectiveOperation {
 public:
  explicit AllGather(std::shared_ptr<Communicator> group)
      : CollectiveOperation("AllGather", std::move(group)) {}

 private:
  Tensor exchange(const Tensor& x, Communicator& group) override;
  Tensor exchange_grad(const Tensor& dy, Communicator& group) override;
};

// The sum over ranks, this rank's slice of it; the gradient is gathered.
class ReduceScatter : public CollectiveOperation {
 public:
  explicit ReduceScatter(std::shared_ptr<Communicator> group)
      : CollectiveOperation("ReduceScatter", std::move(group)) {}

 private:
  Tensor exchange(const Tensor& x, Communicator& group) override;
  Tensor exchange_grad(const Tensor& dy, Communicator& group) override;
};

// The sum over ranks. What follows is computed by every rank alike, so that
// the gradient is the same on each and passes as it is (NVTE's, which reads its
// reduce_in_backward nowhere, likewise).
class AllReduce : public CollectiveOperation {
 public:
  explicit AllReduce(std::shared_ptr<Communicator> group)
      : CollectiveOperation("AllReduce", std::move(group)) {}

 private:
  Tensor exchange(const Tensor& x, Communicator& group) override;
  Tensor exchange_grad(const Tensor& dy, Communicator& group) override;
};

}  // namespace assay::te::ops
