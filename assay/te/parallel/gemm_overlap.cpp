#include "assay/te/parallel/gemm_overlap.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "assay/te/check.h"
#include "assay/te/ops/gemm_operand.h"
#include "assay/te/parallel/agreement.h"
#include "assay/te/parallel/background.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/parallel/packed_rows.h"
#include "assay/te/parallel/quantized_rows.h"
#include "assay/te/parallel/rank_sum.h"

namespace assay::te {
namespace {

std::string text_of(const GemmOperand& operand) {
  std::string text = to_string(operand.shape());
  if (const QuantizedTensor* q = operand.quantized())
    return text.append(" ").append(kind_of(*q));
  return text.append(" ").append(traits(operand.tensor()->dtype()).name);
}

// What both forms take, and what they must have alike on every rank.
std::string check(std::string_view op, const GemmOperand& a,
                  const GemmOperand& b, GemmLayout layout,
                  const GemmOptions& o) {
  require(layout == GemmLayout::kTN || layout == GemmLayout::kNN, op, "layout",
          layout == GemmLayout::kNT ? "NT" : "TT",
          "TN or NN: rows of b are those of d");
  require(b.shape().size() > 1, op, "b", "shape " + to_string(b.shape()),
          "rows and columns");
  for (const GemmOperand* operand : {&a, &b})
    if (operand->tensor()) require_present(op, "operand", *operand->tensor());
  require(!o.fp8_output && !o.bias_grad && !o.c && !o.dgelu_input && !o.gelu,
          op, "options", "an epilogue over the whole of d",
          "alpha, out_dtype, bias, round_bias_to_bf16 or precision");
  return "a " + text_of(a) + ", b " + text_of(b);
}

// b as it travels, and as a product of some of its rows reads it: this rank's
// rows in the one direction that is needed.
struct Rows {
  std::optional<Tensor> plain;
  std::optional<QuantizedTensor> quantized;

