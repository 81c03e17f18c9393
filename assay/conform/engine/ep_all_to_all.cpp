// ep_all_to_all: tokens to their experts and back, and the collectives that
// carry tensors and their codes.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/conform/engine/parallel.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/parallel/expert_parallel.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/mxfp8.h"

namespace assay::conform {
namespace {

using Group = std::shared_ptr<te::Communicator>;

// Row-wise e4m3; current scaling with the group's amax where `shared`.
std::unique_ptr<te::Quantizer> quantizer_of(const AdapterCall& call,
                                            const Group& group, bool shared) {
  const std::string& name = call.text("quantizer");
  std::unique_ptr<te::Quantizer> quantizer;
  if (name == "mxfp8") {
    quantizer = std::make_unique<te::MXFP8Quantizer>(DType::kE4M3FN);
  } else if (name == "block") {
    quantizer = std::make_unique<te::Block128Quantizer>(
        te::Block128Options{.block_dim = 1});
  } else if (name == "current") {
    te::CurrentScalingOptions options;
    if (shared) options.amax_reduction = te::group_amax_reduction(group);
    quantizer = std::make_unique<te::CurrentScalingQuantizer>(options);
  } else {
    throw Error(Code::kUsage,
                fmt::format("{}: quantizer: {}, expected mxfp8, block or "
                            "current",
                            call.module, name));
  }
  quantizer->set_usage({.columnwise = false});
  return quantizer;
}

void put_codes(AdapterResult& result, const std::string& name,
               const te::QuantizedTensor& q) {
  result.outputs[name + ".codes"] = raw_bytes(q.rowwise->data);
  const Tensor& scales = q.rowwise->scale_inv;
  result.outputs[name + ".scale_inv"] =
      scales.dtype() == DType::kF32 ? scales : raw_bytes(scales);
}

te::EpPlan plan_of(const AdapterCall& call, te::Communicator& group,
                   AdapterResult& result) {
  const Tensor routing = part_of(call.input("routing_map"), Cut::kFirst, group);
  te::EpPlan plan = te::ep_prepare(routing, call.integer("experts"), group,
                                   call.integer("alignment"));
  Tensor counts = Tensor::zeros(DType::kI64, {plan.local_experts});
  std::copy(plan.tokens_per_expert.begin(), plan.tokens_per_expert.end(),
            counts.mutable_data<std::int64_t>());
  result.outputs["tokens_per_expert"] = counts;
  return plan;
}

void run_ep(const AdapterCall& call, te::Communicator& group,
            AdapterResult& result) {
  const te::EpPlan plan = plan_of(call, group, result);
  const auto own = [&](const char* name) {
    return part_of(call.input(name), Cut::kFirst, group);
  };
  const Tensor probs = own("probs");
  const Tensor rows = te::ep_dispatch_forward(own("x"), plan, group).rows;
  const te::EpCombined combined =
      te::ep_combine_forward(rows, plan, group, probs);
  const te::UnpermuteGradients back =
      te::ep_combine_backward(own("d_out"), plan, group, combined.rows, probs);
  result.outputs["rows"] = rows;
  result.outputs["combined"] = combined.out;
  result.outputs["grad.rows"] = back.rows;
  result.outputs["grad.probs"] = back.merging_probs;
  result.outputs["grad.x"] =
      te::ep_dispatch_backward(back.rows, plan, group).tokens;
}

void run_ep_codes(const AdapterCall& call, const Group& group,
                  AdapterResult& result) {
  const te::EpPlan plan = plan_of(call, *group, result);
  const auto quantizer = quantizer_of(call, group, true);
  const te::EpDispatchedCodes sent = te::ep_dispatch_quantized(
      part_of(call.input("x"), Cut::kFirst, *group), plan, *quantizer, *group);
  put_codes(result, "rows", sent.rows);
}

void run_all_to_all(const AdapterCall& call, te::Communicator& group,
                    AdapterResult& result) {
  const Tensor rows = part_of(call.input("x"), Cut::kFirst, group);
  const std::int64_t n = rows.shape().at(0), ranks = group.size();
  // The same from a rank to another as back.
  std::vector<std::int64_t> counts;
  for (std::int64_t other = 0; other < ranks; ++other)
    counts.push_back(n / ranks +
                     ((group.rank() + other) % ranks < n % ranks ? 1 : 0));
  result.outputs["received"] = te::all_to_all_rows(rows, counts, counts, group);
}

}  // namespace

AdapterResult run_ep_all_to_all(const AdapterCall& call) {
  const Group group = group_of(call);
  AdapterResult result;
  const std::string& op = call.text("op");
  const auto own = [&] {
    return part_of(call.input("x"), Cut::kFirst, *group);
  };
  const auto summand = [&] {
    return entry(call.input("parts"), group->rank());
  };
  if (op == "ep") {
    run_ep(call, *group, result);
  } else if (op == "ep_codes") {
    run_ep_codes(call, group, result);
  } else if (op == "all_to_all") {
    run_all_to_all(call, *group, result);
  } else if (op == "all_gather") {
    result.outputs["gathered"] = te::all_gather_first_dim(own(), *group);
  } else if (op == "all_gather_codes") {
    const auto quantizer = quantizer_of(call, group, true);
    put_codes(result, "gathered",
              te::all_gather_first_dim(quantizer->quantize(own()), *group));
  } else if (op == "all_reduce") {
    result.outputs["reduced"] = te::all_reduce_sum(summand(), *group);
  } else if (op == "reduce_scatter") {
    result.outputs["scattered"] =
        te::reduce_scatter_first_dim(summand(), *group);
  } else if (op == "reduce_scatter_codes") {
    const auto quantizer = quantizer_of(call, group, false);
    result.outputs["scattered"] = te::reduce_scatter_first_dim(
        quantizer->quantize(summand()), call.dtype(), *group);
  } else {
    throw Error(Code::kUsage,
                fmt::format("{}: op: {}, expected one of the specification",
                            call.module, op));
  }
  return result;
}

}  // namespace assay::conform
