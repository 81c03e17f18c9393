#include "assay/te/ops/rope_positions.h"

#include <limits>
#include <string>

#include "assay/te/check.h"

namespace assay::te {
namespace {

std::vector<std::int64_t> integers(std::string_view op, std::string_view name,
                                   Device device, const Tensor& t) {
  require_dtype(op, name, t, {DType::kI32});
  require_rank(op, name, t, 1);
  require_device(op, device, t);
  const Tensor dense = contiguous(t);
  std::vector<std::int64_t> values(dense.data<std::int32_t>(),
                                   dense.data<std::int32_t>() + dense.numel());
  for (std::int64_t value : values)
    require(value >= 0, op, name, std::to_string(value), "0 or more");
  return values;
}

// The place in the whole sequence of local token s of `length`.
std::int64_t whole_place(std::int64_t s, std::int64_t length,
                         const RopeOptions& o) {
  if (o.cp_size == 1) return s;
  const std::int64_t half = length / 2;
  if (s < half) return o.cp_rank * half + s;
  return (2 * o.cp_size - 1 - o.cp_rank) * half + (s - half);
}

void require_halves(std::string_view op, std::int64_t length,
                    const RopeOptions& o) {
  require(o.cp_size == 1 || length % 2 == 0, op, "cp_size",
          "a part of " + std::to_string(length) + " tokens",
          "an even number in two chunks");
}

RopePositions packed_positions(std::string_view op, Device device,
                               const Shape& shape,
                               const std::vector<std::int64_t>& starts,
                               const RopeOptions& o) {
  if (!o.cu_seqlens) fail(op, "cu_seqlens", "absent", "int32 [batch + 1]");
  const auto offsets = integers(op, "cu_seqlens", device, *o.cu_seqlens);
  require(!offsets.empty(), op, "cu_seqlens", "empty", "batch + 1 offsets");
  require(starts.empty() || starts.size() + 1 == offsets.size(), op,
          "start_positions", std::to_string(starts.size()) + " elements",
          std::to_string(offsets.size() - 1));
  RopePositions p;
  p.length = shape[0];
  p.rows.assign(static_cast<std::size_t>(p.length), -1);
  for (std::size_t b = 0; b + 1 < offsets.size(); ++b) {
    const std::int64_t begin = offsets[b] / o.cp_size;
    const std::int64_t end = offsets[b + 1] / o.cp_size;
    require(begin >= 0 && begin <= end && end <= p.length, op, "cu_seqlens",
            std::to_string(offsets[b]) + " to " +
                std::to_string(offsets[b + 1]) + " at " + std::to_string(b),
            "rising offsets within " + std::to_string(p.length * o.cp_size));
    if (o.cp_size > 1) {  // two chunks a rank
      require_multiple(op, "cu_seqlens", offsets[b], 2 * o.cp_size);
      require_multiple(op, "cu_seqlens", offsets[b + 1], 2 * o.cp_size);
    }
    for (std::int64_t t = begin; t < end; ++t)
      p.rows[static_cast<std::size_t>(t)] =
          whole_place(t - begin, end - begin, o) +
          (starts.empty() ? 0 : starts[b]);
  }
  return p;
}

}  // namespace

RopePositions rope_positions(std::string_view op, Device device,
                             const Shape& shape, std::int64_t table_rows,
                             const RopeOptions& o) {
  require(o.cp_size >= 1 && o.cp_rank >= 0 && o.cp_rank < o.cp_size, op,
          "cp_rank",
          std::to_string(o.cp_rank) + " of " + std::to_string(o.cp_size),
          "a rank of the group");
  require(o.cp_size <= std::numeric_limits<std::int32_t>::max(), op, "cp_size",
          std::to_string(o.cp_size), "less than 2^31");
  std::vector<std::int64_t> starts;
  if (o.start_positions)
    starts = integers(op, "start_positions", device, *o.start_positions);
  RopePositions p;
  if (o.format == QkvFormat::kThd) {
    p = packed_positions(op, device, shape, starts, o);
  } else {
    const bool sbhd = o.format == QkvFormat::kSbhd;
    p.length = shape[sbhd ? 0 : 1];
    p.batch = shape[sbhd ? 1 : 0];
    require_halves(op, p.length, o);
    require(
        starts.empty() || static_cast<std::int64_t>(starts.size()) == p.batch,
        op, "start_positions", std::to_string(starts.size()) + " elements",
        std::to_string(p.batch));
    p.shared = starts.empty();
    for (std::int64_t s = 0; s < p.length; ++s)
      for (std::int64_t b = 0; b < (p.shared ? 1 : p.batch); ++b)
        p.rows.push_back(whole_place(s, p.length, o) +
                         (p.shared ? 0 : starts[static_cast<std::size_t>(b)]));
  }
  for (std::int64_t row : p.rows)
    require(row < table_rows && row >= -1, op, "freqs",
            std::to_string(table_rows) + " positions",
            "one for position " + std::to_string(row));
  return p;
}

}  // namespace assay::te
