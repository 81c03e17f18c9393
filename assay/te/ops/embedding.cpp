#include "assay/te/ops/embedding.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "assay/base/round_up.h"
#include "assay/kernels/convert.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/ops/copy_runs.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

// Columns that one task adds up: their fp64 sums stay in the first-level cache.
constexpr std::int64_t kColumns = 512;

// The slice of the vocabulary that a table of `rows` rows holds.
struct Slice {
  std::int64_t offset, rows, vocab;
  std::int64_t padding = -1;  // as an id, -1: none

  // The row of the table for a checked id, -1 where another rank has it.
  std::int64_t row_of(std::int64_t id) const {
    const std::int64_t row = id - offset;
    return row >= 0 && row < rows ? row : -1;
  }
};

Slice slice_of(std::string_view op, std::int64_t rows,
               const EmbeddingOptions& options) {
  require(rows >= 0, op, "rows", std::to_string(rows), "0 or more");
  Slice s{options.vocab_offset, rows,
          options.vocab_size == 0 ? rows : options.vocab_size};
  require(s.offset >= 0 && s.vocab >= 0 && s.offset <= s.vocab - rows, op,
          "vocab_offset",
          std::to_string(s.offset) + " with " + std::to_string(rows) + " rows",
          "a slice of the vocabulary of " + std::to_string(s.vocab));
  if (options.padding_id) {
    const std::int64_t id = *options.padding_id;
    require(id >= -s.vocab && id < s.vocab, op, "padding_id",
            std::to_string(id),
            std::to_string(-s.vocab) + " to " + std::to_string(s.vocab - 1));
    s.padding = id < 0 ? id + s.vocab : id;
  }
  return s;
}

// The table's row of every token.
std::vector<std::int64_t> rows_of(std::string_view op, const Tensor& ids_in,
                                  const Slice& slice) {
  require_dtype(op, "ids", ids_in, {DType::kI32, DType::kI64});
  const Tensor ids = contiguous(ids_in);
  const bool wide = ids.dtype() == DType::kI64;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(ids.numel()));
  for (std::int64_t t = 0; t < ids.numel(); ++t) {
    const std::int64_t id = wide ? ids.data<std::int64_t>()[t]
                                 : std::int64_t{ids.data<std::int32_t>()[t]};
    if (id < 0 || id >= slice.vocab)
      fail(op, "ids", std::to_string(id) + " at " + index_text(ids.shape(), t),
           "0 to " + std::to_string(slice.vocab - 1));
    rows[static_cast<std::size_t>(t)] = slice.row_of(id);
  }
  return rows;
}

// Tokens sorted by their row, in order within a row.
struct Groups {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> rows;   // those with tokens
  std::vector<std::int64_t> begin;  // of each of them in `tokens`, and the end
};

Groups group(const std::vector<std::int64_t>& row_of_token,
             const Slice& slice) {
  const auto skipped = [&](std::int64_t row) {
    return row < 0 || row + slice.offset == slice.padding;
  };
  std::vector<std::int64_t> next(static_cast<std::size_t>(slice.rows));
  for (std::int64_t row : row_of_token)
    if (!skipped(row)) ++next[static_cast<std::size_t>(row)];
  Groups groups;
  std::int64_t total = 0;
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    std::int64_t& count = next[static_cast<std::size_t>(row)];
    if (count == 0) continue;
    groups.rows.push_back(row);
    groups.begin.push_back(total);
    total += std::exchange(count, total);
  }
  groups.begin.push_back(total);
  groups.tokens.resize(static_cast<std::size_t>(total));
  for (std::size_t t = 0; t < row_of_token.size(); ++t)
    if (const std::int64_t row = row_of_token[t]; !skipped(row))
      groups.tokens[static_cast<std::size_t>(
          next[static_cast<std::size_t>(row)]++)] =
          static_cast<std::int64_t>(t);
  return groups;
}

// Sums columns [begin, begin + count) of the listed rows of a matrix.
class RowSums {
 public:
  RowSums(const Tensor& rows, std::int64_t columns, InternalPrecision precision)
      : rows_(rows),
        columns_(columns),
        precision_(precision),
        widen_(convert_kernels(rows.device).widen[float_width(rows.dtype())]) {}

  void run(std::span<const std::int64_t> tokens, std::int64_t begin,
           std::int64_t count, double* sums) const {
    if (precision_ != InternalPrecision::kF32) {
      run_plainly(tokens, begin, count, sums);
      return;
    }
    std::array<float, kColumns> row;
    std::fill_n(sums, count, 0.0);
    for (std::int64_t t : tokens) {
      const std::int64_t bytes = traits(rows_.dtype()).bits / 8;
      widen_(rows_.view.data + (t * columns_ + begin) * bytes, count,
             row.data());
      for (std::int64_t c = 0; c < count; ++c)
        sums[c] += static_cast<double>(row[static_cast<std::size_t>(c)]);
    }
  }

 private:
  void run_plainly(std::span<const std::int64_t> tokens, std::int64_t begin,
                   std::int64_t count, double* sums) const {
    const DType dtype = rows_.dtype();
    with_accumulator(precision_, dtype, [&](auto make) {
      using Real = typename decltype(make())::Real;
      for (std::int64_t c = 0; c < count; ++c) {
        auto sum = make();
        for (std::int64_t t : tokens)
          sum.add(static_cast<Real>(load_as_double(dtype, rows_.view.data,
                                                   t * columns_ + begin + c)));
        sums[c] = static_cast<double>(sum.total());
      }
    });
  }

  const Tensor& rows_;
  std::int64_t columns_;
  InternalPrecision precision_;
  void (*widen_)(const std::byte*, std::int64_t, float*);
};

