// What attention modules are told when they are made and when they are
// called; names and defaults are those of NVTE's DotProductAttention.
#pragma once

#include <cstdint>
#include <optional>

#include "assay/te/ops/attention.h"
#include "assay/te/ops/kv_cache.h"

namespace assay::te {

enum class AttentionType : std::uint8_t { kSelf, kCross };

// Keys left and right of the diagonal that a query sees; -1: all of them.
// Causal masks see none to the right whatever is said here.
struct WindowSize {
  std::int64_t left = -1, right = -1;
};

// Channels of a head: of q and k, and of v.
struct KvChannels {
  std::int64_t k = 0, v = 0;
  KvChannels(std::int64_t both) : k(both), v(both) {}
  KvChannels(std::int64_t of_k, std::int64_t of_v) : k(of_k), v(of_v) {}
};

// Of one forward. What is absent is as the module was made.
struct AttentionCall {
  std::optional<QkvFormat> qkv_format = std::nullopt;
  std::optional<AttentionMask> attn_mask_type = std::nullopt;
  std::optional<WindowSize> window_size = std::nullopt;
  std::optional<bool> bottom_right_diagonal = std::nullopt;
  // bool or uint8, true: excluded. With an arbitrary mask [1 or b, 1 or h, sq,
  // skv]. With one of the padding masks [b, 1, 1, s], the valid tokens of a
  // sequence first: its counts stand for cu_seqlens, which must be absent;
  // attention_mask_kv is that of the keys where they are another sequence.
  // With other masks, as in NVTE, not looked at.
  std::optional<Tensor> attention_mask = std::nullopt;
  std::optional<Tensor> attention_mask_kv = std::nullopt;
  // int32 [b + 1]: padding masks and thd.
  std::optional<Tensor> cu_seqlens_q = std::nullopt;
  std::optional<Tensor> cu_seqlens_kv = std::nullopt;
  std::optional<Tensor> cu_seqlens_q_padded = std::nullopt;
  std::optional<Tensor> cu_seqlens_kv_padded = std::nullopt;
  // thd: what dropout counts elements with; 0: the longest sequence.
  std::int64_t max_seqlen_q = 0, max_seqlen_kv = 0;
  // Nothing of the core is kept but q, k and v: it runs again in backward.
  bool checkpoint_core_attention = false;
  AttentionBiasType core_attention_bias_type = AttentionBiasType::kNone;
  std::optional<Tensor> core_attention_bias = std::nullopt;
  std::optional<Tensor> alibi_slopes = std::nullopt;
  // Inference with a cache of keys and values, whose begin_step() the caller
  // has called. Lengths are the cache's. Not with a context, nor over a group
  // of context parallelism.
  KvCache* inference_params = nullptr;
};

// [b, 1, 1, s] of padding to int32 [b + 1]. Throws Error{kUsage} that names
// the sequence whose valid tokens do not come first.
Tensor cu_seqlens_of_padding(const Tensor& mask, std::string_view module);

}  // namespace assay::te
