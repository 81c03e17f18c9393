#include "assay/te/optim/multi_tensor.h"

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "assay/kernels/optim.h"
#include "assay/numerics/element.h"
#include "assay/numerics/summation.h"
#include "assay/te/check.h"
#include "assay/te/optim/in_place.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

Device device_of(std::string_view op, std::span<const Tensor> tensors) {
  Device device = Device::kCpu;
  for (const Tensor& tensor : tensors)
    device = common_device(op, {&tensors.front(), &tensor});
  return device;
}

std::vector<std::int64_t> sizes_of(std::span<const Tensor> tensors) {
  std::vector<std::int64_t> sizes;
  for (const Tensor& tensor : tensors) sizes.push_back(tensor.numel());
  return sizes;
}

// Sum of squares of one tensor by a running sum.
double plain_squares(const Tensor& x, float scale,
                     InternalPrecision precision) {
  return with_accumulator(precision, x.dtype(), [&](auto make) {
    auto sum = make();
    using Real = typename decltype(sum)::Real;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const float scaled =
          scale * static_cast<float>(load_as_double(x.dtype(), x.view.data, i));
      sum.add(static_cast<Real>(scaled) * static_cast<Real>(scaled));
    }
    return static_cast<double>(sum.total());
  });
}

// Of every tensor: the sums of its tasks, added as a tree in their order.
std::vector<double> fast_squares(std::span<const Tensor> tensors, float scale,
                                 Device device) {
  const OptimKernels& kernels = optim_kernels(device);
  const ConvertKernels& convert = convert_kernels(device);
  std::vector<std::vector<double>> parts;
  for (const Tensor& x : tensors)
    parts.emplace_back(
        static_cast<std::size_t>((x.numel() + kOptimTask - 1) / kOptimTask));
  for_each_task(sizes_of(tensors), [&](std::size_t i, std::int64_t begin,
                                       std::int64_t count) {
    const Tensor& x = tensors[i];
    double& part = parts[i][static_cast<std::size_t>(begin / kOptimTask)];
    if (x.dtype() == DType::kF32) {
      part = kernels.sum_squares(x.data<float>() + begin, scale, count);
      return;
    }
    ChunkScratch scratch;
    PairwiseSum sum;
    for_each_chunk(begin, count, [&](std::int64_t at, std::int64_t n) {
      convert.widen[float_width(x.dtype())](x.view.data + 2 * at, n,
                                            scratch.values);
      sum.add(kernels.sum_squares(scratch.values, scale, n));
    });
    part = sum.total();
  });
  std::vector<double> out;
  for (const auto& tasks : parts) {
    PairwiseSum sum;
    for (double part : tasks) sum.add(part);
    out.push_back(sum.total());
  }
  return out;
}

Norms norms(std::string_view op, std::span<const Tensor> strided, float scale,
            MultiTensorNormOptions options) {
  const Device device = device_of(op, strided);
  const InternalPrecision precision =
      effective_precision("l2norm", options.precision);
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : strided) {
    require_high_precision(op, "tensors", tensor);
    tensors.push_back(contiguous(tensor));
  }
  std::vector<double> squares;
  if (precision == InternalPrecision::kF32)
    squares = fast_squares(tensors, scale, device);
  else
    for (const Tensor& x : tensors)
      squares.push_back(plain_squares(x, scale, precision));
  PairwiseSum total;
  for (double s : squares) total.add(s);
  Norms out;
  out.total = Tensor::empty(DType::kF32, {1}, device);
  *out.total.mutable_data<float>() =
      static_cast<float>(std::sqrt(total.total()));
  if (!options.per_tensor) return out;
  out.per_tensor = Tensor::empty(
      DType::kF32, {static_cast<std::int64_t>(squares.size())}, device);
  for (std::size_t i = 0; i < squares.size(); ++i)
    out.per_tensor.mutable_data<float>()[i] =
        static_cast<float>(std::sqrt(squares[i]));
  return out;
}

}  // namespace

bool multi_tensor_scale(std::span<const Tensor> inputs,
                        std::span<Tensor> outputs, float scale) {
  constexpr std::string_view kOp = "multi_tensor_scale";
  require(inputs.size() == outputs.size(), kOp, "outputs",
          std::to_string(outputs.size()) + " tensors",
          std::to_string(inputs.size()));
  std::vector<Tensor> from;
  std::vector<InPlace> to;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_high_precision(kOp, "inputs", inputs[i]);
    require_shape(kOp, "outputs", outputs[i], inputs[i].shape());
    common_device(kOp, {&inputs.front(), &inputs[i], &outputs[i]});
    from.push_back(contiguous(inputs[i]));
    to.emplace_back(kOp, "outputs", outputs[i]);
  }
  const Device device = device_of(kOp, inputs);
  const OptimKernels& kernels = optim_kernels(device);
  const ConvertKernels& convert = convert_kernels(device);
  std::atomic<bool> overflow = false;
  for_each_task(sizes_of(inputs), [&](std::size_t i, std::int64_t begin,
                                      std::int64_t count) {
    ChunkScratch wide, scaled;
    const std::size_t width = float_width(from[i].dtype());
    const std::int64_t size = traits(from[i].dtype()).bits / 8;
    for_each_chunk(begin, count, [&](std::int64_t at, std::int64_t n) {
      const std::byte* bytes = from[i].view.data + at * size;
      const float* x = reinterpret_cast<const float*>(bytes);
      if (width != 0) {
        convert.widen[width](bytes, n, wide.values);
        x = wide.values;
      }
      float* out = to[i].dtype() == DType::kF32
                       ? reinterpret_cast<float*>(to[i].at(at))
                       : scaled.values;
      if (!kernels.scale(x, scale, n, out)) overflow = true;
      to[i].store(at, n, out);
    });
  });
  for (InPlace& output : to) output.commit();
  return overflow;
}

bool multi_tensor_scale(std::span<const Tensor> inputs,
                        std::span<Tensor> outputs, const Tensor& scale) {
  return multi_tensor_scale(
      inputs, outputs,
      static_cast<float>(scalar_value("multi_tensor_scale", "scale", scale)));
}

Norms multi_tensor_l2norm(std::span<const Tensor> tensors,
                          MultiTensorNormOptions options) {
  return norms("multi_tensor_l2norm", tensors, 1.0f, options);
}

Norms multi_tensor_unscale_l2norm(std::span<const Tensor> tensors,
                                  float inv_scale,
                                  MultiTensorNormOptions options) {
  return norms("multi_tensor_unscale_l2norm", tensors, inv_scale, options);
}

}  // namespace assay::te
