// Permutation, router, cross entropy, transposes, optimizers: all bound by
// memory but the router.
#include <memory>
#include <string>
#include <vector>

#include "assay/te/ops/cross_entropy.h"
#include "assay/te/ops/permute.h"
#include "assay/te/ops/router.h"
#include "assay/te/ops/transpose.h"
#include "assay/te/optim/adam.h"
#include "assay/te/optim/multi_tensor.h"
#include "bench/te/bench.h"

namespace assay::bench {
namespace {

constexpr std::int64_t kTokens = 8192, kHidden = 2048;
constexpr std::int64_t kExperts = 128, kTopk = 8;
constexpr double kRowBytes = 2.0 * kHidden;

te::RouterOutput routing(std::int64_t topk) {
  return te::router_topk_forward(
      random_tensor(DType::kF32, {kTokens, kExperts}), {.topk = topk});
}

// Each token to two experts: the weight of an index map's usual width.
Row permute_row() {
  return {.name = "moe_permute_bf16",
          .bytes = 3 * kRowBytes * kTokens,
          .prepare = []() -> Body {
            const Tensor x = random_tensor(DType::kBF16, {kTokens, kHidden});
            const auto map = te::row_map_from_mask(routing(2).routing_map);
            return [=] { te::moe_permute_forward(x, map); };
          }};
}

Row unpermute_row() {
  return {.name = "moe_unpermute_bf16",
          .bytes = 3 * kRowBytes * kTokens,
          .prepare = []() -> Body {
            const auto routed = routing(2);
            const auto map = te::row_map_from_mask(routed.routing_map);
            const Tensor x = random_tensor(DType::kBF16, {map.rows, kHidden});
            return [=] { te::moe_unpermute_forward(x, map, routed.probs); };
          }};
}

Row row_map_row() {
  return {.name = "moe_row_map_top8", .prepare = []() -> Body {
            const auto routed = routing(kTopk);
            return [=] { te::row_map_from_mask(routed.routing_map); };
          }};
}

Row router_row(bool backward) {
  return {.name = std::string("router_softmax_top8_") +
                  (backward ? "backward" : "forward"),
          .prepare = [=]() -> Body {
            const Tensor x = random_tensor(DType::kF32, {kTokens, kExperts});
            const te::RouterOptions o{.topk = kTopk, .use_pre_softmax = true};
            if (!backward) return [=] { te::router_topk_forward(x, o); };
            const auto out = te::router_topk_forward(x, o);
            return [=] {
              te::router_topk_backward(x, out.routing_map, out.saved, o);
            };
          }};
}

Row cross_entropy_row(DType dtype, const std::string& name) {
  constexpr std::int64_t kRows = 2048, kVocab = 32000;
  const double size = traits(dtype).bits / 8.0 * kRows * kVocab;
  return {.name = "cross_entropy_" + name,
          .bytes = 2 * size,
          .prepare = [=]() -> Body {
            auto x =
                std::make_shared<Tensor>(random_tensor(dtype, {kRows, kVocab}));
            Tensor y = Tensor::empty(DType::kI64, {kRows});
            for (std::int64_t t = 0; t < kRows; ++t)
              y.mutable_data<std::int64_t>()[t] = t * 997 % kVocab;
            return [=] {
              te::cross_entropy_forward_in_place(*x, y, {.reduce_loss = true});
            };
          }};
}

Row transpose_row(DType dtype, const std::string& name) {
  constexpr std::int64_t kSide = 8192;
  return {.name = "transpose_" + name,
          .bytes = 2.0 * kSide * kSide * traits(dtype).bits / 8,
          .prepare = [=]() -> Body {
            const Tensor x = dtype == DType::kU8
                                 ? Tensor::zeros(dtype, {kSide, kSide})
                                 : random_tensor(dtype, {kSide, kSide});
            return [=] { te::transpose(x); };
          }};
}

constexpr std::int64_t kParams = std::int64_t{1} << 24;

struct AdamLists {
  std::vector<Tensor> g, p, m, v, master;
};

// 28 bytes a parameter both: four read and three written in fp32; or a bf16
// gradient and parameter beside the fp32 master and moments.
Row adam_row(bool master) {
  return {.name = master ? "adam_bf16_master" : "adam_f32",
          .bytes = 28.0 * kParams,
          .prepare = [=]() -> Body {
            auto all = std::make_shared<AdamLists>();
            const DType dtype = master ? DType::kBF16 : DType::kF32;
            all->g = {random_tensor(dtype, {kParams})};
            all->p = {random_tensor(dtype, {kParams}, 2)};
            all->m = {Tensor::zeros(DType::kF32, {kParams})};
            all->v = {Tensor::zeros(DType::kF32, {kParams})};
            if (master) all->master = {random_tensor(DType::kF32, {kParams})};
            return [=] {
              te::multi_tensor_adam(
                  {all->g, all->p, all->m, all->v, all->master},
                  {.weight_decay = 0.1}, 5);
            };
          }};
}

// A copy reads and writes; a norm reads as many bytes.
Row norm_row() {
  return {
      .name = "l2norm_f32", .bytes = 4.0 * kParams, .prepare = []() -> Body {
        const std::vector<Tensor> x = {random_tensor(DType::kF32, {kParams})};
        return [=] { te::multi_tensor_l2norm(x); };
      }};
}

const std::vector<Row> kRows = {
    permute_row(),
    unpermute_row(),
    row_map_row(),
    router_row(false),
    router_row(true),
    cross_entropy_row(DType::kBF16, "bf16"),
    cross_entropy_row(DType::kF32, "f32"),
    transpose_row(DType::kBF16, "bf16"),
    transpose_row(DType::kU8, "u8"),
    transpose_row(DType::kF32, "f32"),
    adam_row(false),
    adam_row(true),
    norm_row(),
};
const Registration kMoe{kRows};

}  // namespace
}  // namespace assay::bench
