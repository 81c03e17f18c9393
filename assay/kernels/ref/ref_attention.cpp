// Attention as plain loops: the formula of kernels/attention.h, unfused.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "assay/kernels/attention.h"
#include "assay/kernels/dropout.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

template <typename Real>
std::vector<Real> load_rows(DType dtype, const RowsView& rows,
                            std::int64_t begin, std::int64_t end,
                            std::int64_t columns) {
  std::vector<Real> out(static_cast<std::size_t>((end - begin) * columns));
  std::vector<double> row(static_cast<std::size_t>(columns));
  for (std::int64_t r = begin; r < end; ++r) {
    load_as_doubles(dtype, rows.data, r * rows.stride, columns, row.data());
    std::copy(row.begin(), row.end(), out.begin() + (r - begin) * columns);
  }
  return out;
}

template <typename Acc, typename Real>
Real dot(Acc sum, const Real* a, const Real* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) sum.add(a[i] * b[i]);
  return sum.total();
}

// A dropped value is 0 whatever it was: dropout.h drops a NaN too.
template <typename Real>
Real drop(float kept, Real value) {
  return kept == 0 ? Real{0} : value * static_cast<Real>(kept);
}

// One query against every key.
template <typename Real>
struct LogitRow {
  std::vector<Real> x;             // kNone where the pair is excluded
  std::vector<std::uint8_t> keep;  // a logit may be -inf by itself
};

template <typename Real, typename Make>
void fill_logits(const AttentionHead& h, std::int64_t i, const Real* q,
                 const std::vector<Real>& k, Make make, LogitRow<Real>& row) {
  const auto keys = static_cast<std::size_t>(h.keys);
  row.x.assign(keys, static_cast<Real>(kNone));
  row.keep.assign(keys, 0);
  for (std::int64_t j = 0; j < h.keys; ++j) {
    if (!attention_keeps(h, i, j)) continue;
    const auto at = static_cast<std::size_t>(j);
    row.keep[at] = 1;
    row.x[at] = static_cast<Real>(h.scale) *
                    dot(make(), q, k.data() + j * h.qk_dim, h.qk_dim) +
                static_cast<Real>(attention_added(h, i, j));
  }
}

template <typename Real>
struct RowSoftmax {
  Real base;  // what exponents are taken against
  Real sum;   // of exp(x - base), the sink included
  double lse, row_max;
};

template <typename Real, typename Make>
RowSoftmax<Real> normaliser(const AttentionHead& h, const std::vector<Real>& x,
                            Make make) {
  RowSoftmax<Real> row{};
  Real best = static_cast<Real>(kNone);
  bool nan = false;
  for (Real value : x) {
    if (value > best) best = value;
    nan = nan || std::isnan(value);
  }
  row.row_max = nan ? std::numeric_limits<double>::quiet_NaN()
                    : static_cast<double>(best);
  if (h.has_sink && h.sink > best) best = h.sink;
  row.base = best == static_cast<Real>(kNone) ? Real{0} : best;
  auto sum = make();
  for (Real value : x)
    if (value != static_cast<Real>(kNone)) sum.add(std::exp(value - row.base));
  if (h.has_sink) sum.add(std::exp(static_cast<Real>(h.sink) - row.base));
  row.sum = sum.total();
  row.lse = row.sum == 0 ? kNone
                         : static_cast<double>(row.base) +
                               std::log(static_cast<double>(row.sum));
  return row;
}

