#include "assay/te/ops/softmax.h"

#include <algorithm>
#include <string>
#include <vector>

#include "assay/kernels/softmax.h"
#include "assay/te/check.h"
#include "assay/te/ops/row_blocks.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

// Row r of the flattened scores: query r % sq of head (r / sq) % heads.
struct Scores {
  std::int64_t rows, sk;
  std::int64_t sq = 1, heads = 1, batch = 1;
};

Scores scores_of(const Shape& shape) {
  const MatrixShape matrix = matrix_shape(shape);
  Scores s{matrix.rows, matrix.columns};
  if (shape.size() >= 2) s.sq = shape[shape.size() - 2];
  if (shape.size() == 4) {
    s.heads = shape[1];
    s.batch = shape[0];
  }
  return s;
}

const SoftmaxKernels& table(Device device, InternalPrecision asked) {
  const InternalPrecision precision = effective_precision("softmax", asked);
  return precision == InternalPrecision::kF32
             ? softmax_kernels(device)
             : plain_softmax_kernels(precision);
}

std::int64_t visible_columns(const Scores& s, SoftmaxMask mask,
                             std::int64_t row) {
  const std::int64_t query = row % s.sq;
  if (mask == SoftmaxMask::kUpperTriangular) return query + 1;
  if (mask == SoftmaxMask::kAlignedCausal)
    return std::clamp<std::int64_t>(query + 1 + s.sk - s.sq, 0, s.sk);
  return s.sk;
}

void check_shape(std::string_view op, const Tensor& x,
                 const SoftmaxOptions& options) {
  const auto found = "shape " + to_string(x.shape());
  const bool causal = options.mask == SoftmaxMask::kUpperTriangular ||
                      options.mask == SoftmaxMask::kAlignedCausal;
  require(!causal || x.shape().size() >= 2, op, "x", found,
          "[.., sq, sk] for a causal mask");
  if (options.mask == SoftmaxMask::kUpperTriangular)
    require(x.shape().back() == x.shape()[x.shape().size() - 2], op, "x", found,
            "sq == sk for an upper-triangular mask");
  require((options.mask != SoftmaxMask::kPadding &&
           options.type != SoftmaxType::kLearnable) ||
              x.shape().size() == 4,
          op, "x", found, "[b, h, sq, sk] for a mask tensor or an offset");
}

void check_mask(std::string_view op, const Scores& s, const Tensor* mask,
                const SoftmaxOptions& options) {
  const bool wanted = options.mask == SoftmaxMask::kPadding;
  require(wanted == (mask != nullptr), op, "mask",
          mask == nullptr ? "none" : "given",
          wanted ? "a tensor for SoftmaxMask::kPadding"
                 : "none but for SoftmaxMask::kPadding");
  if (!wanted) return;
  require_dtype(op, "mask", *mask, {DType::kU8, DType::kBool});
  const Shape own = {s.batch, 1, s.sq, s.sk}, shared = {1, 1, s.sq, s.sk};
  require(mask->shape() == own || mask->shape() == shared, op, "mask",
          "shape " + to_string(mask->shape()),
          to_string(own) + " or " + to_string(shared));
}

void check_offset(std::string_view op, const Scores& s, const Tensor* offset,
                  const SoftmaxOptions& options) {
  const bool wanted = options.type == SoftmaxType::kLearnable;
  require(wanted == (offset != nullptr), op, "offset",
          offset == nullptr ? "none" : "given",
          wanted ? "a tensor for SoftmaxType::kLearnable"
                 : "none but for SoftmaxType::kLearnable");
  if (!wanted) return;
  require_dtype(op, "offset", *offset, {DType::kF32});
  require_shape(op, "offset", *offset, {s.heads});
}

}  // namespace

