// Reference vectors of the router: weights, balancing scores and loss,
// quantile balancing.
#include <optional>
#include <string>

#include "assay/te/ops/router.h"
#include "tests/oracle/oracle.h"

namespace assay::oracle {
namespace {

te::ScoreFunction score_function(const Case& c) {
  return c.choice<te::ScoreFunction>(
      "score_function", {{"softmax", te::ScoreFunction::kSoftmax},
                         {"sigmoid", te::ScoreFunction::kSigmoid},
                         {"sqrtsoftplus", te::ScoreFunction::kSqrtSoftplus}});
}

void check_sizes(const Case& c) {
  c.states("tokens", c.dim("logits", 0));
  c.states("experts", c.dim("logits", 1));
}

// 0: no groups.
std::int64_t groups(const Case& c, std::string_view parameter) {
  return c.has(parameter) ? c.integer(parameter) : 0;
}

void run_topk(const Case& c, Answers& answers) {
  check_sizes(c);
  te::RouterOptions options;
  options.topk = c.integer("topk");
  options.score_function = score_function(c);
  options.use_pre_softmax = c.flag("use_pre_softmax");
  options.num_groups = groups(c, "num_groups");
  options.group_topk = groups(c, "group_topk");
  if (c.has("scaling_factor"))
    options.scaling_factor = c.number("scaling_factor");
  std::optional<Tensor> bias;
  if (c.flag("expert_bias")) bias = c.array("expert_bias");
  const te::RouterOutput out =
      te::router_topk_forward(c.array("logits"), options, bias);
  answers.give("probs", out.probs);
  answers.give("routing_map", out.routing_map);
  answers.give("tokens_per_expert", out.tokens_per_expert);
  answers.give("d_logits",
               te::router_topk_backward(c.array("d_probs"), out.routing_map,
                                        out.saved, options));
}

void run_aux(const Case& c, Answers& answers) {
  check_sizes(c);
  const te::ScoreFunction function = score_function(c);
  const Tensor logits = c.array("logits");
  const te::AuxScores out =
      te::router_aux_scores_forward(logits, c.integer("topk"), function);
  answers.give("scores", out.scores);
  answers.give("routing_map", out.routing_map);
  answers.give("d_logits",
               te::router_aux_scores_backward(c.array("d_scores"), out.saved,
                                              function, logits.dtype()));
  // The choice of the scores is the router's own: routed by them.
  te::RouterOptions routed;
  routed.topk = c.integer("topk");
  routed.score_function = function;
  routed.use_pre_softmax = true;
  const Tensor tokens =
      te::router_topk_forward(logits, routed).tokens_per_expert;
  answers.give("tokens_per_expert", tokens);
  te::AuxLossOptions loss;
  loss.total_num_tokens = logits.shape()[0];
  loss.num_experts = logits.shape()[1];
  loss.topk = c.integer("topk");
  loss.coeff = c.number("coeff");
  answers.give("aux_loss_f64",
               te::moe_aux_loss_forward(out.scores, tokens, loss));
  Tensor one = Tensor::empty(DType::kF32, {1});
  *one.mutable_data<float>() = 1;
  answers.give("d_aux_d_scores_f64",
               te::moe_aux_loss_backward(one, tokens, logits.shape()[0], loss));
}

void run_quantile(const Case& c, Answers& answers) {
  check_sizes(c);
  const te::QuantileOutput out = te::router_quantile_forward(
      c.array("logits"), c.integer("topk"), c.array("expert_bias"),
      c.array("bin_bounds"), c.integer("num_bins"));
  answers.give("probs", out.routed.probs);
  answers.give("routing_map", out.routed.routing_map);
  answers.give("cutoff", out.cutoff);
  answers.give("histogram", out.histogram);
}

const Registration kTopk{"router_", run_topk};
const Registration kAux{"router_aux_", run_aux};
const Registration kQuantile{"router_quantile_", run_quantile};

}  // namespace
}  // namespace assay::oracle
