// The adapter of `ep_all_to_all` on two ranks: four tokens whose ways to two
// experts and back are worked by hand.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/conform/engine/thread_group.h"
#include "tests/conform/engine/vectors.h"

namespace assay::conform {
namespace {

using Floats = std::vector<float>;

Tensor floats(const Shape& shape, const Floats& values) {
  return tensor_of<float>(DType::kF32, shape, values);
}

AdapterCall call_of(const std::string& op, te::Communicator* group) {
  AdapterCall call;
  call.module = "ep_all_to_all";
  call.parameters = {{"op", op},           {"ranks", 2},
                     {"experts", 2},       {"alignment", 0},
                     {"dtype", "float32"}, {"quantizer", "mxfp8"}};
  // Tokens 0, 2 and 3 go to expert 0, tokens 1 and 2 to expert 1.
  call.inputs = {
      {"x", floats({4, 1}, {1, 2, 3, 4})},
      {"routing_map",
       tensor_of<std::uint8_t>(DType::kU8, {4, 2}, {1, 0, 0, 1, 1, 1, 1, 0})},
      {"probs", floats({4, 2}, {0.5f, 9, 9, 0.25f, 0.5f, 0.25f, 1, 9})},
      {"d_out", floats({4, 1}, {1, 1, 2, 2})},
      {"parts", floats({2, 2, 1}, {1, 2, 3, 4})}};
  call.group = group;
  return call;
}

// What each of two ranks gives.
std::vector<AdapterResult> run(const std::string& op,
                               const Parameters& changed = {},
                               const TensorMap& inputs = {}) {
  std::vector<AdapterResult> results(2);
  ThreadGroup::run(2, [&](te::Communicator& group) {
    AdapterCall call = call_of(op, &group);
    for (const auto& [name, value] : changed) call.parameters[name] = value;
    for (const auto& [name, tensor] : inputs) call.inputs[name] = tensor;
    results[static_cast<std::size_t>(group.rank())] =
        find_adapter("ep_all_to_all")->run(call);
  });
  return results;
}

Floats values(const AdapterResult& result, const std::string& name) {
  const Tensor& t = result.outputs.at(name);
  return {t.data<float>(), t.data<float>() + t.numel()};
}

TEST(EpAllToAll, SendsTokensToTheirExpertsAndBack) {
  const std::vector<AdapterResult> r = run("ep");
  EXPECT_EQ(values(r[0], "rows"), (Floats{1, 3, 4}));
  EXPECT_EQ(values(r[1], "rows"), (Floats{2, 3}));
  EXPECT_EQ(*r[0].outputs.at("tokens_per_expert").data<std::int64_t>(), 3);
  EXPECT_EQ(*r[1].outputs.at("tokens_per_expert").data<std::int64_t>(), 2);
  EXPECT_EQ(values(r[0], "combined"), (Floats{0.5f, 0.5f}));
  EXPECT_EQ(values(r[1], "combined"), (Floats{2.25f, 4}));
  EXPECT_EQ(values(r[0], "grad.rows"), (Floats{0.5f, 1, 2}));
  EXPECT_EQ(values(r[1], "grad.rows"), (Floats{0.25f, 0.5f}));
  EXPECT_EQ(values(r[0], "grad.probs"), (Floats{1, 0, 0, 2}));
  EXPECT_EQ(values(r[1], "grad.probs"), (Floats{6, 6, 8, 0}));
  EXPECT_EQ(values(r[0], "grad.x"), (Floats{0.5f, 0.25f}));
  EXPECT_EQ(values(r[1], "grad.x"), (Floats{1.5f, 2}));
}

TEST(EpAllToAll, PadsTheRowsOfAnExpert) {
  const std::vector<AdapterResult> r = run("ep", {{"alignment", 4}});
  EXPECT_EQ(values(r[0], "rows"), (Floats{1, 3, 4, 0}));
  EXPECT_EQ(values(r[1], "grad.rows"), (Floats{0.25f, 0.5f, 0, 0}));
  EXPECT_EQ(values(r[1], "combined"), (Floats{2.25f, 4}));
}

TEST(EpAllToAll, MovesAndAddsUpTensors) {
  EXPECT_EQ(values(run("all_gather")[1], "gathered"), (Floats{1, 2, 3, 4}));
  for (const AdapterResult& result : run("all_reduce"))
    EXPECT_EQ(values(result, "reduced"), (Floats{4, 6}));
  EXPECT_EQ(values(run("reduce_scatter")[0], "scattered"), Floats{4});
  EXPECT_EQ(values(run("reduce_scatter")[1], "scattered"), Floats{6});
  // One of a rank's two rows to each.
  EXPECT_EQ(values(run("all_to_all")[0], "received"), (Floats{1, 3}));
  EXPECT_EQ(values(run("all_to_all")[1], "received"), (Floats{2, 4}));
}

TEST(EpAllToAll, CodesShareTheScaleOfTheGroup) {
  // Amax 1 on rank 0 and 2 on rank 1: 448 / 2 for both, so 1 is 224 (0x76) and
  // 2 is 448 (0x7e). Summed they stand for their values.
  Floats x(64, 1);
  for (int i = 32; i < 64; ++i) x[i] = 2;
  const TensorMap inputs = {{"x", floats({2, 32}, x)},
                            {"parts", floats({2, 2, 16}, x)}};
  const Parameters current = {{"quantizer", "current"}};
  for (const AdapterResult& result : run("all_gather_codes", current, inputs)) {
    const Tensor& codes = result.outputs.at("gathered.codes");
    EXPECT_EQ(codes.data<std::uint8_t>()[0], 0x76);
    EXPECT_EQ(codes.data<std::uint8_t>()[63], 0x7e);
    EXPECT_EQ(values(result, "gathered.scale_inv"), Floats{1.0f / 224});
  }
  const AdapterResult summed = run("reduce_scatter_codes", current, inputs)[1];
  EXPECT_EQ(values(summed, "scattered"), Floats(16, 3));
}

TEST(EpAllToAll, RefusesWhatCannotBeCut) {
  std::vector<int> refusals(2, 0);
  for (const Parameters& wrong :
       {Parameters{{"experts", 3}}, Parameters{{"op", "gossip"}},
        Parameters{{"ranks", 4}}}) {
    ThreadGroup::run(2, [&](te::Communicator& group) {
      AdapterCall call = call_of("ep", &group);
      for (const auto& [name, value] : wrong) call.parameters[name] = value;
      try {
        find_adapter("ep_all_to_all")->run(call);
      } catch (const Error&) {
        ++refusals[static_cast<std::size_t>(group.rank())];
      }
    });
  }
  EXPECT_EQ(refusals, (std::vector<int>{3, 3}));
}

}  // namespace
}  // namespace assay::conform
