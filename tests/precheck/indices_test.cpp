// Places and classes that are drawn from statistics.
#include "assay/precheck/indices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "assay/precheck/generate.h"

namespace assay::precheck {
namespace {

using conform::List;
using conform::Object;

Object named(const char* name) { return Object{{"tensor", name}}; }

class IndicesTest : public ::testing::Test {
 protected:
  void tensor(const std::string& name, DType dtype, Shape shape) {
    inputs_.tensors[name] = Tensor::zeros(dtype, std::move(shape));
  }
  // Drawn from what was recorded of it.
  void drawn(const std::string& name, Shape shape, double min, double max,
             double mean, double norm) {
    Record& record = records_[name];
    record.facts.dtype = DType::kI64;
    record.facts.shape = std::move(shape);
    record.stats = {max, min, mean, norm};
    inputs_.tensors[name] = generate(record, 5);
    generated_[name] = &record;
  }
  std::vector<std::int64_t> numbers(const std::string& name) const {
    const Tensor& tensor = inputs_.tensors.at(name);
    return {tensor.data<std::int64_t>(),
            tensor.data<std::int64_t>() + tensor.numel()};
  }
  std::set<std::int64_t> different(const std::string& name) const {
    const auto all = numbers(name);
    return {all.begin(), all.end()};
  }

  CallInputs inputs_;
  std::map<std::string, Record> records_;
  Generated generated_;
};

TEST_F(IndicesTest, AClassIsIgnoredAsOftenAsTheMeanSays) {
  // 25 of 100 are -100, the others 0 .. 19 equally often: mean -17.875,
  // squares 25 * 1e4 + 75 * 123.5.
  tensor("x", DType::kF32, {100, 20});
  drawn("y", {100}, -100, 19, 0.75 * 9.5 - 25, std::sqrt(250000 + 75 * 123.5));
  inputs_.arguments = {{"0", named("x")}, {"1", named("y")}};
  settle_indices("Functional.cross_entropy", generated_, 1, inputs_);
  const auto all = numbers("y");
  EXPECT_EQ(std::count(all.begin(), all.end(), -100), 25);
  for (const std::int64_t one : all)
    EXPECT_TRUE(one == -100 || (one >= 0 && one < 20)) << one;
  EXPECT_EQ(*std::max_element(all.begin(), all.end()), 19);
}

TEST_F(IndicesTest, IgnoreIndexMayBeTheLargest) {
  tensor("x", DType::kF32, {2, 5, 8});
  drawn("y", {2, 8}, 0, 255, 64, 500);
  inputs_.arguments = {
      {"0", named("x")},
      {"1", named("y")},
      {"ignore_index", Object{{"type", "int"}, {"value", "255"}}}};
  settle_indices("Functional.nll_loss", generated_, 1, inputs_);
  for (const std::int64_t one : different("y"))
    EXPECT_TRUE(one == 255 || (one >= 0 && one < 5)) << one;
  EXPECT_EQ(different("y").count(255), 1u);
}

TEST_F(IndicesTest, AClassThatIsIgnoredIsLeftAlone) {
  tensor("x", DType::kF32, {50, 20});
  drawn("y", {50}, 0, 19, 9, 80);
  const auto before = numbers("y");
  inputs_.arguments = {
      {"0", named("x")},
      {"1", named("y")},
      {"ignore_index", Object{{"type", "int"}, {"value", "0"}}}};
  settle_indices("Functional.cross_entropy", generated_, 1, inputs_);
  EXPECT_EQ(numbers("y"), before);
}

TEST_F(IndicesTest, ScatterWritesOnceInEveryLine) {
  tensor("x", DType::kF32, {12, 3});
  tensor("s", DType::kF32, {12, 3});
  drawn("i", {9, 3}, 0, 11, 5.5, 34);
  inputs_.arguments = {{"0", named("x")},
                       {"1", Object{{"type", "int"}, {"value", "-2"}}},
                       {"2", named("i")},
                       {"src", named("s")}};
  EXPECT_TRUE(writes_twice("Tensor.scatter_", inputs_));
  settle_indices("Tensor.scatter_", generated_, 1, inputs_);
  EXPECT_FALSE(writes_twice("Tensor.scatter_", inputs_));
  const auto all = numbers("i");
  for (std::size_t line = 0; line < 3; ++line) {
    std::set<std::int64_t> seen;
    for (std::size_t i = 0; i < 9; ++i) seen.insert(all[3 * i + line]);
    EXPECT_EQ(seen.size(), 9u);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), 11);
  }
}

TEST_F(IndicesTest, PairsOfIndicesAreDistinct) {
  // 30 places of a 6 x 6 matrix: neither index alone has that many values.
  tensor("x", DType::kF32, {6, 6});
  tensor("v", DType::kF32, {30});
  drawn("i", {30}, 0, 5, 2.5, 16.6);
  drawn("j", {30}, 0, 5, 2.5, 16.6);
  inputs_.arguments = {{"0", named("x")},
                       {"1", Object{{"items", List{named("i"), named("j")}}}},
                       {"2", named("v")}};
  settle_indices("Tensor.index_put_", generated_, 1, inputs_);
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  const auto i = numbers("i"), j = numbers("j");
  for (std::size_t at = 0; at < 30; ++at) {
    pairs.emplace(i[at], j[at]);
    EXPECT_TRUE(i[at] >= 0 && i[at] < 6 && j[at] >= 0 && j[at] < 6);
  }
  EXPECT_EQ(pairs.size(), 30u);
  EXPECT_FALSE(writes_twice("Tensor.index_put_", inputs_));
}

TEST_F(IndicesTest, WhatIsAddedUpMayComeTwice) {
  tensor("x", DType::kF32, {6});
  tensor("v", DType::kF32, {30});
  drawn("i", {30}, 0, 5, 2.5, 16.6);
  inputs_.arguments = {
      {"0", named("x")},
      {"1", Object{{"items", List{named("i")}}}},
      {"2", named("v")},
      {"accumulate", Object{{"type", "bool"}, {"value", "True"}}}};
  EXPECT_FALSE(writes_twice("Tensor.index_put_", inputs_));
  inputs_.arguments.erase("accumulate");
  EXPECT_TRUE(writes_twice("Tensor.index_put_", inputs_));
}

TEST_F(IndicesTest, ANegativeIndexIsThePlaceThatItCountsTo) {
  tensor("x", DType::kF32, {4, 2});
  tensor("v", DType::kF32, {2, 2});
  tensor("i", DType::kI64, {2});
  auto* index = inputs_.tensors["i"].mutable_data<std::int64_t>();
  index[0] = -1;
  index[1] = 3;
  inputs_.arguments = {{"0", named("x")}, {"1", named("i")}, {"2", named("v")}};
  EXPECT_TRUE(writes_twice("Tensor.__setitem__", inputs_));
  index[1] = 2;
  EXPECT_FALSE(writes_twice("Tensor.__setitem__", inputs_));
}

}  // namespace
}  // namespace assay::precheck
