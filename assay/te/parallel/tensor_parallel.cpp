#include "assay/te/parallel/tensor_parallel.h"

#include <future>
#include <span>

#include "assay/te/check.h"
#include "assay/te/ops/gemm_operand.h"
#include "assay/te/ops/grouped_gemm.h"
#include "assay/te/parallel/collectives.h"

namespace assay::te {
namespace {

// The group of `how`, whose options go together.
Communicator& checked_group(std::string_view op, const ParallelLinear& how) {
  require(how.group != nullptr, op, "group", "null", "a communicator");
  const CommOverlap& o = how.overlap;
  require(!o.ub_overlap_rs_dgrad || (!o.ub_bulk_dgrad && !o.ub_bulk_wgrad), op,
          "ub_overlap_rs_dgrad", "together with a bulk overlap",
          "one of the two");
  require(o.rs_method != OverlapMethod::kNone, op, "rs_method", "none",
          "ring_exchange or pipeline");
  return *how.group;
}

GemmOverlap ag_overlap(const ParallelLinear& how) {
  return {how.overlap.ub_overlap_ag ? OverlapMethod::kRingExchange
                                    : OverlapMethod::kNone};
}
GemmOverlap rs_overlap(const ParallelLinear& how, bool wanted) {
  return {wanted ? how.overlap.rs_method : OverlapMethod::kNone,
          how.overlap.num_splits};
}

// An operand of a product that may have had to be gathered first.
struct Whole {
  std::optional<Tensor> plain;
  std::optional<QuantizedTensor> quantized;
  GemmOperand operand() const {
    return plain ? GemmOperand(*plain) : GemmOperand(*quantized);
  }
};

// All rows of an operand of dW, in the direction that it reads.
Whole gather_for_wgrad(const GemmOperand& x, Communicator& group) {
  if (x.tensor()) return {all_gather_first_dim(*x.tensor(), group), {}};
  QuantizedTensor q = *x.quantized();
  if (q.columnwise) q.rowwise.reset();
  return {{}, all_gather_first_dim(q, group)};
}

// A result that nobody wants: no elements.
Tensor nothing() { return Tensor::empty(DType::kF32, {0}); }

Tensor wgrad(const GemmOperand& dy, const GemmOperand& x,
             const LinearGradientOptions& o) {
  GemmOptions options;
  if (o.main_grad) {
    options.beta = 1;
    gemm_into(*o.main_grad, x, dy, GemmLayout::kNT, options);
    return nothing();
  }
  options.out_dtype = o.dw_dtype;
  return gemm_wgrad(dy, x, options).d;
}

GemmOptions dgrad_options(const LinearGradientOptions& o) {
  GemmOptions options;
  options.out_dtype = o.dx_dtype;
  return options;
}

// f() now, or on a thread of its own: the communicator is its alone until the
// result is taken.
template <typename F>
auto start(bool beside, F f) {
  return std::async(beside ? std::launch::async : std::launch::deferred, f);
}

void add_bias(Tensor& y, const GemmOptions& options) {
  require_rank("row_parallel_forward", "bias", *options.bias, 1);
  const std::int64_t rows = matrix_shape(y.shape()).rows;
  Tensor bias = contiguous(*options.bias);
  bias.view.shape = {1, bias.numel()};
  grouped_bias_add(y, bias, std::span(&rows, 1));
}

}  // namespace

Tensor column_parallel_forward(const GemmOperand& x, const GemmOperand& w,
                               const ParallelLinear& how,
                               const GemmOptions& options) {
  Communicator& group = checked_group("column_parallel_forward", how);
  if (!how.sequence_parallel) return gemm_fprop(x, w, options).d;
  return all_gather_gemm(w, x, GemmLayout::kTN, group, options, ag_overlap(how))
      .d;
}

LinearGradients column_parallel_backward(const GemmOperand& dy,
                                         const GemmOperand& x,
                                         const GemmOperand& w,
                                         const ParallelLinear& how,
                                         const LinearGradientOptions& o) {
  Communicator& group = checked_group("column_parallel_backward", how);
  const CommOverlap& overlap = how.overlap;
  const bool gathers = how.sequence_parallel && o.dw;
  auto gathered = start(gathers && o.dx && overlap.ub_bulk_dgrad, [&] {
    return gathers ? gather_for_wgrad(x, group) : Whole{};
  });
  LinearGradients out{nothing(), nothing()};
  const GemmOptions options = dgrad_options(o);
  if (o.dx && how.sequence_parallel && !overlap.ub_bulk_dgrad &&
      !overlap.ub_bulk_wgrad) {
    out.dx = gemm_reduce_scatter(w, dy, GemmLayout::kNN, group, options,
                                 rs_overlap(how, overlap.ub_overlap_rs_dgrad));
    if (o.dw) {
      const Whole whole = gathered.get();
      out.dw = wgrad(dy, gathers ? whole.operand() : x, o);
    }
    return out;
  }
  Tensor part;
  if (o.dx) part = gemm_dgrad(dy, w, options).d;
  const Whole whole = gathered.get();
  auto summed = start(o.dw && overlap.ub_bulk_wgrad, [&] {
    if (!o.dx) return nothing();
    return how.sequence_parallel ? reduce_scatter_first_dim(part, group)
                                 : all_reduce_sum(part, group);
  });
  if (o.dw) out.dw = wgrad(dy, gathers ? whole.operand() : x, o);
  out.dx = summed.get();
  return out;
}

Tensor row_parallel_forward(const GemmOperand& x, const GemmOperand& w,
                            const ParallelLinear& how,
                            const GemmOptions& options) {
  constexpr std::string_view kOp = "row_parallel_forward";
  Communicator& group = checked_group(kOp, how);
  GemmOptions product = options;
  product.bias = nullptr;
  Tensor y =
      how.sequence_parallel
          ? gemm_reduce_scatter(w, x, GemmLayout::kTN, group, product,
                                rs_overlap(how, how.overlap.ub_overlap_rs))
          : all_reduce_sum(gemm_fprop(x, w, product).d, group);
  if (options.bias) add_bias(y, options);
  return y;
}

LinearGradients row_parallel_backward(const GemmOperand& dy,
                                      const GemmOperand& x,
                                      const GemmOperand& w,
                                      const ParallelLinear& how,
                                      const LinearGradientOptions& o) {
  Communicator& group = checked_group("row_parallel_backward", how);
  LinearGradients out{nothing(), nothing()};
  const GemmOptions options = dgrad_options(o);
  if (!how.sequence_parallel) {
    if (o.dx) out.dx = gemm_dgrad(dy, w, options).d;
    if (o.dw) out.dw = wgrad(dy, x, o);
    return out;
  }
  Whole whole;
  if (o.dx) {
    GatheredGemm product = all_gather_gemm(w, dy, GemmLayout::kNN, group,
                                           options, ag_overlap(how));
    out.dx = product.d;
    whole.plain = product.b;
  }
  if (!o.dw) return out;
  if (!whole.plain) whole = gather_for_wgrad(dy, group);
  out.dw = wgrad(whole.operand(), x, o);
  return out;
}

}  // namespace assay::te
