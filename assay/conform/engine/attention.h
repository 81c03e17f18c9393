// What the adapters of attention modules share: names, masks and lengths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/conform/adapter.h"
#include "assay/te/modules/attention_call.h"

namespace assay::conform {

// A parameter that is a list of integers. Throws Error{kUsage}.
std::vector<std::int64_t> integers_of(const AdapterCall& call,
                                      std::string_view name);

// int32 [lengths + 1] on the device of the call: where each sequence begins
// when every one takes `slack` tokens more than its length.
Tensor offsets_of(const AdapterCall& call,
                  const std::vector<std::int64_t>& lengths,
                  std::int64_t slack = 0);

// An input [tokens, ...] as the format has it, its strides kept: [s, b, ...],
// [b, s, ...] with as many sequences as `lengths` names, thd as it is.
Tensor shaped_tokens(const AdapterCall& call, const std::string& name,
                     std::string_view lengths);

// Padding, window, bias and lengths of one call: parameters qkv_format,
// attn_mask_type, q_lengths, kv_lengths, pad_between_seqs, window_left,
// window_right, bottom_right_diagonal ("default", true, false),
// core_attention_bias_type, checkpoint_core_attention; inputs mask, bias,
// alibi_slopes.
te::AttentionCall attention_call(const AdapterCall& call);

// Why NVTE's name is asked of the parser: a name that it does not take any
// more is then missing from the contract.
struct AttentionNames {
  static std::string of(te::QkvFormat value);
  static std::string of(te::AttentionMask value);
  static std::string of(te::SoftmaxType value);
  static std::string of(te::AttentionType value);
};
// {"qkv_format": [...], "attn_mask_type": [...], "softmax_type": [...],
//  "core_attention_bias_type": [...]}
Object attention_enums();

}  // namespace assay::conform
