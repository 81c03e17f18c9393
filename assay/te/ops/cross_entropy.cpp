#include "assay/te/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "assay/kernels/loss.h"
#include "assay/kernels/moe.h"
#include "assay/numerics/element.h"
#include "assay/numerics/summation.h"
#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

// What is known of the arguments once they are checked.
struct Problem {
  std::string_view op;
  DType dtype;
  std::int64_t rows, columns, row_bytes;
  std::int64_t vocab_size, vocab_offset;
  double smoothing, offset;  // label smoothing, and its share of one entry
  InternalPrecision precision;
  const LossRowKernels* kernels;
  std::vector<std::int64_t> targets;  // local column, -1 elsewhere, or kIgnored
  std::int64_t counted = 0;
};
constexpr std::int64_t kElsewhere = -1, kIgnored = -2;

std::int64_t target_at(const Tensor& target, std::int64_t row) {
  return target.dtype() == DType::kI64
             ? target.data<std::int64_t>()[row]
             : std::int64_t{target.data<std::int32_t>()[row]};
}

void place_targets(Problem& p, const Tensor& target_in,
                   const CrossEntropyOptions& options) {
  const Tensor target = contiguous(target_in);
  p.targets.resize(static_cast<std::size_t>(p.rows));
  for (std::int64_t t = 0; t < p.rows; ++t) {
    const std::int64_t y = target_at(target, t);
    auto& place = p.targets[static_cast<std::size_t>(t)];
    place = kIgnored;
    if (y == options.ignore_index) continue;
    require(y >= 0 && y < p.vocab_size, p.op, "target",
            std::to_string(y) + " in row " + std::to_string(t),
            "0 to " + std::to_string(p.vocab_size - 1) + " or ignore_index " +
                std::to_string(options.ignore_index));
    const std::int64_t local = y - p.vocab_offset;
    place = local >= 0 && local < p.columns ? local : kElsewhere;
    ++p.counted;
  }
}

Problem check(std::string_view op, const Tensor& logits, const Tensor& target,
              const CrossEntropyOptions& options) {
  require_high_precision(op, "logits", logits);
  require(!logits.shape().empty(), op, "logits", "a 0-d tensor",
          "at least 1 dimension");
  Shape rows = logits.shape();
  rows.pop_back();
  require_shape(op, "target", target, rows);
  require_dtype(op, "target", target, {DType::kI32, DType::kI64});
  const double ls = options.label_smoothing;
  require(ls >= 0 && ls < 1, op, "label_smoothing", std::to_string(ls),
          "0 <= label_smoothing < 1");
  const Device device = common_device(op, {&logits, &target});
  const MatrixShape shape = matrix_shape(logits.shape());
  Problem p{};
  p.op = op;
  p.dtype = logits.dtype();
  p.rows = shape.rows;
  p.columns = shape.columns;
  p.row_bytes = shape.columns * traits(p.dtype).bits / 8;
  require(options.vocab_size >= 0, op, "vocab_size",
          std::to_string(options.vocab_size),
          "the size of the vocabulary, or 0 for the columns of the logits");
  p.vocab_size = options.vocab_size > 0 ? options.vocab_size : shape.columns;
  p.vocab_offset = options.vocab_offset;
  require(p.vocab_offset >= 0 && p.vocab_offset <= p.vocab_size - p.columns, op,
          "vocab_offset",
          std::to_string(p.vocab_offset) + " with " +
              std::to_string(p.columns) + " columns",
          "a slice of vocab_size " + std::to_string(p.vocab_size));
  p.smoothing = ls;
  p.offset = p.vocab_size > 0 ? ls / static_cast<double>(p.vocab_size) : 0.0;
  p.precision = effective_precision("cross_entropy", options.precision);
  p.kernels = &loss_kernels(device).rows[float_width(p.dtype)];
  place_targets(p, target, options);
  return p;
}

void require_in_place(std::string_view op, const Tensor& logits) {
  require(logits.view.is_contiguous(), op, "logits", "a strided tensor",
          "a contiguous one: it is overwritten");
  require_writable(op, "logits", logits);
}

