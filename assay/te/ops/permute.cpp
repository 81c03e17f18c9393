#include "assay/te/ops/permute.h"

#include <algorithm>
#include <string>
#include <vector>

#include "assay/kernels/moe.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"
#include "assay/te/precision.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

// The copies of one token.
struct Copies {
  std::int32_t count;
  const std::int32_t* rows;
  const std::int32_t* columns;
};

Copies copies_of(const RowMap& map, std::int64_t token) {
  const std::int32_t* slots =
      map.slots.data<std::int32_t>() + token * (2 * map.width + 1);
  return {slots[2 * map.width], slots, slots + map.width};
}

// Bytes that a token of `bytes` causes to move, for the size of blocks.
std::int64_t traffic(const RowMap& map, std::int64_t bytes) {
  return bytes * (1 + map.rows / std::max<std::int64_t>(1, map.tokens));
}

void zero_padding(const RowMap& map, std::int64_t bytes, std::byte* out) {
  const std::int32_t* source = map.source.data<std::int32_t>();
  for (std::int64_t row = 0; row < map.rows; ++row)
    if (source[row] < 0) std::fill_n(out + row * bytes, bytes, std::byte{0});
}

void require_map(std::string_view op, const RowMap& map) {
  require_shape(op, "map.slots", map.slots, {map.tokens, 2 * map.width + 1});
  require_dtype(op, "map.slots", map.slots, {DType::kI32});
  require_shape(op, "map.source", map.source, {map.rows});
  require_dtype(op, "map.source", map.source, {DType::kI32});
}

void require_probs(std::string_view op, std::string_view argument,
                   const Tensor& probs, const RowMap& map) {
  require_high_precision(op, argument, probs);
  require_shape(op, argument, probs, {map.tokens, map.width});
}

// Moves one element of a [T, W] tensor to its row, or back.
template <typename Move>
void for_each_copy(const RowMap& map, Move move) {
  for (std::int64_t t = 0; t < map.tokens; ++t) {
    const Copies copies = copies_of(map, t);
    for (std::int32_t s = 0; s < copies.count; ++s)
      move(copies.rows[s], t * map.width + copies.columns[s]);
  }
}

Tensor permute_probs(const Tensor& probs, const RowMap& map) {
  Tensor out = Tensor::zeros(probs.dtype(), {map.rows}, probs.device);
  for_each_copy(map, [&](std::int64_t row, std::int64_t at) {
    store_code(probs.dtype(), load_code(probs.dtype(), probs.view.data, at),
               out.mutable_data(), row);
  });
  return out;
}

Tensor unpermute_probs(const Tensor& permuted, const RowMap& map) {
  Tensor out =
      Tensor::zeros(permuted.dtype(), {map.tokens, map.width}, permuted.device);
  for_each_copy(map, [&](std::int64_t row, std::int64_t at) {
    store_code(permuted.dtype(),
               load_code(permuted.dtype(), permuted.view.data, row),
               out.mutable_data(), at);
  });
  return out;
}

// Rows of one dtype behind a base pointer.
struct RowView {
  const std::byte* data;
  std::int64_t bytes;
  const std::byte* operator[](std::int64_t row) const {
    return data + row * bytes;
  }
};

// out[h] = sum of weight * row in the precision asked for, in slot order.
void combine_plainly(InternalPrecision precision, DType dtype,
                     const std::vector<const std::byte*>& rows,
                     const std::vector<float>& weights, std::int64_t n,
                     std::byte* out) {
  with_accumulator(precision, dtype, [&](auto make) {
    using Real = typename decltype(make())::Real;
    for (std::int64_t h = 0; h < n; ++h) {
      auto sum = make();
      for (std::size_t s = 0; s < rows.size(); ++s)
        sum.add(static_cast<Real>(weights[s]) *
                static_cast<Real>(load_as_double(dtype, rows[s], h)));
      store_from_double(dtype, static_cast<double>(sum.total()), out, h);
    }
  });
}

