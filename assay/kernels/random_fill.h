// Random numbers of an array, each a pure function of a key and of its place:
// the same on any thread count, any machine and any dtype it is rounded to.
//
// Element i owns 64 bits: words 2 (i mod 2) and 2 (i mod 2) + 1, the first of
// them the higher, of Philox4x32-10 (core/philox.h) at the counter {i / 2,
// stream} under the key. Integers own the whole block of the counter {i,
// stream}. Arithmetic is fp64 of basic operations (numerics/basic_math.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "assay/core/dtype.h"

namespace assay {

// Draws of different keys or streams are independent.
struct RandomKey {
  std::uint64_t key = 0;
  std::uint64_t stream = 0;
};

// u is (the highest 52 bits + 1/2) / 2^52: never 0, never 1. Parameters a, b:
enum class Law : std::uint8_t {
  kUniform,      // in [a, b): a + (b - a) (highest 53 bits / 2^53), float64
                 // alone; 24 bits for the others. [a, a] gives a.
  kNormal,       // a + b z, z = normal_quantile(u); b >= 0
  kExponential,  // -log(u) / a, a > 0; never 0
  kCauchy,       // a + b tan(pi (u - 1/2)); b > 0
  kLogNormal,    // exp(a + b z); b > 0
  kGeometric,    // how many trials to a success: 1, 2 ...; 0 < a < 1
};

// Overwrites n elements of float64, float32, bfloat16 or float16. float32 is
// the fp64 value rounded once to nearest even; the 16-bit dtypes are that
// float32 rounded once. A uniform value that rounds to b is the next one below
// (b > a), an exponential one that rounds to 0 the smallest above. Throws
// Error{kUnsupported} for another dtype, Error{kUsage} for parameters outside
// what the law says.
void random_fill(const RandomKey& key, Law law, double a, double b, DType dtype,
                 std::byte* out, std::int64_t n);

// out[i] = 1 where highest 53 bits / 2^53 < p (p[i]), else 0: P(1) = p to
// 2^-53. Throws Error{kUsage} for a p outside [0, 1].
void random_bernoulli(const RandomKey& key, double p, std::uint8_t* out,
                      std::int64_t n);
void random_bernoulli(const RandomKey& key, const double* p, std::uint8_t* out,
                      std::int64_t n);

// low + floor(128 bits * count / 2^128), count = 0 standing for 2^64: uniform
// to 2^-64.
void random_integers(const RandomKey& key, std::int64_t low,
                     std::uint64_t count, std::int64_t* out, std::int64_t n);

// 0 .. n - 1 in random order: Fisher and Yates's, from the end.
void random_permutation(const RandomKey& key, std::int64_t* out,
                        std::int64_t n);

// For each of `rows` rows of `classes` weights, `samples` indices drawn in
// proportion to the weights; without replacement as if one after the other,
// each time from the rest (Efraimidis and Spirakis 2006: the smallest
// exponential over weight comes first). Throws Error{kUsage} for weights that
// are negative, not finite, or too few above 0.
struct Choice {
  std::int64_t rows, classes, samples;
  bool replacement;
};
void random_choice(const RandomKey& key, const Choice& choice,
                   const double* weights, std::int64_t* out);

}  // namespace assay