SoftmaxForward softmax_forward(const Tensor& x, const SoftmaxOptions& options,
                               const Tensor* mask, const Tensor* offset) {
  constexpr std::string_view kOp = "softmax_forward";
  require_high_precision(kOp, "x", x);
  check_shape(kOp, x, options);
  const Scores s = scores_of(x.shape());
  check_mask(kOp, s, mask, options);
  check_offset(kOp, s, offset, options);
  const Device device = common_device(kOp, {&x, mask, offset});
  const auto kernel = table(device, options.precision).forward(x.dtype());
  const Tensor in = contiguous(x);
  const Tensor flat_mask = mask == nullptr ? Tensor() : contiguous(*mask);
  const Tensor flat_offset = offset == nullptr ? Tensor() : contiguous(*offset);
  SoftmaxForward result;
  result.y = Tensor::empty(x.dtype(), x.shape(), device);
  SoftmaxRow common;
  common.columns = s.sk;
  common.scale = options.scale;
  common.has_extra = options.type != SoftmaxType::kVanilla;
  float* extra = nullptr;
  if (common.has_extra) {
    result.extra = Tensor::empty(DType::kF32, {s.rows}, device);
    extra = result.extra.mutable_data<float>();
  }
  const std::int64_t row_bytes = s.sk * traits(x.dtype()).bits / 8;
  std::byte* y = result.y.mutable_data();
  const std::int64_t mask_rows =
      mask == nullptr ? 0 : matrix_shape(mask->shape()).rows;
  for_row_blocks(
      s.rows, rows_per_task(s.sk), [&](std::int64_t begin, std::int64_t end) {
        SoftmaxRow row = common;
        for (std::int64_t r = begin; r < end; ++r) {
          row.visible = visible_columns(s, options.mask, r);
          if (offset != nullptr)
            row.extra_logit = flat_offset.data<float>()[r / s.sq % s.heads];
          if (mask != nullptr) {
            const std::int64_t batch = r / (s.sq * s.heads);
            row.mask = flat_mask.data<std::uint8_t>() +
                       (batch * s.sq + r % s.sq) % mask_rows * s.sk;
          }
          const float p = kernel(row, in.data<std::byte>() + r * row_bytes,
                                 y + r * row_bytes);
          if (extra != nullptr) extra[r] = p;
        }
      });
  return result;
}

namespace {

// Over the rows of each head, in order, in fp64.
Tensor offset_gradient(const Scores& s, const Tensor& extra,
                       const std::vector<double>& dots) {
  Tensor grad = Tensor::empty(DType::kF32, {s.heads}, extra.device);
  std::vector<double> sums(static_cast<std::size_t>(s.heads));
  for (std::int64_t r = 0; r < s.rows; ++r)
    sums[static_cast<std::size_t>(r / s.sq % s.heads)] -=
        static_cast<double>(extra.data<float>()[r]) *
        dots[static_cast<std::size_t>(r)];
  for (std::int64_t h = 0; h < s.heads; ++h)
    grad.mutable_data<float>()[h] =
        static_cast<float>(sums[static_cast<std::size_t>(h)]);
  return grad;
}

}  // namespace

SoftmaxBackward softmax_backward(const Tensor& dy, const Tensor& y,
                                 const SoftmaxOptions& options,
                                 const Tensor* extra) {
  constexpr std::string_view kOp = "softmax_backward";
  require_high_precision(kOp, "y", y);
  check_shape(kOp, y, options);
  require_dtype(kOp, "dy", dy, {y.dtype()});
  require_shape(kOp, "dy", dy, y.shape());
  const Scores s = scores_of(y.shape());
  const bool learnable = options.type == SoftmaxType::kLearnable;
  require(!learnable || extra != nullptr, kOp, "extra", "none",
          "what the forward returned, for SoftmaxType::kLearnable");
  if (extra != nullptr) {
    require_dtype(kOp, "extra", *extra, {DType::kF32});
    require_shape(kOp, "extra", *extra, {s.rows});
  }
  const Device device = common_device(kOp, {&dy, &y, extra});
  const auto kernel = table(device, options.precision).backward(y.dtype());
  const Tensor probability = contiguous(y), grad = contiguous(dy);
  SoftmaxBackward result;
  result.dx = Tensor::empty(y.dtype(), y.shape(), device);
  std::byte* dx = result.dx.mutable_data();
  const std::int64_t row_bytes = s.sk * traits(y.dtype()).bits / 8;
  std::vector<double> dots(learnable ? static_cast<std::size_t>(s.rows) : 0);
  for_row_blocks(s.rows, rows_per_task(s.sk),
                 [&](std::int64_t begin, std::int64_t end) {
                   SoftmaxRow row;
                   row.columns = s.sk;
                   row.scale = options.scale;
                   for (std::int64_t r = begin; r < end; ++r) {
                     row.visible = visible_columns(s, options.mask, r);
                     const std::int64_t at = r * row_bytes;
                     const double dot =
                         kernel(row, grad.data<std::byte>() + at,
                                probability.data<std::byte>() + at, dx + at);
                     if (learnable) dots[static_cast<std::size_t>(r)] = dot;
                   }
                 });
  if (learnable) result.doffset = offset_gradient(s, contiguous(*extra), dots);
  return result;
}

}  // namespace assay::te
