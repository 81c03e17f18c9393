// The adapter of `rope` against vectors of NVTE's unfused functions, numbers
// worked by hand, and its refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tests/conform/engine/run_on.h"
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

AdapterCall rope_call(const Parameters& other, TensorMap inputs) {
  return call_of("rope",
                 {{"fused_qkv", false},
                  {"tensor_format", "sbhd"},
                  {"q_per_group", 1},
                  {"head_dim", 4},
                  {"rotary_percent", 1.0},
                  {"interleaved", false},
                  {"cp_size", 1},
                  {"cp_rank", 0},
                  {"rotary_base", 10000.0},
                  {"max_seq_len", 1},
                  {"offset", 0},
                  {"seq_len_interpolation_factor", 0},
                  {"pretrained_max_position_embeddings", 0}},
                 other, std::move(inputs));
}

// [t, h, d] as the cases have it: [t, 1, h, d].
Tensor with_batch(Tensor t) {
  if (t.shape().size() == 3) t.view.shape.insert(t.view.shape.begin() + 1, 1);
  return t;
}

void check_vectors(const std::string& file, const Parameters& parameters,
                   const std::string& rank = "") {
  SCOPED_TRACE(file + rank);
  const Vectors vectors(file);
  TensorMap inputs = {{"t", with_batch(vectors.array("t"))},
                      {"dy", with_batch(vectors.array("dout"))},
                      {"freqs", vectors.array("freqs")}};
  for (const char* name : {"start_positions", "cu_seqlens"})
    if (vectors.has(name)) inputs[name] = vectors.array(name);
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, rope_call(parameters, inputs));
    expect_close(r.outputs.at("y"),
                 with_batch(vectors.array("out" + rank + "_f64")), 2e-6, 2e-6,
                 "y");
    expect_close(r.outputs.at("grad.t"),
                 with_batch(vectors.array("dt" + rank + "_f64")), 2e-6, 2e-6,
                 "grad.t");
  }
}

TEST(RopeAdapter, ReferenceVectors) {
  check_vectors("rope_sbhd_half", {});
  check_vectors("rope_sbhd_start_positions", {});
  check_vectors("rope_bshd_interleaved_partial",
                {{"tensor_format", "bshd"}, {"interleaved", true}});
  check_vectors("rope_thd_half_partial", {{"tensor_format", "thd"}});
  for (const int rank : {0, 1})
    check_vectors("rope_bshd_cp2",
                  {{"tensor_format", "bshd"},
                   {"interleaved", true},
                   {"cp_size", 2},
                   {"cp_rank", rank}},
                  "_rank" + std::to_string(rank));
}

TEST(RopeAdapter, TablesOfAngles) {
  const Tensor nothing = Tensor::zeros(DType::kF32, {0, 1, 1, 16});
  const auto freqs = [&](const Parameters& p) {
    return run_on(Device::kCpu,
                  rope_call(p, {{"t", nothing},
                                {"dy", nothing},
                                {"freqs",
                                 Tensor::zeros(DType::kF32, {1, 1, 1, 16})}}))
        .outputs.at("freqs");
  };
  const Vectors vectors("rope_freqs");
  const auto close = [&](const char* name, const Parameters& p) {
    expect_close(freqs(p), vectors.array(name), 2e-6, 1e-7, name);
  };
  close("freqs0", {{"head_dim", 16}, {"max_seq_len", 12}});
  close("freqs1", {{"head_dim", 24},
                   {"rotary_percent", 0.5},
                   {"rotary_base", 500000.0},
                   {"interleaved", true},
                   {"max_seq_len", 9},
                   {"offset", 4}});
  close("freqs2", {{"head_dim", 16},
                   {"max_seq_len", 20},
                   {"seq_len_interpolation_factor", 4},
                   {"pretrained_max_position_embeddings", 8}});
  close("freqs3", {{"head_dim", 16},
                   {"max_seq_len", 20},
                   {"seq_len_interpolation_factor", 2},
                   {"pretrained_max_position_embeddings", 6}});
}

