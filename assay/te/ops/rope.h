// Rotary position embedding (RoPE), as NVTE's apply_rotary_pos_emb and its
// fused kernels (docs/numerics.md): the angles, and their use forward and
// backward.
//
// Formula and rounding: kernels/rope.h. cos and sin are taken in fp32 of the
// fp32 angles, as the fused kernels do (the unfused path rounds them to the
// dtype of the input first). Every function gives fresh tensors and is
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "assay/core/tensor.h"
#include "assay/te/ops/attention.h"

namespace assay::te {

struct RopeFrequencies {
  std::int64_t dim = 0;
  double percent = 1;  // of the dims that are rotated: int(dim * percent)
  double base = 10000;
  // Interpolation, only with both: positions / (max_seq_len / pretrained)
  // where max_seq_len > pretrained * factor, else positions / factor.
  std::optional<double> interpolation_factor, pretrained_max;
  bool interleaved = false;  // f0 f0 f1 f1 ... instead of f0 f1 ... f0 f1 ...
};

// float32 [length, 1, 1, rotated]: position * base^(-2 i / rotated), for
// positions offset ... offset + length - 1. fp32 products of fp32 factors.
Tensor rope_frequencies(const RopeFrequencies& options, std::int64_t length,
                        std::int64_t offset = 0);

struct RopeOptions {
  QkvFormat format = QkvFormat::kSbhd;
  bool interleaved = false;
  // Context parallelism: rank r of n holds chunks r and 2 n - 1 - r of the 2 n
  // chunks of a sequence. thd: cu_seqlens counts the tokens of all ranks.
  std::int64_t cp_size = 1, cp_rank = 0;
  // int32 [b]: where each sequence begins in the table.
  std::optional<Tensor> start_positions;
  std::optional<Tensor> cu_seqlens;  // int32 [b + 1]; thd
};

// t: float32, bfloat16 or float16 [s, b, h, d], [b, s, h, d] or [t, h, d].
// freqs: float32 [s2, 1, 1, d2], d2 even and at most d; dims from d2 on are
// copied. thd: tokens beyond the last sequence give zeros. Throws Error{kUsage}
// for a position at or past s2.
Tensor rope_forward(const Tensor& t, const Tensor& freqs,
                    const RopeOptions& options);
// The gradient of t: the inverse rotation where the angles of a pair agree,
// the transposed one in every case.
Tensor rope_backward(const Tensor& d_out, const Tensor& freqs,
                     const RopeOptions& options);

// Packed q, k and v: [s, b, g, q_dim + k_dim + v_dim] (bshd likewise), q_dim a
// multiple of k_dim: q has q_dim / k_dim heads for each of the g groups.
struct QkvSplit {
  std::int64_t q_dim = 0, k_dim = 0, v_dim = 0;
};
struct QkvTensors {
  Tensor q;  // [s, b, g * q_dim / k_dim, k_dim]
  Tensor k;  // [s, b, g, k_dim]
  Tensor v;  // [s, b, g, v_dim], not rotated
};
QkvTensors fused_qkv_rope_forward(const Tensor& qkv, const Tensor& q_freqs,
                                  const Tensor& k_freqs, const QkvSplit& split,
                                  const RopeOptions& options);
Tensor fused_qkv_rope_backward(const QkvTensors& d_qkv, const Tensor& q_freqs,
                               const Tensor& k_freqs, const QkvSplit& split,
                               const RopeOptions& options);

}  // namespace assay::te
