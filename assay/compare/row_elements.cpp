#include "assay/compare/row_elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/load.h"
#include "assay/compare/sidecar.h"

namespace assay {
namespace {

// Noise runs further from the golden than this (normalised L2) say nothing.
constexpr double kMaxNoise = 0.25;
// Extremes a dump states against its file's, relative to the larger: far above
// any rounding of a statistic.
constexpr double kDumpedTolerance = 0.01;

TensorStatistics measured(const SideStats& side, std::int64_t count) {
  if (side.nan + side.pos_inf + side.neg_inf >= count) return {};
  return {side.max, side.min, side.mean, side.l2};
}

class ElementJudge {
 public:
  explicit ElementJudge(RowWork& work)
      : work_(work),
        standard_(work.standard),
        task_(work.task),
        row_(work.row) {}

  RowBytes run() {
    LoadedTensor golden(task_.golden);
    LoadedTensor target(task_.target);
    const bool undeclared =
        !has_facts(*task_.golden.record) || !has_facts(*task_.target.record);
    SidecarCheck golden_check =
        check_sidecar("golden", row_.golden.facts, golden.tensor());
    SidecarCheck target_check =
        check_sidecar("target", row_.target.facts, target.tensor());
    const bool same_shape = golden.view().shape == target.view().shape;
    work_.add(std::move(golden_check.reasons));
    work_.add(std::move(target_check.reasons));
    const std::size_t conflicts = count_deciding();
    if (undeclared && work_.settled_by_contract()) return {};
    if (!same_shape || !golden_check.same_shape || !target_check.same_shape) {
      row_.verdict = Verdict::kIncomplete;
      return {};
    }
    judge_stats(golden, target);
    golden.check_intact();
    target.check_intact();
    if ((conflicts > 0 || has_criterion("sidecar_statistics")) &&
        row_.verdict != Verdict::kMismatch) {
      row_.verdict = Verdict::kIncomplete;
    }
    return {golden.size(), target.size()};
  }

 private:
  bool has_criterion(std::string_view criterion) const {
    return std::any_of(
        row_.reasons.begin(), row_.reasons.end(),
        [&](const Reason& reason) { return reason.criterion == criterion; });
  }

  std::size_t count_deciding() const {
    return static_cast<std::size_t>(
        std::count_if(row_.reasons.begin(), row_.reasons.end(),
                      [](const Reason& reason) { return !reason.note; }));
  }

  void judge_stats(LoadedTensor& golden, LoadedTensor& target) {
    row_.stats = std::make_unique<ErrorStats>(
        compute_stats(golden.view(), target.view()));
    ErrorStats& stats = *row_.stats;
    const auto request = standard_.detail_request(stats, task_.op);
    if (request) {
      compute_detail(golden.view(), target.view(), *request, stats);
    }
    if (task_.baseline) measure_baseline(golden.view(), request);
    if (standard_.reports_msprobe_metrics()) {
      row_.msprobe = std::make_unique<MsprobeMetrics>(
          msprobe_metrics(golden.view(), target.view()));
    }
    const double noise = stats.bitwise_equal ? -1 : noise_norm(golden.view());
    if (!stats.golden_rounded) {
      check_dumped("golden", row_.golden, golden, stats.golden);
    }
    check_dumped("target", row_.target, target, stats.target);
    if (!has_statistics(row_.golden.stats)) {
      row_.golden.stats = measured(stats.golden, stats.count);
    }
    if (!has_statistics(row_.target.stats)) {
      row_.target.stats = measured(stats.target, stats.count);
    }
    std::vector<Reason> earlier = std::exchange(row_.reasons, {});
    const bool trusted = noise <= kMaxNoise;
    work_.conclude(standard_.judge(stats, task_.op, row_.baseline.get(),
                                   trusted ? noise : -1));
    work_.add(std::move(earlier));
    if (!trusted) {
      row_.reasons.push_back(make_reason(
          "noise",
          fmt::format("noise left out: its runs differ from the golden by "
                      "normalised L2 {}, over {}: no yardstick",
                      format_figure(noise), format_figure(kMaxNoise)),
          true));
    }
  }

  // The dump's own extremes tell a file that belongs to another tensor.
  void check_dumped(std::string_view side, const RowSide& declared,
                    const LoadedTensor& tensor, const SideStats& found) {
    const auto& [max, min, mean, norm] = declared.stats;
    const bool comparable = is_float(tensor.view().dtype) && max && min &&
                            std::isfinite(*max) && std::isfinite(*min) &&
                            found.nan + found.pos_inf + found.neg_inf == 0;
    if (!comparable) return;
    const double scale = std::max({std::fabs(*max), std::fabs(*min),
                                   std::fabs(found.max), std::fabs(found.min)});
    const double off =
        std::max(std::fabs(*max - found.max), std::fabs(*min - found.min));
    if (off <= kDumpedTolerance * scale) return;
    row_.reasons.push_back(make_reason(
        "sidecar_statistics",
        fmt::format("the {} dump says max {}, min {}, its file holds max {}, "
                    "min {}: not the tensor that was dumped",
                    side, format_double(*max), format_double(*min),
                    format_double(found.max), format_double(found.min))));
  }

  // A baseline that cannot be read leaves the standard without its yardstick;
  // the standard then says what that means.
  void measure_baseline(const TensorView& golden,
                        const std::optional<DetailRequest>& request) {
    try {
      LoadedTensor baseline(task_.baseline);
      auto stats =
          std::make_unique<ErrorStats>(compute_stats(golden, baseline.view()));
      if (request && !stats->bitwise_equal) {
        compute_detail(golden, baseline.view(), *request, *stats);
      }
      baseline.check_intact();
      row_.baseline = std::move(stats);
    } catch (const std::exception& error) {
      row_.reasons.push_back(make_reason(
          "baseline", fmt::format("no baseline: {}", error.what()), true));
    }
  }

  double noise_norm(const TensorView& golden) {
    double worst = -1;
    for (const RecordRef& ref : task_.noise) {
      try {
        LoadedTensor run(ref);
        const ErrorStats stats = compute_stats(golden, run.view());
        run.check_intact();
        worst = std::max(worst, stats.norm_l2);
      } catch (const std::exception& error) {
        row_.reasons.push_back(make_reason(
            "noise", fmt::format("a noise run is left out: {}", error.what()),
            true));
      }
    }
    return worst;
  }

  RowWork& work_;
  const Standard& standard_;
  const RowTask& task_;
  Row& row_;
};

}  // namespace

RowBytes compare_elements(RowWork& work) { return ElementJudge(work).run(); }

RowBytes measure_values(RowWork& work) {
  try {
    LoadedTensor golden(work.task.golden);
    LoadedTensor target(work.task.target);
    if (golden.view().shape != target.view().shape) return {};
    auto stats = std::make_unique<ErrorStats>(
        compute_stats(golden.view(), target.view()));
    if (const auto request =
            work.standard.detail_request(*stats, work.task.op)) {
      compute_detail(golden.view(), target.view(), *request, *stats);
    }
    golden.check_intact();
    target.check_intact();
    work.row.reasons.push_back(work.standard.note_values(*stats, work.task.op));
    work.row.stats = std::move(stats);
    work.row.evidence = Evidence::kTensor;
    return {golden.size(), target.size()};
  } catch (const std::exception& error) {
    work.row.reasons.push_back(make_reason("unreadable", error.what(), true));
    return {};
  }
}

}  // namespace assay