// Adds fp64 sums to elements of a gradient, each rounded once.
class Store {
 public:
  explicit Store(Tensor& gradient)
      : dtype_(gradient.dtype()),
        out_(gradient.mutable_data()),
        narrow_(convert_kernels(gradient.device).narrow[float_width(dtype_)]) {}

  void add(std::int64_t at, std::int64_t count, const double* sums) const {
    std::array<double, kColumns> total;
    load_as_doubles(dtype_, out_, at, count, total.data());
    std::array<float, kColumns> rounded;
    bool exact = true;
    for (std::int64_t c = 0; c < count; ++c) {
      const auto i = static_cast<std::size_t>(c);
      total[i] += sums[c];
      rounded[i] = static_cast<float>(total[i]);
      exact &= static_cast<double>(rounded[i]) == total[i];
    }
    // By way of fp32 where that is no second rounding.
    if (exact || dtype_ == DType::kF32) {
      narrow_(rounded.data(), count, out_ + at * (traits(dtype_).bits / 8));
      return;
    }
    for (std::int64_t c = 0; c < count; ++c)
      store_from_double(dtype_, total[static_cast<std::size_t>(c)], out_,
                        at + c);
  }

 private:
  DType dtype_;
  std::byte* out_;
  void (*narrow_)(const float*, std::int64_t, std::byte*);
};

void add_groups(const Tensor& d_out, const Groups& groups,
                InternalPrecision precision, Tensor& gradient) {
  const std::int64_t columns = gradient.shape()[1];
  const std::int64_t chunks = (columns + kColumns - 1) / kColumns;
  const auto rows = static_cast<std::int64_t>(groups.rows.size());
  const std::int64_t copies =
      groups.begin.back() / std::max<std::int64_t>(1, rows);
  const std::int64_t step =
      rows_per_task(std::min(columns, kColumns) * (1 + copies));
  const RowSums sums_of(d_out, columns, precision);
  const Store store(gradient);
  // A chunk of columns for each block of rows: one id that most tokens have
  // does not leave the other threads without work.
  parallel_for(ceil_div(rows, step) * chunks, [&](std::int64_t task) {
    const std::int64_t column = task % chunks * kColumns;
    const std::int64_t count = std::min(kColumns, columns - column);
    const std::int64_t first = task / chunks * step;
    std::array<double, kColumns> sums;
    for (std::int64_t r = first; r < std::min(rows, first + step); ++r) {
      const auto i = static_cast<std::size_t>(r);
      sums_of.run({groups.tokens.data() + groups.begin[i],
                   groups.tokens.data() + groups.begin[i + 1]},
                  column, count, sums.data());
      store.add(groups.rows[i] * columns + column, count, sums.data());
    }
  });
}

void accumulate(std::string_view op, const Tensor& d_out_in, const Tensor& ids,
                const EmbeddingOptions& options, Tensor& gradient) {
  require_high_precision(op, "d_out", d_out_in);
  const Slice slice = slice_of(op, gradient.shape()[0], options);
  const auto rows = rows_of(op, ids, slice);
  Shape expected = ids.shape();
  expected.push_back(gradient.shape()[1]);
  require_shape(op, "d_out", d_out_in, expected);
  common_device(op, {&d_out_in, &ids, &gradient});
  const Tensor d_out = contiguous(d_out_in);
  add_groups(d_out, group(rows, slice),
             effective_precision("embedding", options.precision), gradient);
}

}  // namespace

Tensor embedding_forward(const Tensor& table_in, const Tensor& ids,
                         const EmbeddingOptions& options) {
  constexpr std::string_view kOp = "embedding_forward";
  require_high_precision(kOp, "table", table_in);
  require_rank(kOp, "table", table_in, 2);
  const Device device = common_device(kOp, {&table_in, &ids});
  const Slice slice = slice_of(kOp, table_in.shape()[0], options);
  const auto rows = rows_of(kOp, ids, slice);
  const Tensor table = contiguous(table_in);
  Shape shape = ids.shape();
  shape.push_back(table.shape()[1]);
  Tensor out = Tensor::empty(table.dtype(), shape, device);
  const std::int64_t bytes =
      row_bytes(kOp, "table", table.dtype(), table.shape()[1]);
  copy_runs(
      device, table.data<std::byte>(), bytes == 0 ? 0 : ids.numel(), bytes,
      [&](std::int64_t t) { return rows[static_cast<std::size_t>(t)]; },
      out.mutable_data());
  return out;
}

Tensor embedding_backward(const Tensor& d_out, const Tensor& ids,
                          std::int64_t rows, const EmbeddingOptions& options) {
  constexpr std::string_view kOp = "embedding_backward";
  require_high_precision(kOp, "d_out", d_out);
  require(!d_out.shape().empty(), kOp, "d_out", "shape []",
          "that of ids and a last dimension");
  require(rows >= 0, kOp, "rows", std::to_string(rows), "0 or more");
  Tensor gradient =
      Tensor::zeros(d_out.dtype(), {rows, d_out.shape().back()}, d_out.device);
  accumulate(kOp, d_out, ids, options, gradient);
  return gradient;
}

void embedding_backward_accumulate(const Tensor& d_out, const Tensor& ids,
                                   Tensor& gradient,
                                   const EmbeddingOptions& options) {
  constexpr std::string_view kOp = "embedding_backward_accumulate";
  require_high_precision(kOp, "gradient", gradient);
  require_rank(kOp, "gradient", gradient, 2);
  require_contiguous(kOp, "gradient", gradient);
  require_writable(kOp, "gradient", gradient);
  accumulate(kOp, d_out, ids, options, gradient);
}

}  // namespace assay::te
