// The operands of a linear layer under every recipe, whole and cut, whose codes
// are the same in both: amaxes are those of the group, blocks end where ranks
// do.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/te/parallel/parallel_test.h"
#include "tests/te/parallel/recipe_quantizers.h"

namespace assay::te {

struct LinearRecipe {
  std::string name;
  std::unique_ptr<Quantizer> x, w, dy;
};

// The five recipes as TransformerEngine sets them up for a linear layer, but
// for stochastic rounding.
inline std::vector<LinearRecipe> linear_recipes() {
  const auto reduction = group_amax_reduction(group());
  std::vector<LinearRecipe> out;
  const auto current = [&](DType format) {
    CurrentScalingOptions options;
    options.format = format;
    options.amax_reduction = reduction;
    return std::make_unique<CurrentScalingQuantizer>(options);
  };
  const auto block = [](int dim) {
    return std::make_unique<Block128Quantizer>(
        Block128Options{DType::kE4M3FN, dim});
  };
  const auto mxfp8 = [] {
    return std::make_unique<MXFP8Quantizer>(DType::kE4M3FN);
  };
  const auto nvfp4 = [&](bool weight) {
    NVFP4Options options;
    options.rht = !weight;
    options.with_2d = weight;
    options.amax_reduction = reduction;
    return std::make_unique<NVFP4Quantizer>(options);
  };
  out.push_back({"delayed", delayed_quantizer(DType::kE4M3FN, 20.0f),
                 delayed_quantizer(DType::kE4M3FN, 16.0f),
                 delayed_quantizer(DType::kE5M2, 3000.0f)});
  out.push_back({"current", current(DType::kE4M3FN), current(DType::kE4M3FN),
                 current(DType::kE5M2)});
  out.push_back({"block", block(1), block(2), block(1)});
  out.push_back({"mxfp8", mxfp8(), mxfp8(), mxfp8()});
  out.push_back({"nvfp4", nvfp4(false), nvfp4(true), nvfp4(false)});
  return out;
}

// Plain or quantised: what a GEMM takes.
struct Operand {
  Tensor plain;
  std::optional<QuantizedTensor> quantized;

  Operand(Tensor values, Quantizer* quantizer) : plain(std::move(values)) {
    if (quantizer) quantized = quantizer->quantize(plain);
  }
  GemmOperand operand() const {
    return quantized ? GemmOperand(*quantized) : GemmOperand(plain);
  }
  // What it stands for, as a product reads it: f32, rowwise or columnwise data.
  Tensor values(bool rowwise) const {
    if (!quantized) return plain;
    const auto& q = rowwise || !quantized->columnwise ? quantized->rowwise
                                                      : quantized->columnwise;
    return dequantize(*q, quantized->shape, DType::kF32);
  }
};

}  // namespace assay::te
