// router: the choice of experts, the scores of the balancing loss, and the
// loss, forward and backward.
#include "assay/te/ops/router.h"

#include <fmt/format.h>

#include <algorithm>

#include "assay/base/error.h"
#include "assay/conform/engine/engine.h"
#include "assay/numerics/element.h"

namespace assay::conform {
namespace {

constexpr std::pair<std::string_view, te::ScoreFunction> kScoreFunctions[] = {
    {"sigmoid", te::ScoreFunction::kSigmoid},
    {"softmax", te::ScoreFunction::kSoftmax},
    {"sqrtsoftplus", te::ScoreFunction::kSqrtSoftplus},
};

te::ScoreFunction score_function_of(const AdapterCall& call) {
  const std::string& text = call.text("score_function");
  for (const auto& [name, value] : kScoreFunctions)
    if (name == text) return value;
  throw Error(Code::kUsage,
              fmt::format("{}: score_function {}, expected sigmoid, softmax or "
                          "sqrtsoftplus",
                          call.module, text));
}

te::RouterOptions options_of(const AdapterCall& call) {
  te::RouterOptions options;
  options.topk = call.integer("topk");
  options.score_function = score_function_of(call);
  options.use_pre_softmax = call.flag("use_pre_softmax");
  options.num_groups = call.integer("num_groups");
  options.group_topk = call.integer("group_topk");
  options.scaling_factor = call.number("scaling_factor");
  return options;
}

// Values 'spaced': what is given are ranks 0 ... E - 1, and the logits are
// -rank / 16: exact in every dtype, none equal, no two pairs of one sum of
// sigmoids. Random 16-bit logits would be equal often, and which of equal ones
// is chosen is each implementation's own affair (field log F50).
Tensor logits_of(const AdapterCall& call) {
  const Tensor& given = call.input("logits");
  if (call.text("values") != "spaced") return given;
  const Tensor ranks = contiguous(given);
  Tensor logits = Tensor::empty(ranks.dtype(), ranks.shape(), call.device);
  for (std::int64_t i = 0; i < ranks.numel(); ++i)
    store_from_double(
        ranks.dtype(),
        load_as_double(ranks.dtype(), ranks.data<std::byte>(), i) / -16,
        logits.mutable_data(), i);
  return logits;
}

Tensor in_format(const AdapterCall& call, const Tensor& routing_map) {
  return call.text("routing_map_format") == "BITMAP_U8"
             ? te::pack_routing_map(routing_map)
             : routing_map;
}

void put_choice(AdapterResult& result, const AdapterCall& call,
                const Tensor& logits) {
  const te::RouterOptions options = options_of(call);
  std::optional<Tensor> bias;
  if (const Tensor* given = call.find_input("expert_bias")) bias = *given;
  te::RouterOutput out;
  if (call.flag("quantile")) {
    if (!bias)
      throw Error(Code::kUsage, "router: quantile without expert_bias");
    Tensor bounds = Tensor::empty(DType::kF32, {2}, call.device);
    bounds.mutable_data<float>()[0] = -1;
    bounds.mutable_data<float>()[1] = 1;
    te::QuantileOutput q = te::router_quantile_forward(
        logits, options.topk, *bias, bounds, 16, options.scaling_factor);
    out = std::move(q.routed);
    result.outputs["qb_histogram"] = q.histogram;
  } else {
    out = te::router_topk_forward(logits, options, bias);
  }
  result.outputs["probs"] = out.probs;
  result.outputs["routing_map"] = in_format(call, out.routing_map);
  result.outputs["grad.logits"] = te::router_topk_backward(
      call.input("d_probs"), out.routing_map, out.saved, options);
}

void put_balance(AdapterResult& result, const AdapterCall& call,
                 const Tensor& logits) {
  const te::ScoreFunction function = score_function_of(call);
  const te::AuxScores aux =
      te::router_aux_scores_forward(logits, call.integer("topk"), function);
  result.outputs["aux_scores"] = aux.scores;
  result.outputs["aux_routing_map"] = in_format(call, aux.routing_map);
  result.outputs["grad.aux_logits"] = te::router_aux_scores_backward(
      call.input("d_scores"), aux.saved, function, logits.dtype());

  const Tensor& probs = call.input("aux_probs");
  const Tensor& counts = call.input("tokens_per_expert");
  te::AuxLossOptions options;
  options.num_experts = call.integer("experts");
  options.topk = call.integer("topk");
  options.coeff = call.number("coeff");
  options.total_num_tokens = std::max<std::int64_t>(1, call.integer("tokens"));
  result.outputs["aux_loss"] = te::moe_aux_loss_forward(probs, counts, options);
  result.outputs["grad.aux_probs"] = te::moe_aux_loss_backward(
      call.input("d_loss"), counts, call.integer("tokens"), options);
}

}  // namespace

AdapterResult run_router(const AdapterCall& call) {
  AdapterResult result;
  const Tensor logits = logits_of(call);
  put_choice(result, call, logits);
  put_balance(result, call, logits);
  Object codes;
  for (const auto& [name, value] : kScoreFunctions)
    codes[std::string(name)] = static_cast<int>(value);
  result.contract["enums"] = Object{{"score_function", std::move(codes)}};
  return result;
}

}  // namespace assay::conform
