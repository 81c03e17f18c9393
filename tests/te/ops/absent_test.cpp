// Tensors that were never made, in every argument of every operator.
#include "tests/te/absent.h"

#include <array>
#include <optional>

#include "assay/te/ops/activation.h"
#include "assay/te/ops/attention.h"
#include "assay/te/ops/attention_fp8.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/ops/cross_entropy.h"
#include "assay/te/ops/dropout.h"
#include "assay/te/ops/gemm.h"
#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/ops/interleave.h"
#include "assay/te/ops/kv_cache.h"
#include "assay/te/ops/norm.h"
#include "assay/te/ops/pad.h"
#include "assay/te/ops/permute.h"
#include "assay/te/ops/rope.h"
#include "assay/te/ops/router.h"
#include "assay/te/ops/sequence.h"
#include "assay/te/ops/softmax.h"
#include "assay/te/ops/split.h"
#include "assay/te/ops/transpose.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using List = std::vector<Tensor>;

Tensor f32(Shape shape) {
  return normal_tensor(std::move(shape), DType::kF32, 1);
}

Tensor i32(const std::vector<double>& values) {
  return make_tensor(values, {static_cast<std::int64_t>(values.size())},
                     DType::kI32);
}

TEST(AbsentTensors, Activations) {
  const Tensor x = f32({4, 8}), s = f32({4});
  const auto act = Activation::kGelu;
  expect_absent_refused("activation_forward", {x},
                        [&](List& t) { activation_forward(act, t[0]); });
  expect_absent_refused("activation_backward", {x, x},
                        [&](List& t) { activation_backward(act, t[0], t[1]); });
  expect_absent_refused("scaled_activation_forward", {x, s}, [&](List& t) {
    scaled_activation_forward(act, t[0], t[1]);
  });
  expect_absent_refused("scaled_activation_backward", {x, x, s}, [&](List& t) {
    scaled_activation_backward(act, t[0], t[1], t[2]);
  });
  expect_absent_refused("activation_backward_dbias", {x, x}, [&](List& t) {
    activation_backward_dbias(act, t[0], t[1]);
  });
  expect_absent_refused("bias_grad", {x},
                        [](List& t) { bias_grad(t[0], DType::kF32); });
}

TEST(AbsentTensors, Norms) {
  const Tensor x = f32({4, 8}), g = f32({8}), r = f32({4});
  expect_absent_refused("layernorm_forward", {x, g, g},
                        [](List& t) { layernorm_forward(t[0], t[1], t[2]); });
  expect_absent_refused("rmsnorm_forward", {x, g},
                        [](List& t) { rmsnorm_forward(t[0], t[1]); });
  expect_absent_refused("layernorm_add_forward", {x, x, g, g}, [](List& t) {
    layernorm_add_forward(t[0], t[1], t[2], t[3]);
  });
  expect_absent_refused("rmsnorm_add_forward", {x, x, g},
                        [](List& t) { rmsnorm_add_forward(t[0], t[1], t[2]); });
  expect_absent_refused("layernorm_backward", {x, x, r, r, g}, [](List& t) {
    layernorm_backward(t[0], t[1], t[2], t[3], t[4]);
  });
  expect_absent_refused("rmsnorm_backward", {x, x, r, g}, [](List& t) {
    rmsnorm_backward(t[0], t[1], t[2], t[3]);
  });
  expect_absent_refused(
      "layernorm_backward_add", {x, x, x, r, r, g}, [](List& t) {
        layernorm_backward_add(t[0], t[1], t[2], t[3], t[4], t[5]);
      });
  expect_absent_refused("rmsnorm_backward_add", {x, x, x, r, g}, [](List& t) {
    rmsnorm_backward_add(t[0], t[1], t[2], t[3], t[4]);
  });
  expect_absent_refused("l2_normalization_forward", {x},
                        [](List& t) { l2_normalization_forward(t[0]); });
  expect_absent_refused("l2_normalization_backward", {x, x, r}, [](List& t) {
    l2_normalization_backward(t[0], t[1], t[2]);
  });
}

