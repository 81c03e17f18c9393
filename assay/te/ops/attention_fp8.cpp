#include "assay/te/ops/attention_fp8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"
#include "assay/te/check.h"
#include "assay/te/ops/attention_problem.h"

namespace assay::te {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

Tensor copy_of(std::string_view name, const Tensor& t) {
  require_present("attention_fp8_forward", name, t);
  Tensor copy = Tensor::empty(t.dtype(), t.shape(), t.device);
  gather(t.view, 0, t.numel(), copy.mutable_data());
  return copy;
}

Tensor through(const AttentionFp8Roles::One& role, const Tensor& t) {
  return role ? role(t) : t;
}

struct Plane {
  std::int64_t rows = 0, columns = 0;  // longest q, longest kv
  Shape shape(const AttentionProblem& p) const {
    return {static_cast<std::int64_t>(p.sequences.size()), p.q.heads, rows,
            columns};
  }
  std::int64_t at(std::size_t head, std::int64_t i, std::int64_t j) const {
    return (static_cast<std::int64_t>(head) * rows + i) * columns + j;
  }
};

Plane plane_of(const AttentionProblem& p) {
  Plane plane;
  for (const Sequence& s : p.sequences) {
    plane.rows = std::max(plane.rows, s.q_length);
    plane.columns = std::max(plane.columns, s.kv_length);
  }
  return plane;
}

std::vector<double> rows_of(DType dtype, const RowsView& rows,
                            std::int64_t count, std::int64_t dim) {
  std::vector<double> out(static_cast<std::size_t>(count * dim));
  for (std::int64_t r = 0; r < count; ++r)
    load_as_doubles(dtype, rows.data, r * rows.stride, dim,
                    out.data() + r * dim);
  return out;
}

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// The rows of one head in a tensor laid out as `layout`.
RowsView rows_in(const Tensor& t, const QkvLayout& layout, std::size_t head,
                 const AttentionProblem& p, std::int64_t begin,
                 std::int64_t own_head) {
  const auto b = static_cast<std::int64_t>(head) / p.q.heads;
  return {t.view.data +
              layout.offset(b, begin, own_head) * (traits(t.dtype()).bits / 8),
          layout.row_stride()};
}

// One head at a time: probabilities of every query, log-sum-exp.
void probabilities(const AttentionProblem& problem, std::size_t h,
                   const Plane& plane, Tensor& p, Tensor& dropped, float* lse) {
  const AttentionHead& head = problem.heads[h];
  const DType dtype = head.dtype;
  const auto q = rows_of(dtype, head.q, head.queries, head.qk_dim);
  const auto k = rows_of(dtype, head.k, head.keys, head.qk_dim);
  std::vector<double> x(static_cast<std::size_t>(head.keys));
  for (std::int64_t i = 0; i < head.queries; ++i) {
    double greatest = head.has_sink ? static_cast<double>(head.sink) : kNone;
    for (std::int64_t j = 0; j < head.keys; ++j) {
      auto& logit = x[static_cast<std::size_t>(j)];
      logit = kNone;
      if (!attention_keeps(head, i, j)) continue;
      logit =
          round_to(dtype, static_cast<double>(head.scale) *
                              dot(&q[static_cast<std::size_t>(i * head.qk_dim)],
                                  &k[static_cast<std::size_t>(j * head.qk_dim)],
                                  head.qk_dim));
      logit = round_to(dtype, logit + attention_added(head, i, j));
      // One NaN stays: std::max would drop it.
      if (logit > greatest || std::isnan(logit)) greatest = logit;
    }
    if (greatest == kNone) continue;  // no key, or none but of logit -inf
    double sum = head.has_sink
                     ? std::exp(static_cast<double>(head.sink) - greatest)
                     : 0.0;
    for (double logit : x) sum += std::exp(logit - greatest);
    lse[i] = static_cast<float>(greatest + std::log(sum));
    for (std::int64_t j = 0; j < head.keys; ++j) {
      if (!attention_keeps(head, i, j)) continue;
      const double weight =
          std::exp(x[static_cast<std::size_t>(j)] - greatest) / sum;
      const std::int64_t at = plane.at(h, i, j);
      store_from_double(dtype, weight, p.mutable_data(), at);
      store_from_double(
          dtype,
          round_to(dtype, weight) *
              static_cast<double>(attention_kept(head.dropout, i, j)),
          dropped.mutable_data(), at);
    }
  }
}

Shape with_dim(const Shape& shape, std::int64_t dim) {
  Shape out = shape;
  out.back() = dim;
  return out;
}

void for_heads(const AttentionProblem& p,
               const std::function<void(std::size_t)>& body) {
  parallel_for(static_cast<std::int64_t>(p.heads.size()),
               [&](std::int64_t h) { body(static_cast<std::size_t>(h)); });
}

// The gradient of the logits of one head, rounded to the dtype.
void logit_gradients(const AttentionProblem& problem, std::size_t h,
                     const Plane& plane, const RowsView& d_out, const Tensor& p,
                     Tensor& dx, double* delta) {
  const AttentionHead& head = problem.heads[h];
  const DType dtype = head.dtype;
  const auto g = rows_of(dtype, d_out, head.queries, head.v_dim);
  const auto v = rows_of(dtype, head.v, head.keys, head.v_dim);
  std::vector<double> dp(static_cast<std::size_t>(head.keys));
  for (std::int64_t i = 0; i < head.queries; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < head.keys; ++j) {
      if (!attention_keeps(head, i, j)) continue;
      auto& value = dp[static_cast<std::size_t>(j)];
      value = round_to(
          dtype, dot(&g[static_cast<std::size_t>(i * head.v_dim)],
                     &v[static_cast<std::size_t>(j * head.v_dim)], head.v_dim));
      value = round_to(dtype, value * static_cast<double>(
                                          attention_kept(head.dropout, i, j)));
      sum += value * load_as_double(dtype, p.view.data, plane.at(h, i, j));
    }
    delta[i] = sum;
    for (std::int64_t j = 0; j < head.keys; ++j) {
      if (!attention_keeps(head, i, j)) continue;
      const std::int64_t at = plane.at(h, i, j);
      store_from_double(dtype,
                        load_as_double(dtype, p.view.data, at) *
                            (dp[static_cast<std::size_t>(j)] - sum),
                        dx.mutable_data(), at);
    }
  }
}