template <typename Make>
void forward(const AttentionHead& h, std::int64_t begin, std::int64_t end,
             Make make, const AttentionOutput& o) {
  using Real = typename decltype(make())::Real;
  const auto q = load_rows<Real>(h.dtype, h.q, begin, end, h.qk_dim);
  const auto k = load_rows<Real>(h.dtype, h.k, 0, h.keys, h.qk_dim);
  const auto v = load_rows<Real>(h.dtype, h.v, 0, h.keys, h.v_dim);
  LogitRow<Real> logits;
  std::vector<Real> p(static_cast<std::size_t>(h.keys));
  for (std::int64_t i = begin; i < end; ++i) {
    fill_logits(h, i, q.data() + (i - begin) * h.qk_dim, k, make, logits);
    const auto row = normaliser(h, logits.x, make);
    for (std::int64_t j = 0; j < h.keys; ++j)
      p[static_cast<std::size_t>(j)] = drop(
          attention_kept(h.dropout, i, j),
          std::exp(logits.x[static_cast<std::size_t>(j)] - row.base) / row.sum);
    o.lse[i] = static_cast<float>(row.lse);
    if (o.row_max != nullptr) o.row_max[i] = static_cast<float>(row.row_max);
    for (std::int64_t d = 0; d < h.v_dim; ++d) {
      auto sum = make();
      for (std::int64_t j = 0; j < h.keys && row.sum != 0; ++j) {
        const auto at = static_cast<std::size_t>(j);
        if (logits.keep[at] != 0)
          sum.add(p[at] * v[static_cast<std::size_t>(j * h.v_dim + d)]);
      }
      store_from_double(h.dtype, sum.total(), o.out, i * o.stride + d);
    }
  }
}

// The matrices of one head: queries x keys.
template <typename Real>
struct Matrices {
  std::vector<Real> kept, ds;  // kept * p, and the gradient of the logits
  std::vector<std::uint8_t> keep;
};

template <typename Make, typename Real>
Matrices<Real> gradient_matrices(const AttentionHead& h,
                                 const AttentionGradient& g, Make make,
                                 const std::vector<Real>& q,
                                 const std::vector<Real>& k,
                                 const std::vector<Real>& v,
                                 const std::vector<Real>& d_out) {
  const auto out = load_rows<Real>(h.dtype, g.out, 0, h.queries, h.v_dim);
  Matrices<Real> m;
  m.kept.assign(static_cast<std::size_t>(h.queries * h.keys), Real{0});
  m.ds = m.kept;
  m.keep.assign(m.kept.size(), 0);
  LogitRow<Real> logits;
  double d_sink = 0;
  for (std::int64_t i = 0; i < h.queries; ++i) {
    const Real* go = d_out.data() + i * h.v_dim;
    const Real delta = dot(make(), go, out.data() + i * h.v_dim, h.v_dim);
    const Real lse = static_cast<Real>(g.lse[i]);
    if (lse == static_cast<Real>(kNone)) continue;
    if (h.has_sink)
      d_sink -=
          std::exp(static_cast<double>(h.sink) - static_cast<double>(lse)) *
          static_cast<double>(delta);
    fill_logits(h, i, q.data() + i * h.qk_dim, k, make, logits);
    for (std::int64_t j = 0; j < h.keys; ++j) {
      if (logits.keep[static_cast<std::size_t>(j)] == 0) continue;
      const auto at = static_cast<std::size_t>(i * h.keys + j);
      m.keep[at] = 1;
      const Real p = std::exp(logits.x[static_cast<std::size_t>(j)] - lse);
      const float kept = attention_kept(h.dropout, i, j);
      const Real dp =
          drop(kept, dot(make(), go, v.data() + j * h.v_dim, h.v_dim));
      m.kept[at] = drop(kept, p);
      m.ds[at] = p * (dp - delta);
      if (g.d_bias != nullptr)
        g.d_bias[i * g.d_bias_row + j * g.d_bias_column] +=
            static_cast<float>(m.ds[at] * static_cast<Real>(h.bias.scale));
    }
  }
  if (g.d_sink != nullptr) *g.d_sink = d_sink;
  return m;
}