TEST(AbsentTensors, SoftmaxAndDropout) {
  const Tensor x = f32({1, 2, 4, 4}), h = f32({2}), extra = f32({8});
  const Tensor mask = Tensor::zeros(DType::kBool, {1, 1, 4, 4});
  const SoftmaxOptions full{.mask = SoftmaxMask::kPadding,
                            .type = SoftmaxType::kLearnable};
  expect_absent_refused("softmax_forward", {x, mask, h}, [&](List& t) {
    softmax_forward(t[0], full, &t[1], &t[2]);
  });
  expect_absent_refused("softmax_backward", {x, x, extra}, [&](List& t) {
    softmax_backward(t[0], t[1], full, &t[2]);
  });
  expect_absent_refused("dropout_forward", {x},
                        [](List& t) { dropout_forward(t[0], .5f, {}); });
  expect_absent_refused("dropout_backward", {x, Tensor::zeros(DType::kU8, {4})},
                        [](List& t) { dropout_backward(t[0], t[1], .5f); });
}

TEST(AbsentTensors, CrossEntropy) {
  const Tensor x = f32({4, 8}), target = i32({0, 1, 2, 3}), loss = f32({4});
  expect_absent_refused("cross_entropy_forward", {x, target},
                        [](List& t) { cross_entropy_forward(t[0], t[1], {}); });
  expect_absent_refused(
      "cross_entropy_forward_in_place", {x, target},
      [](List& t) { cross_entropy_forward_in_place(t[0], t[1], {}); });
  expect_absent_refused("cross_entropy_scale_in_place", {x, loss}, [](List& t) {
    cross_entropy_scale_in_place(t[0], t[1]);
  });
  const auto forward = cross_entropy_forward(x, target, {});
  expect_absent_refused(
      "cross_entropy_backward", {loss, x, target, forward.stats}, [&](List& t) {
        cross_entropy_backward(t[0], t[1], t[2], {forward.loss, t[3], 4}, {});
      });
}

TEST(AbsentTensors, Gemm) {
  const Tensor a = f32({16, 32}), b = f32({8, 32}), c = f32({8, 16});
  expect_absent_refused("gemm", {a, b, c, f32({16}), c}, [](List& t) {
    gemm(t[0], t[1], GemmLayout::kTN,
         {.beta = 1, .c = &t[2], .bias = &t[3], .dgelu_input = &t[4]});
  });
  expect_absent_refused("gemm_into", {c, a, b}, [](List& t) {
    gemm_into(t[0], t[1], t[2], GemmLayout::kTN, {});
  });
  const std::array<std::int64_t, 2> rows{3, 5};
  const std::vector<GemmOptions> options(1);
  expect_absent_refused("grouped_gemm_fprop", {b, a, a}, [&](List& t) {
    const std::vector<GemmOperand> w{t[1], t[2]};
    grouped_gemm_fprop(t[0], rows, w, options);
  });
  expect_absent_refused("grouped_gemm_dgrad", {c, a, a}, [&](List& t) {
    const std::vector<GemmOperand> w{t[1], t[2]};
    grouped_gemm_dgrad(t[0], rows, w, options);
  });
  expect_absent_refused("grouped_gemm_wgrad", {c, b}, [&](List& t) {
    grouped_gemm_wgrad(t[0], t[1], rows, options);
  });
  expect_absent_refused("grouped_gemm", {a, a, b, b}, [&](List& t) {
    const std::vector<GemmOperand> w{t[0], t[1]}, x{t[2], t[3]};
    grouped_gemm(w, x, GemmLayout::kTN, options);
  });
  expect_absent_refused("multi_tensor_gemm", {a, b}, [&](List& t) {
    const std::vector<GemmOperand> w{t[0]}, x{t[1]};
    multi_tensor_gemm(w, x, GemmLayout::kTN, options);
  });
  expect_absent_refused("multi_tensor_gemm_into", {a, b, c}, [&](List& t) {
    const std::vector<GemmOperand> w{t[0]}, x{t[1]};
    std::vector<Tensor> d{t[2]};
    multi_tensor_gemm_into(d, w, x, GemmLayout::kTN, options);
  });
  expect_absent_refused("split_rows", {b},
                        [&](List& t) { split_rows(t[0], rows); });
  expect_absent_refused(
      "grouped_bias_add", {c, f32({2, 16}), f32({8})},
      [&](List& t) { grouped_bias_add(t[0], t[1], rows, &t[2]); });
}