// sum over the other index of weight * row, for queries or for keys.
std::vector<double> weighed(const AttentionHead& head, std::size_t h,
                            const Plane& plane, const Tensor& weights,
                            const std::vector<double>& rows, std::int64_t dim,
                            bool by_query) {
  const std::int64_t count = by_query ? head.queries : head.keys;
  const std::int64_t others = by_query ? head.keys : head.queries;
  std::vector<double> out(static_cast<std::size_t>(count * dim), 0.0);
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t o = 0; o < others; ++o) {
      const std::int64_t i = by_query ? r : o, j = by_query ? o : r;
      if (!attention_keeps(head, i, j)) continue;
      const double w =
          load_as_double(head.dtype, weights.view.data, plane.at(h, i, j));
      for (std::int64_t d = 0; d < dim; ++d)
        out[static_cast<std::size_t>(r * dim + d)] +=
            w * rows[static_cast<std::size_t>(o * dim + d)];
    }
  return out;
}

void store_rows(const std::vector<double>& rows, std::int64_t dim,
                double factor, Tensor& to, const QkvLayout& layout,
                std::int64_t b, std::int64_t begin, std::int64_t head) {
  const std::int64_t first = layout.offset(b, begin, head);
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const auto i = static_cast<std::int64_t>(n);
    store_from_double(to.dtype(), factor * rows[n], to.mutable_data(),
                      first + i / dim * layout.row_stride() + i % dim);
  }
}

