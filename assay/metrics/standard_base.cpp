#include "assay/metrics/standard_base.h"

#include <fmt/format.h>

#include <utility>

#include "assay/base/text.h"
#include "assay/metrics/checks.h"

namespace assay {
namespace {

std::string dtype_name(const SideFacts& side) {
  if (side.dtype) return std::string(traits(*side.dtype).name);
  return side.dtype_text.empty() ? "unknown" : printable(side.dtype_text);
}

// The floats msprobe takes for each other (its dtype groups).
bool interchangeable(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kF32 || dtype == DType::kBF16;
}

StatisticsBounds read_statistics(const ConfigNode& node) {
  node.allow_only({"extreme", "norm", "mean"});
  return {node.at("extreme").number(), 0, node.at("norm").number(),
          node.at("mean").number()};
}

// e8m0 scales decide every element of their block: one code is a factor two.
bool compared_exactly(DType dtype) {
  return is_exact(dtype) || dtype == DType::kE8M0;
}

std::string grad_text(bool value) { return value ? "true" : "false"; }

}  // namespace

StandardBase::StandardBase(const ConfigNode& node,
                           const std::vector<std::string_view>& own_keys) {
  std::vector<std::string_view> keys = {
      "name", "kind",     "project", "document",  "section", "date",
      "note", "contract", "nan",     "zero_sign", "guard",   "statistics"};
  keys.insert(keys.end(), own_keys.begin(), own_keys.end());
  node.allow_only(keys);
  name_ = node.at("name").text();
  source_ = fmt::format("{}: {}, {}", node.at("project").text(),
                        node.at("document").text(), node.at("section").text());
  date_ = node.at("date").text();
  if (date_.size() < 4 || date_.find_first_not_of("0123456789-") < date_.size())
    node.at("date").fail("expected a date such as 2026-07-31");
  if (const ConfigNode* note = node.find("note")) (void)note->text();
  if (const ConfigNode* contract = node.find("contract")) {
    contract->allow_only({"dtype", "requires_grad"});
    dtype_rule_ = static_cast<DTypeRule>(contract->at("dtype").one_of(
        {"exact", "interchangeable-floats", "any"}));
    requires_grad_decides_ =
        contract->at("requires_grad").one_of({"note", "decides"}) == 1;
  }
  if (const ConfigNode* nan = node.find("nan"))
    nan_unequal_ = nan->one_of({"equal", "unequal"}) == 1;
  if (const ConfigNode* zero = node.find("zero_sign"))
    zero_sign_decides_ = zero->one_of({"note", "decides"}) == 1;
  if (const ConfigNode* guard = node.find("guard")) {
    guard->allow_only({"norm_l2"});
    guard_norm_l2_ = guard->at("norm_l2").number();
  }
  if (const ConfigNode* statistics = node.find("statistics"))
    statistics_ = read_statistics(*statistics);
}

bool StandardBase::dtypes_agree(const SideFacts& golden,
                                const SideFacts& target) const {
  if (dtype_rule_ == DTypeRule::kAny) return true;
  if (!golden.dtype || !target.dtype)
    return !golden.dtype && !target.dtype &&
           golden.dtype_text == target.dtype_text;
  if (*golden.dtype == *target.dtype) return true;
  return dtype_rule_ == DTypeRule::kInterchangeableFloats &&
         interchangeable(*golden.dtype) && interchangeable(*target.dtype);
}

std::optional<Judgement> StandardBase::judge_contract(
    const SideFacts& golden, const SideFacts& target,
    std::vector<Reason>& notes) const {
  Judgement judgement;
  judgement.verdict = Verdict::kMismatch;
  if (golden.shape != target.shape)
    judgement.reasons.push_back(deciding(
        "shape",
        fmt::format("shape differs: golden {}, target {}",
                    to_string(golden.shape), to_string(target.shape))));
  const auto dtypes = [&] {
    return fmt::format("dtype differs: golden {}, target {}",
                       dtype_name(golden), dtype_name(target));
  };
  if (!dtypes_agree(golden, target))
    judgement.reasons.push_back(deciding("dtype", dtypes()));
  else if (golden.dtype != target.dtype)
    notes.push_back(remark("dtype", dtypes()));
  if (golden.requires_grad && target.requires_grad &&
      *golden.requires_grad != *target.requires_grad) {
    Reason reason = deciding("requires_grad",
                             fmt::format("requires_grad differs: golden {}, "
                                         "target {}",
                                         grad_text(*golden.requires_grad),
                                         grad_text(*target.requires_grad)));
    reason.note = !requires_grad_decides_;
    (reason.note ? notes : judgement.reasons).push_back(std::move(reason));
  }
  if (judgement.reasons.empty()) return std::nullopt;
  return judgement;
}

Judgement StandardBase::judge_equal(const ErrorStats& stats) const {
  if (zero_sign_decides_ && stats.zero_sign_flips > 0)
    return make_judgement(
        Verdict::kMismatch,
        deciding("zero_sign",
                 fmt::format("{} zeros differ in sign, '{}' allows none",
                             stats.zero_sign_flips, name_),
                 static_cast<double>(stats.zero_sign_flips)));
  Judgement judgement = make_judgement(
      Verdict::kMatch,
      remark("equal",
             stats.bitwise_equal ? "bitwise equal" : "all values are equal"));
  return judgement;
}

// What is decided before any tolerance is looked at.
std::optional<Judgement> StandardBase::settled(const ErrorStats& stats,
                                               OpClass op) const {
  if (stats.count == 0)
    return make_judgement(Verdict::kEmpty,
                          remark("empty", "0 elements: equal, no evidence"));
  if (auto reason = check_nonfinite(stats))
    return make_judgement(Verdict::kMismatch, *std::move(reason));
  if (nan_unequal_ && stats.golden.nan > 0)
    return make_judgement(
        Verdict::kMismatch,
        deciding("nan",
                 fmt::format("{} NaN; by '{}' a NaN equals nothing",
                             stats.golden.nan, name_),
                 static_cast<double>(stats.golden.nan)));
  if (stats.finite == 0)
    return make_judgement(Verdict::kIncomplete,
                          deciding("no_finite_evidence",
                                   "no finite evidence: not one element is "
                                   "finite on both sides"));
  if (stats.bitwise_equal || stats.mismatches == 0) return judge_equal(stats);
  if (op == OpClass::kRandom)
    return make_judgement(
        Verdict::kIncomplete,
        deciding("random", fmt::format("{} of {} elements differ, but the "
                                       "operator draws random numbers: values "
                                       "are not comparable",
                                       stats.mismatches, stats.count)));
  if (compared_exactly(stats.judged_dtype))
    return make_judgement(
        Verdict::kMismatch,
        *check_exact(stats, std::string(traits(stats.judged_dtype).name)));
  return std::nullopt;
}

// A standard of one number has a blind side (cosine: scale; atol: small
// values; a share: the rest). Where it passes while the error is as large as
// the signal, the row is no match.
void StandardBase::apply_guard(const ErrorStats& stats,
                               Judgement& judgement) const {
  if (!guard_norm_l2_ || judgement.verdict != Verdict::kMatch) return;
  if (!sums_usable(stats)) {
    judgement = sums_unusable(stats);
    return;
  }
  std::optional<Reason> reason = check_norm_l2(stats, *guard_norm_l2_);
  if (!reason) return;
  reason->criterion = "guard";
  reason->text = fmt::format("'{}' passes this, but {}", name_, reason->text);
  judgement.verdict = Verdict::kMismatch;
  judgement.reasons.insert(judgement.reasons.begin(), *std::move(reason));
}

Judgement StandardBase::judge(const ErrorStats& stats, OpClass op,
                              const ErrorStats* baseline,
                              double noise_norm_l2) const {
  std::optional<Judgement> judgement = settled(stats, op);
  if (!judgement) {
    judgement = judge_values(stats, op, baseline, noise_norm_l2);
    apply_guard(stats, *judgement);
  }
  explain(stats, *judgement);
  add_notes(stats, *judgement);
  return *std::move(judgement);
}

std::optional<DetailRequest> StandardBase::detail_request(
    const ErrorStats& stats, OpClass op) const {
  if (settled(stats, op)) return std::nullopt;
  return request_for_values(stats, op);
}

std::optional<StatisticsBounds> StandardBase::statistics_bounds(DType,
                                                                OpClass) const {
  return statistics_;
}

}  // namespace assay
