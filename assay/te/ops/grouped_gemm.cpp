#include "assay/te/ops/grouped_gemm.h"

#include <cstring>
#include <string>

#include "assay/base/parallel.h"
#include "assay/kernels/decode.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/splits.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "grouped_gemm";

const GemmOptions& option_of(std::span<const GemmOptions> options,
                             std::size_t group) {
  return options.size() == 1 ? options[0] : options[group];
}

void check_lengths(std::string_view argument, std::size_t length,
                   std::size_t groups) {
  require(length == groups, kOp, argument, std::to_string(length) + " entries",
          std::to_string(groups));
}

void check_options(std::span<const GemmOptions> options, std::size_t groups) {
  if (options.size() != 1) check_lengths("options", options.size(), groups);
}

std::int64_t bytes_of(const Tensor& t, std::int64_t elements) {
  return elements * (traits(t.dtype()).bits / 8);
}

// Results that the functions returning bare tensors have no place for.
void require_no_more(std::span<const GemmOptions> options) {
  for (const GemmOptions& o : options)
    require(!o.bias_grad && !o.fp8_output, kOp, "options",
            "bias_grad or fp8_output", "multi_tensor_gemm() for these");
}

Shape with_last(Shape shape, std::int64_t last) {
  shape.back() = last;
  return shape;
}

// D's columns under `layout` of one weight.
std::int64_t columns_of(std::span<const GemmOperand> w, GemmLayout layout) {
  require(!w.empty(), kOp, "w", "no groups", "at least one");
  const MatrixShape shape = matrix_shape(w[0].shape());
  return layout == GemmLayout::kTN ? shape.rows : shape.columns;
}

DType nominal_dtype(const GemmOperand& operand) {
  return operand.tensor() ? operand.tensor()->dtype()
                          : operand.quantized()->dtype;
}

// Products with the row groups of b, written to those of d.
void multiply_rows(Tensor& d, std::span<const std::int64_t> splits,
                   std::span<const GemmOperand> a,
                   std::span<const GemmOperand> b, GemmLayout layout,
                   std::span<const GemmOptions> options) {
  require_no_more(options);
  std::vector<Tensor> parts = split_rows(d, splits);
  for (std::size_t g = 0; g < a.size(); ++g) {
    GemmOptions o = option_of(options, g);
    require(!o.out_dtype || *o.out_dtype == d.dtype(), kOp, "out_dtype",
            "of one group other than of the first", "one for all");
    o.out_dtype.reset();
    require(o.beta == 0, kOp, "beta", std::to_string(o.beta), "0");
    gemm_into(parts[g], a[g], b[g], layout, o);
  }
}

DType common_dtype(std::span<const GemmOptions> options, DType otherwise) {
  return options.empty() ? otherwise : options[0].out_dtype.value_or(otherwise);
}

// One D for all row groups of b.
Tensor grouped_rows(const Tensor& b, std::span<const std::int64_t> splits,
                    std::span<const GemmOperand> w, GemmLayout layout,
                    std::span<const GemmOptions> options) {
  check_lengths("w", w.size(), splits.size());
  check_options(options, splits.size());
  const std::vector<Tensor> groups = split_rows(b, splits);
  const std::vector<GemmOperand> operands(groups.begin(), groups.end());
  Tensor d =
      Tensor::empty(common_dtype(options, b.dtype()),
                    with_last(b.shape(), columns_of(w, layout)), b.device);
  multiply_rows(d, splits, w, operands, layout, options);
  return d;
}

}  // namespace

std::vector<GemmResult> multi_tensor_gemm(
    std::span<const GemmOperand> a, std::span<const GemmOperand> b,
    GemmLayout layout, std::span<const GemmOptions> options) {
  check_lengths("b", b.size(), a.size());
  check_options(options, a.size());
  std::vector<GemmResult> results;
  for (std::size_t g = 0; g < a.size(); ++g)
    results.push_back(gemm(a[g], b[g], layout, option_of(options, g)));
  return results;
}

std::vector<GemmResult> multi_tensor_gemm_into(
    std::span<Tensor> d, std::span<const GemmOperand> a,
    std::span<const GemmOperand> b, GemmLayout layout,
    std::span<const GemmOptions> options) {
  check_lengths("b", b.size(), a.size());
  check_lengths("d", d.size(), a.size());
  check_options(options, a.size());
  std::vector<GemmResult> results;
  for (std::size_t g = 0; g < a.size(); ++g)
    results.push_back(
        gemm_into(d[g], a[g], b[g], layout, option_of(options, g)));
  return results;
}

Tensor grouped_gemm(std::span<const GemmOperand> a,
                    std::span<const GemmOperand> b, GemmLayout layout,
                    std::span<const GemmOptions> options) {
  check_lengths("b", b.size(), a.size());
  check_options(options, a.size());
  require(layout == GemmLayout::kTN || layout == GemmLayout::kNN, kOp, "layout",
          "one that sums over rows", "TN or NN");
  const std::int64_t columns = columns_of(a, layout);
  std::vector<std::int64_t> splits;
  for (const GemmOperand& group : b)
    splits.push_back(matrix_shape(group.shape()).rows);
  const std::int64_t rows = grouped_tensor_offsets(splits, 1).back();
  Tensor d = Tensor::empty(common_dtype(options, nominal_dtype(b[0])),
                           {rows, columns}, b[0].device());
  multiply_rows(d, splits, a, b, layout, options);
  return d;
}

