// Which rule of the comparison of two devices an output is judged by, and how
// strictly: by its dtype and its API.
#pragma once

#include <string_view>

#include "assay/precheck/ratio/profile.h"

namespace assay::precheck {

enum class RatioRule {
  kBenchmark,     // errors over the reference device's errors
  kUlp,           // share of errors over a number of ULPs
  kAbsolute,      // three error rates, all zero
  kBinary,        // every element equal
  kThousandth,    // share of relative errors below 0.1 %
  kAccumulative,  // three error rates and the error balance
};

std::string_view rule_name(RatioRule rule);     // "benchmark"
std::string_view msprobe_name(RatioRule rule);  // as its csv has it, Chinese

// `device_dtype` as the csv has it; `float8_input`: told by a relative error
// rate in the row. msprobe 26 asks for nothing else: float outputs are judged
// by the benchmark rule, 8-bit floats by ULP, outputs of 8-bit inputs by the
// absolute one, all others by equality. A profile with `by_api` has its lists
// of APIs first, and takes no input's dtype from the row.
RatioRule ratio_rule(std::string_view api, std::string_view device_dtype,
                     bool float8_input, const RatioProfile& profile);

RatioLevel ratio_level(std::string_view api);

// float64 and complex: no rule is for them.
bool has_ratio_rule(std::string_view device_dtype);

}  // namespace assay::precheck