// Codes, scales and amax of a quantised operand, decoded too where the other
// operand is not quantised.
TEST(AbsentTensors, QuantisedOperandsOfGemm) {
  const Tensor x = normal_tensor({128, 128}, DType::kBF16, 1);
  CurrentScalingQuantizer current({});
  MXFP8Quantizer mxfp8(DType::kE4M3FN);
  NVFP4Quantizer nvfp4;
  IdentityQuantizer identity;
  for (Quantizer* quantizer :
       std::initializer_list<Quantizer*>{&current, &mxfp8, &nvfp4, &identity}) {
    const QuantizedTensor good = quantizer->quantize(x);
    const bool plain = quantizer->mode() == ScalingMode::kIdentity;
    List parts{good.rowwise->data};
    if (!plain) parts.push_back(good.rowwise->scale_inv);
    if (quantizer == &nvfp4) parts.push_back(good.rowwise->amax);
    const auto with = [&](List& t) {
      QuantizedTensor q = good;
      q.rowwise->data = t[0];
      if (!plain) q.rowwise->scale_inv = t[1];
      if (quantizer == &nvfp4) q.rowwise->amax = t[2];
      return q;
    };
    const std::string name(scaling_mode_name(quantizer->mode()));
    expect_absent_refused("gemm " + name, parts, [&](List& t) {
      gemm(with(t), good, GemmLayout::kTN);
    });
    expect_absent_refused("gemm beside bf16 " + name, parts,
                          [&](List& t) { gemm(with(t), x, GemmLayout::kTN); });
    expect_absent_refused("dequantize " + name, parts,
                          [&](List& t) { dequantize(with(t), DType::kF32); });
  }
}

TEST(AbsentTensors, Attention) {
  const Tensor q = f32({4, 1, 2, 16}), h = f32({2}), lengths = i32({0, 4});
  const Tensor bias = f32({1, 1, 4, 4}), lse = f32({1, 2, 4});
  const auto inputs = [](List& t) {
    AttentionInputs in;
    in.q = t[0];
    in.k = t[1];
    in.v = t[2];
    in.bias = t[3];
    in.softmax_offset = t[4];
    in.cu_seqlens_q = t[5];
    in.cu_seqlens_kv = t[6];
    return in;
  };
  const List good{q, q, q, bias, h, lengths, lengths};
  const AttentionOptions options{.mask = AttentionMask::kPadding,
                                 .softmax = SoftmaxType::kLearnable,
                                 .bias = AttentionBiasType::kPostScale};
  expect_absent_refused("attention_forward", good, [&](List& t) {
    attention_forward(inputs(t), options);
  });
  expect_absent_refused("attention_fp8_forward", good, [&](List& t) {
    attention_fp8_forward(inputs(t), options, {});
  });
  List more = good;
  more.insert(more.end(), {q, q, lse});
  expect_absent_refused("attention_backward", more, [&](List& t) {
    attention_backward(t[7], inputs(t), t[8], t[9], options);
  });
  List copy = good;
  const auto f = attention_fp8_forward(inputs(copy), options, {});
  expect_absent_refused("attention_fp8_backward", {q, f.p, f.s, f.lse},
                        [&](List& t) {
                          AttentionFp8Result given = f;
                          given.p = t[1];
                          given.s = t[2];
                          given.lse = t[3];
                          attention_fp8_backward(t[0], given, options, {});
                        });
  expect_absent_refused(
      "attention_forward mask", {Tensor::zeros(DType::kBool, {1, 1, 4, 4})},
      [&](List& t) {
        AttentionInputs in{.q = q, .k = q, .v = q, .mask = t[0]};
        attention_forward(in, {.mask = AttentionMask::kArbitrary});
      });
  expect_absent_refused("attention_forward alibi", {h}, [&](List& t) {
    AttentionInputs in{.q = q, .k = q, .v = q, .alibi_slopes = t[0]};
    attention_forward(in, {.bias = AttentionBiasType::kAlibi});
  });
  expect_absent_refused("merge_attention", {q, lse, q, lse}, [](List& t) {
    merge_attention({t[0], t[1]}, {t[2], t[3]}, QkvFormat::kSbhd);
  });
}

TEST(AbsentTensors, KvCache) {
  const Tensor k = f32({1, 4, 2, 16});
  const KvCacheOptions options{.max_batch = 1,
                               .max_length = 4,
                               .heads = 2,
                               .k_dim = 16,
                               .v_dim = 16,
                               .dtype = DType::kF32};
  const std::array<SequenceStep, 1> step{SequenceStep{0, 4}};
  expect_absent_refused("append", {k, k, k}, [&](List& t) {
    KvCache cache(options);
    cache.begin_step(step);
    cache.append(0, t[0], t[1], QkvFormat::kBshd);
    attention_over_cache(
        cache, 0, t[2],
        {.q_format = QkvFormat::kBshd, .mask = AttentionMask::kPaddingCausal});
  });
}