Tensor bias_gradient(const AttentionProblem& p, const Plane& plane,
                     const Tensor& dx, const Tensor& bias) {
  const Shape& s = bias.shape();
  std::vector<double> sums(static_cast<std::size_t>(bias.numel()), 0.0);
  for (std::size_t h = 0; h < p.heads.size(); ++h) {
    const auto index = static_cast<std::int64_t>(h);
    const std::int64_t b = s[0] == 1 ? 0 : index / p.q.heads;
    const std::int64_t head = s[1] == 1 ? 0 : index % p.q.heads;
    for (std::int64_t i = 0; i < p.heads[h].queries; ++i)
      for (std::int64_t j = 0; j < p.heads[h].keys; ++j)
        sums[static_cast<std::size_t>(((b * s[1] + head) * s[2] + i) * s[3] +
                                      j)] +=
            static_cast<double>(p.heads[h].bias.scale) *
            load_as_double(dx.dtype(), dx.view.data, plane.at(h, i, j));
  }
  Tensor out = Tensor::empty(bias.dtype(), s, bias.device);
  for (std::size_t i = 0; i < sums.size(); ++i)
    store_from_double(out.dtype(), sums[i], out.mutable_data(),
                      static_cast<std::int64_t>(i));
  return out;
}

// The gradient of one head of k and v, and of its heads of q.
void product_gradients(const AttentionProblem& p, const Plane& plane,
                       const Tensor& dx, const Tensor& s,
                       const std::function<RowsView(std::size_t)>& d_out_rows,
                       std::int64_t group, AttentionGradients& out) {
  const DType dtype = dx.dtype();
  const auto add = [](std::vector<double>& sum, std::vector<double> more,
                      double factor) {
    sum.resize(more.size());
    for (std::size_t i = 0; i < more.size(); ++i) sum[i] += factor * more[i];
  };
  std::vector<double> dk, dv;
  for (std::int64_t n = 0; n < p.group; ++n) {
    const std::int64_t index = group * p.group + n;
    const auto h = static_cast<std::size_t>(index);
    const AttentionHead& head = p.heads[h];
    const auto scale = static_cast<double>(head.scale);
    const auto q = rows_of(dtype, head.q, head.queries, head.qk_dim);
    const auto k = rows_of(dtype, head.k, head.keys, head.qk_dim);
    const auto go = rows_of(dtype, d_out_rows(h), head.queries, head.v_dim);
    store_rows(weighed(head, h, plane, dx, k, head.qk_dim, true), head.qk_dim,
               scale, out.dq, p.q, index / p.q.heads, p.sequence(h).q_begin,
               index % p.q.heads);
    add(dk, weighed(head, h, plane, dx, q, head.qk_dim, false), scale);
    add(dv, weighed(head, h, plane, s, go, head.v_dim, false), 1);
  }
  const auto first = static_cast<std::size_t>(group * p.group);
  const std::int64_t b = group * p.group / p.q.heads;
  const std::int64_t key_head = group % p.k.heads;
  const std::int64_t begin = p.sequence(first).kv_begin;
  store_rows(dk, p.k.dim, 1, out.dk, p.k, b, begin, key_head);
  store_rows(dv, p.v.dim, 1, out.dv, p.v, b, begin, key_head);
}

Tensor sink_gradient(const AttentionProblem& p, const Plane& plane,
                     const Tensor& lse_of_all,
                     const std::vector<double>& delta) {
  Tensor sinks = Tensor::zeros(DType::kF32, {p.q.heads}, p.device);
  auto* out = sinks.mutable_data<float>();
  for (std::size_t h = 0; h < p.heads.size(); ++h) {
    double sum = 0;
    const auto* lse = lse_of_all.data<float>() + p.lse_offset(h);
    for (std::int64_t i = 0; i < p.heads[h].queries; ++i)
      sum -= std::exp(static_cast<double>(p.heads[h].sink) -
                      static_cast<double>(lse[i])) *
             delta[h * static_cast<std::size_t>(plane.rows) +
                   static_cast<std::size_t>(i)];
    out[h % static_cast<std::size_t>(p.q.heads)] += static_cast<float>(sum);
  }
  return sinks;
}

}  // namespace

