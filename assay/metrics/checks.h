// Building blocks of every judgement: figures of a pair, and the one-line
// reasons that carry them.
#pragma once

#include <optional>
#include <string>

#include "assay/metrics/error_stats.h"
#include "assay/metrics/verdict.h"

namespace assay {

// Largest magnitude among the golden's finite values.
double golden_amax(const ErrorStats& stats);
// Root mean square of the golden's finite values; 0 when there is none or the
// sum of squares left the range of fp64.
double golden_rms(const ErrorStats& stats);
// False where the golden's sum of squares overflowed fp64 or fell into its
// subnormals: normalised L2, SQNR, cosine and alpha then mean nothing.
bool sums_usable(const ErrorStats& stats);

Judgement make_judgement(Verdict verdict, Reason reason);

Reason deciding(std::string criterion, std::string text, double figure = 0,
                double bound = 0, std::int64_t index = -1);
Reason remark(std::string criterion, std::string text, double figure = 0);

// "1.5 against 1.25 at flat index 17", of the largest absolute error.
std::string place_of_max_abs(const ErrorStats& stats);

// Each nullopt when the check passes.
std::optional<Reason> check_nonfinite(const ErrorStats& stats);
std::optional<Reason> check_exact(const ErrorStats& stats,
                                  const std::string& why);
std::optional<Reason> check_norm_l2(const ErrorStats& stats, double bound);

// Kept where a figure is needed and the sums cannot give it.
Judgement sums_unusable(const ErrorStats& stats);
Judgement detail_missing();
Judgement no_numbers(const std::string& standard, DType dtype);

// -0 against +0, NaN at the same place, a rounded golden.
void add_notes(const ErrorStats& stats, Judgement& judgement);

}  // namespace assay
