// GEMM of every scaling mode, y = x w^T of square matrices, beside oneDNN's
// bare bf16 (fp32 rows: fp32) product of as many elements; and a grouped one.
//
// oneDNN's OpenMP threads spin for a while after their work: run with
// OMP_WAIT_POLICY=passive, or they take the cores that our rows are timed on.
#include <dnnl.hpp>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

constexpr std::int64_t kSizes[] = {1024, 2048, 4096};
constexpr std::int64_t kGroups = 8, kGroupRows = 512, kGroupSide = 1024;

Tensor matrix(DType dtype, std::int64_t n, std::uint64_t seed) {
  return random_tensor(dtype, {n, n}, seed);
}

std::function<Body()> plain(DType dtype, std::int64_t n) {
  return [=] {
    return [x = matrix(dtype, n, 1), w = matrix(dtype, n, 2)] {
      te::gemm_fprop(x, w);
    };
  };
}

std::function<Body()> quantized(std::shared_ptr<te::Quantizer> input,
                                std::shared_ptr<te::Quantizer> weight,
                                std::int64_t n) {
  return [=] {
    return [x = input->quantize(matrix(DType::kBF16, n, 1)),
            w = weight->quantize(matrix(DType::kBF16, n, 2))] {
      te::gemm_fprop(x, w);
    };
  };
}

std::function<Body()> onednn(dnnl::memory::data_type type, std::int64_t n) {
  return [=]() -> Body {
    using dnnl::memory;
    const DType dtype =
        type == memory::data_type::f32 ? DType::kF32 : DType::kBF16;
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const memory::desc x({n, n}, type, memory::format_tag::ab);
    const memory::desc w({n, n}, type, memory::format_tag::ba);
    const dnnl::matmul product(
        dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, w, x), engine));
    Tensor xs = matrix(dtype, n, 1), ws = matrix(dtype, n, 2),
           ys = Tensor::empty(dtype, {n, n});
    const std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, memory(x, engine, xs.mutable_data())},
        {DNNL_ARG_WEIGHTS, memory(w, engine, ws.mutable_data())},
        {DNNL_ARG_DST, memory(x, engine, ys.mutable_data())}};
    return [=, stream = dnnl::stream(engine)]() mutable {
      (void)xs, (void)ws, (void)ys;
      product.execute(stream, arguments);
      stream.wait();
    };
  };
}

Row row(const std::string& mode, std::int64_t n, double goal,
        std::function<Body()> prepare) {
  const bool f32 = mode == "f32";
  return {.name = "gemm_" + mode + "_" + std::to_string(n),
          .flops = 2.0 * static_cast<double>(n * n * n),
          .prepare = std::move(prepare),
          .peer_name = f32 ? "oneDNN f32" : "oneDNN bf16",
          .peer_goal = goal,
          .prepare_peer = onednn(f32 ? dnnl::memory::data_type::f32
                                     : dnnl::memory::data_type::bf16,
                                 n)};
}

std::shared_ptr<te::Quantizer> block(int dim, bool pow2) {
  return std::make_shared<te::Block128Quantizer>(
      te::Block128Options{.block_dim = dim, .pow2 = pow2});
}

Row grouped() {
  return {.name = "grouped_gemm_bf16_8x512x1024x1024",
          .flops = 2.0 * kGroups * kGroupRows * kGroupSide * kGroupSide,
          .prepare = [] {
            auto x = random_tensor(DType::kBF16,
                                   {kGroups * kGroupRows, kGroupSide}, 1);
            std::vector<Tensor> w;
            for (std::int64_t g = 0; g < kGroups; ++g)
              w.push_back(matrix(DType::kBF16, kGroupSide, 2));
            return [x, w] {
              const std::vector<std::int64_t> splits(kGroups, kGroupRows);
              const std::vector<te::GemmOperand> weights(w.begin(), w.end());
              const std::vector<te::GemmOptions> options(1);
              te::grouped_gemm_fprop(x, splits, weights, options);
            };
          }};
}

std::vector<Row> make_rows() {
  const auto tensor = std::make_shared<te::CurrentScalingQuantizer>(
      te::CurrentScalingOptions{});
  const auto mx = std::make_shared<te::MXFP8Quantizer>(DType::kE4M3FN);
  const auto nv = std::make_shared<te::NVFP4Quantizer>();
  std::vector<Row> all = {grouped()};
  for (std::int64_t n : kSizes) {
    all.push_back(row("bf16", n, 0.95, plain(DType::kBF16, n)));
    all.push_back(row("f32", n, 0.9, plain(DType::kF32, n)));
    all.push_back(row("fp8_tensor", n, 0.9, quantized(tensor, tensor, n)));
    all.push_back(row("mxfp8", n, 0.7, quantized(mx, mx, n)));
    all.push_back(row("block128_pow2", n, 0.7,
                      quantized(block(1, true), block(2, true), n)));
    all.push_back(row("block128_fp32", n, 0.7,
                      quantized(block(1, false), block(2, false), n)));
    all.push_back(row("nvfp4", n, 0.7, quantized(nv, nv, n)));
  }
  return all;
}

const Registration kRows{make_rows()};

}  // namespace
}  // namespace assay::bench
