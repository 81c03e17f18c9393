// Pairs of arrays for the kernel tests: noise of about one ulp over values of
// many magnitudes, with the special cases asked for.
#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "assay/core/dtype.h"
#include "assay/numerics/float_format.h"

namespace assay {

enum class Flavour {
  kNoise,      // y within an ulp or two of x
  kUnrelated,  // independent values, both signs
  kPositive,   // one sign
  kSparse,     // mostly equal, many zeros of both signs, some against non-zero
  kEqual,
  kSmallTarget,  // y about 2^-12 of x: y = x + d cancels
  kTiny,         // magnitudes whose squares leave fp32
  kHuge,
  kSpecial,  // a NaN or infinity here and there
};
inline constexpr Flavour kFlavours[] = {
    Flavour::kNoise,  Flavour::kUnrelated, Flavour::kPositive,
    Flavour::kSparse, Flavour::kEqual,     Flavour::kSmallTarget,
    Flavour::kTiny,   Flavour::kHuge,      Flavour::kSpecial};

template <typename T>
struct Pair {
  std::vector<T> x, y;
};

inline double base_value(Flavour flavour, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const double v = normal(rng);
  switch (flavour) {
    case Flavour::kPositive:
      return v < 0 ? -v : v;
    case Flavour::kSparse:
      return rng() % 3 == 0 ? (rng() % 2 ? 0.0 : -0.0) : v;
    case Flavour::kTiny:
      return v * 0x1p-120;
    case Flavour::kHuge:
      return v * 0x1p+70;
    default:
      return v;
  }
}

inline double partner(Flavour flavour, double x, std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  switch (flavour) {
    case Flavour::kUnrelated:
      return normal(rng);
    case Flavour::kSparse:
      if (rng() % 8 == 0) return -x;
      return rng() % 9 == 0 ? normal(rng) * 1e-3 : x;
    case Flavour::kEqual:
      return x;
    case Flavour::kSmallTarget:
      return x * 0x1p-12;
    default:
      return x * (1 + normal(rng) * 0x1p-8);
  }
}

// Codes of `dtype` (f64, f32: the numbers) as T.
template <typename T>
T encode_as(DType dtype, double v) {
  if constexpr (sizeof(T) == 2)
    return static_cast<T>(encode_float(dtype, v, Overflow::kSpecial));
  else
    return static_cast<T>(v);
}

template <typename T>
Pair<T> make_pair_of(DType dtype, Flavour flavour, std::int64_t n,
                     std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  Pair<T> pair;
  for (std::int64_t i = 0; i < n; ++i) {
    double x = base_value(flavour, rng);
    double y = partner(flavour, x, rng);
    if (flavour == Flavour::kSpecial && rng() % 97 == 0)
      (rng() % 2 ? x : y) = rng() % 2 ? 1.0 / 0.0 : 0.0 / 0.0;
    pair.x.push_back(encode_as<T>(dtype, x));
    pair.y.push_back(encode_as<T>(dtype, y));
  }
  return pair;
}

}  // namespace assay