float dot_plainly(InternalPrecision precision, DType dtype, const std::byte* a,
                  const std::byte* b, std::int64_t n) {
  return with_accumulator(precision, dtype, [&](auto make) {
    using Real = typename decltype(make())::Real;
    auto sum = make();
    for (std::int64_t h = 0; h < n; ++h)
      sum.add(static_cast<Real>(load_as_double(dtype, a, h)) *
              static_cast<Real>(load_as_double(dtype, b, h)));
    return static_cast<float>(sum.total());
  });
}

float weight_at(const Tensor& probs, std::int64_t at) {
  return static_cast<float>(load_as_double(probs.dtype(), probs.view.data, at));
}

Tensor merge(std::string_view op, const Tensor& rows_in, const RowMap& map,
             const std::optional<Tensor>& probs_in, InternalPrecision asked) {
  require_high_precision(op, "rows", rows_in);
  require_rank(op, "rows", rows_in, 2);
  require_shape(op, "rows", rows_in, {map.rows, rows_in.shape()[1]});
  require_map(op, map);
  if (probs_in) require_probs(op, "merging_probs", *probs_in, map);
  const Device device = common_device(
      op, {&rows_in, address_of(probs_in), &map.slots, &map.source});
  const InternalPrecision precision =
      effective_precision("moe_unpermute", asked);
  const Tensor rows = contiguous(rows_in);
  const std::optional<Tensor> probs =
      probs_in ? std::optional(contiguous(*probs_in)) : std::nullopt;
  const DType dtype = rows.dtype();
  const std::int64_t n = rows.shape()[1];
  const RowView view{rows.data<std::byte>(), row_bytes(op, "rows", dtype, n)};
  Tensor out = Tensor::empty(dtype, {map.tokens, n}, device);
  const MoeRowKernels& kernels = moe_kernels(device).rows[float_width(dtype)];
  const bool stream = map.tokens * view.bytes >= kStreamBytes;

  for_row_blocks(
      map.tokens, rows_of_bytes(traffic(map, view.bytes)),
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<const std::byte*> parts;
        std::vector<float> weights;
        for (std::int64_t t = begin; t < end; ++t) {
          const Copies copies = copies_of(map, t);
          parts.clear();
          weights.clear();
          for (std::int32_t s = 0; s < copies.count; ++s) {
            parts.push_back(view[copies.rows[s]]);
            weights.push_back(
                probs ? weight_at(*probs, t * map.width + copies.columns[s])
                      : 1);
          }
          std::byte* to = out.mutable_data() + t * view.bytes;
          if (precision == InternalPrecision::kF32)
            kernels.combine(parts.data(), weights.data(), copies.count, n,
                            stream, to);
          else
            combine_plainly(precision, dtype, parts, weights, n, to);
        }
      });
  return out;
}

// Rows of chunks in their new order: the old row of each.
std::vector<std::int64_t> chunk_rows(std::string_view op, const Tensor& x,
                                     std::span<const std::int64_t> sizes,
                                     std::span<const std::int64_t> order) {
  require(order.size() == sizes.size(), op, "order",
          std::to_string(order.size()) + " entries",
          std::to_string(sizes.size()) + ", one a chunk");
  require_rank(op, "x", x, 2);
  require_shape(op, "x", x, {total_of(op, "split_sizes", sizes), x.shape()[1]});
  std::vector<std::int64_t> start(sizes.size() + 1);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    start[i + 1] = start[i] + sizes[i];
  std::vector<bool> seen(sizes.size());
  std::vector<std::int64_t> rows;
  rows.reserve(static_cast<std::size_t>(start.back()));
  for (std::int64_t chunk : order) {
    const auto c = static_cast<std::size_t>(chunk);
    const bool fresh = chunk >= 0 && c < sizes.size() && !seen[c];
    require(fresh, op, "order", "chunk " + std::to_string(chunk),
            "each of 0.." + std::to_string(sizes.size() - 1) + " once");
    seen[c] = true;
    for (std::int64_t i = 0; i < sizes[c]; ++i) rows.push_back(start[c] + i);
  }
  return rows;
}

