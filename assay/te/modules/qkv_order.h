// Where q, k and v lie in the output of one projection.
//
// Source: NVTE MultiheadAttention. Columns of this rank, of `heads` query
// heads and `groups` heads of keys and values, n = heads / groups, each of
// `channels`:
//   not interleaved  [q_0 ... q_heads-1 | k_0 ... k_groups-1 | v_0 ...]
//   interleaved      group after group [q_gn ... q_gn+n-1 | k_g | v_g]
// and of keys and values alone
//   not interleaved  [k_0 ... | v_0 ...]
//   interleaved      group after group [k_g | v_g]
// Cut over a tensor parallel group, interleaved rows of the weight are those
// of one process in order; the others are [q | k | v] of each rank's heads,
// rank after rank. Copies, exact.
#pragma once

#include <cstdint>
#include <utility>

#include "assay/core/tensor.h"
#include "assay/te/ops/rope.h"

namespace assay::te {

struct QkvOrder {
  std::int64_t heads = 0, groups = 0, channels = 0;  // of this rank
  bool interleaved = false;
};

// mixed [..., (heads + 2 groups) * channels] to q [..., heads, channels], k and
// v [..., groups, channels]; and back, for the gradient.
QkvTensors split_qkv(const Tensor& mixed, const QkvOrder& order);
Tensor join_qkv(const QkvTensors& parts, const QkvOrder& order);

// mixed [..., 2 groups * channels] to k and v [..., groups, channels].
std::pair<Tensor, Tensor> split_kv(const Tensor& mixed, const QkvOrder& order);
Tensor join_kv(const Tensor& k, const Tensor& v, const QkvOrder& order);

// [..., heads, channels] of [..., heads * channels]: the same bytes.
Tensor split_heads(const Tensor& x, std::int64_t channels);
// [..., a, b] to [..., a * b]: the same bytes, made contiguous.
Tensor join_last_dims(const Tensor& x);

}  // namespace assay::te
