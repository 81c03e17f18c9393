#include "assay/te/ops/rope.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/kernels/rope.h"
#include "assay/te/check.h"
#include "assay/te/ops/rope_positions.h"

namespace assay::te {
namespace {

constexpr std::int64_t kTokens = 16;  // places of one task

struct Angles {
  Tensor table;
  std::int64_t rows = 0, rotated = 0;
};

Angles angles_of(std::string_view op, std::string_view name,
                 const Tensor& freqs, std::int64_t dim) {
  require_dtype(op, name, freqs, {DType::kF32});
  require_rank(op, name, freqs, 4);
  const Shape& s = freqs.shape();
  require(
      s[1] == 1 && s[2] == 1 && s[3] > 0 && s[3] % 2 == 0 && s[3] <= dim, op,
      name, "shape " + to_string(s),
      "[positions, 1, 1, an even number up to " + std::to_string(dim) + "]");
  return {contiguous(freqs), s[0], s[3]};
}

// Heads of one tensor beside each other in a token, with the angles they use;
// no angles: copied.
struct Part {
  const std::byte* from;
  std::int64_t from_token, from_head;  // strides in elements
  std::byte* to;
  std::int64_t to_token, to_head;
  std::int64_t heads, dim;
  const Angles* angles;
};

class Rotation {
 public:
  Rotation(DType dtype, const RopePositions& positions,
           const RopeOptions& options, bool backward, Device device)
      : kernels_(rope_kernels(device)),
        dtype_(dtype),
        positions_(positions),
        options_(options),
        backward_(backward) {}

  // `angles`: the tables in use, each prepared once a place.
  void run(std::span<const Part> parts,
           std::span<const Angles* const> angles) const {
    const std::int64_t n = positions_.length;
    parallel_for((n + kTokens - 1) / kTokens, [&](std::int64_t block) {
      // In doubles, so that they are aligned for any kernel.
      std::vector<std::vector<double>> tables;
      for (const Angles* a : angles)
        tables.emplace_back(static_cast<std::size_t>(2 * a->rotated));
      const std::int64_t end = std::min(n, (block + 1) * kTokens);
      for (std::int64_t s = block * kTokens; s < end; ++s)
        place(parts, angles, s, tables);
    });
  }

 private:
  void place(std::span<const Part> parts, std::span<const Angles* const> angles,
             std::int64_t s, std::vector<std::vector<double>>& tables) const {
    std::int64_t prepared = -1;
    for (std::int64_t b = 0; b < positions_.batch; ++b) {
      const std::int64_t row = positions_.row(s, b);
      if (row >= 0 && row != prepared) {
        for (std::size_t a = 0; a < angles.size(); ++a)
          kernels_.prepare(
              angles[a]->table.data<float>() + row * angles[a]->rotated,
              angles[a]->rotated, dtype_, options_.interleaved, backward_,
              tables[a].data());
        prepared = row;
      }
      const bool sbhd = options_.format == QkvFormat::kSbhd;
      const std::int64_t token =
          sbhd ? s * positions_.batch + b : b * positions_.length + s;
      for (const Part& part : parts) {
        const auto a = std::find(angles.begin(), angles.end(), part.angles) -
                       angles.begin();
        rotate(part, token, row,
               part.angles == nullptr
                   ? nullptr
                   : tables[static_cast<std::size_t>(a)].data());
      }
    }
  }

  void rotate(const Part& part, std::int64_t token, std::int64_t row,
              const double* table) const {
    const std::int64_t bytes = traits(dtype_).bits / 8;
    const std::byte* from = part.from + token * part.from_token * bytes;
    std::byte* to = part.to + token * part.to_token * bytes;
    const auto size = static_cast<std::size_t>(part.dim * bytes);
    if (part.angles != nullptr && row >= 0) {
      kernels_.rotate(
          {dtype_, from, part.from_head, to, part.to_head, part.heads, part.dim,
           part.angles->rotated, options_.interleaved},
          table);
      return;
    }
    for (std::int64_t h = 0; h < part.heads; ++h) {
      if (row >= 0)
        std::memcpy(to + h * part.to_head * bytes,
                    from + h * part.from_head * bytes, size);
      else
        std::memset(to + h * part.to_head * bytes, 0, size);
    }
  }