std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> out(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    out[static_cast<std::size_t>(rows[i])] = static_cast<std::int64_t>(i);
  return out;
}

Permuted take_rows(std::string_view op, const Tensor& tensor,
                   const std::vector<std::int64_t>& source,
                   const std::optional<Tensor>& probs) {
  const auto count = static_cast<std::int64_t>(source.size());
  require_rank(op, "x", tensor, 2);
  require_shape(op, "x", tensor, {count, tensor.shape()[1]});
  common_device(op, {&tensor, address_of(probs)});
  const auto from = [&](std::int64_t i) {
    return source[static_cast<std::size_t>(i)];
  };
  const auto take = [&](const Tensor& strided, std::int64_t columns) {
    const Tensor x = contiguous(strided);
    Tensor out = Tensor::empty(x.dtype(), x.shape(), x.device);
    const std::int64_t bytes = row_bytes(op, "x", x.dtype(), columns);
    copy_runs(x.device, x.data<std::byte>(), bytes == 0 ? 0 : count, bytes,
              from, out.mutable_data());
    return out;
  };
  Permuted out;
  out.rows = take(tensor, tensor.shape()[1]);
  if (probs) {
    require_shape(op, "probs", *probs, {count});
    out.probs = take(*probs, 1);
  }
  return out;
}

}  // namespace

Permuted moe_permute_forward(const Tensor& tokens, const RowMap& map,
                             const std::optional<Tensor>& probs_in) {
  constexpr std::string_view kOp = "moe_permute_forward";
  require_rank(kOp, "tokens", tokens, 2);
  require_shape(kOp, "tokens", tokens, {map.tokens, tokens.shape()[1]});
  require_map(kOp, map);
  if (probs_in) require_probs(kOp, "probs", *probs_in, map);
  const Device device = common_device(
      kOp, {&tokens, address_of(probs_in), &map.slots, &map.source});
  const Tensor x = contiguous(tokens);
  const std::int64_t bytes = row_bytes(kOp, "tokens", x.dtype(), x.shape()[1]);
  Permuted out;
  out.rows = Tensor::empty(x.dtype(), {map.rows, x.shape()[1]}, device);
  std::optional<Tensor> probs;
  if (probs_in) {
    probs = contiguous(*probs_in);
    out.probs = permute_probs(*probs, map);
  }
  const MovementKernels& kernels = movement_kernels(device);
  const bool stream = map.rows * bytes >= kStreamBytes;
  std::byte* to = out.rows.mutable_data();
  zero_padding(map, bytes, to);
  // Token by token: each row is read once, however many copies it has.
  for_row_blocks(
      map.tokens, rows_of_bytes(traffic(map, bytes)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          const std::byte* from = x.data<std::byte>() + t * bytes;
          const Copies copies = copies_of(map, t);
          for (std::int32_t s = 0; s < copies.count; ++s) {
            std::byte* row = to + copies.rows[s] * bytes;
            if (probs &&
                weight_at(*probs, t * map.width + copies.columns[s]) == 0)
              std::fill_n(row, bytes, std::byte{0});
            else
              kernels.copy(from, bytes, stream, row);
          }
        }
      });
  return out;
}

PermuteGradients moe_permute_backward(const Tensor& d_rows, const RowMap& map,
                                      const std::optional<Tensor>& d_probs,
                                      MergeOptions options) {
  constexpr std::string_view kOp = "moe_permute_backward";
  PermuteGradients out;
  out.tokens = merge(kOp, d_rows, map, {}, options.precision);
  if (d_probs) {
    require_high_precision(kOp, "d_probs", *d_probs);
    require_shape(kOp, "d_probs", *d_probs, {map.rows});
    common_device(kOp, {&d_rows, &*d_probs});
    out.probs = unpermute_probs(contiguous(*d_probs), map);
  }
  return out;
}

