// The judgement of one output of one perturbed call.
//
// What is expected is known without a reference:
//
//   repeat             the call again, with the generators where they were:
//                      every bit is the same
//   improve_precision  golden: the call in a wider dtype, rounded to the
//                      output's; bounds: the standard's for the operator, of
//                      single elements of 32 bit and more twice that
//   add_noise,         golden: original + (wide of the same perturbed inputs -
//   bit_noise          wide); both runs round, so bounds are twice the
//                      standard's. The wide runs are needed only where the
//                      movement leaves [1/16, 2] times that of the inputs
//                      (for outputs that the movement may pass unseen)
//   swap               golden: the output with its slices exchanged (law.h)
//   to_cpu             golden: the host's output; twice the standard's bounds
//
// A difference beyond its bound is the operator's fault unless its inputs'
// own rounding explains it: the wide call of inputs moved by one unit roundoff
// of their dtype gives the spread that no implementation can be better than
// (input perturbation, as of Verificarlo's and TTrace's methods; several runs,
// the largest counts). The standard takes it as its noise. Outputs that are
// exact by their class or dtype have no such excuse but a tie (boundary.h).
//
// A verdict of kIncomplete says that nothing can be told: a decision boundary,
// or inputs' rounding that moves the output by more than a quarter.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/compare/perturbation/law.h"
#include "assay/compare/perturbation/mode.h"
#include "assay/compare/perturbation/response.h"
#include "assay/metrics/standard.h"

namespace assay::perturbation {

// Of one output. Functions that return a bool give false where the verdict is
// a mismatch that explain() may still excuse, or could not be drawn alone.
// Views need not outlive a call. One thread at a time.
class Probe {
 public:
  // name: of the row. wide: the name of the wide dtype, for what is told.
  Probe(std::shared_ptr<const Standard> standard, Mode mode, OpClass op,
        std::string name, std::string wide = "float64");

  // Every bit is the same.
  void repeated(const TensorView& original, const TensorView& again);
  // improve_precision and to_cpu; swap where it is exact or not. An exact
  // operator has every bit as expected and no excuse.
  bool against(const TensorView& golden, const TensorView& target);
  // The noise modes, by the movement alone. delta: the largest relative
  // movement of an input.
  bool moved(const TensorView& original, const TensorView& perturbed,
             double delta);
  // The same beside the wide runs. `perturbed`: in the operator's dtype. An
  // output that stays where the wide one moves is a mismatch of its own.
  bool answered(const Answers& answers, const TensorView& perturbed);
  // swap. `original`: the golden where the output stays.
  bool exchanged(Law law, const TensorView& expected, const TensorView& found);
  // The last word after a false. Floats: `base` the wide call, `runs` that of
  // inputs moved by one roundoff. Exact dtypes: all four as int64, `golden`
  // and `target` those of the call before.
  void explain(const TensorView& base, const std::vector<TensorView>& runs);
  void decide(const TensorView& golden, const TensorView& target,
              const TensorView& base, const std::vector<TensorView>& runs);
  // No verdict is possible.
  void incomplete(const std::string& criterion, std::string why);
  void note(const std::string& criterion, std::string text);

  Verdict verdict() const { return row_.verdict; }
  Row take() { return std::move(row_); }

 private:
  bool same_contract(const TensorView& golden, const TensorView& target);
  bool judged(const TensorView& golden, const TensorView& target, double sides,
              OpClass op);
  void fill(const TensorView& golden, const TensorView& target,
            ErrorStats stats);
  void conclude(Judgement judgement);
  std::string what() const;

  std::shared_ptr<const Standard> standard_;
  Mode mode_;
  OpClass op_;
  std::string wide_;
  double sides_ = 1;
  bool exact_ = false;
  Row row_;
};

}  // namespace assay::perturbation
