#include "assay/precheck/row_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/base/error.h"

namespace assay::precheck {
namespace {

using conform::Value;

std::vector<JudgedRow> one_row() {
  std::vector<JudgedRow> rows(1);
  Row& row = rows[0].row;
  row.golden.present = true;
  row.golden.name = "Torch.add.0.forward.output.0";
  row.golden.facts.dtype = DType::kBF16;
  row.golden.facts.shape = {2, 3};
  row.verdict = Verdict::kMismatch;
  row.reasons.push_back({"alpha", "off", 0.25, 0.125, 3, false});
  row.stats = std::make_unique<ErrorStats>();
  row.stats->max_abs_int = std::numeric_limits<std::uint64_t>::max();
  row.stats->norm_l2 = std::numeric_limits<double>::infinity();
  row.stats->cosine = std::nan("");
  return rows;
}

TEST(RowJson, KeepsEveryFigure) {
  const Value written =
      conform::parse_json(conform::to_json(rows_to_json(one_row())), "test");
  const std::vector<JudgedRow> rows = rows_from_json(written);
  ASSERT_EQ(rows.size(), 1u);
  const Row& row = rows[0].row;
  EXPECT_EQ(row.golden.name, "Torch.add.0.forward.output.0");
  EXPECT_EQ(row.golden.facts.dtype, DType::kBF16);
  EXPECT_EQ(row.golden.facts.shape, (Shape{2, 3}));
  EXPECT_EQ(row.verdict, Verdict::kMismatch);
  EXPECT_EQ(row.reasons[0].figure, 0.25);
  EXPECT_EQ(row.reasons[0].index, 3);
  EXPECT_EQ(row.stats->max_abs_int, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(row.stats->norm_l2, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(row.stats->cosine));
  EXPECT_FALSE(row.baseline);
}

// The value of a member at any depth, replaced.
bool replace(Value& value, const std::string& key, const Value& by) {
  if (value.is_list()) {
    for (Value& item : value.list())
      if (replace(item, key, by)) return true;
    return false;
  }
  if (!value.is_object()) return false;
  for (auto& [name, member] : value.object()) {
    if (name == key) {
      member = by;
      return true;
    }
    if (replace(member, key, by)) return true;
  }
  return false;
}

TEST(RowJson, RefusesWhatItHasNotWritten) {
  const std::vector<std::pair<std::string, Value>> faults = {
      {"verdict", 4},
      {"verdict", -1},
      {"verdict", "match"},
      {"max_abs_int", "12x"},
      {"max_abs_int", ""},
      {"max_abs_int", "-1"},
      {"norm_l2", "0.5 or so"},
      {"norm_l2", "infinite"},
      {"alpha", Value()},
      {"dtype", 1000},
      {"reasons", "none"},
      {"present", 1},
      {"shape", 3},
      {"name", 7}};
  for (const auto& [key, by] : faults) {
    Value rows = rows_to_json(one_row());
    ASSERT_TRUE(replace(rows, key, by)) << key;
    EXPECT_THROW(rows_from_json(rows), Error)
        << key << " " << conform::to_json(by);
  }
}

}  // namespace
}  // namespace assay::precheck
