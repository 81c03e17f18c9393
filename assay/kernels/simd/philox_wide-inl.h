// Philox4x32-10 of a counter a 64-bit lane, each word in the low half of a
// lane: core/philox.h, many at once.
// Included once per instruction set by the kernels that need it: no guard.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The high halves of the lanes hold what the 32-bit multiplications never
// read.
using WTag = hn::CappedTag<std::uint64_t, 8>;
using WVec = hn::Vec<WTag>;

struct Words {
  WVec v[4];
};

HWY_INLINE WVec wide(std::uint64_t x) { return hn::Set(WTag(), x); }

HWY_INLINE WVec product(WVec a, std::uint32_t b) {
  const hn::Repartition<std::uint32_t, WTag> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, b));
}

// The keys of the ten rounds, as core/philox.h has them.
struct Keys {
  std::uint64_t low[10], high[10];
};

HWY_INLINE Keys keys_of(std::uint64_t seed) {
  Keys keys;
  auto low = static_cast<std::uint32_t>(seed);
  auto high = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    keys.low[round] = low;
    keys.high[round] = high;
    low += 0x9e3779b9;
    high += 0xbb67ae85;
  }
  return keys;
}

HWY_INLINE void philox_round(Words& c, const Keys& keys, int round) {
  const auto p0 = product(c.v[0], 0xd2511f53);
  const auto p1 = product(c.v[2], 0xcd9e8d57);
  c.v[0] =
      hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c.v[1]), wide(keys.low[round]));
  c.v[1] = p1;
  c.v[2] =
      hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c.v[3]), wide(keys.high[round]));
  c.v[3] = p0;
}

HWY_INLINE Words philox(Words c, const Keys& keys) {
  for (int round = 0; round < 10; ++round) philox_round(c, keys, round);
  return c;
}

// Ten rounds of each, side by side.
template <std::size_t N>
HWY_INLINE void philox_rounds(Words (&c)[N], const Keys& keys) {
  for (int round = 0; round < 10; ++round)
    for (std::size_t i = 0; i < N; ++i) philox_round(c[i], keys, round);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
