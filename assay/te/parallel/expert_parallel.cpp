#include "assay/te/parallel/expert_parallel.h"

#include <cstring>
#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/pad.h"
#include "assay/te/parallel/agreement.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/quantize/layout.h"

namespace assay::te {
namespace {

// One dimension more, of 1: rows of one element.
Tensor as_column(const Tensor& x) {
  Tensor out = contiguous(x);
  out.view.shape.push_back(1);
  out.view.strides.clear();
  return out;
}

Tensor as_vector(const Tensor& x) {
  Tensor out = contiguous(x);
  out.view.shape.pop_back();
  out.view.strides.clear();
  return out;
}

// Rows sorted by expert on their own rank, to those of the local experts.
Tensor send_rows(const Tensor& rows, const EpPlan& plan, Communicator& group) {
  const Tensor received =
      all_to_all_rows(rows, plan.send_counts, plan.receive_counts, group);
  const Tensor sorted =
      moe_sort_chunks_forward(received, plan.chunks, plan.order).rows;
  return pad_groups(sorted, plan.tokens_per_expert,
                    plan.padded_tokens_per_expert);
}

Tensor return_rows(const Tensor& rows, const EpPlan& plan,
                   Communicator& group) {
  const Tensor dense =
      unpad_groups(rows, plan.tokens_per_expert, plan.padded_tokens_per_expert);
  const Tensor unsorted =
      moe_sort_chunks_backward(dense, plan.chunks, plan.order).rows;
  return all_to_all_rows(unsorted, plan.receive_counts, plan.send_counts,
                         group);
}

// What every rank must have of the rows that travel.
std::string rows_text(const Tensor& x) {
  return std::string(traits(x.dtype()).name) + " rows of " +
         std::to_string(x.shape()[1]);
}

void require_rows(std::string_view op, std::string_view name, const Tensor& x,
                  std::int64_t rows) {
  require_high_precision(op, name, x);
  require_rank(op, name, x, 2);
  require_shape(op, name, x, {rows, x.shape()[1]});
}

void require_probs_rows(std::string_view op, const Tensor& d_probs,
                        const EpPlan& plan) {
  require_high_precision(op, "d_probs", d_probs);
  require_shape(op, "d_probs", d_probs, {plan.rows});
}

// The tensor's own scale or amax, that codes of different ranks must share.
std::string shared_scale(std::string_view op, const QuantizedData& q) {
  const bool tensor = q.mode == ScalingMode::kTensor;
  if (!tensor && q.mode != ScalingMode::kNVFP4) return "";
  const Tensor& scale = tensor ? q.scale_inv : q.amax;
  require(scale.numel() == 1, op, "quantizer", "an amax for each row",
          "one of the tensor");
  std::uint32_t bits = 0;
  std::memcpy(&bits, scale.view.data, sizeof bits);
  return std::string(tensor ? "scale" : "amax") + " of fp32 bits " +
         std::to_string(bits) + ", which codes on one rank must share";
}

}  // namespace

Permuted ep_dispatch_forward(const Tensor& tokens, const EpPlan& plan,
                             Communicator& group,
                             const std::optional<Tensor>& probs) {
  constexpr std::string_view kOp = "ep_dispatch_forward";
  Permuted own;
  agree(kOp, group, [&] {
    own = moe_permute_forward(tokens, plan.map, probs);
    return rows_text(tokens) + (probs ? " with" : " without") + " probs";
  });
  Permuted out;
  out.rows = send_rows(own.rows, plan, group);
  if (probs)
    out.probs = as_vector(send_rows(as_column(own.probs), plan, group));
  return out;
}

PermuteGradients ep_dispatch_backward(const Tensor& d_rows, const EpPlan& plan,
                                      Communicator& group,
                                      const std::optional<Tensor>& d_probs,
                                      MergeOptions options) {
  constexpr std::string_view kOp = "ep_dispatch_backward";
  agree(kOp, group, [&] {
    require_rows(kOp, "d_rows", d_rows, plan.rows);
    if (d_probs) require_probs_rows(kOp, *d_probs, plan);
    return rows_text(d_rows) + (d_probs ? " with" : " without") + " d_probs";
  });
  const Tensor rows = return_rows(d_rows, plan, group);
  std::optional<Tensor> back;
  if (d_probs) back = as_vector(return_rows(as_column(*d_probs), plan, group));
  return moe_permute_backward(rows, plan.map, back, options);
}

EpDispatchedCodes ep_dispatch_quantized(const Tensor& tokens,
                                        const EpPlan& plan,
                                        Quantizer& quantizer,
                                        Communicator& group,
                                        const std::optional<Tensor>& probs) {
  constexpr std::string_view kOp = "ep_dispatch_quantized";
  agree(kOp, group, [&] {
    require_rank(kOp, "tokens", tokens, 2);
    require_shape(kOp, "tokens", tokens, {plan.map.tokens, tokens.shape()[1]});
    require(quantizer.mode() != ScalingMode::kBlock2D, kOp, "quantizer",
            "tiles of rows", "scales that belong to one row or to the tensor");
    if (probs) {
      require_high_precision(kOp, "probs", *probs);
      require_shape(kOp, "probs", *probs, {plan.map.tokens, plan.map.width});
    }
    return rows_text(tokens) + (probs ? " with" : " without") + " probs, " +
           std::string(scaling_mode_name(quantizer.mode()));
  });
  const Usage usage = quantizer.usage();
  quantizer.set_usage({.rowwise = true, .columnwise = false});
  QuantizedTensor q = quantizer.quantize(tokens);
  quantizer.set_usage(usage);
  QuantizedData data = with_layout(*q.rowwise, q.shape, ScaleLayout::kCompact);
  agree(kOp, group, [&] { return shared_scale(kOp, data); });

  EpDispatchedCodes out;
  const Permuted own = moe_permute_forward(data.data, plan.map, probs);
  data.data = send_rows(own.rows, plan, group);
  if (probs)
    out.probs = as_vector(send_rows(as_column(own.probs), plan, group));
  const bool by_row =
      data.mode != ScalingMode::kTensor && data.mode != ScalingMode::kIdentity;
  if (by_row)
    data.scale_inv = send_rows(
        moe_permute_forward(data.scale_inv, plan.map, probs).rows, plan, group);
  q.shape = {plan.rows, q.shape[1]};
  q.rowwise = std::move(data);
  out.rows = std::move(q);
  return out;
}

EpCombined ep_combine_forward(const Tensor& expert_out, const EpPlan& plan,
                              Communicator& group,
                              const std::optional<Tensor>& merging_probs,
                              MergeOptions options) {
  constexpr std::string_view kOp = "ep_combine_forward";
  agree(kOp, group, [&] {
    require_rows(kOp, "expert_out", expert_out, plan.rows);
    if (merging_probs) {
      require_high_precision(kOp, "merging_probs", *merging_probs);
      require_shape(kOp, "merging_probs", *merging_probs,
                    {plan.map.tokens, plan.map.width});
      common_device(kOp, {&expert_out, &*merging_probs});
    }
    return rows_text(expert_out);
  });
  EpCombined combined;
  combined.rows = return_rows(expert_out, plan, group);
  combined.out =
      moe_unpermute_forward(combined.rows, plan.map, merging_probs, options);
  return combined;
}

UnpermuteGradients ep_combine_backward(
    const Tensor& d_out, const EpPlan& plan, Communicator& group,
    const std::optional<Tensor>& rows,
    const std::optional<Tensor>& merging_probs, MergeOptions options) {
  UnpermuteGradients g;
  agree("ep_combine_backward", group, [&] {
    g = moe_unpermute_backward(d_out, plan.map, rows, merging_probs, options);
    return rows_text(d_out);
  });
  g.rows = send_rows(g.rows, plan, group);
  return g;
}

}  // namespace assay::te
