// The adapter of permutation against vectors of NVTE's references and values
// by hand.
#include <gtest/gtest.h>

#include <vector>

#include "tests/conform/engine/vectors.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::conform {
namespace {

using te::error_of;
using te::expect_close;
using te::make_tensor;
using te::values_of;
using Values = std::vector<double>;

constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

AdapterCall permutation(const std::string& op, Parameters other) {
  AdapterCall call;
  call.module = "permutation";
  call.parameters = {{"op", op},
                     {"map_type", "mask"},
                     {"align_size", 16},
                     {"num_out_tokens", -1},
                     {"merging", false},
                     {"dtype", "float32"},
                     {"probs_dtype", "float32"}};
  for (auto& [name, value] : other) call.parameters[name] = value;
  return call;
}

AdapterResult run_on(Device device, AdapterCall call) {
  call.device = device;
  for (auto& [name, tensor] : call.inputs) tensor.device = device;
  return find_adapter("permutation")->run(call);
}

void expect_same(const AdapterResult& r, const std::string& name,
                 const Tensor& expected) {
  EXPECT_EQ(r.outputs.at(name).shape(), expected.shape()) << name;
  EXPECT_EQ(values_of(r.outputs.at(name)), values_of(expected)) << name;
}

TEST(PermutationAdapter, MaskMapsAsNvte) {
  const Vectors v("moe_permute_mask_a");
  AdapterCall call = permutation("permute_with_probs", {{"merging", true}});
  call.inputs = {{"x", v.array("tokens")},
                 {"routing_map", v.array("routing_map")},
                 {"probs", v.array("probs")},
                 {"d_permuted", v.array("d_permuted")},
                 {"d_permuted_probs", v.array("permuted_probs")},
                 {"rows", v.array("expert_out")},
                 {"merging_probs", v.array("probs")},
                 {"d_merged", v.array("d_unpermuted")}};
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    expect_same(r, "permuted", v.array("permuted"));
    expect_same(r, "permuted_probs", v.array("permuted_probs"));
    expect_close(r.outputs.at("grad.x"), v.array("d_tokens"), 1e-6, 1e-6, "x");
    expect_close(r.outputs.at("merged"), v.array("unpermuted_prob_f64"), 1e-6,
                 1e-6, "merged");
    expect_close(r.outputs.at("grad.rows"), v.array("d_expert_out_prob_f64"),
                 1e-6, 1e-6, "rows");
    expect_close(r.outputs.at("grad.merging_probs"), v.array("d_probs_f64"),
                 1e-6, 4e-6, "merging");
  }
}

TEST(PermutationAdapter, IndexMapsThatDropAsNvte) {
  const Vectors v("moe_permute_index_k3_drop");
  AdapterCall call = permutation("permute", {{"map_type", "index"},
                                             {"num_out_tokens", 31},
                                             {"merging", true},
                                             {"topk", 3}});
  call.inputs = {{"x", v.array("tokens")},
                 {"expert_order", v.array("indices")},
                 {"d_permuted", v.array("d_permuted")},
                 {"rows", v.array("expert_out")},
                 {"merging_probs", v.array("probs")},
                 {"d_merged", v.array("d_unpermuted")}};
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    expect_same(r, "permuted", v.array("permuted"));
    expect_close(r.outputs.at("grad.x"), v.array("d_tokens"), 1e-6, 1e-6, "x");
    expect_close(r.outputs.at("merged"), v.array("unpermuted_f64"), 1e-6, 1e-6,
                 "merged");
    expect_close(r.outputs.at("grad.merging_probs"), v.array("d_probs_f64"),
                 1e-6, 4e-6, "merging");
  }
}

TEST(PermutationAdapter, ChunksAsNvte) {
  const Vectors v("moe_sort_chunks");
  AdapterCall call = permutation("sort_chunks", {});
  call.inputs = {{"x", v.array("x")},
                 {"split_sizes", v.array("split_sizes")},
                 {"sorted_index", v.array("sorted_idxs")},
                 {"d_merged", v.array("out")}};
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    expect_same(r, "sorted", v.array("out"));
    expect_same(r, "grad.x", v.array("x"));
  }
}

// Token 0 to experts 0 and 2, token 1 nowhere, token 2 to expert 2, two rows a
// block. The second copy of token 0 has probability 0.
TEST(PermutationAdapter, PaddedByHand) {
  AdapterCall call =
      permutation("permute_and_pad", {{"align_size", 2}, {"merging", true}});
  call.inputs = {
      {"x", make_tensor({5, 6, 7}, {3, 1})},
      {"routing_map", tensor_of<std::uint8_t>(DType::kBool, {3, 3},
                                              {1, 0, 1, 0, 0, 0, 0, 0, 1})},
      {"probs", make_tensor({.5, 0, 0, 0, 0, 0, 0, 0, .25}, {3, 3})},
      // Room for more rows than there are.
      {"d_permuted", make_tensor({1, 2, 3, 4, 9}, {5, 1})},
      {"d_permuted_probs", make_tensor({1, 2, 3, 4, 9}, {5})},
      {"rows", make_tensor({10, 99, 20, 30, 99}, {5, 1})},
      {"merging_probs", make_tensor({.5, 0, 2, 0, 0, 0, 0, 0, 1}, {3, 3})},
      {"d_merged", make_tensor({1, 1, 3}, {3, 1})}};
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    const auto& out = r.outputs;
    EXPECT_EQ(values_of(out.at("permuted")), (Values{5, 0, 0, 7}));
    EXPECT_EQ(values_of(out.at("permuted_probs")), (Values{.5, 0, 0, .25}));
    EXPECT_EQ(values_of(out.at("target_tokens_per_expert")), (Values{2, 0, 2}));
    EXPECT_EQ(values_of(out.at("grad.x")), (Values{1 + 3, 0, 4}));
    EXPECT_EQ(values_of(out.at("grad.probs")),
              (Values{1, 0, 3, 0, 0, 0, 0, 0, 4}));
    EXPECT_EQ(values_of(out.at("merged")), (Values{5 + 40, 0, 30}));
    EXPECT_EQ(values_of(out.at("grad.rows")), (Values{.5, 0, 2, 3}));
    EXPECT_EQ(values_of(out.at("grad.merging_probs")),
              (Values{10, 0, 20, 0, 0, 0, 0, 0, 90}));
  }
}

TEST(PermutationAdapter, Refusals) {
  AdapterCall call = permutation("permute", {{"map_type", "rows"}});
  EXPECT_NE(error_of([&] { run_on(Device::kCpu, call); }).find("map_type"),
            std::string::npos);
  call = permutation("permute", {});
  call.inputs = {{"x", make_tensor({5}, {1, 1})},
                 {"routing_map", make_tensor({1}, {1, 1}, DType::kU8)},
                 {"d_permuted", Tensor::empty(DType::kF32, {0, 1})}};
  EXPECT_NE(error_of([&] { run_on(Device::kCpu, call); }).find("d_permuted"),
            std::string::npos);
}

}  // namespace
}  // namespace assay::conform
