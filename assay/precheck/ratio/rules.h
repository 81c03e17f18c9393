// The rules by which an output of one device is held to the same output of a
// reference device, both judged by their figures against a golden.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "assay/metrics/verdict.h"
#include "assay/precheck/detail/detail.h"
#include "assay/precheck/ratio/api.h"

namespace assay::precheck {

struct RatioOptions {
  const RatioProfile* profile = &msprobe26_profile();
  std::optional<RatioLevel> level;  // for every API, instead of its own
};

// A figure and what it says: one pair of columns of msprobe's result.
struct RatioCell {
  std::optional<double> value;     // a ratio of devices, or the device's figure
  std::optional<Verdict> verdict;  // nullopt: not asked for
};

struct RatioRow {
  std::string name;
  // Nullopt where no rule was reached: a side that is missing, no figures.
  std::optional<RatioRule> rule;
  RatioLevel level = RatioLevel::kL0;
  RatioCell small_value, rmse, max_rel, mean_rel, balance;
  RatioCell inf_nan, rel_error, abs_error;
  RatioCell binary, ulp, thousandth;
  std::optional<double> mean_ulp, ulp_share;
  // Each figure that was asked for is a reason, with the ratio (or the
  // device's figure) and its bound; those that pass are notes. compare_devices
  // leaves the reasons to the comparison's row.
  Judgement judgement;
};

// The verdict on one output. Not a match, where msprobe passes it: a figure
// that is blank on either side (msprobe takes it for 0) or NaN or infinite on
// both, a device whose result has another shape or dtype than the reference's.
// A note of criterion "msprobe" says then what msprobe makes of it. Float64
// and complex outputs, for which there is no rule, and outputs of which a row
// says that nothing was computed are kIncomplete; empty ones kEmpty.
//
//   benchmark     ratio = |device| / max(|reference|, floor of the dtype) of
//                 small-value error ratio, RMSE, max and mean relative error,
//                 each at most its limit of the level; of the error balance,
//                 reported only. One side alone not finite: mismatch.
//   ulp           f16, bf16: share over 1 ULP below 0.001, or its ratio below
//                 1. f32: mean below 64, or share over 32 ULP below 0.05, or
//                 the ratio below 1. 8-bit floats: the share.
//   absolute      the device's inf/nan, relative and absolute error rates 0
//   binary        the device's binary error rate 0
//   thousandth    the device's share within 0.1 % at least 0.999
//   accumulative  as absolute, and error balance at most the dtype's bound
RatioRow judge_ratio(const Detail& device, const Detail& reference,
                     const RatioOptions& options);

// A row that one side alone has, or that has no counterpart to be found.
RatioRow unpaired_ratio(const Detail& detail, std::string_view why,
                        std::string_view msprobe);

}  // namespace assay::precheck
