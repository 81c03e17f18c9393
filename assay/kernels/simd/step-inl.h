// Rows in steps of 32 elements whatever the vector width, with sums whose bits
// do not depend on it: 32 lanes, added in halves at the end.
// Included once per instruction set, after stored-inl.h: no guard.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kStepSize = 32;
inline constexpr int kStepVecs =
    kStepSize / static_cast<int>(hn::MaxLanes(FTag()));

struct Step {
  FVec v[kStepVecs];
};

// Of 32 stored elements: in their order, or (bf16 pairs) the even ones first.
template <class Load>
HWY_INLINE Step load_step(const typename Load::T* p) {
  Step s;
  for (int i = 0; i < kStepVecs; ++i)
    s.v[i] = Load::load(p + i * float_lanes());
  return s;
}
template <>
HWY_INLINE Step load_step<StoredBf16Pairs>(const std::uint16_t* p) {
  constexpr int kHalf = kStepVecs / 2;
  Step s;
  for (int i = 0; i < kHalf; ++i) {
    const TwoVecs two = StoredBf16Pairs::load2(p + 2 * i * float_lanes());
    s.v[i] = two.a;
    s.v[kHalf + i] = two.b;
  }
  return s;
}

template <class Store>
HWY_INLINE void store_step(const Step& s, typename Store::T* p) {
  for (int i = 0; i < kStepVecs; ++i)
    Store::store(s.v[i], p + i * float_lanes());
}
template <>
HWY_INLINE void store_step<StoredBf16Pairs>(const Step& s, std::uint16_t* p) {
  constexpr int kHalf = kStepVecs / 2;
  for (int i = 0; i < kHalf; ++i)
    StoredBf16Pairs::store2({s.v[i], s.v[kHalf + i]},
                            p + 2 * i * float_lanes());
}

// The last elements of a row, zeros beyond them.
template <class Load>
HWY_INLINE Step load_rest(const typename Load::T* p, std::int64_t rest) {
  alignas(64) typename Load::T padded[kStepSize] = {};
  std::memcpy(padded, p, static_cast<std::size_t>(rest) * sizeof(*p));
  return load_step<Load>(padded);
}
template <class Store>
HWY_INLINE void store_rest(const Step& s, typename Store::T* p,
                           std::int64_t rest) {
  alignas(64) typename Store::T padded[kStepSize];
  store_step<Store>(s, padded);
  std::memcpy(p, padded, static_cast<std::size_t>(rest) * sizeof(*p));
}

// 1 for the first `count` elements of a step of Load, 0 for the others.
template <class Load>
HWY_INLINE Step present(std::int64_t count) {
  alignas(64) typename Load::T codes[kStepSize] = {};
  for (std::int64_t j = 0; j < count; ++j) codes[j] = Load::kOne;
  return load_step<Load>(codes);
}

HWY_INLINE Step zero_step() {
  Step s;
  for (FVec& v : s.v) v = hn::Zero(FTag());
  return s;
}

// Lane i plus lane i + half, until one is left.
HWY_INLINE float sum_step(const Step& s) {
  FVec v[kStepVecs];
  for (int i = 0; i < kStepVecs; ++i) v[i] = s.v[i];
  for (int half = kStepVecs / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v[i] = hn::Add(v[i], v[i + half]);
  alignas(64) float lane[hn::MaxLanes(FTag())];
  hn::Store(v[0], FTag(), lane);
  for (int half = static_cast<int>(hn::MaxLanes(FTag())) / 2; half > 0;
       half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
