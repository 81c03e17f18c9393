#include "assay/compare/row_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/digest.h"
#include "assay/compare/load.h"
#include "assay/compare/sidecar.h"

namespace assay {
namespace {

constexpr std::size_t kMaxValueText = 200;
// Noise runs further from the golden than this (normalised L2) say nothing.
constexpr double kMaxNoise = 0.25;
// Extremes a dump states against its file's, relative to the larger: far above
// any rounding of a statistic.
constexpr double kDumpedTolerance = 0.01;

Reason make_reason(std::string_view criterion, std::string text,
                   bool note = false) {
  Reason reason;
  reason.criterion = criterion;
  reason.text = std::move(text);
  reason.note = note;
  return reason;
}

// Values may be whole dictionaries: a reason shows their beginning.
std::string shown(const std::string& value) {
  std::string text = printable(
      std::string_view(value).substr(0, std::min(value.size(), kMaxValueText)));
  if (value.size() > kMaxValueText) text += "...";
  return text;
}

bool has_statistics(const TensorStatistics& stats) {
  return stats.max || stats.min || stats.mean || stats.norm;
}

bool is_empty(const SideFacts& facts) {
  return checked_numel(facts.shape) == std::int64_t{0};
}

TensorStatistics measured(const SideStats& side, std::int64_t count) {
  if (side.nan + side.pos_inf + side.neg_inf >= count) return {};
  return {side.max, side.min, side.mean, side.l2};
}

class RowJudge {
 public:
  RowJudge(const Standard& standard, const RowTask& task, Row& row)
      : standard_(standard), task_(task), row_(row) {}

  RowBytes run() {
    row_.evidence = Evidence::kNone;
    if (!task_.golden || !task_.target) {
      unmatched();
    } else if (task_.golden.record->is_tensor !=
               task_.target.record->is_tensor) {
      different_kinds();
    } else if (!row_.is_tensor) {
      judge_values();
    } else {
      judge_tensors();
    }
    return bytes_;
  }

 private:
  void conclude(Verdict verdict, Reason reason) {
    row_.verdict = verdict;
    row_.reasons.push_back(std::move(reason));
  }

  void conclude(Judgement judgement) {
    row_.verdict = judgement.verdict;
    add(std::move(judgement.reasons));
  }

  void add(std::vector<Reason> reasons) {
    if (row_.reasons.empty()) {
      row_.reasons = std::move(reasons);
      return;
    }
    std::move(reasons.begin(), reasons.end(), std::back_inserter(row_.reasons));
  }

  void unmatched() {
    const RecordRef& only = task_.golden ? task_.golden : task_.target;
    if (!only.record->unreadable.empty()) {
      return conclude(Verdict::kIncomplete,
                      make_reason("unreadable", only.record->unreadable));
    }
    const char* where = task_.golden ? "target" : "golden";
    conclude(Verdict::kIncomplete,
             make_reason("unmatched",
                         fmt::format("no counterpart in the {}", where)));
  }

  void different_kinds() {
    const auto kind = [](const Record& record, const RowSide& side) {
      return record.is_tensor ? std::string("a tensor")
                              : fmt::format("{} {}", printable(record.type),
                                            shown(side.value));
    };
    row_.evidence = Evidence::kValue;
    conclude(Verdict::kMismatch,
             make_reason("kind",
                         fmt::format("golden is {}, target is {}",
                                     kind(*task_.golden.record, row_.golden),
                                     kind(*task_.target.record, row_.target))));
  }

  // Where a tensor lives is what a port changes; it is no numeric fact.
  static bool names_device(const Record& record) {
    return record.type == "torch.device";
  }

  void judge_values() {
    const Record& golden = *task_.golden.record;
    const Record& target = *task_.target.record;
    row_.evidence = Evidence::kValue;
    if (!golden.unreadable.empty() || !target.unreadable.empty()) {
      return unreadable();
    }
    const std::string& a = row_.golden.value;
    const std::string& b = row_.target.value;
    row_.verdict = Verdict::kMatch;
    if (golden.type != target.type) {
      conclude(
          Verdict::kMismatch,
          make_reason("type", fmt::format("golden is {} {}, target {} {}",
                                          printable(golden.type), shown(a),
                                          printable(target.type), shown(b))));
    } else if (a != b) {
      const bool device = names_device(golden);
      conclude(
          device ? Verdict::kMatch : Verdict::kMismatch,
          make_reason("value",
                      fmt::format("golden {}, target {}", shown(a), shown(b)),
                      device));
    }
  }

  void unreadable() {
    for (const auto& [side, ref] : {std::pair("golden", &task_.golden),
                                    std::pair("target", &task_.target)}) {
      const std::string& why = ref->record->unreadable;
      if (why.empty()) continue;
      conclude(Verdict::kIncomplete,
               make_reason("unreadable", fmt::format("{}: {}", side, why)));
    }
  }

