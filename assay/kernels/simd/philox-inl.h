// Philox4x32-10 of sixteen counters at once: core/philox.h, a counter a lane.
// A part of block_quant.cpp, after cast_row-inl.h: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct WideLanes {
  VU high, low;
};

// 32 x 32 -> 64 bits, lane by lane.
HWY_INLINE WideLanes wide_multiply(VU a, std::uint32_t factor) {
  const DU du;
  const hn::Repartition<std::uint64_t, DU> d64;
  const VU b = hn::Set(du, factor);
  const VU upper = hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(d64, a)));
  const auto even = hn::MulEven(a, b), odd = hn::MulEven(upper, b);
  const VU even_high = hn::BitCast(du, hn::ShiftRight<32>(even));
  const VU odd_low = hn::BitCast(du, hn::ShiftLeft<32>(odd));
  return {hn::OddEven(hn::BitCast(du, odd), even_high),
          hn::OddEven(odd_low, hn::BitCast(du, even))};
}

// nvfp4_random() of blocks [block, block + 16): sixteen bytes each.
HWY_INLINE void random_bytes(const RandomStream& random, std::int64_t block,
                             std::uint8_t* bytes) {
  const DU du;
  alignas(64) std::uint32_t low[16], high[16];
  for (std::uint64_t i = 0; i < 16; ++i) {
    const std::uint64_t n =
        random.first_block + static_cast<std::uint64_t>(block) + i;
    low[i] = static_cast<std::uint32_t>(n);
    high[i] = static_cast<std::uint32_t>(n >> 32);
  }
  for (std::int64_t i = 0; i < 16; i += lanes()) {
    VU c0 = hn::Load(du, low + i), c1 = hn::Load(du, high + i);
    VU c2 = hn::Set(du, static_cast<std::uint32_t>(random.offset));
    VU c3 = hn::Set(du, static_cast<std::uint32_t>(random.offset >> 32));
    auto key0 = static_cast<std::uint32_t>(random.seed);
    auto key1 = static_cast<std::uint32_t>(random.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const WideLanes p0 = wide_multiply(c0, 0xd2511f53);
      const WideLanes p1 = wide_multiply(c2, 0xcd9e8d57);
      c0 = hn::Xor(hn::Xor(p1.high, c1), hn::Set(du, key0));
      c2 = hn::Xor(hn::Xor(p0.high, c3), hn::Set(du, key1));
      c1 = p1.low;
      c3 = p0.low;
      key0 += 0x9e3779b9;
      key1 += 0xbb67ae85;
    }
    alignas(64) std::uint32_t words[4 * 16];
    hn::StoreInterleaved4(c0, c1, c2, c3, du, words);
    std::memcpy(bytes + 16 * i, words, static_cast<std::size_t>(16 * lanes()));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
