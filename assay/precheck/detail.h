// The figures of one output of a replayed call, as msprobe's pre-check has
// them: a row of its accuracy_checking_details csv, of 23 columns.
//
// They are what two devices are compared by, so that results of msprobe and
// ours can be mixed. Formulas: msprobe 26.2.0,
// api_accuracy_checker/compare/algorithm.py; a test holds each to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "assay/core/tensor.h"

namespace assay::precheck {

struct Detail {
  std::string name;  // "Functional.linear.0.forward.output.0"
  std::string bench_dtype, device_dtype;  // "torch.float64", "torch.bfloat16"
  std::string shape;                      // "[4, 16]", as the csv has it
  // nullopt: blank in the csv, the figure does not apply.
  std::optional<double> cosine, max_abs;
  // Shares of elements whose relative error is below 1 %, 0.1 % and 0.01 %.
  std::optional<double> hundredth, thousandth, ten_thousandth;
  std::optional<double> binary_error_rate;
  std::optional<double> error_balance, rmse, small_value_error_ratio, max_rel,
      mean_rel;
  std::optional<double> inf_nan_error_ratio, rel_error_ratio, abs_error_ratio;
  std::optional<double> max_ulp, mean_ulp, ulp_over_threshold;
  std::string status;   // "pass", "warning", "error", "SKIP"
  std::string message;  // one line
};

// The figures of a pair of equal shapes. `golden`: what the device's result is
// held to, in the higher precision; `device`: of the dtype that was computed.
// Sums over fixed blocks in fp64: the same bits for any number of threads.
// Thread-safe. Throws Error{kUsage} where the shapes differ.
Detail make_detail(std::string_view name, const TensorView& golden,
                   const TensorView& device);

// The `msprobe` standard's verdict on them (its "Status" column), written to
// `status` and `message`.
void judge_detail(Detail& detail);

}  // namespace assay::precheck
