// A call of attention, checked and taken apart into heads.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "assay/kernels/attention.h"
#include "assay/te/ops/attention.h"

namespace assay::te {

// Where the rows of one tensor are: [sequence or token][head][dim].
struct QkvLayout {
  QkvFormat format = QkvFormat::kSbhd;
  std::int64_t batch = 0, length = 0, heads = 0, dim = 0;  // thd: length = all

  // Elements from one row of a head to the next.
  std::int64_t row_stride() const;
  // The first row of a head in sequence `b`, which begins at token `begin`.
  std::int64_t offset(std::int64_t b, std::int64_t begin,
                      std::int64_t head) const;
};

struct Sequence {
  std::int64_t q_begin = 0, q_length = 0;  // begin: thd only
  std::int64_t kv_begin = 0, kv_length = 0;
};

// Heads in the order [batch][head of q].
struct AttentionProblem {
  QkvLayout q, k, v, out;
  std::int64_t group = 1;  // heads of q for one of k
  std::vector<Sequence> sequences;
  std::vector<AttentionHead> heads;
  InternalPrecision precision = InternalPrecision::kF32;
  Device device = Device::kCpu;
  bool padded_q = false, padded_kv = false;  // some rows belong to no sequence
  std::vector<Tensor> keep;                  // what heads point into

  const Sequence& sequence(std::size_t head) const {
    return sequences[head / static_cast<std::size_t>(q.heads)];
  }
  std::int64_t lse_offset(std::size_t head) const;
  Shape lse_shape() const;
};

AttentionProblem make_attention_problem(std::string_view op,
                                        const AttentionInputs& inputs,
                                        const AttentionOptions& options);

// Plain loops rather than tiles.
bool runs_plain(const AttentionProblem& problem, DType dtype);

}  // namespace assay::te
