#include <algorithm>
#include <numeric>

#include "assay/base/parallel.h"
#include "assay/core/buffer.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/ops/attention.h"
#include "assay/te/ops/attention_flash.h"
#include "assay/te/ops/attention_problem.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "attention_backward";

// fp32 gradients of every head before they are added up and rounded.
struct HeadSums {
  std::shared_ptr<std::byte> memory;
  std::vector<float*> dq, dk, dv;
};

HeadSums reserve_sums(const AttentionProblem& p) {
  std::int64_t floats = 0;
  for (const AttentionHead& h : p.heads)
    floats += h.queries * h.qk_dim + h.keys * (h.qk_dim + h.v_dim);
  HeadSums sums;
  sums.memory = allocate_buffer(static_cast<std::size_t>(floats) * 4);
  auto* next = reinterpret_cast<float*>(sums.memory.get());
  for (const AttentionHead& h : p.heads) {
    sums.dq.push_back(next);
    sums.dk.push_back(next += h.queries * h.qk_dim);
    sums.dv.push_back(next += h.keys * h.qk_dim);
    next += h.keys * h.v_dim;
  }
  return sums;
}

// Rounds rows that are the sum of `parts` heads' rows, in their order.
class RowStore {
 public:
  RowStore(const AttentionProblem& p, DType dtype, bool plain)
      : store_(plain ? nullptr : choose_attention_tiles(dtype).general->store),
        dtype_(dtype),
        device_(p.device) {}

