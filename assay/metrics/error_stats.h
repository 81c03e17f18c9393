// Error figures of one pair of tensors, from one fused pass (tier 1) and, for
// pairs that are not bitwise equal, a second one (tier 2).
//
// Sums are over fixed blocks merged in block order: the same bits for any
// number of threads and on every instruction set. Complex tensors count each
// component as an element; an index then names the component (divide by two
// for the element). d = target - golden throughout.
//
// How exact the figures are (kernels.h has the bounds and why):
//   pairs of integers: exact counts and differences, fp64 sums; 64-bit ones
//     are subtracted in 128 bits before they become doubles
//   f64 pairs, and mixed pairs that need fp64: fp64 throughout
//   f32: fp64 sums of fp64 differences and products; mean_abs and mean_rel
//     from fp32 partial sums of 64 terms
//   bf16, f16: fp32 partial sums of 64 terms, added in fp64
//   8 bits and fewer: widened to bf16; mixed pairs within fp32 to f32
// max_abs and max_rel are fp64 values at the place where the arithmetic above
// has its maximum. But for f64 that is an fp32 difference or quotient, so one
// that is larger by less than 2^-22 elsewhere may be passed over.
// alpha and cosine of nearly equal tensors come from d, not from a difference
// of large sums, so |alpha - 1| and 1 - cosine keep their digits.
//
// Which values are compared: where the golden is wider than the target its
// values are first rounded to the target's dtype (nearest even); a value that
// would round beyond the target's range stays as it is, so that a saturated
// target shows its whole error.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "assay/core/tensor.h"

namespace assay {

struct SideStats {
  std::int64_t nan = 0;
  std::int64_t pos_inf = 0;
  std::int64_t neg_inf = 0;
  // Over the finite values; all 0 when there is none.
  double min = 0;
  double max = 0;
  double mean = 0;
  double l2 = 0;  // sqrt(sum x^2)
};

// A run of consecutive elements in row-major order, the worst by sum of d^2.
struct WorstBlock {
  std::int64_t begin = -1;  // first element
  double rmse = 0;
  double golden_rms = 0;
};

// |d| <= atol + rtol * |golden| + ulps * ulp(golden): what a standard asks of
// each element. Terms a standard does not use are 0.
struct ElementBound {
  double atol = 0;
  double rtol = 0;
  double ulps = 0;
};

// Elements with |golden| < threshold are judged by |d| > bound alone and left
// out of the large figures (commercial standard). threshold 0 turns it off:
// the small_ and large_ figures stay 0. The least positive double as threshold
// makes golden zeros alone small.
struct SmallValueRule {
  double threshold = 0;
  double bound = 0;
};

struct DetailRequest {
  ElementBound bound;
  SmallValueRule small;
};

// Tier 2. Histogram bucket b counts finite pairs with 2^(b-64) <= rel < 2^
// (b-63) (b = 0: everything below, b = 63: 2^-1 and above) for rel = |d| /
// |golden|; pairs with d = 0 are in neither histogram, golden = 0 with d != 0
// is in the last bucket. ulp_histogram: bucket 0 is (0, 1], bucket b is
// (2^(b-1), 2^b].
struct DetailStats {
  double ulp_max = 0;  // |d| / ulp(golden), ulp of the judged dtype
  double ulp_mean = 0;
  std::int64_t ulp_max_index = -1;
  double share_rel_over_1e3 = 0;  // share of finite pairs with rel >= 0.001
  double share_rel_over_5e3 = 0;
  std::array<std::int64_t, 64> rel_histogram{};
  std::array<std::int64_t, 64> ulp_histogram{};
  WorstBlock block32;
  WorstBlock block128;
  // Against DetailRequest::bound.
  std::int64_t over_bound = 0;
  double worst_excess = 0;  // max |d| / bound at that element
  std::int64_t worst_excess_index = -1;
  // Against DetailRequest::small; the large_ figures cover |golden| >=
  // threshold, rel = |d| / max(|golden|, 1e-7).
  std::int64_t small_count = 0;
  std::int64_t small_errors = 0;
  double large_max_rel = 0;
  double large_mean_rel = 0;
  double large_rmse = 0;
};

struct ErrorStats {
  std::int64_t count = 0;   // elements (components for complex)
  std::int64_t finite = 0;  // pairs with both sides finite
  bool bitwise_equal = false;
  // Dtype whose ulp and unit roundoff the pair is judged by: the target's, or
  // the golden's where that one is coarser.
  DType judged_dtype = DType::kF32;
  // The golden was wider and each value was rounded to the target's dtype
  // (nearest even) before differencing.
  bool golden_rounded = false;
  SideStats golden;
  SideStats target;

  std::int64_t mismatches = 0;  // elements whose values differ (-0 == +0,
                                // NaN == NaN at the same place)
  std::int64_t nonfinite_mismatches = 0;  // NaN / +inf / -inf not alike
  std::int64_t first_nonfinite_mismatch = -1;
  std::int64_t zero_sign_flips = 0;  // -0 against +0
  std::int64_t sign_flips = 0;       // both non-zero, signs differ

  // Over pairs with both sides finite.
  double max_abs = 0;
  std::int64_t max_abs_index = -1;  // lowest index among equals
  double golden_at_max_abs = 0;
  double target_at_max_abs = 0;
  // |d| exact for integers, where a double cannot hold it; at most 2^64 - 1.
  std::uint64_t max_abs_int = 0;
  double mean_abs = 0;
  double max_rel = 0;  // |d| / |golden|; +inf where golden = 0 and d != 0
  std::int64_t max_rel_index = -1;
  double mean_rel = 0;  // over pairs with golden != 0
  double rmse = 0;
  double norm_l2 = 0;  // ||d|| / ||golden||; inf when golden is all zero
  double sqnr_db = 0;  // -20 log10(norm_l2); inf when d = 0
  double cosine = 0;   // 1 when both are all zero, 0 when one is
  double bias = 0;     // mean of d
  double alpha = 1;    // <target, golden> / <golden, golden>

  std::unique_ptr<DetailStats> detail;  // null until compute_detail
};

// Tier 1. Shapes must be equal and both sides complex or neither (Error{kUsage}
// otherwise); dtypes may differ otherwise.
// Strided views are read in place. Parallel over fixed blocks; thread-safe.
ErrorStats compute_stats(const TensorView& golden, const TensorView& target);

// Tier 2: fills `stats.detail`. `stats` is the result of compute_stats on the
// same pair.
void compute_detail(const TensorView& golden, const TensorView& target,
                    const DetailRequest& request, ErrorStats& stats);

}  // namespace assay
