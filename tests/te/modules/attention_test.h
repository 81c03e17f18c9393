// What tests of attention share: inputs and a step.
#pragma once

#include "assay/te/modules/dot_product_attention.h"
#include "tests/te/modules/module_checks.h"

namespace assay::te {

struct Qkv {
  Tensor q, k, v;
};

inline Qkv inputs(DType dtype, std::int64_t s, std::int64_t b,
                  std::int64_t heads, std::int64_t groups,
                  std::int64_t channels) {
  return {normal_tensor(dtype, {s, b, heads, channels}, 1),
          normal_tensor(dtype, {s, b, groups, channels}, 2),
          normal_tensor(dtype, {s, b, groups, channels}, 3)};
}

inline Qkv on_reference(const Qkv& x) {
  return {te::on_reference(x.q), te::on_reference(x.k), te::on_reference(x.v)};
}

struct AttentionStep {
  Tensor out;
  AttentionGradients grads;
};

inline AttentionStep run(DotProductAttention& module, const Qkv& x,
                         const Tensor& d_out, const AttentionCall& call = {}) {
  DotProductAttention::Context context;
  AttentionStep step;
  step.out = module.forward(x.q, x.k, x.v, &context, call).out;
  step.grads = module.backward(d_out, context);
  return step;
}

}  // namespace assay::te
