// What the parts of a diff share: rows as they are made, each with its rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/env/diff.h"

namespace assay::env {

// Both snapshots and what is known about them.
struct DiffSides {
  const Snapshot& golden;
  const Snapshot& target;
  const RankTable& table;
  std::string golden_vendor, target_vendor;
  bool two_vendors() const {
    return !golden_vendor.empty() && !target_vendor.empty() &&
           golden_vendor != target_vendor;
  }
};

// Rows with their ranks, until they are sorted into a Comparison.
class DiffRows {
 public:
  DiffRows(const RankTable& table, const DiffOptions& options)
      : table_(table), options_(options) {}

  bool wanted(Section section) const;
  // Fills in name, rank and cause. Nothing where the key is ignored.
  void add(Section section, std::string_view key, Row row);
  // Sorted, grouped, counted.
  void finish(Comparison& result);

 private:
  struct Ranked {
    std::size_t rank = 0, order = 0;
    Row row;
  };
  const RankTable& table_;
  const DiffOptions& options_;
  std::vector<Ranked> rows_;
};

// A row of values; a side that is null is not there.
Row value_row(const Value* golden, const Value* target);
void judge(Row& row, Verdict verdict, std::string_view criterion,
           std::string text);

// The other parts of a diff.
void diff_values(const DiffSides& sides, Section section, DiffRows& rows);
void diff_weights(const DiffSides& sides, DiffRows& rows);
void diff_batches(const DiffSides& sides, DiffRows& rows);
void diff_draws(const DiffSides& sides, DiffRows& rows);

// One fingerprint against another.
Row print_row(const TensorPrint* golden, const TensorPrint* target, Role role);

}  // namespace assay::env
