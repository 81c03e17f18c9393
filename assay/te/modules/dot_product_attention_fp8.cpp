#include <utility>
#include <variant>

#include "assay/te/check.h"
#include "assay/te/modules/dot_product_attention.h"
#include "assay/te/ops/split.h"

namespace assay::te {
namespace {

// Slots of NVTE's histories of attention: META_QKV, META_O, META_S of the
// forward, META_DQKV, META_DO, META_DP of the backward state.
constexpr std::size_t kQkv = kAttentionQkvSlot, kOut = 3, kSoftmax = 8;
constexpr std::size_t kDQkv = 0, kDOut = 3, kDp = 5;

Tensor decoded(Quantizer& quantizer, const Tensor& t) {
  quantizer.set_usage({.rowwise = true, .columnwise = false});
  return dequantize(quantizer.quantize(t), t.dtype());
}

Tensor with_shape(Tensor t, Shape shape) {
  t.view.shape = std::move(shape);
  t.view.strides.clear();
  return t;
}

void decode_together(Quantizer& quantizer, Tensor& a, Tensor& b, Tensor& c) {
  std::vector<Tensor> flat;
  for (const Tensor* t : {&a, &b, &c})
    flat.push_back(with_shape(contiguous(*t), {t->numel()}));
  const std::vector<std::int64_t> sizes = {a.numel(), b.numel(), c.numel()};
  const auto parts = split(decoded(quantizer, concatenate(flat, 0)), sizes, 0);
  a = with_shape(parts[0], a.shape());
  b = with_shape(parts[1], b.shape());
  c = with_shape(parts[2], c.shape());
}

AttentionFp8Roles::One one(Quantizer& quantizer) {
  return [&quantizer](const Tensor& t) { return decoded(quantizer, t); };
}

bool is_mxfp8(const Recipe& r) {
  return std::holds_alternative<recipe::MXFP8BlockScaling>(r);
}

}  // namespace

bool fp8_attention_enabled() {
  const AutocastState& scope = autocast_state();
  if (!scope.enabled) return false;
  const bool asked =
      std::visit([](const auto& r) { return r.fp8_dpa; }, *scope.recipe);
  require(!asked ||
              !std::holds_alternative<recipe::NVFP4BlockScaling>(*scope.recipe),
          "DotProductAttention", "fp8_dpa", "NVFP4BlockScaling",
          "DelayedScaling, Float8CurrentScaling, MXFP8BlockScaling or Custom");
  return asked;
}

AttentionFp8Roles attention_fp8_roles(const QuantizerStates& states) {
  RecipeState& forward = *states.forward;
  RecipeState& backward = *states.backward;
  AttentionFp8Roles roles;
  if (is_mxfp8(*states.recipe)) {
    Quantizer& qkv = forward.at(kQkv);
    roles.qkv = [&qkv](Tensor& q, Tensor& k, Tensor& v) {
      for (Tensor* t : {&q, &k, &v}) *t = decoded(qkv, *t);
    };
    roles.d_out = one(backward.at(kDOut));
    return roles;
  }
  const auto three = [](Quantizer& quantizer) {
    return [&quantizer](Tensor& a, Tensor& b, Tensor& c) {
      decode_together(quantizer, a, b, c);
    };
  };
  roles.qkv = three(forward.at(kQkv));
  roles.s = one(forward.at(kSoftmax));
  roles.o = one(forward.at(kOut));
  roles.d_out = one(backward.at(kDOut));
  roles.dp = one(backward.at(kDp));
  roles.d_qkv = three(backward.at(kDQkv));
  return roles;
}

}  // namespace assay::te
