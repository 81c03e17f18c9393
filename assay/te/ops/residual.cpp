#include "assay/te/ops/residual.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "assay/core/philox.h"
#include "assay/kernels/residual.h"
#include "assay/te/check.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/ops/dropout_runs.h"

namespace assay::te {
namespace {

std::int64_t size_of(const Tensor& t) { return traits(t.dtype()).bits / 8; }

// `other` goes with x: dtype, device and `shape`.
void require_partner(std::string_view op, std::string_view argument,
                     const Tensor& x, const Tensor& other, const Shape& shape) {
  require_dtype(op, argument, other, {x.dtype()});
  require_shape(op, argument, other, shape);
  common_device(op, {&x, &other});
}

Tensor combine(std::string_view op, const Tensor& x_in, float factor,
               std::string_view partner, const Tensor* y_in) {
  require_high_precision(op, "x", x_in);
  require_value(!std::isnan(factor), op, "factor", static_cast<double>(factor),
                "a number");
  if (y_in != nullptr) require_partner(op, partner, x_in, *y_in, x_in.shape());
  const Tensor x = contiguous(x_in);
  const Tensor y = y_in != nullptr ? contiguous(*y_in) : Tensor{};
  Tensor out = Tensor::empty(x.dtype(), x.shape(), x.device);
  std::byte* to = out.mutable_data();
  const ResidualKernels& kernels = residual_kernels(x.device);
  for_element_runs(x.numel(), [&](std::int64_t begin, std::int64_t count) {
    const std::int64_t at = begin * size_of(x);
    kernels.add({.dtype = x.dtype(),
                 .x = x.view.data + at,
                 .scale = factor,
                 .residual = y_in != nullptr ? y.view.data + at : nullptr,
                 .n = count,
                 .out = to + at});
  });
  return out;
}

// The bias over and over, so long that its end is the end of a chunk of the
// mask and that a call of a kernel is worth it. Empty where there is none.
struct BiasRun {
  Tensor values;
  std::int64_t length = 0;
};

BiasRun repeated(const std::optional<Tensor>& bias) {
  if (!bias || bias->numel() == 0) return {};
  const Tensor one = contiguous(*bias);
  const std::int64_t n = one.numel();
  std::int64_t times = kDropoutChunk / std::gcd(n, kDropoutChunk);
  constexpr std::int64_t kWorthIt = 2048;
  if (n * times < kWorthIt) times *= (kWorthIt + n * times - 1) / (n * times);
  if (times == 1) return {one, n};
  BiasRun run{Tensor::empty(one.dtype(), {n * times}, one.device), n * times};
  const auto bytes = static_cast<std::size_t>(n * size_of(one));
  for (std::int64_t i = 0; i < times; ++i)
    std::memcpy(run.values.mutable_data() + static_cast<std::size_t>(i) * bytes,
                one.view.data, bytes);
  return run;
}

// Calls body(begin, count, at) for the pieces of elements [begin, begin +
// count) over which the bias goes on without a break from its element `at`.
template <class Body>
void for_bias_pieces(const BiasRun& bias, std::int64_t begin,
                     std::int64_t count, const Body& body) {
  if (bias.length == 0) return body(begin, count, std::int64_t{0});
  const std::int64_t end = begin + count;
  while (begin < end) {
    const std::int64_t at = begin % bias.length;
    const std::int64_t n = std::min(end - begin, bias.length - at);
    body(begin, n, at);
    begin += n;
  }
}

// A tensor as [outer, samples, inner].
struct Samples {
  std::int64_t outer = 1, samples = 1, inner = 1;
};

Samples samples_of(std::string_view op, const Tensor& x, std::int64_t dim) {
  const Shape& shape = x.shape();
  require(dim >= 0 && dim < static_cast<std::int64_t>(shape.size()), op,
          "batch_dim", std::to_string(dim),
          "a dimension of " + to_string(shape));
  Samples s;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto at = static_cast<std::int64_t>(d);
    (at < dim ? s.outer : at == dim ? s.samples : s.inner) *= shape[d];
  }
  return s;
}

Tensor draw_samples(const DropPath& options, std::int64_t samples,
                    Device device) {
  Tensor kept = Tensor::empty(DType::kU8, {samples}, device);
  for (std::int64_t i = 0; i < samples; ++i) {
    PhiloxStream stream(options.state.seed, static_cast<std::uint64_t>(i));
    stream.seek(options.state.offset);
    const bool dropped = stream.next_uniform() < double{options.p};
    kept.mutable_data<std::uint8_t>()[i] = dropped ? 0 : 1;
  }
  return kept;
}

// residual + (kept ? x / (1 - p) : 0).
Tensor apply_samples(const Tensor& x_in, const Tensor* residual_in,
                     const Tensor& kept, const Samples& s, float p) {
  const Tensor x = contiguous(x_in);
  const Tensor residual =
      residual_in != nullptr ? contiguous(*residual_in) : Tensor{};
  Tensor out = Tensor::empty(x.dtype(), x.shape(), x.device);
  std::byte* to = out.mutable_data();
  const auto* keep = kept.data<std::uint8_t>();
  const ResidualKernels& kernels = residual_kernels(x.device);
  // A mask that drops everything, for the pieces of dropped samples.
  static constexpr std::uint8_t kNone[kTaskElements / 8] = {};
  const std::int64_t pieces = (s.inner + kTaskElements - 1) / kTaskElements;
  const std::int64_t per_task = rows_per_task(s.inner);
  for_row_blocks(
      s.outer * s.samples * pieces, per_task,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
          const std::int64_t run = i / pieces,
                             begin = i % pieces * kTaskElements;
          const std::int64_t at = (run * s.inner + begin) * size_of(x);
          kernels.add({.dtype = x.dtype(),
                       .x = x.view.data + at,
                       .mask = keep[run % s.samples] != 0 ? nullptr : kNone,
                       .scale = dropout_scale(p),
                       .residual = residual_in != nullptr
                                       ? residual.view.data + at
                                       : nullptr,
                       .n = std::min(kTaskElements, s.inner - begin),
                       .out = to + at});
        }
      });
  return out;
}

}  // namespace