  const RopeKernels& kernels_;
  DType dtype_;
  const RopePositions& positions_;
  const RopeOptions& options_;
  bool backward_;
};

Tensor apply(std::string_view op, const Tensor& t, const Tensor& freqs,
             const RopeOptions& options, bool backward) {
  require_high_precision(op, "t", t);
  require_rank(op, "t", t, options.format == QkvFormat::kThd ? 3 : 4);
  const Device device = common_device(op, {&t, &freqs});
  const std::int64_t dim = t.shape().back();
  const std::int64_t heads = t.shape()[t.shape().size() - 2];
  const Angles angles = angles_of(op, "freqs", freqs, dim);
  const RopePositions positions =
      rope_positions(op, device, t.shape(), angles.rows, options);
  const Tensor x = contiguous(t);
  Tensor y = Tensor::empty(t.dtype(), t.shape(), device);
  const std::array parts{Part{x.view.data, heads * dim, dim, y.mutable_data(),
                              heads * dim, dim, heads, dim, &angles}};
  Rotation(t.dtype(), positions, options, backward, device)
      .run(parts, std::array<const Angles*, 1>{&angles});
  return y;
}

// The three parts of a packed tensor and of the tensors it is split into.
struct PackedShape {
  std::int64_t groups, q_heads, total;
  Shape q, k, v;
};

PackedShape packed_shape(std::string_view op, const Shape& qkv,
                         const QkvSplit& s, const RopeOptions& options) {
  require(options.format != QkvFormat::kThd, op, "format", "thd",
          "sbhd or bshd");
  require(s.k_dim > 0 && s.q_dim > 0 && s.v_dim > 0 && s.q_dim % s.k_dim == 0,
          op, "split",
          std::to_string(s.q_dim) + ", " + std::to_string(s.k_dim) + ", " +
              std::to_string(s.v_dim),
          "positive, the first a multiple of the second");
  PackedShape p;
  p.groups = qkv[2];
  p.q_heads = s.q_dim / s.k_dim;
  p.total = s.q_dim + s.k_dim + s.v_dim;
  p.q = {qkv[0], qkv[1], p.groups * p.q_heads, s.k_dim};
  p.k = {qkv[0], qkv[1], p.groups, s.k_dim};
  p.v = {qkv[0], qkv[1], p.groups, s.v_dim};
  return p;
}

// Of an input: what packed_parts takes as a destination it may also read.
std::byte* read_only(const Tensor& t) {
  return const_cast<std::byte*>(t.view.data);
}

// One part a group: within it the heads of q follow each other.
std::vector<Part> packed_parts(const PackedShape& p, const QkvSplit& s,
                               std::int64_t bytes, std::byte* qkv,
                               const std::array<std::byte*, 3>& split,
                               const Angles& q, const Angles& k,
                               bool to_split) {
  std::vector<Part> parts;
  const auto add = [&](std::int64_t at, std::byte* other,
                       std::int64_t other_token, std::int64_t other_at,
                       std::int64_t heads, std::int64_t dim,
                       const Angles* angles) {
    const std::int64_t token = p.groups * p.total;
    std::byte* packed = qkv + at * bytes;
    std::byte* single = other + other_at * bytes;
    if (to_split)
      parts.push_back(
          {packed, token, dim, single, other_token, dim, heads, dim, angles});
    else
      parts.push_back(
          {single, other_token, dim, packed, token, dim, heads, dim, angles});
  };
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const std::int64_t at = g * p.total;
    add(at, split[0], p.groups * s.q_dim, g * s.q_dim, p.q_heads, s.k_dim, &q);
    add(at + s.q_dim, split[1], p.groups * s.k_dim, g * s.k_dim, 1, s.k_dim,
        &k);
    add(at + s.q_dim + s.k_dim, split[2], p.groups * s.v_dim, g * s.v_dim, 1,
        s.v_dim, nullptr);
  }
  return parts;
}

}  // namespace

