// Pairs that no dump holds: the verdicts of records in dumps.
#include "assay/compare/single_pair.h"

#include <gtest/gtest.h>

#include "synthetic.h"

namespace assay::test {
namespace {

std::shared_ptr<const Standard> standard() { return Standard::load("assay"); }

Row judged(const Tensor& golden, const Tensor& target) {
  const SingleSide a = SingleSide::of(golden), b = SingleSide::of(target);
  return judge_single(*standard(), OpClass::kUnknown, "w", &a, &b);
}

SingleSide value(std::string type, std::string text) {
  SingleSide side;
  side.is_tensor = false;
  side.type = std::move(type);
  side.value = std::move(text);
  return side;
}

Row judged(const SingleSide* golden, const SingleSide* target) {
  return judge_single(*standard(), OpClass::kUnknown, "w", golden, target);
}

TEST(SinglePair, TensorsAreJudgedByTheirElements) {
  const Row row = judged(f32({2, 2}, {1, 2, 3, 4}), f32({2, 2}, {1, 2, 3, 5}));
  EXPECT_EQ(row.verdict, Verdict::kMismatch);
  EXPECT_EQ(row.evidence, Evidence::kTensor);
  EXPECT_EQ(row.name(), "w");
  EXPECT_EQ(row.stats->max_abs, 1);
  EXPECT_EQ(row.stats->max_abs_index, 3);
  EXPECT_EQ(judged(f32({1}, {2}), f32({1}, {2})).verdict, Verdict::kMatch);
  EXPECT_EQ(judged(f32({0}, {}), f32({0}, {})).verdict, Verdict::kEmpty);
  EXPECT_TRUE(has_reason(judged(f32({1}, {2}), f32({}, {2})), "shape"));
}

TEST(SinglePair, StridesAreFollowed) {
  Tensor target = f32({2, 2}, {1, 3, 2, 4});
  target.view.strides = {1, 2};
  EXPECT_EQ(judged(f32({2, 2}, {1, 2, 3, 4}), target).verdict, Verdict::kMatch);
}

TEST(SinglePair, ASideThatIsNotThereIsNoMatch) {
  const SingleSide side = SingleSide::of(f32({1}, {2}));
  for (const Row& row : {judged(&side, nullptr), judged(nullptr, &side)}) {
    EXPECT_EQ(row.verdict, Verdict::kIncomplete);
    EXPECT_TRUE(has_reason(row, "unmatched"));
    EXPECT_EQ(row.name(), "w");
  }
}

TEST(SinglePair, WhatCannotBeReadIsNoMatch) {
  SingleSide side;
  side.unreadable = "no values";
  side.facts.dtype = DType::kF32;
  side.facts.shape = {1};
  const SingleSide tensor = SingleSide::of(f32({1}, {2}));
  for (const Row& row :
       {judged(&side, &tensor), judged(&tensor, &side), judged(&side, &side)}) {
    EXPECT_EQ(row.verdict, Verdict::kIncomplete);
    EXPECT_TRUE(has_reason(row, "unreadable"));
  }
}

TEST(SinglePair, ValuesAreComparedByTypeAndText) {
  const SingleSide a = value("str", "a"), b = value("str", "b"),
                   number = value("int", "a"),
                   tensor = SingleSide::of(f32({1}, {2}));
  EXPECT_EQ(judged(&a, &a).verdict, Verdict::kMatch);
  EXPECT_FALSE(judged(&a, &a).is_tensor);
  EXPECT_TRUE(has_reason(judged(&a, &b), "value"));
  EXPECT_TRUE(has_reason(judged(&a, &number), "type"));
  EXPECT_TRUE(has_reason(judged(&a, &tensor), "kind"));
  EXPECT_EQ(judged(&tensor, &a).verdict, Verdict::kMismatch);
}

TEST(SinglePair, NamesMayBeEmpty) {
  const SingleSide side = SingleSide::of(f32({1}, {2}));
  const Row row =
      judge_single(*standard(), OpClass::kUnknown, "", &side, &side);
  EXPECT_EQ(row.verdict, Verdict::kMatch);
}

}  // namespace
}  // namespace assay::test
