#include "assay/te/parallel/gradient_bucket.h"

#include <algorithm>
#include <utility>

#include "assay/te/ops/row_blocks.h"
#include "assay/te/optim/in_place.h"
#include "assay/te/parallel/rank_sum.h"
#include "assay/te/quantize/identity.h"

namespace assay::te {

void GradientBucket::add(std::size_t gradient, std::int64_t elements) {
  members_.push_back(gradient);
  elements_ += elements;
}

std::int64_t GradientBucket::piece(std::int64_t r, std::int64_t ranks) const {
  return elements_ / ranks + (r < elements_ % ranks ? 1 : 0);
}

std::int64_t GradientBucket::piece_begin(std::int64_t r,
                                         std::int64_t ranks) const {
  return r * (elements_ / ranks) + std::min(r, elements_ % ranks);
}

std::span<std::byte> GradientBucket::bytes(Tensor& t, std::int64_t begin,
                                           std::int64_t count) const {
  const std::int64_t width = traits(dtype_).bits / 8;
  return {t.mutable_data() + begin * width,
          static_cast<std::size_t>(count * width)};
}

void GradientBucket::start(std::span<const Tensor> gradients,
                           Communicator& group) {
  flat_ = Tensor::empty(dtype_, {elements_}, device_);
  std::int64_t at = 0;
  for (const std::size_t i : members_) {
    const Tensor& g = gradients[i];
    gather(g.view, 0, g.numel(), bytes(flat_, at, g.numel()).data());
    at += g.numel();
  }
  const std::int64_t ranks = group.size(), rank = group.rank();
  const std::int64_t own = piece(rank, ranks);
  received_ = Tensor::empty(dtype_, {ranks, own}, device_);
  for (std::int64_t i = 1; i < ranks; ++i) {
    const std::int64_t to = (rank + i) % ranks;
    const std::int64_t from = (rank + ranks - i) % ranks;
    moving_.push_back(
        group.exchange(bytes(flat_, piece_begin(to, ranks), piece(to, ranks)),
                       static_cast<int>(to), bytes(received_, from * own, own),
                       static_cast<int>(from)));
  }
}

bool GradientBucket::arrived() {
  bool all = true;
  for (const auto& transfer : moving_) all &= transfer->test();
  return all;
}

void GradientBucket::sum_piece(GradientOp op, std::int64_t rank,
                               std::int64_t ranks) {
  const std::int64_t own = piece(rank, ranks);
  std::byte* to = bytes(flat_, piece_begin(rank, ranks), own).data();
  std::vector<const std::byte*> parts;
  for (std::int64_t r = 0; r < ranks; ++r)
    parts.push_back(r == rank ? to : bytes(received_, r * own, own).data());
  if (op == GradientOp::kSum) {
    sum_in_rank_order(device_, dtype_, dtype_, parts, own, to);
    return;
  }
  Tensor mean = Tensor::empty(DType::kF32, {own}, device_);
  auto* values = mean.mutable_data<float>();
  sum_in_rank_order(device_, dtype_, DType::kF32, parts, own,
                    mean.mutable_data());
  for_row_blocks(own, kTaskElements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      values[i] /= static_cast<float>(ranks);
  });
  const Tensor rounded = convert_high_precision(mean, dtype_);
  std::copy_n(rounded.view.data, rounded.view.bytes().size(), to);
}

void GradientBucket::send_sums(GradientOp op, Communicator& group) {
  for (const auto& transfer : moving_) transfer->wait();
  moving_.clear();
  const std::int64_t ranks = group.size(), rank = group.rank();
  sum_piece(op, rank, ranks);
  for (std::int64_t i = 1; i < ranks; ++i) {
    const std::int64_t to = (rank + i) % ranks;
    const std::int64_t from = (rank + ranks - i) % ranks;
    moving_.push_back(group.exchange(
        bytes(flat_, piece_begin(rank, ranks), piece(rank, ranks)),
        static_cast<int>(to),
        bytes(flat_, piece_begin(from, ranks), piece(from, ranks)),
        static_cast<int>(from)));
  }
}

void GradientBucket::finish(std::span<Tensor> gradients) {
  for (const auto& transfer : moving_) transfer->wait();
  moving_.clear();
  std::int64_t at = 0;
  for (const std::size_t i : members_) {
    Tensor& g = gradients[i];
    const std::span<std::byte> sums = bytes(flat_, at, g.numel());
    if (g.view.is_contiguous()) {
      std::copy(sums.begin(), sums.end(), g.mutable_data());
    } else {
      Tensor values = flat_;
      values.view.shape = g.shape();
      values.view.data = sums.data();
      scatter(values, g);
    }
    at += g.numel();
  }
  flat_ = received_ = Tensor{};
}

}  // namespace assay::te
