// One bucket of gradients on its way: parts to the ranks that sum them, sums
// to all.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "assay/te/parallel/data_parallel.h"

namespace assay::te {

class GradientBucket {
 public:
  explicit GradientBucket(DType dtype, Device device)
      : dtype_(dtype), device_(device) {}

  void add(std::size_t gradient, std::int64_t elements);
  std::span<const std::size_t> members() const { return members_; }
  std::int64_t elements() const { return elements_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  // Copies the gradients and sends every rank its piece of them.
  void start(std::span<const Tensor> gradients, Communicator& group);
  // Whether every piece of this rank has come; moves them on.
  bool arrived();
  // Waits for them, sums this rank's piece and sends the sum to all. On a
  // communicator of its own: ranks come here at different times, between
  // different starts.
  void send_sums(GradientOp op, Communicator& group);
  // Waits for the sums of all pieces and writes them to the gradients.
  void finish(std::span<Tensor> gradients);

 private:
  // Elements of rank r's piece, and where it begins.
  std::int64_t piece(std::int64_t r, std::int64_t ranks) const;
  std::int64_t piece_begin(std::int64_t r, std::int64_t ranks) const;
  void sum_piece(GradientOp op, std::int64_t rank, std::int64_t ranks);
  std::span<std::byte> bytes(Tensor& t, std::int64_t begin,
                             std::int64_t count) const;

  DType dtype_;
  Device device_;
  std::vector<std::size_t> members_;
  std::int64_t elements_ = 0;
  Tensor flat_;      // [elements]: the gradients, then their sums
  Tensor received_;  // [ranks, own piece]; the own one is in flat_
  // Behind the buffers: transfers end before those go.
  std::vector<std::unique_ptr<PendingTransfer>> moving_;
};

}  // namespace assay::te
