#include "assay/kernels/random_bits.h"

namespace assay::random_bits {

void draw(const RandomKey& key, std::int64_t begin, Bits& bits) {
  random_kernels(Device::kCpu)
      .words(key.key, key.stream, static_cast<std::uint64_t>(begin) / 2,
             bits.data());
}

std::uint64_t below(std::uint64_t high, std::uint64_t low,
                    std::uint64_t count) {
  if (count == 0) return high;
  __extension__ using Wide = unsigned __int128;
  const Wide carried = Wide{low} * count >> 64;
  return static_cast<std::uint64_t>((Wide{high} * count + carried) >> 64);
}

}  // namespace assay::random_bits
