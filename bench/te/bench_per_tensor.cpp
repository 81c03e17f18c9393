// Per-tensor and block-128 quantisation of a 4096 x 4096 tensor, and back.
#include <memory>

#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/delayed.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

using namespace te;

constexpr std::int64_t kSide = 4096;
constexpr double kElements = 1.0 * kSide * kSide;

using Make = std::unique_ptr<Quantizer> (*)();

std::unique_ptr<Quantizer> delayed() {
  return std::make_unique<DelayedScalingQuantizer>(
      DType::kE4M3FN, std::make_shared<DelayedScalingState>(16, 1), 0);
}
std::unique_ptr<Quantizer> current() {
  return std::make_unique<CurrentScalingQuantizer>(CurrentScalingOptions{});
}
std::unique_ptr<Quantizer> block_1d() {
  return std::make_unique<Block128Quantizer>(Block128Options{.block_dim = 1});
}
std::unique_ptr<Quantizer> block_2d() {
  return std::make_unique<Block128Quantizer>(Block128Options{.block_dim = 2});
}

constexpr Usage kRow = {true, false}, kBoth = {true, true};

Row quantise(std::string name, Make make, DType dtype, Usage usage,
             double passes) {
  const double size = traits(dtype).bits / 8;
  const double bytes = kElements * (passes * size + (usage.columnwise ? 2 : 1));
  name = "quantize_" + name + (usage.columnwise ? "_both_" : "_row_") +
         std::string(traits(dtype).short_name);
  return {.name = name, .bytes = bytes, .prepare = [=]() -> Body {
            std::shared_ptr<Quantizer> quantizer = make();
            quantizer->set_usage(usage);
            const Tensor x = random_tensor(dtype, {kSide, kSide}, 1, 30.0);
            return [=] { quantizer->quantize(x); };
          }};
}

Row dequantise(std::string name, Make make, DType dtype, bool columnwise) {
  const double size = traits(dtype).bits / 8;
  name = "dequantize_" + name + (columnwise ? "_column_" : "_row_") +
         std::string(traits(dtype).short_name);
  return {
      .name = name, .bytes = kElements * (1 + size), .prepare = [=]() -> Body {
        const auto quantizer = make();
        const Tensor x = random_tensor(dtype, {kSide, kSide}, 1, 30.0);
        const auto q = quantizer->quantize(x);
        const auto data = columnwise ? *q.columnwise : *q.rowwise;
        return [=] { dequantize(data, {kSide, kSide}, dtype); };
      }};
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (Usage usage : {kRow, kBoth}) {
      rows.push_back(quantise("delayed", delayed, dtype, usage, 1));
      rows.push_back(quantise("current", current, dtype, usage, 2));
      rows.push_back(quantise("block1x128", block_1d, dtype, usage, 1));
      rows.push_back(quantise("block128x128", block_2d, dtype, usage, 1));
    }
    for (bool columnwise : {false, true}) {
      rows.push_back(dequantise("tensor", current, dtype, columnwise));
      rows.push_back(dequantise("block1x128", block_1d, dtype, columnwise));
      rows.push_back(dequantise("block128x128", block_2d, dtype, columnwise));
    }
  }
  return rows;
}

const Registration kPerTensor{all_rows()};

}  // namespace
}  // namespace assay::bench
