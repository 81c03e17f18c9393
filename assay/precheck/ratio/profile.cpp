#include "assay/precheck/ratio/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay::precheck {
namespace {

// small value, rmse, max, mean, balance.
constexpr std::array<RatioLimits, 3> kLimits = {{
    {2, 2, 10, 2, 2},
    {2, 1.5, 5, 1.5, 2},
    {2, 1.2, 2, 1.2, 2},
}};

// mindstudio-probe 26.2.0, precision_standard/standard_config.py: the bounds
// of 1e-16 on small values are the code's, and make them all but exact.
constexpr RatioProfile kMsprobe26 = {
    .name = "msprobe-26",
    .date = "2026-08-08",
    .source = "msprobe 26.2.0, as its code has them",
    .f16 = {0x1p-10, 1e-16, 0x1p-16, 0x1p-10, 0x1p-8, 0x1p-20, 0x1p-11},
    .bf16 = {0x1p-10, 1e-16, 1e-16, 0x1p-8, 0x1p-7, 0x1p-7, 0x1p-8},
    .other = {0x1p-20, 0x1p-30, 0x1p-30, 0x1p-20, 0x1p-11, 0x1p-14, 0x1p-14},
    .limits = kLimits,
    .mean_ulp_f32 = 64,
    .ulp_share_f32 = 0.05,
    .ulp_share = 0.001,
    .ulp_ratio = 1,
    .thousandth = 0.999,
    .by_api = false,
};

// What msprobe's documents say of small values (and the Ascend operator
// standard with them), and the lists of APIs that they describe.
constexpr RatioProfile published() {
  RatioProfile profile = kMsprobe26;
  profile.name = "published";
  profile.source = "msprobe 26, as its documents have them";
  profile.f16.small_value = 0x1p-11;
  profile.bf16.small_value = 0x1p-8;
  profile.other.small_value = 0x1p-14;
  for (DtypeConstants* half : {&profile.f16, &profile.bf16})
    half->small_atol = half->absolute_small_atol = 0x1p-16;
  profile.by_api = true;
  return profile;
}
constexpr RatioProfile kPublished = published();

constexpr const RatioProfile* kProfiles[] = {&kMsprobe26, &kPublished};

}  // namespace

std::string_view level_name(RatioLevel level) {
  constexpr std::string_view kNames[] = {"L0", "L1", "L2"};
  return kNames[static_cast<std::size_t>(level)];
}

const DtypeConstants& RatioProfile::constants(DType device) const {
  if (device == DType::kF16) return f16;
  return device == DType::kBF16 ? bf16 : other;
}

const RatioProfile& msprobe26_profile() { return kMsprobe26; }

const std::vector<std::string_view>& ratio_profile_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const RatioProfile* profile : kProfiles) all.push_back(profile->name);
    return all;
  }();
  return names;
}

const RatioProfile& ratio_profile(std::string_view name) {
  for (const RatioProfile* profile : kProfiles)
    if (profile->name == name) return *profile;
  throw Error(Code::kUsage,
              fmt::format("no profile '{}': there are {}", printable(name),
                          fmt::join(ratio_profile_names(), ", ")));
}

}  // namespace assay::precheck