  void judge_tensors() {
    const Record& golden = *task_.golden.record;
    const Record& target = *task_.target.record;
    if (!golden.unreadable.empty() || !target.unreadable.empty()) {
      unreadable();
      return escalate();
    }
    if (has_facts(golden) && has_facts(target) && settled_by_contract()) {
      if (only_dtype_differs()) measure_values();
      return;
    }
    if (task_.undefined) return undefined_memory();
    if (has_tensors(task_.golden, task_.target)) return judge_elements();
    if (golden.file.empty() != target.file.empty()) {
      row_.reasons.push_back(
          make_reason("tensor_missing",
                      fmt::format("the {} kept no tensor",
                                  golden.file.empty() ? "golden" : "target"),
                      true));
    }
    judge_without_elements();
    if (golden.file.empty() != target.file.empty()) demand_tensor();
  }

  // A dump of tensors that lost one of them cannot fall back to statistics.
  void demand_tensor() {
    const RecordRef& side =
        task_.golden.record->file.empty() ? task_.golden : task_.target;
    if (side.trace->task != "tensor" || row_.verdict != Verdict::kMatch) return;
    row_.verdict = Verdict::kIncomplete;
    for (Reason& reason : row_.reasons) {
      if (reason.criterion == "tensor_missing") reason.note = false;
    }
  }

  bool only_dtype_differs() const {
    return row_.verdict == Verdict::kMismatch && row_.golden.facts.dtype &&
           row_.target.facts.dtype &&
           row_.golden.facts.shape == row_.target.facts.shape &&
           has_tensors(task_.golden, task_.target);
  }

  // The verdict stands; the figures tell whether the values agree after all.
  void measure_values() {
    try {
      LoadedTensor golden(task_.golden);
      LoadedTensor target(task_.target);
      if (golden.view().shape != target.view().shape) return;
      auto stats = std::make_unique<ErrorStats>(
          compute_stats(golden.view(), target.view()));
      if (const auto request = standard_.detail_request(*stats, task_.op)) {
        compute_detail(golden.view(), target.view(), *request, *stats);
      }
      golden.check_intact();
      target.check_intact();
      row_.reasons.push_back(standard_.note_values(*stats, task_.op));
      row_.stats = std::move(stats);
      row_.evidence = Evidence::kTensor;
      bytes_ = {golden.size(), target.size()};
    } catch (const std::exception& error) {
      row_.reasons.push_back(make_reason("unreadable", error.what(), true));
    }
  }

  void undefined_memory() {
    conclude(Verdict::kEmpty,
             make_reason("undefined_memory",
                         "memory nothing has written yet: its values mean "
                         "nothing, no evidence",
                         true));
  }

  static bool has_facts(const Record& record) {
    return record.file.empty() || record.facts.dtype ||
           !record.facts.dtype_text.empty();
  }

  // Shape and dtype; true when they settle the verdict.
  bool settled_by_contract() {
    std::vector<Reason> notes;
    auto judgement =
        standard_.judge_contract(row_.golden.facts, row_.target.facts, notes);
    if (judgement) {
      conclude(*std::move(judgement));
      add(std::move(notes));
      return true;
    }
    add(std::move(notes));
    if (!is_empty(row_.golden.facts)) return false;
    conclude(Verdict::kEmpty,
             make_reason("empty", "0 elements: equal, no evidence", true));
    return true;
  }

  void judge_elements() {
    try {
      compare_elements();
      row_.evidence = Evidence::kTensor;
    } catch (const std::exception& error) {
      row_.stats.reset();
      row_.baseline.reset();
      row_.msprobe.reset();
      row_.reasons.clear();
      conclude(Verdict::kIncomplete, make_reason("unreadable", error.what()));
      escalate();
    }
  }

  // A tensor that cannot be read is incomplete, unless what the dump says of
  // it is enough to know that it differs.
  void escalate() {
    if (!has_statistics(row_.golden.stats) ||
        !has_statistics(row_.target.stats)) {
      return;
    }
    Judgement judgement = judge_statistics();
    if (judgement.verdict != Verdict::kMismatch) return;
    for (Reason& reason : row_.reasons) reason.note = true;
    row_.reasons.insert(row_.reasons.begin(),
                        std::make_move_iterator(judgement.reasons.begin()),
                        std::make_move_iterator(judgement.reasons.end()));
    row_.verdict = Verdict::kMismatch;
    row_.evidence = Evidence::kStatistics;
  }

  void compare_elements() {
    LoadedTensor golden(task_.golden);
    LoadedTensor target(task_.target);
    const bool undeclared =
        !has_facts(*task_.golden.record) || !has_facts(*task_.target.record);
    SidecarCheck golden_check =
        check_sidecar("golden", row_.golden.facts, golden.tensor());
    SidecarCheck target_check =
        check_sidecar("target", row_.target.facts, target.tensor());
    const bool same_shape = golden.view().shape == target.view().shape;
    add(std::move(golden_check.reasons));
    add(std::move(target_check.reasons));
    const std::size_t conflicts = count_deciding();
    if (undeclared && settled_by_contract()) return;
    if (!same_shape || !golden_check.same_shape || !target_check.same_shape) {
      row_.verdict = Verdict::kIncomplete;
      return;
    }
    judge_stats(golden, target);
    golden.check_intact();
    target.check_intact();
    bytes_ = {golden.size(), target.size()};
    if ((conflicts > 0 || has_criterion("sidecar_statistics")) &&
        row_.verdict != Verdict::kMismatch) {
      row_.verdict = Verdict::kIncomplete;
    }
  }

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
    conclude(standard_.judge(stats, task_.op, row_.baseline.get(),
                             trusted ? noise : -1));
    add(std::move(earlier));
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

