// Gradients summed over replicas of a model, in buckets, while backward runs;
// norms over ranks.
//
// Sources: torch DistributedDataParallel and Megatron-Core's param_and_grad_
// buffer for the buckets. Each element is the sum over ranks as collectives.h
// forms it (in fp32, in the order of the ranks), for kMean divided by their
// number in fp32, and rounded once to the gradient's dtype: fp32 main
// gradients keep all of it, bf16 ones are reduced in fp32 as with Megatron's
// grad_reduce_in_fp32. The bits are the same on every rank and do not depend
// on buckets, on the order of marking or on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/te/parallel/communicator.h"

namespace assay::te {

enum class GradientOp : std::uint8_t { kSum, kMean };

struct GradientBucketsOptions {
  GradientOp op = GradientOp::kMean;
  // A bucket holds tensors of one dtype that follow each other in the list, up
  // to so many bytes, at least one.
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
};

// The bytes of a bucket are on their way from when all its gradients, and those
// of the buckets before it, are ready: list them in the order in which backward
// makes them. Ranks may mark in different orders. While bytes travel each
// mark_ready() moves them on; wait() returns with every gradient reduced in
// place, and the next backward can begin. Not thread-safe.
class GradientBuckets {
 public:
  // f32, bf16 or f16, writable, of any strides; bytes are shared with the
  // caller's. Collective: throws Error{kUsage} on every rank where shapes,
  // dtypes or options differ.
  GradientBuckets(std::vector<Tensor> gradients,
                  const GradientBucketsOptions& options,
                  const std::shared_ptr<Communicator>& group);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Gradient i is complete; it must not be touched until wait() has returned.
  // Throws Error{kUsage} for one that is marked already.
  void mark_ready(std::size_t i);
  // Throws Error{kUsage} on every rank where one has not marked all; wait()
  // can be called again after the rest is marked.
  void wait();

  std::size_t buckets() const;
  std::size_t started() const;  // buckets on their way or arrived

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// All of it at once.
void reduce_gradients(std::span<const Tensor> gradients,
                      const GradientBucketsOptions& options,
                      const std::shared_ptr<Communicator>& group);

// sqrt of the sum of squares over the tensors of all ranks, each of which holds
// gradients that no other holds (tensor parallelism, sharded optimizers). Each
// rank's norm is multi_tensor_l2norm's (fp64 sums, rounded to fp32), their
// squares are summed in fp64 in the order of the ranks. A NaN or infinity
// anywhere shows on every rank. Collective.
double gradient_norm(std::span<const Tensor> gradients, Communicator& group);

}  // namespace assay::te
