// What tests of adapters of attention share: calls with every parameter of the
// spec.
#pragma once

#include <string>
#include <utility>

#include "tests/conform/engine/run_on.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::conform {

// Attention of one sequence of each length, nothing special about it.
inline AdapterCall attention_case(Parameters other) {
  AdapterCall call;
  call.module = "dot_product_attention";
  call.parameters = {{"num_attention_heads", 1},
                     {"num_gqa_groups", 1},
                     {"channels", 1},
                     {"v_channels", 1},
                     {"q_lengths", List{1}},
                     {"kv_lengths", List{1}},
                     {"qkv_format", "sbhd"},
                     {"attn_mask_type", "no_mask"},
                     {"window_left", -1},
                     {"window_right", -1},
                     {"bottom_right_diagonal", "default"},
                     {"core_attention_bias_type", "no_bias"},
                     {"pad_between_seqs", false},
                     {"softmax_type", "vanilla"},
                     {"softmax_scale", 1.0},
                     {"return_max_logit", false},
                     {"checkpoint_core_attention", false},
                     {"dtype", "float32"},
                     {"recipe", "none"}};
  for (auto& [name, value] : other) call.parameters[name] = std::move(value);
  return call;
}

}  // namespace assay::conform
