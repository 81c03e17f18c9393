// Ends of runs that do not fill a vector.
// Included once per instruction set, after stored-inl.h: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::int64_t kFloats = hn::MaxLanes(FTag());

// The first n < kFloats elements; the other lanes are `fill`.
template <class Stored>
HWY_INLINE FVec load_some(const typename Stored::T* p, std::int64_t n,
                          float fill) {
  alignas(64) typename Stored::T buffer[kFloats] = {};
  std::memcpy(buffer, p, static_cast<std::size_t>(n) * sizeof(*p));
  return hn::IfThenElse(hn::FirstN(FTag(), static_cast<std::size_t>(n)),
                        Stored::load(buffer), constant(fill));
}

template <class Stored>
HWY_INLINE void store_some(FVec v, std::int64_t n, typename Stored::T* p) {
  alignas(64) typename Stored::T buffer[kFloats];
  Stored::store(v, buffer);
  std::memcpy(p, buffer, static_cast<std::size_t>(n) * sizeof(*p));
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