std::vector<float>& scratch(std::int64_t n) {
  thread_local std::vector<float> exps;
  const auto room = static_cast<std::size_t>(n + kExpPadding);
  if (exps.size() < room) exps.resize(room);
  return exps;
}

LogitStats plain_stats(const Problem& p, const std::byte* row) {
  return with_accumulator(p.precision, p.dtype, [&](auto make) {
    using Real = typename decltype(make())::Real;
    double top = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < p.columns; ++i)
      top = std::max(top, load_as_double(p.dtype, row, i));
    auto exps = make(), sum = make();
    for (std::int64_t i = 0; i < p.columns; ++i) {
      const double x = load_as_double(p.dtype, row, i);
      exps.add(static_cast<Real>(std::exp(x - top)));
      if (p.smoothing > 0) sum.add(static_cast<Real>(x));
    }
    return LogitStats{static_cast<float>(top), static_cast<float>(exps.total()),
                      static_cast<float>(sum.total())};
  });
}

LogitStats row_stats(const Problem& p, const std::byte* row, float* exps) {
  if (p.precision != InternalPrecision::kF32) return plain_stats(p, row);
  return p.kernels->stats(row, p.columns, p.smoothing > 0, exps);
}

// The loss of a row from its global statistics and its target's logit.
double row_loss(const Problem& p, const LogitStats& s, double target) {
  const double log_sum =
      static_cast<double>(s.max) + std::log(static_cast<double>(s.sum_exp));
  const double nll = log_sum - target;
  if (p.smoothing == 0) return nll;
  return (1 - p.smoothing) * nll + p.smoothing * log_sum -
         p.offset * static_cast<double>(s.sum);
}

// Entry of the target, in fp64 from the row's own statistics.
double target_gradient(const Problem& p, const LogitStats& s, double target,
                       double d_loss) {
  const double share = std::exp(target - static_cast<double>(s.max)) /
                       static_cast<double>(s.sum_exp);
  return d_loss * (share - p.offset - (1 - p.smoothing));
}

CrossEntropyResult make_result(const Problem& p, const Tensor& logits,
                               const CrossEntropyOptions& options,
                               const std::vector<double>& losses) {
  CrossEntropyResult out;
  out.counted = p.counted;
  if (options.reduce_loss) {
    out.loss = Tensor::empty(DType::kF32, {1}, logits.device);
    const double sum = blocked_sum(p.rows, [&](std::int64_t t) {
      return losses[static_cast<std::size_t>(t)];
    });
    *out.loss.mutable_data<float>() =
        static_cast<float>(sum / static_cast<double>(p.counted));
    return out;
  }
  Shape rows = logits.shape();
  rows.pop_back();
  out.loss = Tensor::empty(DType::kF32, rows, logits.device);
  std::copy(losses.begin(), losses.end(), out.loss.mutable_data<float>());
  return out;
}

// Per-row values of all ranks: the statistics, then the targets' logits.
struct RowValues {
  std::vector<float> max, sums;  // sums: [sum_exp, sum, target logit] x rows
  explicit RowValues(std::int64_t rows)
      : max(static_cast<std::size_t>(rows)),
        sums(static_cast<std::size_t>(3 * rows)) {}
  LogitStats stats(std::int64_t t) const {
    const auto i = static_cast<std::size_t>(t);
    return {max[i], sums[3 * i], sums[3 * i + 1]};
  }
  double target(std::int64_t t) const {
    return sums[static_cast<std::size_t>(3 * t + 2)];
  }
};

void reduce(RowValues& values, VocabReducer& reducer) {
  const std::vector<float> local = values.max;
  reducer.all_reduce_max(values.max);
  for (std::size_t t = 0; t < local.size(); ++t)
    if (local[t] != values.max[t])
      values.sums[3 * t] =
          static_cast<float>(static_cast<double>(values.sums[3 * t]) *
                             std::exp(static_cast<double>(local[t]) -
                                      static_cast<double>(values.max[t])));
  reducer.all_reduce_sum(values.sums);
}

