// The judgement of perturbed calls: numbers worked by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "assay/base/error.h"
#include "assay/compare/perturbation/boundary.h"
#include "assay/compare/perturbation/collection.h"
#include "assay/compare/perturbation/figures.h"
#include "assay/compare/perturbation/probe.h"
#include "synthetic.h"

namespace assay::test {
namespace {

using namespace perturbation;  // NOLINT: the one thing under test

std::shared_ptr<const Standard> standard() { return Standard::load("assay"); }

template <typename T>
Tensor made(DType dtype, const std::vector<T>& values) {
  Tensor tensor =
      Tensor::zeros(dtype, {static_cast<std::int64_t>(values.size())});
  std::memcpy(tensor.mutable_data(), values.data(), values.size() * sizeof(T));
  return tensor;
}

Tensor f64(const std::vector<double>& v) { return made(DType::kF64, v); }
Tensor i64(const std::vector<std::int64_t>& v) { return made(DType::kI64, v); }
Tensor flat(const std::vector<float>& v) { return made(DType::kF32, v); }

// n values 1 + k/n, so that their spacing is one of 2^-23.
std::vector<float> ramp(int n) {
  std::vector<float> values;
  for (int i = 0; i < n; ++i)
    values.push_back(1 + static_cast<float>(i) / static_cast<float>(n));
  return values;
}

std::vector<double> wide(const std::vector<float>& v, double factor = 1) {
  std::vector<double> values;
  for (const float x : v) values.push_back(x * factor);
  return values;
}

Probe probe(Mode mode, OpClass op = OpClass::kElementwise) {
  return Probe(standard(), mode, op, "y");
}

std::string reasons(Probe& one) {
  std::string text;
  for (const Reason& reason : one.take().reasons)
    text += reason.criterion + ": " + reason.text + "\n";
  return text;
}

TEST(PerturbationMode, NamesAreTheUsers) {
  for (const std::string& name : mode_names())
    EXPECT_EQ(to_string(mode_named(name)), name);
  EXPECT_EQ(mode_names().size(), 6u);
  EXPECT_THROW(mode_named("no_change"), Error);
}

TEST(PerturbationRepeat, OneBitIsADifference) {
  const std::vector<float> x = ramp(8);
  std::vector<float> other = x;
  other[5] = std::nextafterf(other[5], 2);
  Probe same = probe(Mode::kRepeat);
  same.repeated(flat(x).view, flat(x).view);
  EXPECT_EQ(same.verdict(), Verdict::kMatch);
  // A class that may round, or draws numbers, is no excuse.
  for (const OpClass op : {OpClass::kGemm, OpClass::kRandom}) {
    Probe differs = probe(Mode::kRepeat, op);
    differs.repeated(flat(x).view, flat(other).view);
    EXPECT_EQ(differs.verdict(), Verdict::kMismatch);
    EXPECT_NE(reasons(differs).find("does not repeat"), std::string::npos);
  }
}

TEST(PerturbationRepeat, SignsOfZerosAndNothingFinite) {
  Probe zero = probe(Mode::kRepeat);
  zero.repeated(flat({0.0f}).view, flat({-0.0f}).view);
  EXPECT_EQ(zero.verdict(), Verdict::kMismatch);
  const float inf = std::numeric_limits<float>::infinity();
  Probe masked = probe(Mode::kRepeat);
  masked.repeated(flat({-inf, -inf}).view, flat({-inf, -inf}).view);
  EXPECT_EQ(masked.verdict(), Verdict::kMatch);
}

TEST(PerturbationRepeat, ShapesAndDtypesAreCompared) {
  Probe shape = probe(Mode::kRepeat);
  shape.repeated(flat({1, 2}).view, flat({1}).view);
  EXPECT_EQ(shape.verdict(), Verdict::kMismatch);
  Probe dtype = probe(Mode::kRepeat);
  dtype.repeated(flat({1}).view, f64({1}).view);
  EXPECT_EQ(dtype.verdict(), Verdict::kMismatch);
}

// float32, element-wise: 8 ulp + 2^-19 rms, normalised L2 2^-22.
TEST(PerturbationPrecision, BoundsAreTheStandards) {
  std::vector<float> off = ramp(64);
  for (float& x : off) x *= 1 + 0x1p-20f;
  Probe good = probe(Mode::kImprovePrecision);
  EXPECT_TRUE(good.against(flat(ramp(64)).view, flat(ramp(64)).view));
  Probe bad = probe(Mode::kImprovePrecision);
  EXPECT_FALSE(bad.against(flat(ramp(64)).view, flat(off).view));
  EXPECT_EQ(bad.verdict(), Verdict::kMismatch);
}

// One wrong side is given what two are: 6 ulp apart are 3 for each.
TEST(PerturbationFigures, TwoSidesAnswerForHalf) {
  const std::vector<float> x = ramp(4096);
  std::vector<float> off = x;
  for (std::size_t i = 0; i < off.size(); ++i)
    off[i] += (i % 2 ? 0x1.6p-22f : -0x1.6p-22f);  // about 3e-7
  Question one{OpClass::kElementwise}, two{OpClass::kElementwise, 2};
  const Tensor a = flat(x), b = flat(off);
  ErrorStats once = measure(*standard(), a.view, b.view, one);
  ErrorStats twice = measure(*standard(), a.view, b.view, two);
  // About 3.3e-7 / 1.5 is between the bound and twice the bound.
  ASSERT_GT(once.norm_l2, 0x1p-23);
  EXPECT_DOUBLE_EQ(once.norm_l2, twice.norm_l2);
  EXPECT_NEAR(twice.detail->worst_excess, once.detail->worst_excess / 2, 1e-9);
  const double norm = twice.norm_l2;
  EXPECT_EQ(judge(*standard(), twice, two).verdict, Verdict::kMatch);
  EXPECT_EQ(twice.norm_l2, norm);  // figures are put back
}

TEST(PerturbationConditioning, RoundingOfInputsExplainsAsMuch) {
  const std::vector<float> x = ramp(64);
  std::vector<float> off = x;
  for (std::size_t i = 0; i < off.size(); ++i)
    off[i] *= (i % 2 ? 1 + 0x1p-18f : 1 - 0x1p-18f);
  const auto outcome = [&](double spread) {
    Probe one = probe(Mode::kImprovePrecision);
    EXPECT_FALSE(one.against(flat(x).view, flat(off).view));
    const Tensor base = f64(wide(x)), run = f64(wide(x, 1 + spread));
    one.explain(base.view, {base.view, run.view});
    return one.verdict();
  };
  // The error is 2^-18 of the values; four times the spread is allowed.
  EXPECT_EQ(outcome(0x1p-19), Verdict::kMatch);
  EXPECT_EQ(outcome(0x1p-21), Verdict::kMismatch);
  EXPECT_EQ(outcome(0.5), Verdict::kIncomplete);  // no digit is left
}

TEST(PerturbationConditioning, ExactOperatorsAreNotExcused) {
  const std::vector<float> x = ramp(64);
  std::vector<float> off = x;
  off[3] = std::nextafterf(off[3], 3);
  Probe one = probe(Mode::kImprovePrecision, OpClass::kMovement);
  EXPECT_FALSE(one.against(flat(x).view, flat(off).view));
  const Tensor base = f64(wide(x)), run = f64(wide(x, 1.01));
  one.explain(base.view, {run.view});
  EXPECT_EQ(one.verdict(), Verdict::kMismatch);
}

TEST(PerturbationConditioning, OverflowOnTheEdgeIsNoVerdict) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor golden = flat({1, 3e38f}), found = flat({1, inf});
  for (const bool edge : {true, false}) {
    Probe one = probe(Mode::kImprovePrecision);
    EXPECT_FALSE(one.against(golden.view, found.view));
    one.explain(f64({1, 3e38}).view, {f64({1, edge ? HUGE_VAL : 3e38}).view});
    EXPECT_EQ(one.verdict(), edge ? Verdict::kIncomplete : Verdict::kMismatch);
  }
}

TEST(PerturbationNoise, AMovementOfTheInputsSizeNeedsNoWideRun) {
  const double delta = 0x1p-12;
  const std::vector<float> x = ramp(64);
  const auto after = [&](float factor) {
    std::vector<float> moved = x;
    for (std::size_t i = 0; i < moved.size(); ++i)
      moved[i] *= 1 + (i % 2 ? factor : -factor);
    Probe one = probe(Mode::kAddNoise);
    return one.moved(flat(x).view, flat(moved).view, delta) &&
           one.verdict() == Verdict::kMatch;
  };
  EXPECT_TRUE(after(0x1p-12f));   // as the inputs
  EXPECT_TRUE(after(0x1p-14f));   // a quarter
  EXPECT_FALSE(after(0x1p-10f));  // four times
  EXPECT_FALSE(after(0x1p-17f));  // a 32nd
  EXPECT_FALSE(after(0));         // not at all
}

TEST(PerturbationNoise, ExpectedIsTheOwnErrorAndTheWideMovement) {
  // The operator is off by 0.5, moves as the wide one does: 3 to 4.
  const Tensor y = f64({2.5}), y2 = f64({3.5}), w = f64({3}), w2 = f64({4});
  const Answers answers = {y.view, y2.view, w.view, w2.view};
  EXPECT_EQ(expected_of(answers).data<double>()[0], 3.5);
  const double inf = HUGE_VAL;
  const Tensor a = f64({-inf, 1}), b = f64({-inf, 2});
  const Answers masked = {a.view, b.view, a.view, b.view};
  const Tensor expected = expected_of(masked);
  EXPECT_EQ(expected.data<double>()[0], -inf);
  EXPECT_EQ(expected.data<double>()[1], 2);
  EXPECT_THROW(expected_of({y.view, a.view, y.view, y.view}), Error);
}

TEST(PerturbationNoise, MovingAsTheWideCallDoesIsSteady) {
  const std::vector<float> x = ramp(64);
  std::vector<float> twice, moved;
  for (const float v : x) {
    twice.push_back(2 * v);
    moved.push_back(2 * v * (1 + 0x1p-8f));  // 16 times what inputs do
  }
  const auto verdict = [&](float jump) {
    std::vector<float> found = moved;
    found[7] += jump;
    Probe one = probe(Mode::kAddNoise);
    EXPECT_FALSE(one.moved(flat(twice).view, flat(found).view, 0x1p-12));
    const Tensor y = f64(wide(twice)), y2 = f64(wide(found)),
                 w = f64(wide(x, 2)), w2 = f64(wide(moved));
    one.answered({y.view, y2.view, w.view, w2.view}, flat(found).view);
    return one.verdict();
  };
  EXPECT_EQ(verdict(0), Verdict::kMatch);
  EXPECT_EQ(verdict(0.01f), Verdict::kMismatch);
}

TEST(PerturbationNoise, AnOutputThatStaysIsStale) {
  const std::vector<float> x = ramp(64);
  const Tensor y = f64(wide(x));
  const auto still = [&](double factor) {
    const Tensor w2 = f64(wide(x, factor));
    return stillness_of({y.view, y.view, y.view, w2.view}, DType::kF32);
  };
  // 4 ulp of values in [1, 2) are 2^-21: the wide run must pass that.
  EXPECT_EQ(still(1 + 0x1p-23).must_move, 0);
  EXPECT_EQ(still(1 + 0x1p-20).must_move, 64);
  EXPECT_TRUE(still(1 + 0x1p-20).stale());
  Probe one = probe(Mode::kAddNoise, OpClass::kUnknown);
  const Tensor w2 = f64(wide(x, 1 + 0x1p-20));
  EXPECT_TRUE(one.answered({y.view, y.view, y.view, w2.view}, flat(x).view));
  EXPECT_EQ(one.verdict(), Verdict::kMismatch);
  EXPECT_NE(reasons(one).find("stale: does not answer"), std::string::npos);
  // Half of them, or few, may stay by chance.
  EXPECT_FALSE((Stillness{64, 32}).stale());
  EXPECT_FALSE((Stillness{15, 15}).stale());
}

TEST(PerturbationSwap, TheLawIsFoundInTheWideRun) {
  const Tensor y = f64({1, 2, 3}), back = f64({3, 2, 1}), sum = f64({6}),
               other = f64({5});
  const auto of = [&](const Tensor& w, const Tensor* xw, const Tensor& wx,
                      OpClass op = OpClass::kReduction) {
    return law_of(*standard(), op, w.view, xw ? &xw->view : nullptr, wx.view);
  };
  EXPECT_EQ(of(y, &back, back), Law::kMovesExactly);
  EXPECT_EQ(of(y, &back, y), Law::kStays);
  EXPECT_EQ(of(sum, nullptr, sum), Law::kStays);
  EXPECT_EQ(of(sum, nullptr, other), Law::kNone);
  EXPECT_EQ(of(y, &back, f64({3, 2, 4})), Law::kNone);
  EXPECT_EQ(of(y, &back, f64({3, 2, std::nextafter(1.0, 2)})), Law::kMoves);
  EXPECT_EQ(of(sum, nullptr, f64({std::nextafter(6.0, 7)})), Law::kStays);
}

TEST(PerturbationSwap, OnlyValuesThatAreMovedKeepEveryBit) {
  const std::vector<float> x = ramp(64);
  std::vector<float> off = x;
  off[5] = std::nextafterf(off[5], 2);
  const auto verdict = [&](OpClass op, Law law) {
    Probe one = probe(Mode::kSwap, op);
    one.exchanged(law, flat(x).view, flat(off).view);
    return one.verdict();
  };
  EXPECT_EQ(verdict(OpClass::kMovement, Law::kMovesExactly),
            Verdict::kMismatch);
  // The tail of a vector loop may be another polynomial: sinh, pow.
  EXPECT_EQ(verdict(OpClass::kElementwise, Law::kMovesExactly),
            Verdict::kMatch);
  EXPECT_EQ(verdict(OpClass::kElementwise, Law::kMoves), Verdict::kMatch);
  EXPECT_EQ(verdict(OpClass::kReduction, Law::kMovesExactly), Verdict::kMatch);
}

TEST(PerturbationDecisions, OnlyTiesExplainAnotherIndex) {
  const Tensor golden = i64({4, 7, 1}), found = i64({4, 6, 1}),
               base = i64({4, 7, 1});
  const auto verdict = [&](const Tensor& run) {
    Probe one = probe(Mode::kImprovePrecision, OpClass::kMovement);
    EXPECT_FALSE(one.against(golden.view, found.view));
    one.decide(golden.view, found.view, base.view, {run.view});
    return one.verdict();
  };
  EXPECT_EQ(verdict(i64({4, 6, 1})), Verdict::kIncomplete);
  EXPECT_EQ(verdict(i64({5, 7, 1})), Verdict::kMismatch);  // ties elsewhere
  const Decisions none =
      decisions_of(golden.view, found.view, base.view, {base.view});
  EXPECT_EQ(none.differing, 1);
  EXPECT_EQ(none.unexplained, 1);
  EXPECT_EQ(none.first_unexplained, 1);
}

TEST(PerturbationCollection, RowsSkipsAndTheFirstFault) {
  Collection rows(*standard(), Mode::kRepeat);
  const auto add = [&](const std::string& op, float second) {
    Probe one = probe(Mode::kRepeat);
    one.repeated(flat({1, 2}).view, flat({1, second}).view);
    rows.add(one.take(), {op, "Torch.f", "Module.a.A"});
  };
  add("Torch.f.0.forward", 2);
  rows.skip("Torch.empty", "undefined", Verdict::kEmpty);
  rows.skip("Torch.empty", "undefined", Verdict::kEmpty);
  EXPECT_EQ(rows.result().verdict, Verdict::kMatch);
  EXPECT_EQ(rows.result().counts.empty, 1);
  rows.step(3);
  add("Torch.f.0.forward", 5);
  rows.left_out(4);
  const Comparison& all = rows.result();
  ASSERT_EQ(all.rows.size(), 3u);
  EXPECT_EQ(all.verdict, Verdict::kMismatch);
  EXPECT_EQ(all.counts.born, 1);
  EXPECT_EQ(all.groups[1].step, 3);
  EXPECT_EQ(all.rows[2].reasons[0].text, "2 calls: undefined");
  EXPECT_EQ(all.warnings.size(), 1u);
  ASSERT_TRUE(all.first_divergence);
  EXPECT_EQ(all.first_divergence->row, 1u);
  EXPECT_EQ(all.first_divergence->call_path.at(0), "Module.a.A");
  rows.skip("Torch.g", "no", Verdict::kIncomplete);
  EXPECT_EQ(rows.result().counts.incomplete, 1);
  EXPECT_EQ(rows.result().rows.size(), 4u);
}

TEST(PerturbationCollection, SkipsAloneAreNoMatch) {
  Collection rows(*standard(), Mode::kRepeat);
  rows.skip("Torch.empty", "undefined", Verdict::kEmpty);
  EXPECT_EQ(rows.result().verdict, Verdict::kIncomplete);
}

}  // namespace
}  // namespace assay::test