// A quarter turn of every pair: halves (1, 3), (2, 4); neighbours (1, 2),
// (3, 4).
TEST(RopeAdapter, PairsAreHalvesOrNeighbours) {
  const double q = static_cast<float>(std::numbers::pi / 2);
  const TensorMap inputs = {{"t", make_tensor({1, 2, 3, 4}, {1, 1, 1, 4})},
                            {"dy", make_tensor({1, 2, 3, 4}, {1, 1, 1, 4})},
                            {"freqs", make_tensor({q, q, q, q}, {1, 1, 1, 4})}};
  for (const Device device : kDevices) {
    const auto expect = [&](bool interleaved, const char* name,
                            const Values& values) {
      const AdapterResult r =
          run_on(device, rope_call({{"interleaved", interleaved}}, inputs));
      expect_close(r.outputs.at(name), make_tensor(values, {1, 1, 1, 4}), 0,
                   3e-7, name);
    };
    expect(false, "y", {-3, -4, 1, 2});
    expect(false, "grad.t", {3, 4, -1, -2});
    expect(true, "y", {-2, 1, -4, 3});
    expect(true, "grad.t", {2, -1, 4, -3});
  }
}

// Two heads of q for one of k and v in a group; v is not turned, k by a table
// of its own.
TEST(RopeAdapter, PackedQkv) {
  const double q = static_cast<float>(std::numbers::pi / 2);
  TensorMap inputs = {
      {"qkv", make_tensor({1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 1, 8})},
      {"freqs", make_tensor({q, q}, {1, 1, 1, 2})},
      {"k_freqs", make_tensor({2 * q, 2 * q}, {1, 1, 1, 2})},
      {"dq", make_tensor({1, 2, 3, 4}, {1, 1, 2, 2})},
      {"dk", make_tensor({5, 6}, {1, 1, 1, 2})},
      {"dv", make_tensor({7, 8}, {1, 1, 1, 2})}};
  const Parameters p = {
      {"fused_qkv", true}, {"q_per_group", 2}, {"head_dim", 2}};
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, rope_call(p, inputs));
    expect_close(r.outputs.at("q"), make_tensor({-2, 1, -4, 3}, {1, 1, 2, 2}),
                 0, 1e-6, "q");
    expect_close(r.outputs.at("k"), make_tensor({-5, -6}, {1, 1, 1, 2}), 0,
                 2e-6, "k");
    EXPECT_EQ(values_of(r.outputs.at("v")), (Values{7, 8}));
    expect_close(r.outputs.at("grad.qkv"),
                 make_tensor({2, -1, 4, -3, -5, -6, 7, 8}, {1, 1, 1, 8}), 0,
                 2e-6, "grad.qkv");
  }
}

TEST(RopeAdapter, Refusals) {
  const TensorMap inputs = {
      {"t", Tensor::zeros(DType::kF32, {3, 1, 1, 4})},
      {"dy", Tensor::zeros(DType::kF32, {3, 1, 1, 4})},
      {"freqs", Tensor::zeros(DType::kF32, {2, 1, 1, 4})}};
  const auto refusal = [&](const Parameters& p) {
    return error_of([&] { run_on(Device::kCpu, rope_call(p, inputs)); });
  };
  EXPECT_THAT(refusal({}), testing::HasSubstr("2"));  // the third position
  EXPECT_THAT(refusal({{"head_dim", 7}}), testing::HasSubstr("even"));
  EXPECT_THAT(refusal({{"tensor_format", "hdsb"}}), testing::HasSubstr("sbhd"));
  EXPECT_THAT(refusal({{"cp_size", 2}, {"cp_rank", 2}}),
              testing::HasSubstr("cp_rank"));
}

}  // namespace
}  // namespace assay::conform
