#include "assay/compare/perturbation/figures.h"

#include <algorithm>
#include <cmath>

namespace assay::perturbation {
namespace {

void scale(ErrorStats& stats, double factor) {
  stats.norm_l2 *= factor;
  stats.rmse *= factor;
  stats.bias *= factor;
  stats.alpha = 1 + (stats.alpha - 1) * factor;
}

}  // namespace

ErrorStats measure(const Standard& standard, const TensorView& golden,
                   const TensorView& target, const Question& question) {
  ErrorStats stats = compute_stats(golden, target);
  auto request = standard.detail_request(stats, question.op);
  if (!request) return stats;
  ElementBound& bound = request->bound;
  const double times = question.sides * question.elements;
  bound.atol *= times;
  bound.rtol *= times;
  bound.ulps *= times;
  compute_detail(golden, target, *request, stats);
  return stats;
}

Judgement judge(const Standard& standard, ErrorStats& stats,
                const Question& question) {
  if (question.sides == 1)
    return standard.judge(stats, question.op, nullptr, question.noise);
  const double norm = stats.norm_l2, rmse = stats.rmse, bias = stats.bias,
               alpha = stats.alpha;
  scale(stats, 1 / question.sides);
  Judgement judgement =
      standard.judge(stats, question.op, nullptr, question.noise);
  stats.norm_l2 = norm;
  stats.rmse = rmse;
  stats.bias = bias;
  stats.alpha = alpha;
  if (judgement.verdict == Verdict::kMismatch) {
    Reason note;
    note.criterion = "both_round";
    note.text =
        "both runs round: of figures of the whole tensor each answers for half";
    note.note = true;
    judgement.reasons.push_back(std::move(note));
  }
  return judgement;
}

Spread spread_of(const TensorView& base, const std::vector<TensorView>& runs) {
  Spread spread;
  for (const TensorView& run : runs) {
    const ErrorStats stats = compute_stats(base, run);
    spread.norm_l2 = std::max(spread.norm_l2, stats.norm_l2);
    spread.flips = std::max(spread.flips, stats.nonfinite_mismatches);
  }
  return spread;
}

}  // namespace assay::perturbation
