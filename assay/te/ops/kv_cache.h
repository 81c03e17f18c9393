// Keys and values of the tokens so far, for inference: NVTE's InferenceParams
// with its paged and non-paged managers.
//
// Tokens live in pages of `page_size`; a cache that is not paged has one page
// of `max_length` for each of `max_batch` sequences. Every layer has its own
// pages under one page table. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/te/ops/attention.h"

namespace assay::te {

struct KvCacheOptions {
  std::int64_t layers = 1;
  std::int64_t max_batch = 0, max_length = 0;
  std::int64_t heads = 0, k_dim = 0, v_dim = 0;
  DType dtype = DType::kBF16;
  bool paged = false;
  std::int64_t page_size = 0, total_pages = 0;  // paged only
  Device device = Device::kCpu;
};

struct SequenceStep {
  std::int64_t id = 0;
  std::int64_t tokens = 0;  // new ones in this step
};

class KvCache {
 public:
  // Takes the memory of all layers. Throws Error{kUsage} for sizes that are
  // not positive.
  explicit KvCache(const KvCacheOptions& options);

  // The sequences of the next step in the order of its batch. Those of before
  // that are not among them are finished: their pages are free again. Throws
  // Error{kUsage}, and changes nothing, where an id comes twice, a sequence
  // would be longer than max_length, or sequences or pages run out.
  void begin_step(std::span<const SequenceStep> step);

  // Writes the step's new tokens of one layer. k [b, s, h, d] with a sequence's
  // tokens first in its row, [s, b, h, d] likewise, or [tokens, h, d] packed in
  // the order of the batch; v with v_dim.
  void append(std::int64_t layer, const Tensor& k, const Tensor& v,
              QkvFormat format);

  std::int64_t batch() const {
    return static_cast<std::int64_t>(order_.size());
  }
  // Of the sequence at place b of the batch, without and with the new tokens.
  std::int64_t length_before(std::int64_t b) const;
  std::int64_t length(std::int64_t b) const;

  // [b, longest, h, d]: the cached rows of the step's sequences, zero past
  // their lengths (NVTE's convert_paged_to_nonpaged).
  Tensor keys(std::int64_t layer) const;
  Tensor values(std::int64_t layer) const;
  // int32 [b, pages of the longest]: page numbers, -1 past the last.
  Tensor page_table() const;
  std::int64_t free_pages() const {
    return static_cast<std::int64_t>(free_.size());
  }
  const KvCacheOptions& options() const { return options_; }

 private:
  struct Entry {
    std::int64_t before = 0, length = 0;
    std::vector<std::int64_t> pages;
  };

  std::int64_t pages_for(std::int64_t tokens) const;
  void check_step(std::span<const SequenceStep> step) const;
  const Entry& entry(std::int64_t b) const;
  const Tensor& layer_of(const std::vector<Tensor>& all,
                         std::int64_t layer) const;
  Tensor gather_rows(const Tensor& pages, std::int64_t dim) const;

  KvCacheOptions options_;
  std::vector<Tensor> k_, v_;  // a layer: [pages, page_size, heads, dim]
  std::map<std::int64_t, Entry> entries_;
  std::vector<std::int64_t> order_;  // ids of the step
  std::vector<std::int64_t> free_;   // lowest page last
};

// Inputs of AttentionInputs that a step may have beside q, k and v.
struct AttentionCacheExtras {
  std::optional<Tensor> softmax_offset, alibi_slopes;
};

// One step's attention: q holds the new tokens as append's k (bshd or thd),
// options.mask is one with padding, since sequences are of their own lengths:
// usually kPaddingCausalBottomRight; others are an Error{kUsage}. The result is
// that of attention_forward over the cached keys.
AttentionResult attention_over_cache(const KvCache& cache, std::int64_t layer,
                                     const Tensor& q, AttentionOptions options,
                                     const AttentionCacheExtras& extras = {});

}  // namespace assay::te
