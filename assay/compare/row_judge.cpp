#include "assay/compare/row_judge.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/row_elements.h"
#include "assay/compare/row_statistics.h"
#include "assay/compare/row_work.h"

namespace assay {
namespace {

class RowJudge {
 public:
  RowJudge(const Standard& standard, const RowTask& task, Row& row)
      : task_(task), row_(row), work_{standard, task, row} {}

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
  void unmatched() {
    const RecordRef& only = task_.golden ? task_.golden : task_.target;
    if (!only.record->unreadable.empty()) {
      return work_.conclude(Verdict::kIncomplete,
                            make_reason("unreadable", only.record->unreadable));
    }
    const char* where = task_.golden ? "target" : "golden";
    work_.conclude(Verdict::kIncomplete,
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
    work_.conclude(
        Verdict::kMismatch,
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
      work_.conclude(
          Verdict::kMismatch,
          make_reason("type", fmt::format("golden is {} {}, target {} {}",
                                          printable(golden.type), shown(a),
                                          printable(target.type), shown(b))));
    } else if (a != b) {
      const bool device = names_device(golden);
      work_.conclude(
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
      work_.conclude(
          Verdict::kIncomplete,
          make_reason("unreadable", fmt::format("{}: {}", side, why)));
    }
  }

  void judge_tensors() {
    const Record& golden = *task_.golden.record;
    const Record& target = *task_.target.record;
    if (!golden.unreadable.empty() || !target.unreadable.empty()) {
      unreadable();
      return escalate(work_);
    }
    if (has_facts(golden) && has_facts(target) && work_.settled_by_contract()) {
      if (only_dtype_differs()) bytes_ = measure_values(work_);
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
    judge_without_elements(work_);
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

  void undefined_memory() {
    work_.conclude(
        Verdict::kEmpty,
        make_reason("undefined_memory",
                    "memory nothing has written yet: its values mean "
                    "nothing, no evidence",
                    true));
  }

  void judge_elements() {
    try {
      bytes_ = compare_elements(work_);
      row_.evidence = Evidence::kTensor;
    } catch (const std::exception& error) {
      row_.stats.reset();
      row_.baseline.reset();
      row_.msprobe.reset();
      row_.reasons.clear();
      work_.conclude(Verdict::kIncomplete,
                     make_reason("unreadable", error.what()));
      escalate(work_);
    }
  }

  const RowTask& task_;
  Row& row_;
  RowWork work_;
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