// Statistics of every row, over all ranks; visit(row, stats) while the row is
// in cache, where there is one rank.
template <typename Visit>
RowValues gather_rows(const Problem& p, const std::byte* logits,
                      VocabReducer* reducer, bool keep_exps, Visit visit) {
  RowValues values(p.rows);
  for_row_blocks(
      p.rows, rows_of_bytes(p.row_bytes),
      [&](std::int64_t begin, std::int64_t end) {
        float* exps = keep_exps ? scratch(p.columns).data() : nullptr;
        for (std::int64_t t = begin; t < end; ++t) {
          const std::byte* row = logits + t * p.row_bytes;
          const auto i = static_cast<std::size_t>(t);
          const std::int64_t y = p.targets[i];
          const LogitStats s = row_stats(p, row, exps);
          values.max[i] = s.max;
          values.sums[3 * i] = s.sum_exp;
          values.sums[3 * i + 1] = s.sum;
          values.sums[3 * i + 2] =
              y >= 0 ? static_cast<float>(load_as_double(p.dtype, row, y)) : 0;
          visit(t, s, exps);
        }
      });
  if (reducer != nullptr) reduce(values, *reducer);
  return values;
}

CrossEntropyResult finish(const Problem& p, const Tensor& logits,
                          const CrossEntropyOptions& options,
                          const RowValues& values) {
  std::vector<double> losses(static_cast<std::size_t>(p.rows));
  for (std::int64_t t = 0; t < p.rows; ++t)
    if (p.targets[static_cast<std::size_t>(t)] != kIgnored)
      losses[static_cast<std::size_t>(t)] =
          row_loss(p, values.stats(t), values.target(t));
  CrossEntropyResult out = make_result(p, logits, options, losses);
  out.stats = Tensor::empty(DType::kF32, {p.rows, 2}, logits.device);
  for (std::int64_t t = 0; t < p.rows; ++t) {
    out.stats.mutable_data<float>()[2 * t] = values.stats(t).max;
    out.stats.mutable_data<float>()[2 * t + 1] = values.stats(t).sum_exp;
  }
  return out;
}

// Writes the gradient of row t over `out`, from `logits` or from `exps`.
void write_gradient(const Problem& p, std::int64_t t, const LogitStats& s,
                    double d_loss, const std::byte* row, const float* exps,
                    std::byte* out) {
  const std::int64_t y = p.targets[static_cast<std::size_t>(t)];
  if (y == kIgnored) {
    std::fill_n(out, p.row_bytes, std::byte{0});
    return;
  }
  const double target = y >= 0 ? load_as_double(p.dtype, row, y) : 0;
  const auto factor =
      static_cast<float>(d_loss / static_cast<double>(s.sum_exp));
  const auto offset = static_cast<float>(d_loss * p.offset);
  if (exps != nullptr)
    p.kernels->scaled(exps, p.columns, factor, offset, out);
  else
    p.kernels->gradient(row, p.columns, s.max, factor, offset, out);
  if (y >= 0)
    store_from_double(p.dtype, target_gradient(p, s, target, d_loss), out, y);
}

double share_of_row(const Problem& p, const CrossEntropyOptions& options) {
  return options.reduce_loss
             ? 1.0 / static_cast<double>(std::max<std::int64_t>(1, p.counted))
             : 1.0;
}

}  // namespace

CrossEntropyResult cross_entropy_forward(const Tensor& logits_in,
                                         const Tensor& target,
                                         const CrossEntropyOptions& options) {
  const Problem p = check("cross_entropy_forward", logits_in, target, options);
  const Tensor logits = contiguous(logits_in);
  const RowValues values =
      gather_rows(p, logits.data<std::byte>(), options.reducer, false,
                  [](std::int64_t, const LogitStats&, const float*) {});
  return finish(p, logits, options, values);
}