Tensor moe_unpermute_forward(const Tensor& rows, const RowMap& map,
                             const std::optional<Tensor>& merging_probs,
                             MergeOptions options) {
  return merge("moe_unpermute_forward", rows, map, merging_probs,
               options.precision);
}

UnpermuteGradients moe_unpermute_backward(
    const Tensor& d_out, const RowMap& map, const std::optional<Tensor>& rows,
    const std::optional<Tensor>& merging_probs, MergeOptions options) {
  constexpr std::string_view kOp = "moe_unpermute_backward";
  require_high_precision(kOp, "d_out", d_out);
  require_rank(kOp, "d_out", d_out, 2);
  const std::int64_t n = d_out.shape()[1];
  require_shape(kOp, "d_out", d_out, {map.tokens, n});
  if (!merging_probs) return {moe_permute_forward(d_out, map).rows, {}};

  require(rows.has_value(), kOp, "rows", "none",
          "the input of the forward pass, for the gradient of merging_probs");
  require_map(kOp, map);
  require_probs(kOp, "merging_probs", *merging_probs, map);
  require_dtype(kOp, "rows", *rows, {d_out.dtype()});
  require_shape(kOp, "rows", *rows, {map.rows, n});
  const Device device = common_device(
      kOp, {&d_out, &*rows, &*merging_probs, &map.slots, &map.source});
  const InternalPrecision precision =
      effective_precision("moe_unpermute", options.precision);
  const Tensor dy = contiguous(d_out), x = contiguous(*rows);
  const Tensor probs = contiguous(*merging_probs);
  const DType dtype = dy.dtype();
  const std::int64_t bytes = row_bytes(kOp, "d_out", dtype, n);
  UnpermuteGradients out;
  out.rows = Tensor::empty(dtype, {map.rows, n}, device);
  out.merging_probs = Tensor::zeros(probs.dtype(), probs.shape(), device);
  const MoeRowKernels& kernels = moe_kernels(device).rows[float_width(dtype)];
  const bool stream = map.rows * bytes >= kStreamBytes;
  zero_padding(map, bytes, out.rows.mutable_data());
  for_row_blocks(
      map.tokens, rows_of_bytes(2 * traffic(map, bytes)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          const std::byte* from = dy.data<std::byte>() + t * bytes;
          const Copies copies = copies_of(map, t);
          for (std::int32_t s = 0; s < copies.count; ++s) {
            const std::int64_t at = t * map.width + copies.columns[s];
            const std::int64_t row = copies.rows[s] * bytes;
            const std::byte* input = x.data<std::byte>() + row;
            const float dot =
                precision == InternalPrecision::kF32
                    ? kernels.dot(from, input, n)
                    : dot_plainly(precision, dtype, from, input, n);
            kernels.scale(from, weight_at(probs, at), n, stream,
                          out.rows.mutable_data() + row);
            store_from_double(probs.dtype(), static_cast<double>(dot),
                              out.merging_probs.mutable_data(), at);
          }
        }
      });
  return out;
}

Permuted moe_sort_chunks_forward(const Tensor& x,
                                 std::span<const std::int64_t> split_sizes,
                                 std::span<const std::int64_t> order,
                                 const std::optional<Tensor>& probs) {
  constexpr std::string_view kOp = "moe_sort_chunks_forward";
  return take_rows(kOp, x, chunk_rows(kOp, x, split_sizes, order), probs);
}

Permuted moe_sort_chunks_backward(const Tensor& d_out,
                                  std::span<const std::int64_t> split_sizes,
                                  std::span<const std::int64_t> order,
                                  const std::optional<Tensor>& d_probs) {
  constexpr std::string_view kOp = "moe_sort_chunks_backward";
  return take_rows(
      kOp, d_out, inverse(chunk_rows(kOp, d_out, split_sizes, order)), d_probs);
}

}  // namespace assay::te
