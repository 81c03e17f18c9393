#include <cmath>

#include "assay/te/check.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/hybrid.h"
#include "assay/te/quantize/nvfp4.h"

namespace assay::te {
namespace {

// fmax: a NaN is passed over where any rank has a number.
void max_over_ranks(std::span<float> values, Communicator& group) {
  const std::size_t n = values.size();
  std::vector<float> all(n * static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(values),
                   std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = all[i];
    for (std::size_t at = i + n; at < all.size(); at += n)
      values[i] = std::fmax(values[i], all[at]);
  }
}

// The values as a tensor that does not own them.
Tensor borrow(std::span<float> values) {
  Tensor t;
  t.view = {DType::kF32,
            {static_cast<std::int64_t>(values.size())},
            {},
            reinterpret_cast<const std::byte*>(values.data())};
  t.writable = true;
  return t;
}

class GroupAmaxReduction : public AmaxReduction {
 public:
  explicit GroupAmaxReduction(std::shared_ptr<Communicator> group)
      : group_(std::move(group)) {}
  void reduce_max(float* values, std::int64_t count) override {
    max_over_ranks({values, static_cast<std::size_t>(count)}, *group_);
  }

 private:
  std::shared_ptr<Communicator> group_;
};

class GroupVocabReducer : public VocabReducer {
 public:
  explicit GroupVocabReducer(std::shared_ptr<Communicator> group)
      : group_(std::move(group)) {}
  void all_reduce_max(std::span<float> values) override {
    max_over_ranks(values, *group_);
  }
  void all_reduce_sum(std::span<float> values) override {
    Tensor t = borrow(values);
    all_reduce_sum_in_place(t, *group_);
  }

 private:
  std::shared_ptr<Communicator> group_;
};

void require_group(const char* op, const std::shared_ptr<Communicator>& group) {
  require(group != nullptr, op, "group", "null", "a communicator");
}

// Whether every rank arrives at the same scale for the whole tensor.
bool has_common_scale(const Quantizer& quantizer) {
  if (dynamic_cast<const DelayedScalingQuantizer*>(&quantizer)) return true;
  if (const auto* q = dynamic_cast<const CurrentScalingQuantizer*>(&quantizer))
    return q->options().amax_reduction != nullptr;
  if (const auto* q = dynamic_cast<const NVFP4Quantizer*>(&quantizer))
    return q->options().row_scaled || q->options().amax_reduction != nullptr;
  return false;
}

bool gatherable(const Quantizer& quantizer, Usage usage, std::int64_t rows) {
  if (const auto* q = dynamic_cast<const HybridQuantizer*>(&quantizer)) {
    return (!usage.rowwise || gatherable(q->rowwise(), {true, false}, rows)) &&
           (!usage.columnwise ||
            gatherable(q->columnwise(), {false, true}, rows));
  }
  switch (quantizer.mode()) {
    case ScalingMode::kIdentity:
      return true;
    case ScalingMode::kTensor:
      return has_common_scale(quantizer);
    case ScalingMode::kBlock1D:
      return !usage.columnwise || rows % 128 == 0;
    case ScalingMode::kBlock2D:
      return rows % 128 == 0;
    case ScalingMode::kMXFP8:
      return !usage.columnwise || rows % 32 == 0;
    case ScalingMode::kNVFP4:
      return has_common_scale(quantizer) &&
             (!usage.columnwise || rows % 16 == 0);
  }
  return false;
}

}  // namespace

bool can_gather_quantized(const Quantizer& quantizer, const Shape& local,
                          const Communicator& group) {
  return group.size() == 1 ||
         gatherable(quantizer, quantizer.usage(), matrix_shape(local).rows);
}

std::shared_ptr<AmaxReduction> group_amax_reduction(
    std::shared_ptr<Communicator> group) {
  require_group("group_amax_reduction", group);
  return std::make_shared<GroupAmaxReduction>(std::move(group));
}

std::unique_ptr<VocabReducer> group_vocab_reducer(
    std::shared_ptr<Communicator> group) {
  require_group("group_vocab_reducer", group);
  return std::make_unique<GroupVocabReducer>(std::move(group));
}

}  // namespace assay::te