std::vector<Tensor> split_rows(const Tensor& x,
                               std::span<const std::int64_t> splits) {
  require_present(kOp, "x", x);
  const Tensor whole = contiguous(x);
  const auto [rows, columns] = matrix_shape(whole.shape());
  require_splits(kOp, "splits", splits, rows);
  const std::vector<std::int64_t> offsets =
      grouped_tensor_offsets(splits, columns);
  std::vector<Tensor> groups;
  for (std::size_t g = 0; g < splits.size(); ++g) {
    Tensor part = whole;
    part.view.shape = {splits[g], columns};
    part.view.strides.clear();
    part.view.data += bytes_of(whole, offsets[g]);
    groups.push_back(std::move(part));
  }
  return groups;
}

Tensor grouped_gemm_fprop(const Tensor& x, std::span<const std::int64_t> splits,
                          std::span<const GemmOperand> w,
                          std::span<const GemmOptions> options) {
  return grouped_rows(x, splits, w, GemmLayout::kTN, options);
}

Tensor grouped_gemm_dgrad(const Tensor& dy,
                          std::span<const std::int64_t> splits,
                          std::span<const GemmOperand> w,
                          std::span<const GemmOptions> options) {
  return grouped_rows(dy, splits, w, GemmLayout::kNN, options);
}

std::vector<Tensor> grouped_gemm_wgrad(const Tensor& dy, const Tensor& x,
                                       std::span<const std::int64_t> splits,
                                       std::span<const GemmOptions> options) {
  check_options(options, splits.size());
  require_no_more(options);
  const std::vector<Tensor> dys = split_rows(dy, splits);
  const std::vector<Tensor> xs = split_rows(x, splits);
  std::vector<Tensor> dw;
  for (std::size_t g = 0; g < splits.size(); ++g)
    dw.push_back(gemm_wgrad(dys[g], xs[g], option_of(options, g)).d);
  return dw;
}

std::vector<std::int64_t> grouped_tensor_offsets(
    std::span<const std::int64_t> first_dims, std::int64_t last_dim) {
  std::vector<std::int64_t> offsets = {0};
  require(last_dim >= 0, kOp, "last_dim", std::to_string(last_dim),
          "0 or more");
  for (std::int64_t first : first_dims) {
    std::int64_t size = 0, next = 0;
    require(first >= 0, kOp, "first_dims", std::to_string(first), "0 or more");
    const bool fits = !__builtin_mul_overflow(first, last_dim, &size) &&
                      !__builtin_add_overflow(offsets.back(), size, &next);
    require(fits, kOp, "first_dims",
            std::to_string(first) + " x " + std::to_string(last_dim) +
                " after " + std::to_string(offsets.back()) + " elements",
            "a total below 2^63");
    offsets.push_back(next);
  }
  return offsets;
}

namespace {

void add_row(Tensor& out, std::int64_t at, std::int64_t n, const float* bias,
             float scale) {
  std::vector<float> row(static_cast<std::size_t>(n));
  decode_f32(out.dtype(), out.view.data + bytes_of(out, at), n, row.data());
  for (std::int64_t c = 0; c < n; ++c) {
    const float sum = row[static_cast<std::size_t>(c)] + bias[c] * scale;
    store_from_double(out.dtype(), double{sum}, out.mutable_data(), at + c);
  }
}

}  // namespace

void grouped_bias_add(Tensor& out, const Tensor& bias,
                      std::span<const std::int64_t> splits,
                      const Tensor* scale) {
  constexpr std::string_view kName = "grouped_bias_add";
  require_high_precision(kName, "out", out);
  require_high_precision(kName, "bias", bias);
  require_contiguous(kName, "out", out);
  require_writable(kName, "out", out);
  const auto [rows, n] = matrix_shape(out.shape());
  const auto groups = static_cast<std::int64_t>(splits.size());
  require_shape(kName, "bias", bias, {groups, n});
  if (scale) {
    require_dtype(kName, "scale", *scale, {DType::kF32});
    require_shape(kName, "scale", *scale, {rows});
  }
  common_device(kName, {&out, &bias, scale});
  require_splits(kName, "splits", splits, rows);
  const Tensor given = contiguous(bias);
  std::vector<float> wide(static_cast<std::size_t>(given.numel()));
  decode_f32(given.dtype(), given.view.data, given.numel(), wide.data());
  const Tensor factors = scale ? contiguous(*scale) : Tensor{};
  std::int64_t begin = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const float* row_bias = wide.data() + g * n;
    parallel_for(splits[static_cast<std::size_t>(g)], [&](std::int64_t i) {
      const std::int64_t r = begin + i;
      add_row(out, r * n, n, row_bias, scale ? factors.data<float>()[r] : 1.0f);
    });
    begin += splits[static_cast<std::size_t>(g)];
  }
}

}  // namespace assay::te