TEST(AbsentTensors, Rope) {
  const Tensor x = f32({4, 1, 2, 16}), packed = f32({4, 3, 16});
  const Tensor freqs = rope_frequencies({.dim = 16}, 4);
  expect_absent_refused("rope_forward", {x, freqs, i32({0})}, [](List& t) {
    rope_forward(t[0], t[1], {.start_positions = t[2]});
  });
  expect_absent_refused(
      "rope_backward thd", {packed, freqs, i32({0, 4})}, [](List& t) {
        rope_backward(t[0], t[1],
                      {.format = QkvFormat::kThd, .cu_seqlens = t[2]});
      });
  const QkvSplit sizes{16, 16, 16};
  const Tensor qkv = f32({4, 1, 2, 48});
  expect_absent_refused(
      "fused_qkv_rope_forward", {qkv, freqs, freqs},
      [&](List& t) { fused_qkv_rope_forward(t[0], t[1], t[2], sizes, {}); });
  expect_absent_refused(
      "fused_qkv_rope_backward", {x, x, x, freqs, freqs}, [&](List& t) {
        fused_qkv_rope_backward({t[0], t[1], t[2]}, t[3], t[4], sizes, {});
      });
}

TEST(AbsentTensors, Router) {
  const Tensor x = f32({4, 8}), bias = f32({8});
  const RouterOptions options{.topk = 2,
                              .score_function = ScoreFunction::kSigmoid};
  expect_absent_refused("router_topk_forward", {x, bias}, [&](List& t) {
    router_topk_forward(t[0], options, t[1]);
  });
  const RouterOutput r = router_topk_forward(x, options, bias);
  expect_absent_refused(
      "router_topk_backward", {x, r.routing_map, r.saved},
      [&](List& t) { router_topk_backward(t[0], t[1], t[2], options); });
  expect_absent_refused(
      "router_quantile_forward",
      {x, bias, make_tensor({-1, 1}, {2}), Tensor::zeros(DType::kI32, {8, 4})},
      [](List& t) {
        router_quantile_forward(t[0], 2, t[1], t[2], 4, 1.0, t[3]);
      });
  expect_absent_refused("pack_routing_map", {r.routing_map},
                        [](List& t) { pack_routing_map(t[0]); });
  expect_absent_refused("unpack_routing_map", {pack_routing_map(r.routing_map)},
                        [](List& t) { unpack_routing_map(t[0], 8); });
  expect_absent_refused("router_aux_scores_forward", {x}, [](List& t) {
    router_aux_scores_forward(t[0], 2, ScoreFunction::kSigmoid);
  });
  expect_absent_refused("router_aux_scores_backward", {x, x}, [](List& t) {
    router_aux_scores_backward(t[0], t[1], ScoreFunction::kSigmoid,
                               DType::kF32);
  });
  const AuxLossOptions loss{.total_num_tokens = 4, .num_experts = 8};
  expect_absent_refused(
      "moe_aux_loss_forward", {x, r.tokens_per_expert},
      [&](List& t) { moe_aux_loss_forward(t[0], t[1], loss); });
  expect_absent_refused(
      "moe_aux_loss_backward", {f32({1}), r.tokens_per_expert},
      [&](List& t) { moe_aux_loss_backward(t[0], t[1], 4, loss); });
}

