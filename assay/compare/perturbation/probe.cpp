#include "assay/compare/perturbation/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/determinism/same_bits.h"
#include "assay/compare/perturbation/boundary.h"
#include "assay/compare/perturbation/figures.h"
#include "assay/metrics/judgement.h"

namespace assay::perturbation {
namespace {

// Inputs' rounding that moves an output further leaves it no digit to judge.
constexpr double kMostSpread = 0.25;

SideFacts facts_of(const TensorView& view) {
  SideFacts facts;
  facts.dtype = view.dtype;
  facts.dtype_text = traits(view.dtype).name;
  facts.shape = view.shape;
  return facts;
}

TensorStatistics measured(const SideStats& side, std::int64_t count) {
  if (side.nan + side.pos_inf + side.neg_inf >= count) return {};
  return {side.max, side.min, side.mean, side.l2};
}

}  // namespace

Probe::Probe(std::shared_ptr<const Standard> standard, Mode mode, OpClass op,
             std::string name, std::string wide)
    : standard_(std::move(standard)),
      mode_(mode),
      op_(op),
      wide_(std::move(wide)) {
  row_.role = Role::kOutput;
  row_.golden.present = row_.target.present = true;
  row_.golden.name = row_.target.name = std::move(name);
}

// What a difference means, before the standard's own words.
std::string Probe::what() const {
  switch (mode_) {
    case Mode::kRepeat:
      return "does not repeat: ";
    case Mode::kImprovePrecision:
      return wide_ + " gives other values: ";
    case Mode::kAddNoise:
    case Mode::kBitNoise:
      return "unsteady: moves otherwise than in " + wide_ + ": ";
    case Mode::kSwap:
      return "depends on where a slice lies: ";
    case Mode::kToCpu:
      break;
  }
  return "the CPU gives other values: ";
}

void Probe::conclude(Judgement judgement) {
  row_.verdict = judgement.verdict;
  const bool fault = judgement.verdict == Verdict::kMismatch;
  for (Reason& reason : judgement.reasons)
    if (fault && !reason.note) reason.text = what() + reason.text;
  row_.origin = fault ? Origin::kBorn : Origin::kNone;
  row_.reasons = std::move(judgement.reasons);
}

void Probe::incomplete(const std::string& criterion, std::string why) {
  row_.verdict = Verdict::kIncomplete;
  row_.origin = Origin::kNone;
  for (Reason& reason : row_.reasons) reason.note = true;
  row_.reasons.insert(row_.reasons.begin(),
                      make_reason(criterion, std::move(why), false));
}

void Probe::note(const std::string& criterion, std::string text) {
  row_.reasons.push_back(make_reason(criterion, std::move(text), true));
}

bool Probe::same_contract(const TensorView& golden, const TensorView& target) {
  row_.golden.facts = facts_of(golden);
  row_.target.facts = facts_of(target);
  std::vector<Reason> notes;
  auto settled =
      standard_->judge_contract(row_.golden.facts, row_.target.facts, notes);
  if (settled) conclude(*std::move(settled));
  return !settled;
}

void Probe::fill(const TensorView& golden, const TensorView& target,
                 ErrorStats stats) {
  row_.golden.facts = facts_of(golden);
  row_.target.facts = facts_of(target);
  row_.golden.stats = measured(stats.golden, stats.count);
  row_.target.stats = measured(stats.target, stats.count);
  row_.stats = std::make_unique<ErrorStats>(std::move(stats));
  row_.evidence = Evidence::kTensor;
}

void Probe::repeated(const TensorView& original, const TensorView& again) {
  if (!same_contract(original, again)) return;
  static const std::shared_ptr<const Standard> bits = same_bits();
  Question question;
  ErrorStats stats = measure(*bits, original, again, question);
  Judgement judgement = judge(*bits, stats, question);
  // Nothing finite, and the same bits: that is what was asked.
  if (stats.bitwise_equal && judgement.verdict == Verdict::kIncomplete) {
    judgement.verdict = Verdict::kMatch;
    for (Reason& reason : judgement.reasons) reason.note = true;
  }
  fill(original, again, std::move(stats));
  conclude(std::move(judgement));
}

bool Probe::judged(const TensorView& golden, const TensorView& target,
                   double sides, OpClass op) {
  sides_ = sides;
  exact_ = op == OpClass::kMovement || is_exact(target.dtype);
  Question question;
  question.op = op;
  question.sides = sides;
  // Shorter dtypes hide what a polynomial is off by in their own rounding.
  if (sides == 1 &&
      (target.dtype == DType::kF32 || target.dtype == DType::kF64))
    question.elements = 2;
  ErrorStats stats = measure(*standard_, golden, target, question);
  Judgement judgement = judge(*standard_, stats, question);
  fill(golden, target, std::move(stats));
  conclude(std::move(judgement));
  return row_.verdict != Verdict::kMismatch;
}

bool Probe::against(const TensorView& golden, const TensorView& target) {
  if (!same_contract(golden, target)) return true;
  return judged(golden, target, mode_ == Mode::kToCpu ? 2 : 1, op_);
}

bool Probe::exchanged(Law law, const TensorView& expected,
                      const TensorView& found) {
  if (!same_contract(expected, found)) return true;
  // Of computed elements, those in the tail of a vector loop may come from
  // another polynomial: they are held to the standard's bounds.
  const bool moved = law == Law::kMovesExactly && op_ == OpClass::kMovement;
  return judged(expected, found, 1, moved ? OpClass::kMovement : op_);
}

bool Probe::moved(const TensorView& original, const TensorView& perturbed,
                  double delta) {
  if (!same_contract(original, perturbed)) return true;
  ErrorStats stats = compute_stats(original, perturbed);
  const bool exact = is_exact(perturbed.dtype);
  if (stats.count == 0 || (exact && stats.bitwise_equal))
    return judged(original, perturbed, 1, op_);
  const auto request = standard_->detail_request(stats, op_);
  if (exact || !request || stats.nonfinite_mismatches > 0) return false;
  DetailRequest allowed = *request;
  allowed.bound.rtol += 2 * delta;
  allowed.bound.atol +=
      2 * delta * stats.golden.l2 /
      std::sqrt(static_cast<double>(std::max<std::int64_t>(stats.finite, 1)));
  compute_detail(original, perturbed, allowed, stats);
  if (stats.detail->over_bound > 0 || stats.norm_l2 > 2 * delta ||
      stats.norm_l2 < delta / 16) {
    return false;
  }
  row_.verdict = Verdict::kMatch;
  note("moved",
       fmt::format("moves by {} (normalised L2) where its inputs do "
                   "by {} at most",
                   format_figure(stats.norm_l2), format_figure(delta)));
  fill(original, perturbed, std::move(stats));
  return true;
}

bool Probe::answered(const Answers& answers, const TensorView& perturbed) {
  // Values that are only moved are as exact in the operator's dtype.
  const bool moves = op_ == OpClass::kMovement;
  const Tensor expected = moves ? Tensor{} : expected_of(answers);
  const bool agrees = judged(moves ? answers.wide_perturbed : expected.view,
                             perturbed, moves ? 1 : 2, op_);
  // The golden stands for the operator's own output, of its dtype.
  row_.golden.facts = row_.target.facts;
  const Stillness stillness = stillness_of(answers, perturbed.dtype);
  if (!stillness.stale()) return agrees;
  row_.verdict = Verdict::kMismatch;
  row_.origin = Origin::kBorn;
  row_.reasons.insert(
      row_.reasons.begin(),
      make_reason(
          "stale",
          fmt::format("does not answer to its inputs: {} of {} elements "
                      "that move by more than 4 ulp in {} keep every bit",
                      stillness.still, stillness.must_move, wide_),
          false));
  exact_ = true;  // no rounding of inputs excuses it
  return true;
}

void Probe::explain(const TensorView& base,
                    const std::vector<TensorView>& runs) {
  if (row_.verdict != Verdict::kMismatch || !row_.stats || exact_) return;
  const Spread spread = spread_of(base, runs);
  if (row_.stats->nonfinite_mismatches > 0) {
    if (spread.flips == 0) return;
    return incomplete("decision_boundary",
                      "on the edge of what its dtype holds: its inputs' "
                      "rounding alone makes values finite or not");
  }
  const std::string how = fmt::format(
      "its inputs' rounding alone moves it by {} (normalised L2, the most of "
      "{} runs in {})",
      format_figure(spread.norm_l2), runs.size(), wide_);
  if (spread.norm_l2 > kMostSpread)
    return incomplete("ill_conditioned",
                      how + ": no digit is left to judge it by");
  Question question;
  question.op = op_;
  question.sides = sides_;
  question.noise = spread.norm_l2;
  Judgement again = judge(*standard_, *row_.stats, question);
  if (again.verdict != Verdict::kMatch)
    return note("conditioning", how + ": that does not explain it");
  conclude(std::move(again));
  note("ill_conditioned", "ill-conditioned: " + how);
}

void Probe::decide(const TensorView& golden, const TensorView& target,
                   const TensorView& base,
                   const std::vector<TensorView>& runs) {
  if (row_.verdict != Verdict::kMismatch) return;
  const Decisions decisions = decisions_of(golden, target, base, runs);
  if (decisions.unexplained == 0) {
    return incomplete(
        "decision_boundary",
        fmt::format(
            "decision boundary: {} of {} elements decided otherwise, each "
            "between values that tie within one rounding of the inputs",
            decisions.differing, golden.numel()));
  }
  note("decisions",
       fmt::format("{} of {} differing elements are decided otherwise where "
                   "nothing ties, first at flat index {}",
                   decisions.unexplained, decisions.differing,
                   decisions.first_unexplained));
}

}  // namespace assay::perturbation
