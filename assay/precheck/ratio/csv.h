// msprobe's two files of a comparison of two devices, of our verdicts.
#pragma once

#include <filesystem>

#include "assay/precheck/ratio/compare.h"

namespace assay::precheck {

// api_precision_compare_details: 28 columns, one row an output. A status is
// "pass", "error", "SKIP" (not compared: msprobe has such a row pass where it
// takes a blank or a NaN for agreement), or a space where its figure was not
// asked for. Replaces `path` only when complete; throws Error.
void write_ratio_details(const std::filesystem::path& path,
                         const RatioResult& result);

// api_precision_compare_result: one row an API call, forward and backward
// apart: its worst output, a space where it has none.
void write_ratio_result(const std::filesystem::path& path,
                        const RatioResult& result);

}  // namespace assay::precheck