  Rows() = default;
  explicit Rows(const GemmOperand& b) {
    if (b.tensor()) {
      plain = contiguous(*b.tensor());
      return;
    }
    quantized = *b.quantized();
    if (quantized->rowwise) quantized->columnwise.reset();
  }
  GemmOperand operand() const {
    return plain ? GemmOperand(*plain) : GemmOperand(*quantized);
  }
};

// Rows [begin, begin + count) of the first dimension, sharing a contiguous x.
Tensor rows_of(const Tensor& x, std::int64_t begin, std::int64_t count) {
  Tensor part = x;
  part.view.shape[0] = 1;
  const std::int64_t row = part.numel() * (traits(x.dtype()).bits / 8);
  part.view.shape[0] = count;
  part.view.data += begin * row;
  return part;
}

// D of `b`'s leading dimensions with the first one `rows`.
Tensor output_for(const GemmOperand& a, const GemmOperand& b, GemmLayout layout,
                  std::int64_t rows, const GemmOptions& o) {
  const MatrixShape as = matrix_shape(a.shape());
  Shape shape = b.shape();
  shape[0] = rows;
  shape.back() = layout == GemmLayout::kTN ? as.rows : as.columns;
  return Tensor::empty(o.out_dtype.value_or(nominal_dtype(b, true)), shape,
                       b.device());
}

void multiply_into(Tensor d, const GemmOperand& a, const GemmOperand& b,
                   GemmLayout layout, GemmOptions options) {
  options.out_dtype.reset();
  gemm_into(d, a, b, layout, options);
}

// compute() while the transfer goes on. Where it throws, the transfer, which
// the other ranks have begun too, comes to its end first.
void compute_during(std::unique_ptr<PendingTransfer> transfer,
                    const std::function<void()>& compute) {
  BackgroundTransfer background(std::move(transfer));
  try {
    compute();
  } catch (...) {
    background.wait();
    throw;
  }
  background.wait();
}

// Equal slots of bytes, one a rank; one's own is filled. visit(r) as each is
// there, while it travels on.
void pass_around(Tensor& slots, Communicator& group,
                 const std::function<void(int)>& visit) {
  const int size = group.size(), rank = group.rank();
  const std::size_t bytes =
      slots.view.bytes().size() / static_cast<std::size_t>(size);
  const std::span<std::byte> all(slots.mutable_data(),
                                 bytes * static_cast<std::size_t>(size));
  const auto slot = [&](int r) {
    return all.subspan(static_cast<std::size_t>(r) * bytes, bytes);
  };
  for (int step = 0; step + 1 < size; ++step) {
    const int here = (rank + size - step) % size;
    const int coming = (here + size - 1) % size;
    compute_during(group.exchange(slot(here), (rank + 1) % size, slot(coming),
                                  (rank + size - 1) % size),
                   [&] { visit(here); });
  }
  visit((rank + 1) % size);
}

GatheredGemm gather_ring(const GemmOperand& a, const GemmOperand& b_local,
                         GemmLayout layout, Communicator& group,
                         const GemmOptions& options) {
  const Rows own(b_local);
  const std::int64_t rows = b_local.shape()[0];
  GatheredGemm out;
  out.d = output_for(a, b_local, layout, rows * group.size(), options);
  const auto d_of = [&](int r) { return rows_of(out.d, r * rows, rows); };
  if (own.plain) {
    Shape shape = own.plain->shape();
    shape[0] *= group.size();
    Tensor whole = Tensor::empty(own.plain->dtype(), shape, own.plain->device);
    Tensor mine = rows_of(whole, group.rank() * rows, rows);
    gather(own.plain->view, 0, own.plain->numel(), mine.mutable_data());
    pass_around(whole, group, [&](int r) {
      multiply_into(d_of(r), a, rows_of(whole, r * rows, rows), layout,
                    options);
    });
    out.b = whole;
    return out;
  }
  const std::int64_t count[] = {matrix_shape(own.quantized->shape).rows};
  const QuantizedTensor prepared = slice_rows(*own.quantized, count).front();
  const std::int64_t bytes = packed_size(prepared, count[0]);
  Tensor slots = Tensor::empty(DType::kU8, {group.size(), bytes});
  pack(prepared, slots.mutable_data() + group.rank() * bytes);
  pass_around(slots, group, [&](int r) {
    QuantizedTensor piece = unpack(prepared, count[0], slots, r * bytes);
    piece.shape = own.quantized->shape;
    multiply_into(d_of(r), a, piece, layout, options);
  });
  return out;
}

// Rows of D that go to one rank: [begin, begin + count).
struct Piece {
  int rank;
  std::int64_t begin, count;
};

// In the order of their products: for every split the next rank's, the one
// after it, ..., one's own.
std::vector<Piece> pieces_of(std::int64_t rows, int splits,
                             const Communicator& group) {
  const int size = group.size();
  const std::int64_t own = rows / size;
  const std::int64_t n = std::clamp<std::int64_t>(own, 1, splits);
  std::vector<Piece> out;
  for (std::int64_t s = 0; s < n; ++s) {
    const std::int64_t begin = own * s / n, end = own * (s + 1) / n;
    for (int step = 1; step <= size; ++step) {
      const int r = (group.rank() + step) % size;
      out.push_back({r, r * own + begin, end - begin});
    }
  }
  return out;
}

// Products of row pieces of b.
class PieceProduct {
 public:
  PieceProduct(const GemmOperand& a, const GemmOperand& b, GemmLayout layout,
               const GemmOptions& options, const std::vector<Piece>& pieces)
      : a_(a), b_(b), layout_(layout), options_(options) {
    d_ = output_for(a, b, layout, b.shape()[0], options);
    if (b_.plain) return;
    // Cut once, in the order of the rows.
    for (const Piece& piece : pieces) begins_.push_back(piece.begin);
    std::sort(begins_.begin(), begins_.end());
    const std::int64_t rows = b.shape()[0];
    const std::int64_t inner =
        rows == 0 ? 0 : matrix_shape(b.shape()).rows / rows;
    std::vector<std::int64_t> counts;
    for (std::size_t i = 0; i < begins_.size(); ++i) {
      const std::int64_t end = i + 1 < begins_.size() ? begins_[i + 1] : rows;
      counts.push_back((end - begins_[i]) * inner);
    }
    slices_ = slice_rows(*b_.quantized, counts);
  }

  const Tensor& d() const { return d_; }
  void multiply(const Piece& piece) const {
    Tensor d = rows_of(d_, piece.begin, piece.count);
    if (b_.plain) {
      multiply_into(d, a_, rows_of(*b_.plain, piece.begin, piece.count),
                    layout_, options_);
      return;
    }
    const auto at =
        std::lower_bound(begins_.begin(), begins_.end(), piece.begin) -
        begins_.begin();
    multiply_into(d, a_, slices_[static_cast<std::size_t>(at)], layout_,
                  options_);
  }

