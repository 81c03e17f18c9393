// multi_tensor: one call over many tensors: scaling, norms, scales of shards.
#include "assay/te/optim/multi_tensor.h"

#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/conform/engine/engine.h"

namespace assay::conform {
namespace {

// a, a tensor without elements, then the rows of `small`.
struct Lists {
  std::vector<Tensor> tensors;
  std::int64_t count = 0;  // of small ones
};

Lists lists_of(const AdapterCall& call) {
  Lists lists;
  const Tensor& a = call.input("a");
  const Tensor& small = call.input("small");
  lists.tensors = {a, Tensor::zeros(a.dtype(), {0}, call.device)};
  lists.count = small.shape().at(0);
  for (std::int64_t i = 0; i < lists.count; ++i)
    lists.tensors.push_back(entry(small, i));
  return lists;
}

// Results beside the inputs: of `small` rows of one tensor.
struct Results {
  Tensor a, empty, small;
  std::vector<Tensor> tensors;
};

Results results_for(const Lists& lists, const AdapterCall& call, DType dtype) {
  Results results;
  results.a = Tensor::zeros(dtype, lists.tensors[0].shape(), call.device);
  results.empty = Tensor::zeros(dtype, {0}, call.device);
  results.small =
      Tensor::zeros(dtype, call.input("small").shape(), call.device);
  if (!call.flag("sizes_agree"))
    results.a = Tensor::zeros(dtype, {results.a.numel() + 1}, call.device);
  results.tensors = {results.a, results.empty};
  for (std::int64_t i = 0; i < lists.count; ++i)
    results.tensors.push_back(entry(results.small, i));
  return results;
}

void put(AdapterResult& result, const std::string& name,
         const Results& results) {
  result.outputs[name + ".a"] = results.a;
  result.outputs[name + ".small"] = results.small;
}

void run_scale(const AdapterCall& call, bool as_tensor, AdapterResult& result) {
  const Lists lists = lists_of(call);
  Results out = results_for(lists, call, call.dtype("out_dtype"));
  const auto factor = static_cast<float>(call.number("factor"));
  bool overflow = false;
  if (as_tensor) {
    Tensor scalar = Tensor::zeros(DType::kF32, {1}, call.device);
    *scalar.mutable_data<float>() = factor;
    overflow = te::multi_tensor_scale(lists.tensors, out.tensors, scalar);
  } else {
    overflow = te::multi_tensor_scale(lists.tensors, out.tensors, factor);
  }
  put(result, "out", out);
  Tensor flag = Tensor::zeros(DType::kI32, {1});
  *flag.mutable_data<std::int32_t>() = overflow ? 1 : 0;
  result.outputs["overflow"] = flag;
}

void run_norm(const AdapterCall& call, bool unscale, AdapterResult& result) {
  const Lists lists = lists_of(call);
  const te::MultiTensorNormOptions options{.per_tensor = true};
  const te::Norms norms =
      unscale ? te::multi_tensor_unscale_l2norm(
                    lists.tensors, static_cast<float>(call.number("factor")),
                    options)
              : te::multi_tensor_l2norm(lists.tensors, options);
  result.outputs["norm"] = norms.total;
  result.outputs["norm.per_tensor"] = norms.per_tensor;
}

// An amax is a magnitude, NaN and infinity included.
Lists magnitudes(const AdapterCall& call) {
  Lists lists = lists_of(call);
  const int bits = traits(call.dtype()).bits;
  for (Tensor& tensor : lists.tensors) {
    tensor = snapshot(tensor);
    std::byte* bytes = tensor.mutable_data();
    const auto size = static_cast<std::size_t>(bits / 8);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      bytes[static_cast<std::size_t>(i + 1) * size - 1] &= std::byte{0x7f};
  }
  return lists;
}

void run_scales(const AdapterCall& call, AdapterResult& result) {
  const Lists lists = magnitudes(call);
  Results scale = results_for(lists, call, DType::kF32);
  Results inverse = results_for(lists, call, DType::kF32);
  te::multi_tensor_compute_scale_and_scale_inv(
      lists.tensors, scale.tensors, inverse.tensors,
      {.fp8_max = static_cast<float>(call.number("max_fp8")),
       .pow2 = call.flag("force_pow_2_scales"),
       .epsilon = static_cast<float>(call.number("epsilon"))});
  put(result, "scale", scale);
  put(result, "scale_inv", inverse);
}

void run_e8m0(const AdapterCall& call, AdapterResult& result) {
  const Lists lists = magnitudes(call);
  Results inverse = results_for(lists, call, DType::kU8);
  te::multi_tensor_compute_scale_inv_e8m0(lists.tensors, inverse.tensors);
  put(result, "scale_inv", inverse);
}

}  // namespace

AdapterResult run_multi_tensor(const AdapterCall& call) {
  AdapterResult result;
  const std::string& op = call.text("op");
  if (op == "scale" || op == "scale_tensor")
    run_scale(call, op == "scale_tensor", result);
  else if (op == "l2norm" || op == "unscale_l2norm")
    run_norm(call, op == "unscale_l2norm", result);
  else if (op == "compute_scale_and_scale_inv")
    run_scales(call, result);
  else if (op == "compute_scale_inv_e8m0")
    run_e8m0(call, result);
  else
    throw Error(Code::kUsage, call.module + ": op: " + op +
                                  ", expected one of the specification");
  return result;
}

}  // namespace assay::conform
