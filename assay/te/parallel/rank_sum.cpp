#include "assay/te/parallel/rank_sum.h"

#include <algorithm>
#include <array>

#include "assay/kernels/convert.h"
#include "assay/numerics/element.h"
#include "assay/te/ops/row_blocks.h"

namespace assay::te {
namespace {

constexpr std::int64_t kRun = 1024;  // elements that stay in the first cache

std::int64_t bytes_of(DType dtype) { return traits(dtype).bits / 8; }

void sum_run(DType from, DType to, std::span<const std::byte* const> parts,
             std::int64_t begin, std::int64_t n, std::byte* out) {
  const ConvertKernels& convert = convert_kernels(Device::kCpu);
  std::array<float, kRun> sum, part;
  const auto widen = convert.widen[float_width(from)];
  const std::int64_t at = begin * bytes_of(from);
  widen(parts[0] + at, n, sum.data());
  for (const std::byte* bytes : parts.subspan(1)) {
    widen(bytes + at, n, part.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
      sum[i] += part[i];
  }
  convert.narrow[float_width(to)](sum.data(), n, out + begin * bytes_of(to));
}

void sum_plainly(DType from, DType to, std::span<const std::byte* const> parts,
                 std::int64_t count, std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    double sum = load_as_double(from, parts[0], i);
    for (const std::byte* bytes : parts.subspan(1))
      sum += load_as_double(from, bytes, i);
    store_from_double(to, sum, out, i, Overflow::kSpecial);
  }
}

}  // namespace

void sum_in_rank_order(Device device, DType from, DType to,
                       std::span<const std::byte* const> parts,
                       std::int64_t count, std::byte* out) {
  if (device == Device::kReference)
    return sum_plainly(from, to, parts, count, out);
  for_row_blocks(
      count, kTaskElements, [&](std::int64_t begin, std::int64_t end) {
        for (; begin < end; begin += kRun)
          sum_run(from, to, parts, begin, std::min(kRun, end - begin), out);
      });
}

}  // namespace assay::te