AttentionFp8Result attention_fp8_forward(const AttentionInputs& inputs,
                                         const AttentionOptions& options,
                                         const AttentionFp8Roles& roles) {
  AttentionFp8Result r;
  r.inputs = inputs;
  r.inputs.q = copy_of("q", inputs.q);
  r.inputs.k = copy_of("k", inputs.k);
  r.inputs.v = copy_of("v", inputs.v);
  if (roles.qkv) roles.qkv(r.inputs.q, r.inputs.k, r.inputs.v);
  const AttentionProblem p =
      make_attention_problem("attention_fp8_forward", r.inputs, options);
  const Plane plane = plane_of(p);
  const DType dtype = r.inputs.q.dtype();
  r.p = Tensor::zeros(dtype, plane.shape(p), p.device);
  Tensor dropped = Tensor::zeros(dtype, plane.shape(p), p.device);
  r.lse = Tensor::empty(DType::kF32, p.lse_shape(), p.device);
  auto* lse = r.lse.mutable_data<float>();
  std::fill_n(lse, r.lse.numel(), static_cast<float>(kNone));
  for_heads(p, [&](std::size_t h) {
    probabilities(p, h, plane, r.p, dropped, lse + p.lse_offset(h));
  });
  r.s = through(roles.s, dropped);
  Tensor out =
      Tensor::zeros(dtype, with_dim(r.inputs.q.shape(), p.v.dim), p.device);
  for_heads(p, [&](std::size_t h) {
    const AttentionHead& head = p.heads[h];
    const auto v = rows_of(dtype, head.v, head.keys, head.v_dim);
    const auto index = static_cast<std::int64_t>(h);
    store_rows(weighed(head, h, plane, r.s, v, head.v_dim, true), head.v_dim, 1,
               out, p.out, index / p.q.heads, p.sequence(h).q_begin,
               index % p.q.heads);
  });
  r.out = through(roles.o, out);
  return r;
}

AttentionGradients attention_fp8_backward(const Tensor& d_out,
                                          const AttentionFp8Result& forward,
                                          const AttentionOptions& options,
                                          const AttentionFp8Roles& roles) {
  constexpr std::string_view kOp = "attention_fp8_backward";
  const AttentionInputs& in = forward.inputs;
  const AttentionProblem p = make_attention_problem(kOp, in, options);
  const DType dtype = in.q.dtype();
  require_shape(kOp, "d_out", d_out, with_dim(in.q.shape(), p.v.dim));
  require_dtype(kOp, "d_out", d_out, {dtype});
  const Plane plane = plane_of(p);
  require_shape(kOp, "p", forward.p, plane.shape(p));
  require_shape(kOp, "s", forward.s, plane.shape(p));
  require_shape(kOp, "lse", forward.lse, p.lse_shape());
  common_device(kOp, {&in.q, &d_out, &forward.p, &forward.s, &forward.lse});
  const Tensor g = contiguous(through(roles.d_out, d_out));
  Tensor dx = Tensor::zeros(dtype, plane.shape(p), p.device);
  std::vector<double> delta(p.heads.size() *
                            static_cast<std::size_t>(plane.rows));
  const auto d_out_rows = [&](std::size_t h) {
    return rows_in(g, p.out, h, p, p.sequence(h).q_begin,
                   static_cast<std::int64_t>(h) % p.q.heads);
  };
  for_heads(p, [&](std::size_t h) {
    logit_gradients(p, h, plane, d_out_rows(h), forward.p, dx,
                    delta.data() + static_cast<std::int64_t>(h) * plane.rows);
  });
  dx = through(roles.dp, dx);

  AttentionGradients out;
  out.dq = Tensor::zeros(dtype, in.q.shape(), p.device);
  out.dk = Tensor::zeros(dtype, in.k.shape(), p.device);
  out.dv = Tensor::zeros(dtype, in.v.shape(), p.device);
  // One task a head of k: its heads of q add up in order.
  parallel_for(static_cast<std::int64_t>(p.heads.size()) / p.group,
               [&](std::int64_t group) {
                 product_gradients(p, plane, dx, forward.s, d_out_rows, group,
                                   out);
               });
  if (roles.d_qkv) roles.d_qkv(out.dq, out.dk, out.dv);
  if (in.bias && (options.bias == AttentionBiasType::kPreScale ||
                  options.bias == AttentionBiasType::kPostScale))
    out.d_bias = bias_gradient(p, plane, dx, *in.bias);
  if (options.softmax == SoftmaxType::kLearnable)
    out.d_softmax_offset = sink_gradient(p, plane, forward.lse, delta);
  return out;
}

}  // namespace assay::te
