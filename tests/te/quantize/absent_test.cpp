// Quantisers and what is done with their results, on tensors that were never
// made.
#include "tests/te/absent.h"

#include <array>
#include <memory>

#include "assay/te/quantize/amax.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/block128_mxfp8.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/fused.h"
#include "assay/te/quantize/grouped.h"
#include "assay/te/quantize/hadamard.h"
#include "assay/te/quantize/hybrid.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/layout.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "assay/te/quantize/nvfp4_transpose.h"
#include "assay/te/quantize/round_input.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/scale_tiles.h"
#include "assay/te/quantize/tensor_scaled.h"
#include "assay/te/quantize/update.h"
#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

using List = std::vector<Tensor>;

std::vector<std::unique_ptr<Quantizer>> quantizers() {
  std::vector<std::unique_ptr<Quantizer>> all;
  all.push_back(
      std::make_unique<CurrentScalingQuantizer>(CurrentScalingOptions{}));
  all.push_back(std::make_unique<DelayedScalingQuantizer>(
      DType::kE4M3FN, std::make_shared<DelayedScalingState>(4, 1), 0));
  all.push_back(std::make_unique<Block128Quantizer>(Block128Options{}));
  all.push_back(
      std::make_unique<Block128Quantizer>(Block128Options{.block_dim = 1}));
  all.push_back(std::make_unique<MXFP8Quantizer>(DType::kE4M3FN));
  all.push_back(std::make_unique<NVFP4Quantizer>());
  all.push_back(std::make_unique<IdentityQuantizer>());
  all.push_back(std::make_unique<IdentityQuantizer>(DType::kBF16));
  all.push_back(std::make_unique<HybridQuantizer>(
      std::make_unique<MXFP8Quantizer>(DType::kE4M3FN),
      std::make_unique<NVFP4Quantizer>()));
  return all;
}

std::string name_of(const Quantizer& q) {
  return std::string(scaling_mode_name(q.mode()));
}

TEST(AbsentTensors, Quantizers) {
  const Tensor x = normal(DType::kBF16, {128, 128}, 1);
  const Tensor wide = normal(DType::kF32, {128, 128}, 1);
  for (const auto& q : quantizers()) {
    const std::string name = name_of(*q);
    expect_absent_refused("quantize " + name, {x},
                          [&](List& t) { q->quantize(t[0]); });
    expect_absent_refused("quantize_fused " + name, {wide}, [&](List& t) {
      q->quantize_fused(t[0], DType::kBF16);
    });
    expect_absent_refused("quantize_multi " + name, {x, x},
                          [&](List& t) { q->quantize_multi(t); });
    expect_absent_refused("update_quantized " + name, {x, f32({1}, {0})},
                          [&](List& t) {
                            QuantizedTensor destination = q->quantize(x);
                            update_quantized(*q, t[0], destination, &t[1]);
                          });
    const std::array<std::int64_t, 1> rows{128};
    expect_absent_refused("quantize_split " + name, {x},
                          [&](List& t) { quantize_split(*q, t[0], rows); });
  }
}

// The codes and scales of either direction, each alone.
TEST(AbsentTensors, PartsOfQuantisedTensors) {
  const Tensor x = normal(DType::kBF16, {128, 128}, 1);
  for (const auto& quantizer : quantizers()) {
    const QuantizedTensor q = quantizer->quantize(x);
    for (const auto* data : {&q.rowwise, &q.columnwise}) {
      ASSERT_TRUE(data->has_value());
      const QuantizedData& good = **data;
      const bool plain = good.mode == ScalingMode::kIdentity;
      List parts{good.data};
      if (!plain) parts.push_back(good.scale_inv);
      if (good.mode == ScalingMode::kNVFP4) parts.push_back(good.amax);
      const auto with = [&](List& t) {
        QuantizedData one = good;
        one.data = t[0];
        if (t.size() > 1) one.scale_inv = t[1];
        if (t.size() > 2) one.amax = t[2];
        return one;
      };
      expect_absent_refused(
          "dequantize " + name_of(*quantizer), parts,
          [&](List& t) { dequantize(with(t), q.shape, DType::kF32); });
      if (plain || good.mode == ScalingMode::kTensor) continue;
      expect_absent_refused(
          "with_layout " + name_of(*quantizer), {parts[1]}, [&](List& t) {
            QuantizedData one = good;
            one.scale_inv = t[0];
            with_layout(one, q.shape, ScaleLayout::kGemmReady);
          });
      if (good.columnwise) continue;
      if (good.mode == ScalingMode::kBlock1D ||
          good.mode == ScalingMode::kBlock2D)
        expect_absent_refused("block128_as_mxfp8", parts, [&](List& t) {
          block128_as_mxfp8(with(t), q.shape);
        });
      if (good.mode == ScalingMode::kNVFP4)
        expect_absent_refused("nvfp4_transpose_tiles", {parts[0], parts[1]},
                              [&](List& t) { nvfp4_transpose_tiles(with(t)); });
    }
  }
}