Tensor rope_forward(const Tensor& t, const Tensor& freqs,
                    const RopeOptions& options) {
  return apply("rope_forward", t, freqs, options, false);
}

Tensor rope_backward(const Tensor& d_out, const Tensor& freqs,
                     const RopeOptions& options) {
  return apply("rope_backward", d_out, freqs, options, true);
}

QkvTensors fused_qkv_rope_forward(const Tensor& qkv, const Tensor& q_freqs,
                                  const Tensor& k_freqs, const QkvSplit& split,
                                  const RopeOptions& options) {
  constexpr std::string_view kOp = "fused_qkv_rope_forward";
  require_high_precision(kOp, "qkv", qkv);
  require_rank(kOp, "qkv", qkv, 4);
  const Device device = common_device(kOp, {&qkv, &q_freqs, &k_freqs});
  const PackedShape p = packed_shape(kOp, qkv.shape(), split, options);
  require(qkv.shape()[3] == p.total, kOp, "qkv",
          "shape " + to_string(qkv.shape()),
          "a last dimension of " + std::to_string(p.total));
  const Angles q = angles_of(kOp, "q_freqs", q_freqs, split.k_dim);
  const Angles k = angles_of(kOp, "k_freqs", k_freqs, split.k_dim);
  const RopePositions positions = rope_positions(
      kOp, device, qkv.shape(), std::min(q.rows, k.rows), options);
  const Tensor packed = contiguous(qkv);
  QkvTensors out{Tensor::empty(qkv.dtype(), p.q, device),
                 Tensor::empty(qkv.dtype(), p.k, device),
                 Tensor::empty(qkv.dtype(), p.v, device)};
  const auto parts = packed_parts(
      p, split, traits(qkv.dtype()).bits / 8, read_only(packed),
      {out.q.mutable_data(), out.k.mutable_data(), out.v.mutable_data()}, q, k,
      true);
  Rotation(qkv.dtype(), positions, options, false, device)
      .run(parts, std::array<const Angles*, 2>{&q, &k});
  return out;
}

Tensor fused_qkv_rope_backward(const QkvTensors& d_qkv, const Tensor& q_freqs,
                               const Tensor& k_freqs, const QkvSplit& split,
                               const RopeOptions& options) {
  constexpr std::string_view kOp = "fused_qkv_rope_backward";
  const Tensor& dk = d_qkv.k;
  require_high_precision(kOp, "dk", dk);
  require_rank(kOp, "dk", dk, 4);
  const Device device =
      common_device(kOp, {&d_qkv.q, &dk, &d_qkv.v, &q_freqs, &k_freqs});
  Shape shape = dk.shape();
  const PackedShape p = packed_shape(kOp, shape, split, options);
  require_shape(kOp, "dq", d_qkv.q, p.q);
  require_shape(kOp, "dk", dk, p.k);
  require_shape(kOp, "dv", d_qkv.v, p.v);
  require_dtype(kOp, "dq", d_qkv.q, {dk.dtype()});
  require_dtype(kOp, "dv", d_qkv.v, {dk.dtype()});
  const Angles q = angles_of(kOp, "q_freqs", q_freqs, split.k_dim);
  const Angles k = angles_of(kOp, "k_freqs", k_freqs, split.k_dim);
  const RopePositions positions =
      rope_positions(kOp, device, shape, std::min(q.rows, k.rows), options);
  shape[3] = p.total;
  Tensor out = Tensor::empty(dk.dtype(), shape, device);
  const Tensor grads[3] = {contiguous(d_qkv.q), contiguous(dk),
                           contiguous(d_qkv.v)};
  const auto parts = packed_parts(
      p, split, traits(dk.dtype()).bits / 8, out.mutable_data(),
      {read_only(grads[0]), read_only(grads[1]), read_only(grads[2])}, q, k,
      false);
  Rotation(dk.dtype(), positions, options, true, device)
      .run(parts, std::array<const Angles*, 2>{&q, &k});
  return out;
}

}  // namespace assay::te
