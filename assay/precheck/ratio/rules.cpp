#include "assay/precheck/ratio/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/base/text_out.h"
#include "assay/precheck/detail/row_name.h"
#include "assay/precheck/ratio/facts.h"
#include "assay/precheck/ratio/judge.h"

namespace assay::precheck {
namespace {

using Figure = std::optional<double> Detail::*;

class RatioJudge {
 public:
  RatioJudge(const Detail& device, const Detail& reference,
             const RatioOptions& options, RatioRow& row)
      : device_(device),
        reference_(reference),
        profile_(*options.profile),
        row_(row) {
    const auto dtype = parse_dtype(device.device_dtype);
    dtype_ = dtype.value_or(DType::kF32);
    constants_ = profile_.constants(dtype_);
    const std::optional<RowName> name = parse_row_name(device.name);
    if (name) api_ = name->api;
    named_ = name.has_value();
    row_.level = options.level.value_or(ratio_level(api_));
  }

  void run() {
    row_.judgement.verdict = Verdict::kMatch;
    if (!facts_decide()) {
      row_.rule = ratio_rule(api_, device_.device_dtype,
                             device_.rel_error_ratio.has_value(), profile_);
      judge_rule();
    }
    if (row_.judgement.verdict != Verdict::kEmpty)
      row_.judgement = std::move(findings_).finish();
  }

 private:
  bool facts_decide() {
    if (named_) {
      RatioFacts facts(device_, reference_, findings_);
      const bool decided = facts.decide();
      if (facts.empty()) row_.judgement.verdict = Verdict::kEmpty;
      return decided;
    }
    findings_.add(Verdict::kIncomplete, "name",
                  "no name of an output of an API call");
    findings_.msprobe("SKIP");
    return true;
  }

  void judge_rule() {
    switch (*row_.rule) {
      case RatioRule::kBenchmark:
        return benchmark();
      case RatioRule::kUlp:
        return ulp();
      case RatioRule::kAbsolute:
        return absolute();
      case RatioRule::kBinary:
        return binary();
      case RatioRule::kThousandth:
        return thousandth();
      case RatioRule::kAccumulative:
        absolute();
        return accumulated_balance();
    }
  }

  // A row that says of itself that it failed, and has no figure of the rule:
  // its output was of another shape or kind than its golden.
  bool failed_without(std::initializer_list<Figure> figures) {
    const auto absent = [&](const Detail& detail) {
      return std::none_of(figures.begin(), figures.end(), [&](Figure figure) {
        return (detail.*figure).has_value();
      });
    };
    if (absent(device_)) {
      const bool failed = device_.status == "error";
      findings_.add(failed ? Verdict::kMismatch : Verdict::kIncomplete,
                    "figures",
                    fmt::format("the device has no figures for the {} rule{}",
                                rule_name(*row_.rule), said_of(device_)));
      findings_.msprobe(kTakenForZero);
      return true;
    }
    return false;
  }

  void benchmark() {
    if (failed_without({&Detail::small_value_error_ratio, &Detail::rmse,
                        &Detail::max_rel, &Detail::mean_rel,
                        &Detail::error_balance}))
      return;
    const RatioLimits& limits = profile_.of(row_.level);
    ratio("small_value", "small-value error", &Detail::small_value_error_ratio,
          limits.small_value, row_.small_value);
    ratio("rmse", "RMSE", &Detail::rmse, limits.rmse, row_.rmse);
    ratio("max_rel", "max relative error", &Detail::max_rel, limits.max_rel,
          row_.max_rel);
    ratio("mean_rel", "mean relative error", &Detail::mean_rel, limits.mean_rel,
          row_.mean_rel);
    reported_ratio("error_balance", "error balance", &Detail::error_balance,
                   limits.balance, row_.balance);
  }

  // One ratio of the benchmark rule.
  void ratio(std::string_view key, std::string_view what, Figure figure,
             double limit, RatioCell& cell) {
    std::string text;
    const Verdict verdict = measure(what, figure, limit, cell, text);
    findings_.add(verdict, key, std::move(text), cell.value.value_or(NAN),
                  limit);
    if (verdict == Verdict::kIncomplete) say_what_msprobe_makes_of_it(figure);
  }
  void reported_ratio(std::string_view key, std::string_view what,
                      Figure figure, double limit, RatioCell& cell) {
    std::string text;
    measure(what, figure, limit, cell, text);
    findings_.note(key, text + " (reported only)", cell.value.value_or(NAN),
                   limit);
  }
  void say_what_msprobe_makes_of_it(Figure figure) {
    findings_.msprobe(device_.*figure && reference_.*figure
                          ? "passes a figure that is not finite on both sides"
                          : kTakenForZero);
  }