// out[r][c] = factor * sum over the kept pairs of weight[pair] * from[other],
// r a query and other a key, or the other way round.
template <typename Make, typename Real>
void weigh(const AttentionHead& h, Make make, const Matrices<Real>& m,
           const std::vector<Real>& weight, const std::vector<Real>& from,
           std::int64_t columns, bool by_query, Real factor, float* out) {
  const std::int64_t rows = by_query ? h.queries : h.keys;
  const std::int64_t others = by_query ? h.keys : h.queries;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      auto sum = make();
      for (std::int64_t other = 0; other < others; ++other) {
        const auto at = static_cast<std::size_t>(by_query ? r * h.keys + other
                                                          : other * h.keys + r);
        if (m.keep[at] != 0)
          sum.add(weight[at] *
                  from[static_cast<std::size_t>(other * columns + c)]);
      }
      out[r * columns + c] =
          static_cast<float>(static_cast<Real>(sum.total()) * factor);
    }
}

template <typename Make>
void backward(const AttentionHead& h, Make make, const AttentionGradient& g) {
  using Real = typename decltype(make())::Real;
  const auto q = load_rows<Real>(h.dtype, h.q, 0, h.queries, h.qk_dim);
  const auto k = load_rows<Real>(h.dtype, h.k, 0, h.keys, h.qk_dim);
  const auto v = load_rows<Real>(h.dtype, h.v, 0, h.keys, h.v_dim);
  const auto d_out = load_rows<Real>(h.dtype, g.d_out, 0, h.queries, h.v_dim);
  const auto m = gradient_matrices(h, g, make, q, k, v, d_out);
  const auto scale = static_cast<Real>(h.scale);
  weigh(h, make, m, m.ds, k, h.qk_dim, true, scale, g.dq);
  weigh(h, make, m, m.ds, q, h.qk_dim, false, scale, g.dk);
  weigh(h, make, m, m.kept, d_out, h.v_dim, false, Real{1}, g.dv);
}

double bias_value(const AttentionBias& bias, std::int64_t i, std::int64_t j) {
  return load_as_double(bias.dtype, bias.data,
                        i * bias.row_stride + j * bias.column_stride);
}

}  // namespace

bool attention_keeps(const AttentionHead& h, std::int64_t i, std::int64_t j) {
  if (j < i + h.low || j > i + h.high) return false;
  if (h.mask != nullptr && h.mask[i * h.mask_row + j * h.mask_column] != 0)
    return false;
  return h.bias.data == nullptr || bias_value(h.bias, i, j) != kNone;
}

double attention_added(const AttentionHead& h, std::int64_t i, std::int64_t j) {
  double added = 0;
  if (h.bias.data != nullptr)
    added = static_cast<double>(h.bias.scale) * bias_value(h.bias, i, j);
  if (h.bias.slope != 0) {
    const auto distance = std::abs(i + h.bias.offset - j);
    added -= static_cast<double>(h.bias.slope) * static_cast<double>(distance);
  }
  return added;
}

float attention_kept(const AttentionDropout& dropout, std::int64_t i,
                     std::int64_t j) {
  if (dropout.draw.threshold == 0) return 1.0f;
  const std::int64_t element = dropout.first + i * dropout.row + j;
  std::uint16_t bits = 0;
  dropout_kernels(Device::kReference)
      .draw(dropout.draw, element / kDropoutChunk, 1, &bits);
  return (bits >> (element % kDropoutChunk) & 1) != 0 ? dropout.keep_scale
                                                      : 0.0f;
}

void ref_attention_forward(const AttentionHead& head, std::int64_t begin,
                           std::int64_t end, InternalPrecision precision,
                           const AttentionOutput& out) {
  with_accumulator(precision, head.dtype,
                   [&](auto make) { forward(head, begin, end, make, out); });
}

void ref_attention_backward(const AttentionHead& head,
                            InternalPrecision precision,
                            const AttentionGradient& gradient) {
  with_accumulator(precision, head.dtype,
                   [&](auto make) { backward(head, make, gradient); });
}

}  // namespace assay
