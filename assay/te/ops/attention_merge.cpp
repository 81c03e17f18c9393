// Two attention results over disjoint keys as one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "assay/base/parallel.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/ops/attention.h"
#include "assay/te/ops/attention_problem.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "merge_attention";
constexpr std::int64_t kRows = 64;

struct Weights {
  double a, b;
  float lse;
};

// e^x - lse of both sides; zeros where neither has a key.
Weights weigh(double a, double b) {
  // A NaN logit makes its row NaN; std::max would drop it.
  if (std::isnan(a) || std::isnan(b)) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    return {kNan, kNan, kNan};
  }
  const double greatest = std::max(a, b);
  if (greatest == -std::numeric_limits<double>::infinity())
    return {0, 0, static_cast<float>(greatest)};
  const double ea = std::exp(a - greatest), eb = std::exp(b - greatest);
  return {ea / (ea + eb), eb / (ea + eb),
          static_cast<float>(greatest + std::log(ea + eb))};
}

// Elements [at, at + dim) of two results as one.
class RowMerge {
 public:
  RowMerge(DType dtype, std::int64_t dim) : dtype_(dtype), dim_(dim) {}

  void run(const Weights& w, const std::byte* a, const std::byte* b,
           std::int64_t at, std::byte* out) const {
    // A side without keys has no part, whatever its rows hold; the other one
    // then weighs exactly 1.
    const std::int64_t bytes = traits(dtype_).bits / 8;
    if (w.a == 0 && w.b == 0)
      std::fill_n(out + at * bytes, dim_ * bytes, std::byte{0});
    else if (w.a == 0 || w.b == 0)
      std::copy_n((w.a == 0 ? b : a) + at * bytes, dim_ * bytes,
                  out + at * bytes);
    else if (dtype_ == DType::kF32)
      sum_f32(w, a, b, at, out);
    else
      sum(w, a, b, at, out);
  }

 private:
  void sum_f32(const Weights& w, const std::byte* a, const std::byte* b,
               std::int64_t at, std::byte* out) const {
    const auto* x = reinterpret_cast<const float*>(a) + at;
    const auto* y = reinterpret_cast<const float*>(b) + at;
    auto* to = reinterpret_cast<float*>(out) + at;
    for (std::int64_t d = 0; d < dim_; ++d)
      to[d] = static_cast<float>(w.a * static_cast<double>(x[d]) +
                                 w.b * static_cast<double>(y[d]));
  }

  void sum(const Weights& w, const std::byte* a, const std::byte* b,
           std::int64_t at, std::byte* out) const {
    for (std::int64_t i = at; i < at + dim_; ++i)
      store_from_double(dtype_,
                        w.a * load_as_double(dtype_, a, i) +
                            w.b * load_as_double(dtype_, b, i),
                        out, i);
  }

  DType dtype_;
  std::int64_t dim_;
};

QkvLayout layout_of(const Tensor& t, QkvFormat format) {
  const Shape& s = t.shape();
  if (format == QkvFormat::kThd) return {format, 1, s[0], s[1], s[2]};
  if (format == QkvFormat::kSbhd) return {format, s[1], s[0], s[2], s[3]};
  return {format, s[0], s[1], s[2], s[3]};
}

}  // namespace

AttentionPartial merge_attention(const AttentionPartial& a,
                                 const AttentionPartial& b, QkvFormat format) {
  const Device device = common_device(kOp, {&a.out, &a.lse, &b.out, &b.lse});
  const bool packed = format == QkvFormat::kThd;
  require_high_precision(kOp, "out", a.out);
  require_rank(kOp, "out", a.out, packed ? 3 : 4);
  require_shape(kOp, "b.out", b.out, a.out.shape());
  require_dtype(kOp, "b.out", b.out, {a.out.dtype()});
  const QkvLayout layout = layout_of(a.out, format);
  const Shape lse_shape =
      packed ? Shape{layout.heads, layout.length}
             : Shape{layout.batch, layout.heads, layout.length};
  for (const Tensor* lse : {&a.lse, &b.lse}) {
    require_shape(kOp, "lse", *lse, lse_shape);
    require_dtype(kOp, "lse", *lse, {DType::kF32});
  }
  const Tensor out_a = contiguous(a.out), out_b = contiguous(b.out);
  const Tensor lse_a = contiguous(a.lse), lse_b = contiguous(b.lse);
  const DType dtype = a.out.dtype();
  AttentionPartial merged{Tensor::empty(dtype, a.out.shape(), device),
                          Tensor::empty(DType::kF32, lse_shape, device)};
  auto* lse = merged.lse.mutable_data<float>();
  auto* out = merged.out.mutable_data();
  const std::int64_t rows = merged.lse.numel(), dim = layout.dim;
  const RowMerge merge(dtype, dim);
  parallel_for((rows + kRows - 1) / kRows, [&](std::int64_t block) {
    for (std::int64_t r = block * kRows;
         r < std::min(rows, (block + 1) * kRows); ++r) {
      const Weights w = weigh(static_cast<double>(lse_a.data<float>()[r]),
                              static_cast<double>(lse_b.data<float>()[r]));
      lse[r] = w.lse;
      const std::int64_t head = r / layout.length;
      const std::int64_t at =
          layout.offset(head / layout.heads, 0, head % layout.heads) +
          r % layout.length * layout.row_stride();
      merge.run(w, out_a.view.data, out_b.view.data, at, out);
    }
  });
  return merged;
}

}  // namespace assay::te