  Judgement judge_statistics() const {
    return standard_.judge_statistics(row_.golden.stats, row_.target.stats,
                                      row_.golden.facts, task_.op);
  }

  void judge_without_elements() {
    const bool digests =
        !row_.golden.digest.empty() && !row_.target.digest.empty();
    if (has_statistics(row_.golden.stats) &&
        has_statistics(row_.target.stats)) {
      row_.evidence = Evidence::kStatistics;
      std::vector<Reason> earlier = std::exchange(row_.reasons, {});
      conclude(judge_statistics());
      add(std::move(earlier));
      if (digests) weigh_digest();
      compare_attributes();
    } else if (digests) {
      row_.evidence = Evidence::kDigest;
      conclude(judge_digest(row_.golden.digest, row_.target.digest,
                            row_.golden.facts.dtype));
    } else {
      conclude(Verdict::kIncomplete,
               make_reason("no_evidence",
                           "no evidence: neither tensors nor statistics nor "
                           "checksums on both sides"));
      compare_attributes();
    }
  }

  // What the dump says of a tensor besides the known statistics: 64-bit
  // extremes as exact text, is_nan, placements. Text that differs is a
  // mismatch where the numbers of a double cannot tell, else a note.
  void compare_attributes() {
    if (row_.golden.value == row_.target.value) return;
    const auto dtype = row_.golden.facts.dtype;
    const bool decides =
        row_.evidence == Evidence::kNone || (dtype && is_exact(*dtype));
    Reason reason = make_reason(
        "attributes",
        fmt::format("golden {}, target {}", shown(row_.golden.value),
                    shown(row_.target.value)),
        !decides);
    if (!decides) return row_.reasons.push_back(std::move(reason));
    row_.verdict = Verdict::kMismatch;
    row_.reasons.insert(row_.reasons.begin(), std::move(reason));
  }

  // Statistics are blind to most elements; a checksum is not. An equal one
  // settles the row; a different one does where no rounding is allowed.
  void weigh_digest() {
    Judgement digest = judge_digest(row_.golden.digest, row_.target.digest,
                                    row_.golden.facts.dtype);
    if (digest.verdict == Verdict::kMatch &&
        row_.verdict != Verdict::kMismatch) {
      row_.evidence = Evidence::kDigest;
      row_.reasons.clear();
      return conclude(std::move(digest));
    }
    if (digest.verdict == Verdict::kMismatch && must_be_bitwise_equal()) {
      row_.verdict = Verdict::kMismatch;
      row_.reasons.insert(row_.reasons.begin(),
                          std::make_move_iterator(digest.reasons.begin()),
                          std::make_move_iterator(digest.reasons.end()));
      return;
    }
    for (Reason& reason : digest.reasons) reason.note = true;
    add(std::move(digest.reasons));
  }

  // Integers always; floats that an operator only moves, except bfloat16, which
  // dumps of different tool generations hash differently.
  bool must_be_bitwise_equal() const {
    const auto dtype = row_.golden.facts.dtype;
    if (!dtype) return false;
    if (is_exact(*dtype)) return true;
    return task_.op == OpClass::kMovement && *dtype != DType::kBF16;
  }

  const Standard& standard_;
  const RowTask& task_;
  Row& row_;
  RowBytes bytes_;
};

}  // namespace

bool is_known_equal(const Row& row) {
  if (row.verdict == Verdict::kEmpty) return true;
  if (row.verdict != Verdict::kMatch) return false;
  if (row.evidence == Evidence::kTensor) return row.stats->bitwise_equal;
  if (row.evidence != Evidence::kStatistics) return true;
  const TensorStatistics& a = row.golden.stats;
  const TensorStatistics& b = row.target.stats;
  const bool digests = !row.golden.digest.empty() && !row.target.digest.empty();
  return a.max == b.max && a.min == b.min && a.mean == b.mean &&
         a.norm == b.norm &&
         (!digests || row.golden.digest == row.target.digest);
}

bool has_tensors(const RecordRef& golden, const RecordRef& target) {
  return golden && target && golden.record->is_tensor &&
         target.record->is_tensor && !golden.record->file.empty() &&
         !target.record->file.empty() && golden.record->unreadable.empty() &&
         target.record->unreadable.empty();
}

RowBytes judge_row(const Standard& standard, const RowTask& task, Row& row) {
  return RowJudge(standard, task, row).run();
}

}  // namespace assay