  Verdict measure(std::string_view what, Figure figure, double limit,
                  RatioCell& cell, std::string& text) const {
    const auto a = device_.*figure, b = reference_.*figure;
    cell.verdict = Verdict::kIncomplete;
    if (!a || !b) {
      text =
          fmt::format("{}: blank for the {}", what, a ? "reference" : "device");
      return *cell.verdict;
    }
    if (!std::isfinite(*a) || !std::isfinite(*b)) {
      cell.value = NAN;
      const bool alike = *a == *b || (std::isnan(*a) && std::isnan(*b));
      text =
          fmt::format("{}: {} for the device, {} for the reference: {}", what,
                      *a, *b, alike ? "no ratio" : "not finite on one side");
      if (!alike) cell.verdict = Verdict::kMismatch;
      return *cell.verdict;
    }
    const double floor = constants_.ratio_floor;
    const double value = std::fabs(*a) / std::max(std::fabs(*b), floor);
    cell.value = value;
    // Negated, so that no NaN passes.
    const bool within = !(value > limit) && std::isfinite(value);
    cell.verdict = within ? Verdict::kMatch : Verdict::kMismatch;
    describe_ratio(what, value, limit, within, text);
    append_fraction(*a, *b, text);
    return *cell.verdict;
  }

  // Of every figure of every row: without a formatting library.
  void describe_ratio(std::string_view what, double value, double limit,
                      bool within, std::string& text) const {
    text.reserve(112);
    text.append(what).append(" ");
    append_short(text, value, 5);
    text.append(" times the reference's, ")
        .append(within ? "within " : "over ");
    append_short(text, limit, 5);
    text.append(" (").append(level_name(row_.level)).append("): ");
  }
  void append_fraction(double device, double reference,
                       std::string& text) const {
    const double floor = constants_.ratio_floor;
    const bool raised = std::fabs(reference) < floor;
    append_short(text, device, 5);
    text.append(" / ");
    append_short(text, raised ? floor : std::fabs(reference), 5);
    if (raised) text.append(", the floor");
  }

  // The device's own figure, which has to be 0.
  void zero(std::string_view key, std::string_view what, Figure figure,
            RatioCell& cell) {
    cell.value = device_.*figure;
    if (!cell.value) {
      cell.verdict = Verdict::kIncomplete;
      findings_.add(Verdict::kIncomplete, key,
                    fmt::format("{}: blank for the device", what));
      return findings_.msprobe("SKIP");
    }
    cell.verdict = *cell.value == 0 ? Verdict::kMatch : Verdict::kMismatch;
    findings_.add(*cell.verdict, key,
                  fmt::format("{} {}{}", what, format_figure(*cell.value),
                              *cell.value == 0 ? "" : ", expected 0"),
                  *cell.value, 0);
    const auto other = reference_.*figure;
    if (other && *other != 0)
      findings_.note(key, fmt::format("{} of the reference {}", what,
                                      format_figure(*other)));
  }

  void absolute() {
    if (failed_without({&Detail::inf_nan_error_ratio, &Detail::rel_error_ratio,
                        &Detail::abs_error_ratio}))
      return;
    zero("inf_nan", "inf/nan error rate", &Detail::inf_nan_error_ratio,
         row_.inf_nan);
    zero("rel_error", "relative error rate", &Detail::rel_error_ratio,
         row_.rel_error);
    zero("abs_error", "absolute error rate", &Detail::abs_error_ratio,
         row_.abs_error);
  }

  void binary() {
    if (failed_without({&Detail::binary_error_rate})) return;
    zero("binary", "share of elements that differ", &Detail::binary_error_rate,
         row_.binary);
  }

  // A figure of the device against a bound of its own.
  void bounded(std::string_view key, std::string_view what, double value,
               bool passes, double bound, RatioCell& cell) {
    cell.verdict = passes ? Verdict::kMatch : Verdict::kMismatch;
    findings_.add(
        *cell.verdict, key,
        fmt::format("{} {}, bound {}", what, format_figure(value), bound),
        value, bound);
  }

