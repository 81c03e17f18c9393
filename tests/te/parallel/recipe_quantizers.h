// A quantiser of every recipe and option that changes how a tensor is held, for
// tests that run through all of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "assay/te/quantize/hybrid.h"
#include "assay/te/quantize/identity.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"

namespace assay::te {

struct NamedQuantizer {
  std::string name;
  std::unique_ptr<Quantizer> quantizer;
};

inline std::unique_ptr<Quantizer> delayed_quantizer(DType format, float scale) {
  auto state = std::make_shared<DelayedScalingState>(4, 1);
  *state->scale.mutable_data<float>() = scale;
  return std::make_unique<DelayedScalingQuantizer>(format, std::move(state), 0);
}

// `reduction` may be null: amaxes are then the rank's own.
inline std::vector<NamedQuantizer> recipe_quantizers(
    const std::shared_ptr<AmaxReduction>& reduction) {
  std::vector<NamedQuantizer> out;
  const auto add = [&](const char* name, std::unique_ptr<Quantizer> q) {
    out.push_back({name, std::move(q)});
  };
  const auto block = [](int dim) {
    return std::make_unique<Block128Quantizer>(
        Block128Options{DType::kE4M3FN, dim});
  };
  add("delayed", delayed_quantizer(DType::kE4M3FN, 20.0f));
  add("delayed e5m2", delayed_quantizer(DType::kE5M2, 3000.0f));
  CurrentScalingOptions current;
  current.amax_reduction = reduction;
  add("current", std::make_unique<CurrentScalingQuantizer>(current));
  add("block 1 x 128", block(1));
  add("block 128 x 128", block(2));
  add("mxfp8", std::make_unique<MXFP8Quantizer>(DType::kE4M3FN));
  add("mxfp8 2-D", std::make_unique<MXFP8Quantizer>(DType::kE4M3FN, true));
  NVFP4Options nvfp4;
  nvfp4.amax_reduction = reduction;
  add("nvfp4", std::make_unique<NVFP4Quantizer>(nvfp4));
  nvfp4.rht = true;
  add("nvfp4 rht", std::make_unique<NVFP4Quantizer>(nvfp4));
  nvfp4.rht = false;
  nvfp4.with_2d = true;
  add("nvfp4 2-D", std::make_unique<NVFP4Quantizer>(nvfp4));
  nvfp4.with_2d = false;
  nvfp4.four_over_six = FourOverSix::kMae;
  nvfp4.scale_max = 256;
  add("nvfp4 4-over-6", std::make_unique<NVFP4Quantizer>(nvfp4));
  add("identity", std::make_unique<IdentityQuantizer>());
  add("hybrid", std::make_unique<HybridQuantizer>(
                    std::make_unique<MXFP8Quantizer>(DType::kE4M3FN),
                    delayed_quantizer(DType::kE5M2, 3000.0f)));
  return out;
}

}  // namespace assay::te