TEST(AbsentTensors, ScalesAndConversions) {
  const Tensor x = normal(DType::kF32, {128, 128}, 1);
  const Tensor codes = Tensor::zeros(DType::kE8M0, {128, 4});
  expect_absent_refused("tensor_amax", {x}, [](List& t) { tensor_amax(t[0]); });
  expect_absent_refused("scales_from_amax", {f32({1}, {2})}, [](List& t) {
    scales_from_amax(t[0], DType::kE4M3FN, {});
  });
  expect_absent_refused("convert_high_precision", {x}, [](List& t) {
    convert_high_precision(t[0], DType::kBF16);
  });
  expect_absent_refused("round_input", {x},
                        [](List& t) { round_input(t[0], DType::kBF16); });
  expect_absent_refused("cast_shard", {x},
                        [](List& t) { cast_shard(t[0], 1, DType::kE4M3FN); });
  expect_absent_refused("quantize_dequantize_scaled", {x}, [](List& t) {
    quantize_dequantize_scaled(t[0], 1, DType::kE4M3FN);
  });
  expect_absent_refused("block128_partial_amax", {x}, [](List& t) {
    block128_partial_amax(t[0], 128, 128, 0);
  });
  expect_absent_refused(
      "block128_partial_cast", {x, f32({1, 1}, {1})}, [](List& t) {
        block128_partial_cast(t[0], t[1], 128, 128, 0, DType::kE4M3FN);
      });
  expect_absent_refused("swizzle_scales", {codes},
                        [](List& t) { swizzle_scales(t[0]); });
  expect_absent_refused("swizzle_scales_transposed", {codes},
                        [](List& t) { swizzle_scales_transposed(t[0]); });
  expect_absent_refused("unswizzle_scales", {codes},
                        [](List& t) { unswizzle_scales(t[0], 128, 4); });
  expect_absent_refused("unswizzle_scales_transposed", {codes}, [](List& t) {
    unswizzle_scales_transposed(t[0], 4, 128);
  });
}

TEST(AbsentTensors, HadamardTransforms) {
  const Tensor x = normal(DType::kBF16, {32, 32}, 1);
  expect_absent_refused("hadamard_transform", {x},
                        [](List& t) { hadamard_transform(t[0]); });
  expect_absent_refused("hadamard_transform_transposed", {x},
                        [](List& t) { hadamard_transform_transposed(t[0]); });
  expect_absent_refused("hadamard_column_amax", {x}, [](List& t) {
    hadamard_column_amax(t[0], kDefaultSignMask);
  });
  expect_absent_refused("hadamard_transform_amax", {x},
                        [](List& t) { hadamard_transform_amax(t[0]); });
}

TEST(AbsentTensors, FusedQuantisation) {
  const Tensor x = normal(DType::kBF16, {128, 128}, 1);
  const Tensor g = normal(DType::kBF16, {128}, 2);
  for (const auto& q : quantizers()) {
    const std::string name = " " + name_of(*q);
    expect_absent_refused("quantize_dbias" + name, {x},
                          [&](List& t) { quantize_dbias(*q, t[0]); });
    expect_absent_refused("activation_quantize" + name, {x}, [&](List& t) {
      activation_quantize(*q, Activation::kGelu, t[0]);
    });
    expect_absent_refused("dactivation_quantize" + name, {x, x}, [&](List& t) {
      dactivation_quantize(*q, Activation::kGelu, t[0], t[1]);
    });
    expect_absent_refused(
        "dactivation_quantize_dbias" + name, {x, x}, [&](List& t) {
          dactivation_quantize_dbias(*q, Activation::kGelu, t[0], t[1]);
        });
    expect_absent_refused("layernorm_quantize" + name, {x, g, g}, [&](List& t) {
      layernorm_quantize(*q, t[0], t[1], t[2]);
    });
    expect_absent_refused("rmsnorm_quantize" + name, {x, g},
                          [&](List& t) { rmsnorm_quantize(*q, t[0], t[1]); });
  }
}

TEST(DelayedUpdate, MaximaOfNoFormatAreRefused) {
  DelayedScalingState state(2, 1);
  state.record(0, 3);
  for (const float bad : {-1.0f, 0.0f, std::nanf(""), HUGE_VALF}) {
    EXPECT_THROW(delayed_update_fused(state, {}, {.fp8_max = bad}), Error);
    EXPECT_THROW(delayed_update_single(state, {.fp8_max = bad}), Error);
    EXPECT_THROW(delayed_update_unfused(state, {}, {.fp8_max = bad}), Error);
  }
  EXPECT_EQ(floats(state.scale)[0], 1);
  EXPECT_EQ(floats(state.amax_history), (std::vector<float>{3, 0}));
  // A negative margin is one: scales twice as large for each step.
  delayed_update_fused(state, {}, {.fp8_max = 448, .margin = -1});
  EXPECT_EQ(floats(state.scale)[0], 896.0f / 3);
}

}  // namespace
}  // namespace assay::te
