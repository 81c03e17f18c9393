// The constants of msprobe's API pre-check and of its comparison of two
// devices, by dtype: dated data, in one place.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "assay/core/dtype.h"

namespace assay::precheck {

struct DtypeConstants {
  // |golden| <= small_value: judged by its absolute error.
  double small_value;
  double small_atol;           // the bound on it, benchmark rule
  double absolute_small_atol;  // the same, absolute-threshold rule
  double rtol;                 // |golden| above: absolute-threshold rule
  double accumulative_bound;   // rtol and atol of the accumulative rule
  double accumulative_balance;
  double ratio_floor;  // the least denominator of a ratio of two devices
};

// How strictly an operator is held to the reference device.
enum class RatioLevel { kL0, kL1, kL2 };

std::string_view level_name(RatioLevel level);  // "L0"

// The largest ratio of device to reference that passes.
struct RatioLimits {
  double small_value, rmse, max_rel, mean_rel, balance;
};

struct RatioProfile {
  std::string_view name;    // "msprobe-26"
  std::string_view date;    // "2026-08-08"
  std::string_view source;  // where the numbers are from
  DtypeConstants f16, bf16, other;
  std::array<RatioLimits, 3> limits;  // by RatioLevel
  double mean_ulp_f32, ulp_share_f32;
  double ulp_share;  // f16, bf16 and the 8-bit formats
  double ulp_ratio;
  double thousandth;  // the least share of errors below 0.1 %
  // Float outputs are judged by the rule that lists of APIs name; otherwise
  // all by the benchmark rule, as msprobe 26 does.
  bool by_api;

  const DtypeConstants& constants(DType device) const;
  const RatioLimits& of(RatioLevel level) const {
    return limits[static_cast<std::size_t>(level)];
  }
};

// The numbers of msprobe's code, which are the default: with them ours and
// its files mix.
const RatioProfile& msprobe26_profile();

// Throws Error{kUsage} naming the profiles there are.
const RatioProfile& ratio_profile(std::string_view name);
const std::vector<std::string_view>& ratio_profile_names();

}  // namespace assay::precheck
