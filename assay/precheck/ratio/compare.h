// Two details files of the same API calls, a device's and a reference
// device's, paired by name and judged: a comparison like any other.
#pragma once

#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/precheck/ratio/rules.h"

namespace assay::precheck {

struct RatioResult {
  // One per row of `comparison`, in its order.
  std::vector<RatioRow> rows;
  // Golden: the reference device. One operator per API call, in the order of
  // the device's file, then calls that the reference alone has; its rows are
  // outputs, forward before backward.
  Comparison comparison;
};

// Rows are paired by their whole name, in linear time. A row of one side
// alone, and one whose name a side has twice, is kIncomplete. Parallel; the
// result does not depend on the number of threads.
RatioResult compare_devices(const std::vector<Detail>& device,
                            const std::vector<Detail>& reference,
                            const RatioOptions& options = {});

}  // namespace assay::precheck
