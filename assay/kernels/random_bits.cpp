#include "assay/kernels/random_bits.h"

#include "assay/core/philox.h"

namespace assay::random_bits {
namespace {

constexpr std::uint32_t low(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
constexpr std::uint32_t high(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}
constexpr std::uint64_t wide(std::uint32_t upper, std::uint32_t lower) {
  return std::uint64_t{upper} << 32 | lower;
}

}  // namespace

void draw(const RandomKey& key, std::int64_t begin, Bits& bits) {
  random_kernels(Device::kCpu)
      .words(key.key, key.stream, static_cast<std::uint64_t>(begin) / 2,
             bits.data());
}

std::uint64_t below(const RandomKey& key, std::uint64_t place,
                    std::uint64_t count) {
  const auto word =
      philox4x32({low(place), high(place), low(key.stream), high(key.stream)},
                 {low(key.key), high(key.key)});
  const std::uint64_t first = wide(word[0], word[1]);
  if (count == 0) return first;
  __extension__ using Wide = unsigned __int128;
  const Wide carried = Wide{wide(word[2], word[3])} * count >> 64;
  return static_cast<std::uint64_t>((Wide{first} * count + carried) >> 64);
}

}  // namespace assay::random_bits
