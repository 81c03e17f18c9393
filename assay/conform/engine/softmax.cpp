// softmax: the scaled softmax under a mask tensor, and the causal ones, forward
// and backward; and when NVTE runs its fused kernels.
#include "assay/te/ops/softmax.h"

#include <array>
#include <utility>

#include "assay/base/error.h"
#include "assay/conform/engine/engine.h"

namespace assay::conform {
namespace {

te::SoftmaxMask mask_of(const AdapterCall& call) {
  using te::SoftmaxMask;
  constexpr std::array<std::pair<std::string_view, SoftmaxMask>, 4> kMasks = {
      {{"none", SoftmaxMask::kNone},
       {"padding", SoftmaxMask::kPadding},
       {"upper_triangular", SoftmaxMask::kUpperTriangular},
       {"aligned_causal", SoftmaxMask::kAlignedCausal}}};
  const std::string& name = call.text("mask_type");
  for (const auto& [text, mask] : kMasks)
    if (text == name) return mask;
  throw Error(Code::kUsage, call.module + ": parameter mask_type: " + name +
                                ", expected none, padding, upper_triangular "
                                "or aligned_causal");
}

// Which rule decides about fully masked rows, where a mask makes some: NVTE's
// FusedScaleMaskSoftmax runs its kernel (zeros) or torch's softmax (uniform).
bool fused_kernel(const Tensor& x, te::SoftmaxMask mask,
                  const Tensor* mask_tensor) {
  te::FusedSoftmaxQuery query;
  query.dtype = x.dtype();
  query.batch = x.shape()[0], query.heads = x.shape()[1];
  query.sq = x.shape()[2], query.sk = x.shape()[3];
  query.mask = mask;
  if (mask_tensor) query.mask_shape = mask_tensor->shape();
  return te::fused_softmax_available(query);
}

}  // namespace

AdapterResult run_softmax(const AdapterCall& call) {
  te::SoftmaxOptions options;
  options.scale = static_cast<float>(call.number("scale"));
  options.mask = mask_of(call);
  const Tensor& x = call.input("x");
  const Tensor* mask = call.find_input("mask");
  AdapterResult result;
  const te::SoftmaxForward forward = te::softmax_forward(x, options, mask);
  result.outputs["y"] = forward.y;
  result.outputs["grad.x"] =
      te::softmax_backward(call.input("dy"), forward.y, options).dx;
  result.contract["fused_kernel"] = fused_kernel(x, options.mask, mask);
  return result;
}

}  // namespace assay::conform
