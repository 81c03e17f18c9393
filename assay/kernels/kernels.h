// The kernel table: one set of function pointers per instruction set, chosen
// once at run time. Every set gives the same bits as `ref/` (plain loops).
//
// What makes the bits the same on every instruction set:
//  - A chunk has 16 virtual lanes whatever the vector width. f64 pairs use
//    lanes 0-7: element i goes to lane i mod 8. f32 and f16: i mod 16. bf16:
//    (i / 2) mod 16. A lane adds its elements in rising order.
//  - Multiply-adds are fused everywhere (std::fma in ref/), so an instruction
//    set without fused multiply-add has no table. Nothing else is contracted.
//  - Minima, maxima and counts do not depend on order.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace assay {

inline constexpr int kLanes = 16;
// Elements of one kernel call at most. Callers merge chunk after chunk.
inline constexpr std::int64_t kChunk = 8192;
// A kernel takes a multiple of this; the caller does the rest by itself.
inline constexpr std::int64_t kStep = 32;
// f32 partial sums are added to their fp64 lane after this many elements.
inline constexpr std::int64_t kFlush = 1024;

// x is the golden, y the target, d = y - x.
enum Sum : int {
  kSumX,
  kSumXX,
  kSumY,
  kSumYY,
  kSumXY,
  kSumD,
  kSumXD,
  kSumDD,
  kSumAbsD,
  kSumRel,  // |d| / |x| over the pairs with x != 0
  kSumCount,
};

// Figures of one chunk. Filled, not added to.
struct ChunkSums {
  alignas(64) double lane[kSumCount][kLanes];
  double x_min, x_max, y_min, y_max;
  // Greatest |d|, greatest |d| / |x| (+inf where x = 0 and d != 0), as the
  // kernel's arithmetic gives them: see PairFn.
  double max_abs, max_rel;
  std::int64_t mismatches;       // x != y
  std::int64_t zero_sign_flips;  // -0 against +0
  std::int64_t sign_flips;       // both non-zero, signs differ
  std::int64_t golden_zeros;     // x == 0
};

enum class ChunkState {
  kDone,       // `out` holds the figures
  kEqual,      // as kDone, and every element is bitwise equal
  kUntrusted,  // a NaN, an infinity, or a value outside the range for which
               // the arithmetic below holds: `out` is garbage, the caller
               // does the chunk element by element in fp64
};

// Tier 1 of one chunk: n elements, 0 < n <= kChunk, n a multiple of kStep. No
// alignment needed. 16-bit codes for bf16 and f16.
//
// f64: everything in fp64. Untrusted where a sum leaves its range.
// f32: d, its products and all sums but two are fp64: within a few 2^-53 of
//   exact. |d| and |d| / |x| are of the fp32 difference (one rounding, none
//   where y/2 <= x <= 2y), the quotient in fp32 (at most 2^-22 off), both in
//   fp32 partial sums of at most 64 elements.
// bf16, f16: d in fp32, products fused into fp32 partial sums of at most 64
//   elements a lane, those added in fp64. Relative to the sum of magnitudes a
//   sum is at most 2^-18 off, near 2^-25 in practice. Untrusted where a
//   magnitude that matters could underflow in fp32 (largest |x|, |y| or |d|
//   below 2^-57).
// In all but f64 the sums of y, yy, xy come from y = x + d, exact to the same
// bounds as long as ||y|| >= ||x|| / 2 in the chunk; else they are summed by
// themselves.
template <typename T>
using PairFn = ChunkState (*)(const T* x, const T* y, std::int64_t n,
                              ChunkSums& out);

// Tier 2 of one chunk of finite pairs. One ulp of x is 2^(e - mantissa_bits)
// with e the exponent of |x|, not below min_exponent nor above that of
// max_finite; integers: 1.
struct DetailParams {
  int mantissa_bits = 23;
  int min_exponent = -126;
  double max_finite = std::numeric_limits<double>::max();
  bool integer = false;
  double atol = 0, rtol = 0, ulps = 0;  // bound = atol + rtol |x| + ulps ulp
  double small_threshold = 0;           // 0: no small_, no large_ figures
  double small_bound = 0;
};

// Figures of one chunk. Filled, not added to.
struct DetailSums {
  // Lane i mod 16 (f64: i mod 8), rising order, fp64; 16-bit and f32 elements
  // in fp32 partial sums as for PairFn.
  alignas(64) double ulp_sum[kLanes];
  alignas(64) double large_rel_sum[kLanes];
  alignas(64) double large_dd_sum[kLanes];
  double ulp_max, worst_excess, large_rel_max;
  std::int64_t rel_over_1e3, rel_over_5e3, over_bound;
  std::int64_t small_count, small_errors;
  std::array<std::uint32_t, 64> rel_histogram, ulp_histogram;
  double block_dd[kChunk / kStep];  // sum of d^2 of each run of 32 elements
};

// n as for PairFn. Everything in fp32 (f64: fp64): the bucket of a relative
// error is exact, an ulp figure is where d is (see PairFn), a bound is a few
// 2^-24 off. False, and `out` garbage, for a chunk that holds a non-finite
// value or one for which an ulp leaves the range of the arithmetic.
template <typename T>
using DetailFn = bool (*)(const T* x, const T* y, std::int64_t n,
                          const DetailParams& params, DetailSums& out);

struct KernelTable {
  const char* isa;  // "scalar", "avx2", "avx512", "neon"
  PairFn<double> pair_f64;
  PairFn<float> pair_f32;
  PairFn<std::uint16_t> pair_bf16;
  PairFn<std::uint16_t> pair_f16;
  DetailFn<double> detail_f64;
  DetailFn<float> detail_f32;
  DetailFn<std::uint16_t> detail_bf16;
  DetailFn<std::uint16_t> detail_f16;
  // Exact widening of n elements, any n >= 0.
  void (*widen_f32)(const float* in, std::int64_t n, double* out);
  void (*widen_bf16)(const std::uint16_t* in, std::int64_t n, double* out);
  void (*widen_f16)(const std::uint16_t* in, std::int64_t n, double* out);
};

// The best table this machine supports, or the one the environment variable
// ASSAY_ISA names. Throws Error{kUsage} listing the valid names when that one
// is unknown or not supported here. Chosen once; thread-safe.
const KernelTable& kernels();

// The table called `isa`; the same Error.
const KernelTable& kernels_for(std::string_view isa);

// Every table this machine supports, best first, "scalar" last.
std::span<const KernelTable* const> all_kernels();

}  // namespace assay