TEST(AbsentTensors, Permutation) {
  const Tensor x = f32({4, 8}), probs = f32({4, 2});
  const Tensor mask =
      make_tensor({1, 1, 0, 1, 1, 0, 1, 1}, {4, 2}, DType::kBool);
  expect_absent_refused("row_map_from_mask", {mask},
                        [](List& t) { row_map_from_mask(t[0]); });
  expect_absent_refused("row_map_from_indices",
                        {make_tensor({0, 1, 1, 0}, {4, 1}, DType::kI32)},
                        [](List& t) { row_map_from_indices(t[0]); });
  const RowMap map = row_map_from_mask(mask);
  const Tensor rows = f32({map.rows, 8}), d_probs = f32({map.rows});
  const auto with = [&](const Tensor& slots, const Tensor& source) {
    RowMap m = map;
    m.slots = slots;
    m.source = source;
    return m;
  };
  expect_absent_refused(
      "moe_permute_forward", {x, probs, map.slots, map.source},
      [&](List& t) { moe_permute_forward(t[0], with(t[2], t[3]), t[1]); });
  expect_absent_refused(
      "moe_permute_backward", {rows, d_probs, map.slots, map.source},
      [&](List& t) { moe_permute_backward(t[0], with(t[2], t[3]), t[1]); });
  expect_absent_refused(
      "moe_unpermute_forward", {rows, probs, map.slots, map.source},
      [&](List& t) { moe_unpermute_forward(t[0], with(t[2], t[3]), t[1]); });
  expect_absent_refused("moe_unpermute_backward",
                        {x, rows, probs, map.slots, map.source}, [&](List& t) {
                          moe_unpermute_backward(t[0], with(t[3], t[4]), t[1],
                                                 t[2]);
                        });
  const std::array<std::int64_t, 2> sizes{1, 3}, order{1, 0};
  expect_absent_refused("moe_sort_chunks_forward", {x, f32({4})}, [&](List& t) {
    moe_sort_chunks_forward(t[0], sizes, order, t[1]);
  });
  expect_absent_refused(
      "moe_sort_chunks_backward", {x, f32({4})},
      [&](List& t) { moe_sort_chunks_backward(t[0], sizes, order, t[1]); });
}

TEST(AbsentTensors, Movement) {
  const Tensor x = f32({4, 8}), cube = f32({2, 4, 8}), lengths = i32({0, 4, 8});
  const std::array<std::int64_t, 2> rows{1, 3}, padded{2, 4};
  const std::array<std::int64_t, 1> one{4}, six{6};
  expect_absent_refused("interleave_glu", {x},
                        [](List& t) { interleave_glu(t[0], 2); });
  expect_absent_refused("deinterleave_glu", {x},
                        [](List& t) { deinterleave_glu(t[0], 2); });
  expect_absent_refused("interleave_glu_rows", {x},
                        [](List& t) { interleave_glu_rows(t[0], 2); });
  expect_absent_refused("deinterleave_glu_rows", {x},
                        [](List& t) { deinterleave_glu_rows(t[0], 2); });
  expect_absent_refused("multi_pad_rows", {x},
                        [&](List& t) { multi_pad_rows(t, six); });
  expect_absent_refused("multi_unpad_rows", {x},
                        [&](List& t) { multi_unpad_rows(t, one); });
  expect_absent_refused("pad_groups", {x},
                        [&](List& t) { pad_groups(t[0], rows, padded); });
  expect_absent_refused("unpad_groups", {f32({6, 8})},
                        [&](List& t) { unpad_groups(t[0], rows, padded); });
  expect_absent_refused("pad_last_dim", {x},
                        [](List& t) { pad_last_dim(t[0], 16); });
  expect_absent_refused("split", {x}, [&](List& t) { split(t[0], rows, 0); });
  expect_absent_refused("concatenate", {x, x},
                        [](List& t) { concatenate(t, 0); });
  expect_absent_refused("transpose", {x}, [](List& t) { transpose(t[0]); });
  expect_absent_refused("swap_first_dims", {cube},
                        [](List& t) { swap_first_dims(t[0]); });
  const Tensor tokens = f32({8, 2, 4});
  expect_absent_refused("thd_partition_indices", {lengths},
                        [](List& t) { thd_partition_indices(t[0], 2, 0); });
  expect_absent_refused("thd_to_rank_order", {tokens, lengths},
                        [](List& t) { thd_to_rank_order(t[0], t[1], 2); });
  expect_absent_refused("thd_from_rank_order", {tokens, lengths},
                        [](List& t) { thd_from_rank_order(t[0], t[1], 2); });
  expect_absent_refused("thd_read_half", {tokens, lengths},
                        [](List& t) { thd_read_half(t[0], t[1], 0); });
  expect_absent_refused("thd_to_bshd", {tokens, lengths},
                        [](List& t) { thd_to_bshd(t[0], t[1], 4); });
  expect_absent_refused("bshd_to_thd", {f32({2, 4, 2, 4}), lengths},
                        [](List& t) { bshd_to_thd(t[0], t[1]); });
}

}  // namespace
}  // namespace assay::te
