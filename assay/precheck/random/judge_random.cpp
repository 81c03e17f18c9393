#include "assay/precheck/random/judge_random.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/metrics/distribution.h"
#include "assay/metrics/standard.h"
#include "assay/numerics/element.h"
#include "assay/precheck/random/choice.h"
#include "assay/precheck/random/dropout.h"
#include "assay/precheck/random/law.h"

namespace assay::precheck {
namespace {

// Operators that drop elements on the way: what they drew shows in no element
// of the result alone.
struct Hidden {
  const char* name;
  int p;            // place of the probability
  const char* key;  // and its name
  double none;      // with this value nothing is dropped
  int training;     // place of the flag, -1: always
};
constexpr Hidden kHidden[] = {
    {"scaled_dot_product_attention", 4, "dropout_p", 0, -1},
    {"multi_head_attention_forward", 10, "dropout_p", 0, 13},
    {"npu_fusion_attention", 9, "keep_prob", 1, -1},
    {"npu_fusion_attention_v2", 9, "keep_prob", 1, -1},
    {"flash_attn_func", 3, "dropout_p", 0, -1},
    {"flash_attn_varlen_func", 7, "dropout_p", 0, -1},
    {"lstm", 5, "dropout", 0, 6},
    {"gru", 5, "dropout", 0, 6},
    {"rnn_tanh", 5, "dropout", 0, 6},
    {"rnn_relu", 5, "dropout", 0, 6},
};

const Hidden* find_hidden(const std::string& name) {
  for (const Hidden& each : kHidden)
    if (name == each.name) return &each;
  return nullptr;
}

bool hidden_draws(const RandomCall& call, const Hidden& hidden) {
  const RandomArguments arguments(call);
  const auto p = arguments.number(hidden.p, {hidden.key}, hidden.none);
  const auto training =
      hidden.training < 0
          ? true
          : arguments.flag(hidden.training, {"training", "train"}, true);
  return !p || !training || (*training && *p != hidden.none);
}

bool is_rrelu(const std::string& name) {
  return name == "rrelu" || name == "rrelu_with_noise";
}

// Shape and dtype, which no law excuses. False: they differ.
bool check_form(Findings& findings, const Tensor& golden,
                const Tensor& device) {
  const DTypeTraits& g = traits(golden.dtype());
  const DTypeTraits& d = traits(device.dtype());
  const bool widest = g.id == DType::kF64 || g.id == DType::kC128;
  findings.require(
      golden.shape() == device.shape(), "shape",
      to_string(device.shape()) + ", expected " + to_string(golden.shape()));
  findings.require(g.id == d.id || (widest && g.kind == d.kind), "dtype",
                   fmt::format("{}, expected {}", d.name, g.name));
  return !findings.failed();
}

// What the dtype of a result is known to be: that of the tensor it changes, or
// is like, or the argument `dtype`.
void check_dtype(Findings& findings, const RandomCall& call,
                 const std::string& name, const Tensor& device) {
  const RandomArguments arguments(call);
  const std::string given = arguments.word(-1, {"dtype"}, "");
  std::optional<DType> expected = parse_dtype(given);
  const bool follows = is_in_place(call.api) || name.ends_with("_like") ||
                       find_dropout(call, name) || is_rrelu(name) ||
                       name == "gumbel_softmax" || name == "poisson" ||
                       name == "bernoulli";
  const Tensor* input = arguments.tensor(0, {"input", "self", "logits"});
  if (given.empty() && follows && input) expected = input->dtype();
  if (!expected) return;
  findings.require(device.dtype() == *expected, "dtype",
                   fmt::format("{}, expected {}", traits(device.dtype()).name,
                               traits(*expected).name));
}

// No law is known: the two runs against each other.
void judge_samples(Findings& findings, const Tensor& golden,
                   const Tensor& device) {
  std::vector<double> a = elements(golden), b = elements(device);
  const DType dtype = component(device.dtype());
  if (is_float(dtype))
    for (double& x : a) x = decode_float(dtype, encode_float(dtype, x));
  const auto bad = std::find_if(b.begin(), b.end(),
                                [](double x) { return !std::isfinite(x); });
  findings.require(bad == b.end(), "finite", "not a finite number",
                   bad - b.begin());
  if (findings.failed()) return;
  if (std::any_of(a.begin(), a.end(),
                  [](double x) { return !std::isfinite(x); }))
    return findings.incomplete("golden", "the golden is not finite");
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const double distance = ks_two_sample(a, b);
  const auto n = static_cast<std::int64_t>(a.size());
  findings.test(ks_two_sample_bound(n, distance), "ks_two_sample",
                fmt::format("the distributions of {} numbers of each run are "
                            "{:.3g} apart",
                            n, distance));
  findings.enough(n, 2 * draws_needed(), "draws");
  findings.note("law", "no law is known: golden and device are compared");
}

// `output` is the operator's result, not something else that it wrote to.
bool is_result(const RandomCall& call, std::string_view output) {
  if (!output.starts_with("after.")) return true;
  const RandomArguments arguments(call);
  for (const char* key : {"self", "input", "out", "tensor"}) {
    const conform::Value* value = arguments.find(key[0] == 's' ? 0 : -1, {key});
    const conform::Value* name = value ? value->find("tensor") : nullptr;
    if (name && name->is_text() && output.substr(6) == name->text())
      return true;
  }
  return false;
}

void judge_one(Findings& findings, const RandomCall& call,
               std::string_view output, const std::string& name,
               const Tensor& golden, const Tensor& device) {
  if (!is_result(call, output))
    return findings.incomplete("law", "no law is known of what it wrote to " +
                                          std::string(output.substr(6)));
  if (const auto dropout = find_dropout(call, name)) {
    if (output == "output.1" && name != "dropout")
      return judge_dropout_mask(findings, *dropout, device);
    return judge_dropout(findings, *dropout, golden, device);
  }
  if (find_hidden(name))
    return findings.incomplete(
        "hidden", "what it drops shows in no element: replay it without");
  if (is_rrelu(name))
    return judge_rrelu(findings, call, name != "rrelu", device);
  if (name == "randperm") return judge_permutation(findings, device);
  if (name == "multinomial") return judge_multinomial(findings, call, device);
  if (name == "gumbel_softmax")
    return judge_gumbel_softmax(findings, call, device);
  if (name == "bernoulli") {
    const RandomArguments arguments(call);
    const bool fills = is_in_place(call.api);
    const bool own = !fills && !arguments.find(1, {"p"});
    const auto p = arguments.parameter(
        own ? 0 : 1, {own ? "input" : "p"},
        fills ? std::optional(0.5) : std::nullopt, device.shape());
    if (!p) throw Error(Code::kUsage, "bernoulli: expected a chance");
    return judge_bernoulli(findings, *p, device);
  }
  if (const auto law = find_law(call, name, device))
    return judge_law(findings, *law, device);
  judge_samples(findings, golden, device);
}

Judgement judged(const RandomCall& call, std::string_view output,
                 const Tensor& golden, const Tensor& device) {
  Findings findings;
  try {
    judge_one(findings, call, output, random_name(call.api), golden, device);
  } catch (const Error& error) {
    findings.incomplete("arguments", error.what());
  }
  return findings.judgement();
}

}  // namespace

bool draws_random(const RandomCall& call) {
  const std::string name = random_name(call.api);
  if (const Hidden* hidden = find_hidden(name))
    return hidden_draws(call, *hidden);
  if (op_class(call.api) != OpClass::kRandom && !is_rrelu(name)) return false;
  try {
    if (const auto dropout = find_dropout(call, name)) return dropout->draws();
    if (is_rrelu(name)) return read_rrelu(call, name != "rrelu").draws();
  } catch (const Error&) {
    return true;  // judge_random says why it cannot tell
  }
  return true;
}

Judgement judge_random(const RandomCall& call, std::string_view output,
                       const Tensor& golden, const Tensor& device) {
  Findings form;
  if (!check_form(form, golden, device)) return form.judgement();
  try {
    if (!output.starts_with("output.1"))
      check_dtype(form, call, random_name(call.api), device);
  } catch (const Error& error) {
    form.incomplete("arguments", error.what());
    return form.judgement();
  }
  if (form.failed()) return form.judgement();
  if (device.numel() == 0) return {Verdict::kEmpty, {}};
  Judgement result = judged(call, output, golden, device);
  if (result.verdict != Verdict::kMismatch) return result;
  // What the golden fails too is not the device's fault alone.
  const Judgement other = judged(call, output, golden, golden);
  if (other.verdict != Verdict::kMismatch) return result;
  for (Reason& reason : result.reasons) reason.note = true;
  result.reasons.insert(
      result.reasons.begin(),
      {"golden", "the golden fails these tests too: " + other.reasons[0].text});
  result.verdict = Verdict::kIncomplete;
  return result;
}

}  // namespace assay::precheck
