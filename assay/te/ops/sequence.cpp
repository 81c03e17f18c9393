#include "assay/te/ops/sequence.h"

#include <limits>
#include <string>
#include <vector>

#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"

namespace assay::te {
namespace {

using Rows = std::vector<std::int64_t>;

// Starts of the sequences and, last, the number of tokens.
Rows starts_of(std::string_view op, const Tensor& cu_seqlens,
               std::int64_t multiple) {
  require_rank(op, "cu_seqlens", cu_seqlens, 1);
  require_dtype(op, "cu_seqlens", cu_seqlens, {DType::kI32});
  require(cu_seqlens.numel() >= 1, op, "cu_seqlens", "no elements",
          "B + 1 of them");
  const Tensor flat = contiguous(cu_seqlens);
  Rows starts(flat.data<std::int32_t>(),
              flat.data<std::int32_t>() + flat.numel());
  require(starts[0] == 0, op, "cu_seqlens",
          "a first element " + std::to_string(starts[0]), "0");
  for (std::size_t i = 1; i < starts.size(); ++i) {
    const std::int64_t length = starts[i] - starts[i - 1];
    require(length >= 0, op, "cu_seqlens",
            "a sequence of length " + std::to_string(length), ">= 0");
    require_multiple(op, "length of sequence " + std::to_string(i - 1), length,
                     multiple);
  }
  return starts;
}

void append(Rows& rows, std::int64_t begin, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
}

// Tokens of one rank, in the order of sequences.
void append_rank(const Rows& starts, std::int64_t world, std::int64_t rank,
                 Rows& rows) {
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::int64_t chunk = (starts[i + 1] - starts[i]) / (2 * world);
    append(rows, starts[i] + rank * chunk, chunk);
    append(rows, starts[i] + (2 * world - 1 - rank) * chunk, chunk);
  }
}

void require_world(std::string_view op, std::int64_t world) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  require(world > 0 && world <= kMost, op, "world", std::to_string(world),
          "1 to " + std::to_string(kMost));
}

// The leading dimensions of x must be `tokens` together: checked before any
// memory is sized by an offset.
void require_tokens(std::string_view op, const Tensor& x,
                    const Tensor& cu_seqlens, std::size_t leading,
                    std::int64_t tokens) {
  require_present(op, "x", x);
  common_device(op, {&x, &cu_seqlens});
  require(x.shape().size() >= leading, op, "x", "shape " + to_string(x.shape()),
          "at least " + std::to_string(leading) + " dimensions");
  std::int64_t have = 1;
  for (std::size_t i = 0; i < leading; ++i) have *= x.shape()[i];
  require(have == tokens, op, "x", std::to_string(have) + " tokens",
          std::to_string(tokens));
}

// Row i of the result is row row_of(i) of x, seen as [tokens, rest], or zeros.
// `shape`: its leading dimensions.
template <typename RowOf>
Tensor take(std::string_view op, const Tensor& strided, std::size_t leading,
            const RowOf& row_of, Shape shape) {
  const Tensor x = contiguous(strided);
  const auto rows = checked_numel(shape);
  require(rows.has_value(), op, "shape", to_string(shape),
          "a result that fits in 63 bits");
  std::int64_t columns = 1;
  for (std::size_t i = leading; i < x.shape().size(); ++i) {
    columns *= x.shape()[i];
    shape.push_back(x.shape()[i]);
  }
  Tensor out = Tensor::empty(x.dtype(), shape, x.device);
  const std::int64_t bytes = row_bytes(op, "x", x.dtype(), columns);
  copy_runs(x.device, x.data<std::byte>(), bytes == 0 ? 0 : *rows, bytes,
            row_of, out.mutable_data());
  return out;
}

// row_of for rows that are listed.
auto listed(const Rows& rows) {
  return [&rows](std::int64_t i) { return rows[static_cast<std::size_t>(i)]; };
}

Rows rank_order(std::string_view op, const Tensor& x, const Tensor& cu_seqlens,
                std::int64_t world) {
  require_world(op, world);
  const Rows starts = starts_of(op, cu_seqlens, 2 * world);
  require_tokens(op, x, cu_seqlens, 1, starts.back());
  Rows rows;
  if (starts.back() == 0) return rows;  // else world <= tokens / 2
  for (std::int64_t rank = 0; rank < world; ++rank)
    append_rank(starts, world, rank, rows);
  return rows;
}

