#include "assay/compare/perturbation/law.h"

#include "assay/compare/perturbation/figures.h"

namespace assay::perturbation {
namespace {

enum class Likeness { kBits, kRounding, kNone };

Likeness likeness(const Standard& standard, OpClass op, const TensorView& a,
                  const TensorView& b) {
  if (a.shape != b.shape || a.dtype != b.dtype) return Likeness::kNone;
  Question question;
  // A law that holds up to rounding holds whatever the class says of bits.
  question.op = op == OpClass::kMovement ? OpClass::kElementwise : op;
  ErrorStats stats = measure(standard, a, b, question);
  if (stats.bitwise_equal) return Likeness::kBits;
  return judge(standard, stats, question).verdict == Verdict::kMatch
             ? Likeness::kRounding
             : Likeness::kNone;
}

}  // namespace

Law law_of(const Standard& standard, OpClass op, const TensorView& wide,
           const TensorView* exchanged_wide,
           const TensorView& wide_of_exchanged) {
  const Likeness stays = likeness(standard, op, wide, wide_of_exchanged);
  if (stays == Likeness::kBits) return Law::kStays;
  const Likeness moves =
      exchanged_wide
          ? likeness(standard, op, *exchanged_wide, wide_of_exchanged)
          : Likeness::kNone;
  if (moves == Likeness::kBits) return Law::kMovesExactly;
  if (stays == Likeness::kRounding) return Law::kStays;
  return moves == Likeness::kRounding ? Law::kMoves : Law::kNone;
}

}  // namespace assay::perturbation
