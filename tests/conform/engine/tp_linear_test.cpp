// The adapter of `tp_linear` on two ranks: which part of a product worked by
// hand each of them has.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/conform/engine/thread_group.h"
#include "tests/conform/engine/vectors.h"

namespace assay::conform {
namespace {

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return tensor_of<float>(DType::kF32, shape, values);
}

AdapterCall call_of(const std::string& mode, bool sequence_parallel,
                    te::Communicator* group, int ranks) {
  AdapterCall call;
  call.module = "tp_linear";
  call.parameters = {{"ranks", ranks},
                     {"parallel_mode", mode},
                     {"sequence_parallel", sequence_parallel},
                     {"in_features", 2},
                     {"out_features", 2},
                     {"dtype", "float32"},
                     {"recipe", "none"},
                     {"bias", true}};
  // y = [1 4; 3 10] + [10 20], dx = [3 1; 4 2], dW = [1 2; 7 10], db = [1 3].
  call.inputs = {{"x", floats({2, 2}, {1, 2, 3, 4})},
                 {"weight", floats({2, 2}, {1, 0, 2, 1})},
                 {"bias", floats({2}, {10, 20})},
                 {"dy", floats({2, 2}, {1, 1, 0, 2})}};
  call.group = group;
  return call;
}

using Floats = std::vector<float>;
struct Expected {
  std::string mode;
  bool sequence_parallel;
  std::string name;
  // Of rank 0 and of rank 1.
  Floats y[2], dx[2], dw[2], db[2];
};

class TpLinear : public testing::TestWithParam<Expected> {};

TEST_P(TpLinear, EveryRankHasItsPart) {
  const Expected& e = GetParam();
  AdapterResult results[2];
  ThreadGroup::run(2, [&](te::Communicator& group) {
    results[group.rank()] =
        find_adapter("tp_linear")
            ->run(call_of(e.mode, e.sequence_parallel, &group, 2));
  });
  for (int rank = 0; rank < 2; ++rank) {
    const auto values = [&](const std::string& output) {
      const Tensor& t = results[rank].outputs.at(e.name + "." + output);
      return Floats(t.data<float>(), t.data<float>() + t.numel());
    };
    EXPECT_EQ(values("y"), e.y[rank]) << "rank " << rank;
    EXPECT_EQ(values("grad.x"), e.dx[rank]) << "rank " << rank;
    EXPECT_EQ(values("grad.weight"), e.dw[rank]) << "rank " << rank;
    EXPECT_EQ(values("grad.bias"), e.db[rank]) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, TpLinear,
                         testing::Values(Expected{"column",
                                                  false,
                                                  "column",
                                                  {{11, 13}, {24, 30}},
                                                  {{3, 1, 4, 2}, {3, 1, 4, 2}},
                                                  {{1, 2}, {7, 10}},
                                                  {{1}, {3}}},
                                         Expected{"column",
                                                  true,
                                                  "column_sp",
                                                  {{11, 13}, {24, 30}},
                                                  {{3, 1}, {4, 2}},
                                                  {{1, 2}, {7, 10}},
                                                  {{1}, {3}}},
                                         Expected{"row",
                                                  false,
                                                  "row",
                                                  {{11, 24, 13, 30},
                                                   {11, 24, 13, 30}},
                                                  {{3, 4}, {1, 2}},
                                                  {{1, 7}, {2, 10}},
                                                  {{1, 3}, {1, 3}}},
                                         Expected{"row",
                                                  true,
                                                  "row_sp",
                                                  {{11, 24}, {13, 30}},
                                                  {{3, 4}, {1, 2}},
                                                  {{1, 7}, {2, 10}},
                                                  {{1, 1}, {0, 2}}}),
                         [](const auto& test) { return test.param.name; });

TEST(TpLinearErrors, RefusesOtherRanksAndWhatCannotBeCut) {
  const auto run = [](AdapterCall call) {
    return find_adapter("tp_linear")->run(call);
  };
  EXPECT_THROW(run(call_of("column", false, nullptr, 2)), Error);
  EXPECT_THROW(run(call_of("diagonal", false, nullptr, 1)), Error);
  std::vector<int> refusals(2, 0);
  ThreadGroup::run(2, [&](te::Communicator& group) {
    AdapterCall call = call_of("column", false, &group, 2);
    call.parameters["out_features"] = 3;
    try {
      run(call);
    } catch (const Error&) {
      refusals[static_cast<std::size_t>(group.rank())] = 1;
    }
  });
  EXPECT_EQ(refusals, (std::vector<int>{1, 1}));
}

}  // namespace
}  // namespace assay::conform
