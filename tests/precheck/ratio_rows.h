// Rows of details for the tests of two devices.
#pragma once

#include <string>

#include "assay/precheck/detail/detail.h"

namespace assay::precheck {

inline Detail row_of(const std::string& name, const std::string& dtype) {
  Detail detail;
  detail.name = name;
  detail.bench_dtype = "torch.float64";
  detail.device_dtype = dtype;
  detail.shape = "(4, 16)";
  detail.status = "pass";
  return detail;
}

// All five figures the same.
inline Detail benchmark_row(double figure,
                            const std::string& dtype = "torch.float32",
                            const std::string& api = "Torch.add") {
  Detail detail = row_of(api + ".0.forward.output.0", dtype);
  detail.small_value_error_ratio = detail.rmse = detail.max_rel =
      detail.mean_rel = detail.error_balance = figure;
  return detail;
}

}  // namespace assay::precheck
