// The six tensor metrics of msprobe and its Result column, reproduced as it
// computes them, its defects included: for parity of reports, not for verdicts.
#pragma once

#include <optional>
#include <string>

#include "assay/core/tensor.h"
#include "assay/metrics/error_stats.h"

namespace assay {

// A cell as msprobe writes it: a Python float, or "unsupported", "Nan", "N/A",
// "shape unmatched". `value` is empty for the words.
struct MsprobeCell {
  std::string text;
  std::optional<double> value;
};

struct MsprobeMetrics {
  MsprobeCell cosine, euc_dist, max_abs, max_rel, one_thousandth,
      five_thousandths;
  std::string message;  // its Err_message, "" when it has none
};

// Read from both tensors, one pass in row-major order, sums in fp64, not
// parallel. Relative errors are in fp32 where numpy's result_type with float32
// is float32 (every float up to 32 bits, ints up to 16), else in fp64. Axes of
// size 1 are dropped before shapes are compared, NaN and infinity of the same
// place (whatever the infinity's sign) count as 0 on both sides, complex
// tensors lose their imaginary part. Source: mindstudio-probe 26.x,
// core/compare/npy_compare.py.
MsprobeMetrics msprobe_metrics(const TensorView& golden,
                               const TensorView& target);

// The same cells from figures already at hand. Relative errors are fp64 and
// without the eps shift at golden zeros; the two ratios need stats.detail
// unless the pair is equal ("N/A" without). `zero_rank`: the tensor is 0-d once
// its axes of size 1 are dropped.
MsprobeMetrics msprobe_metrics(const ErrorStats& stats, bool zero_rank);

enum class MsprobeResult { kPass, kWarning, kError };
std::string to_string(MsprobeResult result);  // "pass", "warning", "error"

// The operator's inputs and parameters, as far as they were compared.
struct MsprobeInputs {
  std::optional<double> min_one_thousandth;
  std::optional<double> min_cosine;
};

// Result of an output row. `target_only_nonfinite`: the target's max or min is
// NaN or infinite and the golden's is not.
MsprobeResult msprobe_result(const MsprobeMetrics& output,
                             const MsprobeInputs& inputs,
                             bool target_only_nonfinite);

}  // namespace assay
