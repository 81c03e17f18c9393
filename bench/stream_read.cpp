#include "bench/stream_read.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/stream_read.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace assay::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Two vectors of each array a step: enough loads in flight for one core.
std::uint64_t read_two_impl(const std::byte* a, const std::byte* b,
                            std::size_t bytes) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t n = hn::Lanes(d);
  const auto* x = reinterpret_cast<const std::uint64_t*>(a);
  const auto* y = reinterpret_cast<const std::uint64_t*>(b);
  auto x0 = hn::Zero(d), x1 = x0, y0 = x0, y1 = x0;
  for (std::size_t i = 0; i < bytes / 8; i += 2 * n) {
    x0 = hn::Xor(x0, hn::LoadU(d, x + i));
    x1 = hn::Xor(x1, hn::LoadU(d, x + i + n));
    y0 = hn::Xor(y0, hn::LoadU(d, y + i));
    y1 = hn::Xor(y1, hn::LoadU(d, y + i + n));
  }
  const auto all = hn::Xor(hn::Xor(x0, x1), hn::Xor(y0, y1));
  return hn::GetLane(hn::SumOfLanes(d, all));
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::bench {
HWY_EXPORT(read_two_impl);
std::uint64_t read_two(const std::byte* a, const std::byte* b,
                       std::size_t bytes) {
  return HWY_DYNAMIC_DISPATCH(read_two_impl)(a, b, bytes);
}
}  // namespace assay::bench
#endif