  void thousandth() {
    if (failed_without({&Detail::thousandth})) return;
    row_.thousandth.value = device_.thousandth;
    bounded("thousandth", "share of elements within 0.1 %", *device_.thousandth,
            *device_.thousandth >= profile_.thousandth, profile_.thousandth,
            row_.thousandth);
  }

  void accumulated_balance() {
    if (!device_.error_balance) {
      findings_.add(Verdict::kIncomplete, "error_balance",
                    "error balance: blank for the device");
      return findings_.msprobe("SKIP");
    }
    row_.balance.value = device_.error_balance;
    const double bound = constants_.accumulative_balance;
    bounded("error_balance", "error balance", *device_.error_balance,
            *device_.error_balance <= bound, bound, row_.balance);
  }

  void ulp() {
    if (failed_without({&Detail::ulp_over_threshold})) return;
    row_.ulp_share = device_.ulp_over_threshold;
    const double share = *device_.ulp_over_threshold;
    const auto dtype = parse_dtype(device_.device_dtype);
    if (!dtype || traits(*dtype).bits <= 8)
      return bounded("ulp", "share of elements over 1 ulp", share,
                     share < profile_.ulp_share, profile_.ulp_share, row_.ulp);
    row_.mean_ulp = device_.mean_ulp;
    std::string text;
    const Verdict ratio =
        measure("share of ulps over the threshold", &Detail::ulp_over_threshold,
                profile_.ulp_ratio, row_.ulp, text);
    const bool is_f32 = dtype_ == DType::kF32;
    const bool mean_known =
        !is_f32 || (device_.mean_ulp && reference_.mean_ulp &&
                    std::isfinite(*device_.mean_ulp) &&
                    std::isfinite(*reference_.mean_ulp));
    if (ratio == Verdict::kIncomplete || !row_.ulp.value ||
        std::isnan(*row_.ulp.value) || !mean_known)
      return unknown_ulp(ratio, std::move(text));
    const double bound = is_f32 ? profile_.ulp_share_f32 : profile_.ulp_share;
    const bool passes = (is_f32 && *device_.mean_ulp < profile_.mean_ulp_f32) ||
                        share < bound || *row_.ulp.value < profile_.ulp_ratio;
    row_.ulp.verdict = passes ? Verdict::kMatch : Verdict::kMismatch;
    findings_.add(*row_.ulp.verdict, "ulp",
                  fmt::format("share of elements over {} ulp {}, bound {}; {} "
                              "times the reference's",
                              is_f32 ? 32 : 1, format_figure(share), bound,
                              format_figure(*row_.ulp.value)),
                  share, bound);
  }
  // A mean or share of ulps that is blank, NaN or infinite.
  void unknown_ulp(Verdict ratio, std::string text) {
    const auto odd = [](const std::optional<double>& v) {
      return v && !std::isfinite(*v);
    };
    const bool one_side = odd(device_.mean_ulp) != odd(reference_.mean_ulp) ||
                          ratio == Verdict::kMismatch;
    row_.ulp.verdict = one_side ? Verdict::kMismatch : Verdict::kIncomplete;
    findings_.add(*row_.ulp.verdict, "ulp",
                  text + "; mean or share of ulps blank or not finite");
    if (!one_side) findings_.msprobe("judges by the figures that are left");
  }

  const Detail& device_;
  const Detail& reference_;
  const RatioProfile& profile_;
  DtypeConstants constants_{};
  DType dtype_ = DType::kF32;
  bool named_ = false;
  std::string_view api_;
  RatioFindings findings_;
  RatioRow& row_;
};

}  // namespace

RatioRow judge_ratio(const Detail& device, const Detail& reference,
                     const RatioOptions& options) {
  RatioRow row;
  row.name = device.name;
  RatioJudge(device, reference, options, row).run();
  return row;
}

RatioRow unpaired_ratio(const Detail& detail, std::string_view why,
                        std::string_view msprobe) {
  RatioRow row;
  row.name = detail.name;
  RatioFindings findings;
  findings.add(Verdict::kIncomplete, "unpaired", std::string(why));
  findings.msprobe(msprobe);
  row.judgement = std::move(findings).finish();
  return row;
}

}  // namespace assay::precheck
