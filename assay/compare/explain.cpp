#include "assay/compare/explain.h"

#include <exception>
#include <optional>

#include "assay/compare/load.h"
#include "assay/compare/op_state.h"
#include "assay/compare/sidecar.h"
#include "assay/metrics/pattern.h"

namespace assay {
namespace {

constexpr int kCauses = 20;
constexpr int kInputDetails = 3;

class Explainer {
 public:
  Explainer(const TracePair& pair, const GroupFindings& findings,
            Comparison& result)
      : pair_(pair),
        result_(result),
        group_(result.groups[findings.group]),
        findings_(findings) {}

  void run() {
    int causes = 0;
    int details = 0;
    bool first = true;
    for (const Event& event : findings_.mismatches) {
      Row& row = result_.rows[event.row];
      if (!first && row.origin == Origin::kInherited) continue;
      if (first || causes++ < kCauses) set_cause(event);
      if (event.order == 2 && details++ < kInputDetails) {
        detail_inputs(group_.ops[event.op]);
      }
      first = false;
      if (causes >= kCauses) return;
    }
  }

 private:
  RecordRef golden_of(std::size_t row) const {
    const std::int32_t record = records_of(row).golden;
    if (record < 0) return {};
    return {&pair_.golden, &pair_.golden.records[record]};
  }
  RecordRef target_of(std::size_t row) const {
    const std::int32_t record = records_of(row).target;
    if (record < 0) return {};
    return {&pair_.target, &pair_.target.records[record]};
  }
  const RecordPair& records_of(std::size_t row) const {
    const std::size_t first = group_.ops.front().first_row;
    return pair_.matching.pairs[row - first];
  }

  // A tensor that was readable a moment ago and is not any more costs the row
  // its explanation, nothing else.
  void set_cause(const Event& event) {
    Row& row = result_.rows[event.row];
    if (!row.stats) return;
    try {
      row.cause = guess(event, row);
    } catch (const std::exception&) {
      row.cause.clear();
    }
  }

  std::string guess(const Event& event, const Row& row) const {
    LoadedTensor golden(golden_of(event.row));
    LoadedTensor target(target_of(event.row));
    narrow(row.golden.facts, golden);
    narrow(row.target.facts, target);
    if (golden.view().shape != target.view().shape) return "";
    const Op& op = source_op(pair_, event.op);
    const auto input = first_input(event, golden.view().numel());
    return guess_cause(golden.view(), target.view(), *row.stats,
                       op_class(op.name), op.api,
                       input ? &input->view() : nullptr);
  }

  static void narrow(SideFacts facts, LoadedTensor& tensor) {
    check_sidecar("", facts, tensor.tensor());
  }

  // The operator's first float input, as the golden ran it.
  std::unique_ptr<LoadedTensor> first_input(const Event& event,
                                            std::int64_t count) const {
    if (event.order != 2) return nullptr;
    const OpRow& op = group_.ops[event.op];
    for (std::uint32_t i = 0; i < op.row_count; ++i) {
      const std::size_t index = op.first_row + i;
      const Row& row = result_.rows[index];
      if (row.role != Role::kInput || !row.stats ||
          !is_float(row.stats->judged_dtype)) {
        continue;
      }
      auto tensor = std::make_unique<LoadedTensor>(golden_of(index));
      if (tensor->view().numel() == count) return tensor;
      return nullptr;
    }
    return nullptr;
  }

  void detail_inputs(const OpRow& op) {
    for (std::uint32_t i = 0; i < op.row_count; ++i) {
      Row& row = result_.rows[op.first_row + i];
      const bool feeds =
          row.role == Role::kInput || row.role == Role::kParameter;
      if (!feeds || !row.stats || row.stats->detail ||
          row.stats->bitwise_equal) {
        continue;
      }
      add_detail(op.first_row + i, row);
    }
  }

  void add_detail(std::size_t index, Row& row) {
    try {
      LoadedTensor golden(golden_of(index));
      LoadedTensor target(target_of(index));
      narrow(row.golden.facts, golden);
      narrow(row.target.facts, target);
      compute_detail(golden.view(), target.view(), {}, *row.stats);
    } catch (const std::exception&) {
      row.stats->detail.reset();
    }
  }

  const TracePair& pair_;
  Comparison& result_;
  const Group& group_;
  const GroupFindings& findings_;
};

}  // namespace

void explain_group(const TracePair& pair, const GroupFindings& findings,
                   Comparison& result) {
  if (!findings.mismatches.empty()) Explainer(pair, findings, result).run();
}

}  // namespace assay