std::int64_t count(const Rows& rows) {
  return static_cast<std::int64_t>(rows.size());
}

}  // namespace

Tensor thd_partition_indices(const Tensor& cu_seqlens, std::int64_t world,
                             std::int64_t rank) {
  constexpr std::string_view kOp = "thd_partition_indices";
  require_world(kOp, world);
  require(rank >= 0 && rank < world, kOp, "rank", std::to_string(rank),
          "0 to " + std::to_string(world - 1));
  Rows rows;
  append_rank(starts_of(kOp, cu_seqlens, 2 * world), world, rank, rows);
  Tensor out = Tensor::empty(DType::kI32, {count(rows)}, cu_seqlens.device);
  for (std::int64_t i = 0; i < count(rows); ++i)
    out.mutable_data<std::int32_t>()[i] =
        static_cast<std::int32_t>(rows[static_cast<std::size_t>(i)]);
  return out;
}

Tensor thd_to_rank_order(const Tensor& x, const Tensor& cu_seqlens,
                         std::int64_t world) {
  constexpr std::string_view kOp = "thd_to_rank_order";
  const Rows rows = rank_order(kOp, x, cu_seqlens, world);
  return take(kOp, x, 1, listed(rows), {count(rows)});
}

Tensor thd_from_rank_order(const Tensor& x, const Tensor& cu_seqlens,
                           std::int64_t world) {
  constexpr std::string_view kOp = "thd_from_rank_order";
  const Rows rows = rank_order(kOp, x, cu_seqlens, world);
  Rows back(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    back[static_cast<std::size_t>(rows[i])] = static_cast<std::int64_t>(i);
  return take(kOp, x, 1, listed(back), {count(rows)});
}

Tensor thd_read_half(const Tensor& x, const Tensor& cu_seqlens, int half) {
  constexpr std::string_view kOp = "thd_read_half";
  require(half == 0 || half == 1, kOp, "half", std::to_string(half), "0 or 1");
  const Rows starts = starts_of(kOp, cu_seqlens, 2);
  require_tokens(kOp, x, cu_seqlens, 1, starts.back());
  Rows rows;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::int64_t length = (starts[i + 1] - starts[i]) / 2;
    append(rows, starts[i] + half * length, length);
  }
  return take(kOp, x, 1, listed(rows), {count(rows)});
}

Tensor thd_to_bshd(const Tensor& x, const Tensor& cu_seqlens,
                   std::int64_t max_length) {
  constexpr std::string_view kOp = "thd_to_bshd";
  const Rows starts = starts_of(kOp, cu_seqlens, 1);
  require_tokens(kOp, x, cu_seqlens, 1, starts.back());
  require(max_length >= 0, kOp, "max_length", std::to_string(max_length),
          "0 or more");
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::int64_t length = starts[i + 1] - starts[i];
    require(length <= max_length, kOp, "max_length",
            std::to_string(max_length) + " for a sequence of " +
                std::to_string(length),
            "at least as many");
  }
  const auto row_of = [&](std::int64_t i) {
    const auto b = static_cast<std::size_t>(i / max_length);
    const std::int64_t token = starts[b] + i % max_length;
    return token < starts[b + 1] ? token : -1;
  };
  return take(kOp, x, 1, row_of, {count(starts) - 1, max_length});
}

Tensor bshd_to_thd(const Tensor& x, const Tensor& cu_seqlens) {
  constexpr std::string_view kOp = "bshd_to_thd";
  const Rows starts = starts_of(kOp, cu_seqlens, 1);
  require(x.shape().size() >= 2, kOp, "x", "shape " + to_string(x.shape()),
          "at least 2 dimensions");
  const std::int64_t length = x.shape()[1];
  require(x.shape()[0] == count(starts) - 1, kOp, "x",
          "shape " + to_string(x.shape()),
          std::to_string(count(starts) - 1) + " sequences");
  require_present(kOp, "x", x);
  common_device(kOp, {&x, &cu_seqlens});
  Rows rows;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const std::int64_t have = starts[i + 1] - starts[i];
    require(have <= length, kOp, "cu_seqlens",
            "a sequence of " + std::to_string(have),
            "at most the second dimension, " + std::to_string(length));
    append(rows, static_cast<std::int64_t>(i) * length, have);
  }
  return take(kOp, x, 2, listed(rows), {count(rows)});
}

}  // namespace assay::te