Tensor cross_entropy_backward(const Tensor& d_loss_in, const Tensor& logits_in,
                              const Tensor& target,
                              const CrossEntropyResult& forward,
                              const CrossEntropyOptions& options) {
  constexpr std::string_view kOp = "cross_entropy_backward";
  const Problem p = check(kOp, logits_in, target, options);
  require_dtype(kOp, "d_loss", d_loss_in, {DType::kF32});
  require_shape(kOp, "d_loss", d_loss_in, forward.loss.shape());
  require_dtype(kOp, "stats", forward.stats, {DType::kF32});
  require_shape(kOp, "stats", forward.stats, {p.rows, 2});
  common_device(kOp, {&d_loss_in, &logits_in, &forward.stats});
  const Tensor d_loss = contiguous(d_loss_in), logits = contiguous(logits_in);
  const Tensor all_stats = contiguous(forward.stats);
  Tensor out = Tensor::empty(p.dtype, logits.shape(), logits.device);
  const double share = share_of_row(p, options);
  for_row_blocks(
      p.rows, rows_of_bytes(2 * p.row_bytes),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          const float* stats = all_stats.data<float>() + 2 * t;
          const float d = d_loss.data<float>()[options.reduce_loss ? 0 : t];
          write_gradient(p, t, {stats[0], stats[1], 0},
                         share * static_cast<double>(d),
                         logits.data<std::byte>() + t * p.row_bytes, nullptr,
                         out.mutable_data() + t * p.row_bytes);
        }
      });
  return out;
}

CrossEntropyResult cross_entropy_forward_in_place(
    Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  constexpr std::string_view kOp = "cross_entropy_forward_in_place";
  const Problem p = check(kOp, logits, target, options);
  require_in_place(kOp, logits);
  std::byte* data = logits.mutable_data();
  const double share = share_of_row(p, options);
  // With one rank a row's gradient follows while its exponentials are in
  // cache; else the statistics of the other ranks come first.
  const bool fused =
      options.reducer == nullptr && p.precision == InternalPrecision::kF32;
  const RowValues values =
      gather_rows(p, data, options.reducer, fused,
                  [&](std::int64_t t, const LogitStats& s, const float* exps) {
                    std::byte* row = data + t * p.row_bytes;
                    if (fused) write_gradient(p, t, s, share, row, exps, row);
                  });
  if (!fused)
    for_row_blocks(p.rows, rows_of_bytes(p.row_bytes),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t t = begin; t < end; ++t) {
                       std::byte* row = data + t * p.row_bytes;
                       write_gradient(p, t, values.stats(t), share, row,
                                      nullptr, row);
                     }
                   });
  return finish(p, logits, options, values);
}

void check_cross_entropy(std::string_view op, const Tensor& logits,
                         const Tensor& target,
                         const CrossEntropyOptions& options, bool in_place) {
  check(op, logits, target, options);
  if (in_place) require_in_place(op, logits);
}

void cross_entropy_scale_in_place(Tensor& gradient, const Tensor& d_loss_in) {
  constexpr std::string_view kOp = "cross_entropy_scale_in_place";
  require_high_precision(kOp, "gradient", gradient);
  require(gradient.view.is_contiguous(), kOp, "gradient", "a strided tensor",
          "a contiguous one: it is overwritten");
  require_writable(kOp, "gradient", gradient);
  require_dtype(kOp, "d_loss", d_loss_in, {DType::kF32});
  const MatrixShape shape = matrix_shape(gradient.shape());
  require(d_loss_in.numel() == 1 || d_loss_in.numel() == shape.rows, kOp,
          "d_loss", "shape " + to_string(d_loss_in.shape()),
          "one value, or one a row");
  const Device device = common_device(kOp, {&gradient, &d_loss_in});
  const Tensor d_loss = contiguous(d_loss_in);
  const std::int64_t bytes = shape.columns * traits(gradient.dtype()).bits / 8;
  const bool one = d_loss.numel() == 1;
  if (one && *d_loss.data<float>() == 1.0f) return;
  const auto scale =
      moe_kernels(device).rows[float_width(gradient.dtype())].scale;
  for_row_blocks(shape.rows, rows_of_bytes(bytes),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t t = begin; t < end; ++t) {
                     std::byte* row = gradient.mutable_data() + t * bytes;
                     scale(row, d_loss.data<float>()[one ? 0 : t],
                           shape.columns, false, row);
                   }
                 });
}

}  // namespace assay::te