 private:
  GemmOperand a_;
  Rows b_;
  GemmLayout layout_;
  GemmOptions options_;
  Tensor d_;
  std::vector<std::int64_t> begins_;
  std::vector<QuantizedTensor> slices_;
};

Tensor scatter_pieces(const GemmOperand& a, const GemmOperand& b,
                      GemmLayout layout, Communicator& group,
                      const GemmOptions& options, int splits) {
  const int size = group.size(), rank = group.rank();
  const std::int64_t rows = b.shape()[0], own = rows / size;
  const auto pieces = pieces_of(rows, splits, group);
  const PieceProduct product(a, b, layout, options, pieces);
  // What the other ranks have of this one's rows, rank after rank.
  Tensor parts = Tensor::empty(product.d().dtype(), product.d().shape(),
                               product.d().device);
  const auto bytes_of = [](Tensor t) {
    return std::span(t.mutable_data(), t.view.bytes().size());
  };
  product.multiply(pieces.front());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto next = [&] {
      if (i + 1 < pieces.size()) product.multiply(pieces[i + 1]);
    };
    const Piece& piece = pieces[i];
    if (piece.rank == rank) {
      next();
      continue;
    }
    const int source = (2 * rank + size - piece.rank) % size;
    const std::int64_t within = piece.begin - piece.rank * own;
    compute_during(
        group.exchange(
            bytes_of(rows_of(product.d(), piece.begin, piece.count)),
            piece.rank,
            bytes_of(rows_of(parts, source * own + within, piece.count)),
            source),
        next);
  }
  std::vector<const std::byte*> terms;
  for (int r = 0; r < size; ++r)
    terms.push_back(
        rows_of(r == rank ? product.d() : parts, r * own, own).view.data);
  Tensor out = Tensor::empty(parts.dtype(), rows_of(parts, 0, own).shape(),
                             parts.device);
  sum_in_rank_order(out.device, out.dtype(), out.dtype(), terms, out.numel(),
                    out.mutable_data());
  return out;
}

}  // namespace

OverlapMethod parse_overlap_method(std::string_view text) {
  if (text == "none") return OverlapMethod::kNone;
  if (text == "ring_exchange") return OverlapMethod::kRingExchange;
  if (text == "pipeline") return OverlapMethod::kPipeline;
  fail("overlap", "method", std::string(text),
       "none, ring_exchange or pipeline");
}

GatheredGemm all_gather_gemm(const GemmOperand& a, const GemmOperand& b,
                             GemmLayout layout, Communicator& group,
                             const GemmOptions& options,
                             const GemmOverlap& overlap) {
  constexpr std::string_view kOp = "all_gather_gemm";
  agree(kOp, group, [&] {
    std::string text = check(kOp, a, b, layout, options);
    require(overlap.method != OverlapMethod::kPipeline, kOp, "method",
            "pipeline", "none or ring_exchange");
    const Rows rows(b);
    if (rows.quantized && group.size() > 1) {
      require_whole_blocks(kOp, *rows.quantized);
      text.append(common_scales_of(*rows.quantized));
    }
    return text;
  });
  if (overlap.method == OverlapMethod::kRingExchange && group.size() > 1)
    return gather_ring(a, b, layout, group, options);
  if (b.tensor()) {
    Tensor whole = all_gather_first_dim(*b.tensor(), group);
    return {gemm(a, whole, layout, options).d, whole};
  }
  const QuantizedTensor whole = all_gather_first_dim(*Rows(b).quantized, group);
  return {gemm(a, whole, layout, options).d, {}};
}

Tensor gemm_reduce_scatter(const GemmOperand& a, const GemmOperand& b,
                           GemmLayout layout, Communicator& group,
                           const GemmOptions& options,
                           const GemmOverlap& overlap) {
  constexpr std::string_view kOp = "gemm_reduce_scatter";
  agree(kOp, group, [&] {
    const std::string text = check(kOp, a, b, layout, options);
    require(options.bias == nullptr, kOp, "bias", "given",
            "none: it is added after the sum");
    require_multiple(kOp, "b: first dimension", b.shape()[0], group.size());
    require(overlap.num_splits > 0, kOp, "num_splits",
            std::to_string(overlap.num_splits), "at least 1");
    return text;
  });
  if (overlap.method == OverlapMethod::kNone || group.size() == 1)
    return reduce_scatter_first_dim(gemm(a, b, layout, options).d, group);
  const bool ring = overlap.method == OverlapMethod::kRingExchange;
  return scatter_pieces(a, b, layout, group, options,
                        ring ? 1 : overlap.num_splits);
}

}  // namespace assay::te