Tensor residual_add(const Tensor& x, const Tensor& residual) {
  return combine("residual_add", x, 1, "residual", &residual);
}

Tensor constant_scale(const Tensor& x, float factor) {
  return combine("constant_scale", x, factor, "", nullptr);
}

Tensor scale_add(const Tensor& x, float factor, const Tensor& y) {
  return combine("scale_add", x, factor, "y", &y);
}

BiasDropoutAdd bias_dropout_add_forward(const Tensor& x_in,
                                        const std::optional<Tensor>& bias,
                                        const std::optional<Tensor>& residual,
                                        float p, const DropoutState& state) {
  constexpr std::string_view kOp = "bias_dropout_add_forward";
  require_high_precision(kOp, "x", x_in);
  require_probability(kOp, "p", p);
  if (bias)
    require_partner(kOp, "bias", x_in, *bias,
                    {matrix_shape(x_in.shape()).columns});
  if (residual) require_partner(kOp, "residual", x_in, *residual, x_in.shape());
  const Tensor x = contiguous(x_in);
  const Tensor add = residual ? contiguous(*residual) : Tensor{};
  const BiasRun run = repeated(bias);
  const std::int64_t n = x.numel();
  const bool drops = p > 0;
  BiasDropoutAdd result{
      Tensor::empty(x.dtype(), x.shape(), x.device),
      Tensor::empty(DType::kU8, {drops ? dropout_mask_bytes(n) : 0}, x.device)};
  std::byte* out = result.out.mutable_data();
  std::uint8_t* mask =
      drops ? result.mask.mutable_data<std::uint8_t>() : nullptr;
  const DropoutDraw draw = dropout_draw(p, state);
  const DropoutKernels& masks = dropout_kernels(x.device);
  const ResidualKernels& kernels = residual_kernels(x.device);
  const std::int64_t size = size_of(x);
  for_element_runs(n, [&](std::int64_t first, std::int64_t all) {
    if (drops)
      masks.draw(draw, first / kDropoutChunk, dropout_chunks(all),
                 reinterpret_cast<std::uint16_t*>(mask + first / 8));
    for_bias_pieces(
        run, first, all,
        [&](std::int64_t begin, std::int64_t count, std::int64_t at) {
          kernels.add(
              {.dtype = x.dtype(),
               .x = x.view.data + begin * size,
               .bias =
                   run.length > 0 ? run.values.view.data + at * size : nullptr,
               .mask = drops ? mask + begin / 8 : nullptr,
               .scale = dropout_scale(p),
               .residual = residual ? add.view.data + begin * size : nullptr,
               .n = count,
               .out = out + begin * size});
        });
  });
  return result;
}

BiasDropoutAddGrads bias_dropout_add_backward(const Tensor& dy,
                                              const Tensor& mask, float p,
                                              bool with_bias) {
  constexpr std::string_view kOp = "bias_dropout_add_backward";
  require_high_precision(kOp, "dy", dy);
  require_probability(kOp, "p", p);
  BiasDropoutAddGrads grads;
  if (p > 0) {
    grads.dx = dropout_backward(dy, mask, p);
  } else {
    require_shape(kOp, "mask", mask, {0});
    grads.dx = dy;
  }
  if (with_bias) grads.dbias = bias_grad(grads.dx, dy.dtype());
  grads.dresidual = dy;
  return grads;
}

DropPathForward drop_path_forward(const Tensor& x,
                                  const std::optional<Tensor>& residual,
                                  const DropPath& options) {
  constexpr std::string_view kOp = "drop_path_forward";
  require_high_precision(kOp, "x", x);
  require_probability(kOp, "p", options.p);
  if (residual) require_partner(kOp, "residual", x, *residual, x.shape());
  const Samples s = samples_of(kOp, x, options.batch_dim);
  const Tensor kept = draw_samples(options, s.samples, x.device);
  return {apply_samples(x, address_of(residual), kept, s, options.p), kept};
}

Tensor drop_path_backward(const Tensor& dy, const Tensor& kept,
                          const DropPath& options) {
  constexpr std::string_view kOp = "drop_path_backward";
  require_high_precision(kOp, "dy", dy);
  require_probability(kOp, "p", options.p);
  const Samples s = samples_of(kOp, dy, options.batch_dim);
  require_dtype(kOp, "kept", kept, {DType::kU8});
  require_shape(kOp, "kept", kept, {s.samples});
  common_device(kOp, {&dy, &kept});
  return apply_samples(dy, nullptr, contiguous(kept), s, options.p);
}

}  // namespace assay::te