  void run(std::span<float* const> parts, std::int64_t rows,
           std::int64_t columns, std::byte* to, std::int64_t stride) const {
    const auto n = static_cast<std::size_t>(rows * columns);
    const float* from = parts[0];
    std::vector<float> total;
    if (parts.size() > 1) {
      total.resize(n);
      for (std::size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (const float* part : parts) sum += static_cast<double>(part[i]);
        total[i] = static_cast<float>(sum);
      }
      from = total.data();
    }
    if (store_ != nullptr) {
      store_({.from = from,
              .from_stride = columns,
              .rows = rows,
              .columns = columns,
              .dtype = dtype_,
              .to = to,
              .to_stride = stride});
      return;
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        store_from_double(dtype_, static_cast<double>(from[r * columns + c]),
                          to, r * stride + c);
  }

 private:
  void (*store_)(const StoreRows&);
  DType dtype_;
  Device device_;
};

Tensor gradient_tensor(const Tensor& of, bool padded, Device device) {
  return padded ? Tensor::zeros(of.dtype(), of.shape(), device)
                : Tensor::empty(of.dtype(), of.shape(), device);
}

std::byte* place(Tensor& t, const QkvLayout& layout, std::int64_t b,
                 std::int64_t begin, std::int64_t head) {
  return t.mutable_data() +
         layout.offset(b, begin, head) * (traits(t.dtype()).bits / 8);
}

void store_gradients(const AttentionProblem& p, const HeadSums& sums,
                     bool plain, AttentionGradients& g) {
  const RowStore store(p, g.dq.dtype(), plain);
  parallel_for(static_cast<std::int64_t>(p.heads.size()), [&](std::int64_t i) {
    const auto h = static_cast<std::size_t>(i);
    const std::int64_t b = i / p.q.heads, head = i % p.q.heads;
    const AttentionHead& a = p.heads[h];
    const Sequence& s = p.sequence(h);
    store.run({&sums.dq[h], 1}, a.queries, a.qk_dim,
              place(g.dq, p.q, b, s.q_begin, head), p.q.row_stride());
    if (head % p.group != 0) return;
    const auto n = static_cast<std::size_t>(p.group);
    const std::int64_t key_head = head / p.group;
    store.run({&sums.dk[h], n}, a.keys, a.qk_dim,
              place(g.dk, p.k, b, s.kv_begin, key_head), p.k.row_stride());
    store.run({&sums.dv[h], n}, a.keys, a.v_dim,
              place(g.dv, p.v, b, s.kv_begin, key_head), p.v.row_stride());
  });
}

// Heads whose bias gradients are one come one after the other, in the order of
// the batch: the driver adds them in that order.
std::vector<std::size_t> order_of(const AttentionProblem& p,
                                  const std::vector<AttentionGradient>& g) {
  std::vector<std::size_t> order(p.heads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(
      order.begin(), order.end(),
      [&](std::size_t a, std::size_t b) { return g[a].d_bias < g[b].d_bias; });
  return order;
}

void run(const AttentionProblem& p, bool plain, DType dtype,
         const std::vector<AttentionGradient>& gradients) {
  std::vector<AttentionHead> heads;
  std::vector<AttentionGradient> ordered;
  for (std::size_t h : order_of(p, gradients)) {
    heads.push_back(p.heads[h]);
    ordered.push_back(gradients[h]);
  }
  if (!plain) {
    flash_attention_backward(choose_attention_tiles(dtype), heads, ordered);
    return;
  }
  // One after the other where they add to one bias gradient.
  std::vector<std::size_t> begins;
  for (std::size_t h = 0; h < heads.size(); ++h)
    if (h == 0 || ordered[h].d_bias == nullptr ||
        ordered[h].d_bias != ordered[h - 1].d_bias)
      begins.push_back(h);
  begins.push_back(heads.size());
  parallel_for(static_cast<std::int64_t>(begins.size()) - 1,
               [&](std::int64_t i) {
                 const auto g = static_cast<std::size_t>(i);
                 for (std::size_t h = begins[g]; h < begins[g + 1]; ++h)
                   ref_attention_backward(heads[h], p.precision, ordered[h]);
               });
}

struct BiasSums {
  std::vector<float> values;  // in the shape of the bias
  std::int64_t rows = 0, columns = 0;

  // The plane that head `h` of sequence `b` adds to.
  float* plane(const Shape& s, std::int64_t b, std::int64_t h) {
    const std::int64_t at = (s[0] == 1 ? 0 : b) * s[1] + (s[1] == 1 ? 0 : h);
    return values.data() + at * rows * columns;
  }
};

Tensor sink_gradient(const AttentionProblem& p,
                     const std::vector<double>& d_sink) {
  Tensor g = Tensor::empty(DType::kF32, {p.q.heads}, p.device);
  for (std::int64_t h = 0; h < p.q.heads; ++h) {
    double sum = 0;
    for (std::size_t i = static_cast<std::size_t>(h); i < d_sink.size();
         i += static_cast<std::size_t>(p.q.heads))
      sum += d_sink[i];
    g.mutable_data<float>()[h] = static_cast<float>(sum);
  }
  return g;
}

Tensor bias_gradient(const BiasSums& sums, const Tensor& bias, Device device) {
  Tensor g = Tensor::empty(bias.dtype(), bias.shape(), device);
  for (std::size_t i = 0; i < sums.values.size(); ++i)
    store_from_double(bias.dtype(), static_cast<double>(sums.values[i]),
                      g.mutable_data(), static_cast<std::int64_t>(i));
  return g;
}

}  // namespace

AttentionGradients attention_backward(const Tensor& d_out,
                                      const AttentionInputs& inputs,
                                      const Tensor& out, const Tensor& lse,
                                      const AttentionOptions& options) {
  const AttentionProblem p = make_attention_problem(kOp, inputs, options);
  const DType dtype = inputs.q.dtype();
  Shape shape = inputs.q.shape();
  shape.back() = p.v.dim;
  require_shape(kOp, "d_out", d_out, shape);
  require_shape(kOp, "out", out, shape);
  require_dtype(kOp, "d_out", d_out, {dtype});
  require_dtype(kOp, "out", out, {dtype});
  require_shape(kOp, "lse", lse, p.lse_shape());
  require_dtype(kOp, "lse", lse, {DType::kF32});
  common_device(kOp, {&inputs.q, &d_out, &out, &lse});
  const Tensor dense_d_out = contiguous(d_out), dense_out = contiguous(out);
  const Tensor dense_lse = contiguous(lse);
  const bool plain = runs_plain(p, dtype);

  const bool want_bias = options.bias == AttentionBiasType::kPreScale ||
                         options.bias == AttentionBiasType::kPostScale;
  BiasSums bias;
  if (want_bias) {
    bias.rows = p.q.length;
    bias.columns = p.k.length;
    bias.values.assign(static_cast<std::size_t>(inputs.bias->numel()), 0.0f);
  }
  const HeadSums sums = reserve_sums(p);
  std::vector<double> d_sink(p.heads.size(), 0.0);
  std::vector<AttentionGradient> gradients;
  const std::int64_t bytes = traits(dtype).bits / 8;
  for (std::size_t h = 0; h < p.heads.size(); ++h) {
    const auto index = static_cast<std::int64_t>(h);
    const std::int64_t b = index / p.q.heads, head = index % p.q.heads;
    const std::int64_t at =
        p.out.offset(b, p.sequence(h).q_begin, head) * bytes;
    AttentionGradient g;
    g.out = {dense_out.view.data + at, p.out.row_stride()};
    g.d_out = {dense_d_out.view.data + at, p.out.row_stride()};
    g.lse = dense_lse.data<float>() + p.lse_offset(h);
    g.dq = sums.dq[h];
    g.dk = sums.dk[h];
    g.dv = sums.dv[h];
    g.d_sink = &d_sink[h];
    if (want_bias) {
      g.d_bias = bias.plane(inputs.bias->shape(), b, head);
      g.d_bias_row = bias.columns;
      g.d_bias_column = 1;
    }
    gradients.push_back(g);
  }
  run(p, plain, dtype, gradients);

  AttentionGradients result;
  result.dq = gradient_tensor(inputs.q, p.padded_q, p.device);
  result.dk = gradient_tensor(inputs.k, p.padded_kv, p.device);
  result.dv = gradient_tensor(inputs.v, p.padded_kv, p.device);
  store_gradients(p, sums, plain, result);
  if (want_bias) result.d_bias = bias_gradient(bias, *inputs.bias, p.device);
  if (options.softmax == SoftmaxType::kLearnable)
    result.d_softmax_offset = sink_gradient(p, d_sink);
  return result;
}

}  // namespace assay::te
