#include "assay/report/row_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/report/sample.h"

namespace assay {
namespace {

Row statistics_row(double golden_norm, double target_norm) {
  Row row;
  row.golden.present = row.target.present = true;
  row.golden.stats.norm = golden_norm;
  row.target.stats.norm = target_norm;
  return row;
}

TEST(RowError, IsTheRelativeDifferenceOfNormsWithoutElements) {
  EXPECT_DOUBLE_EQ(row_error(statistics_row(4, 5)), 0.25);
  EXPECT_EQ(row_error(statistics_row(0, 0)), 0);
  EXPECT_EQ(row_error(statistics_row(0, 1)), INFINITY);
  EXPECT_EQ(row_error(statistics_row(INFINITY, INFINITY)), 0);
  EXPECT_EQ(row_error(statistics_row(NAN, 1)), INFINITY);
  EXPECT_EQ(row_error(Row{}), -1);
}

TEST(RowError, IsInfiniteWhereNonfinitePositionsDiffer) {
  Row row;
  row.stats = std::make_unique<ErrorStats>();
  row.stats->norm_l2 = 0;
  row.stats->nonfinite_mismatches = 1;
  EXPECT_EQ(row_error(row), INFINITY);
}

TEST(PlaceText, ReadsTheShapeAndTheComponent) {
  Row row = statistics_row(1, 1);
  row.golden.facts.shape = {4, 32, 256};
  row.golden.facts.dtype = DType::kF32;
  EXPECT_EQ(place_text(row, (3 * 32 + 17) * 256 + 201), "[3, 17, 201]");
  EXPECT_EQ(place_text(row, -1), "");
  row.golden.facts.dtype = DType::kC64;
  EXPECT_EQ(place_text(row, 2 * 256 + 0), "[0, 1, 0].real");
  EXPECT_EQ(place_text(row, 3), "[0, 0, 1].imag");
}

TEST(WorstFirst, PutsBornBeforeInheritedBeforeIncomplete) {
  const Comparison c = gelu_sample();
  const auto order = worst_first(c);
  ASSERT_EQ(order.size(), c.rows.size());
  EXPECT_EQ(c.rows[order[0]].origin, Origin::kBorn);
  EXPECT_EQ(c.rows[order[1]].origin, Origin::kInherited);
  EXPECT_EQ(c.rows[order[2]].origin, Origin::kInherited);
  EXPECT_GT(row_error(c.rows[order[1]]), row_error(c.rows[order[2]]));
  EXPECT_EQ(c.rows[order[3]].verdict, Verdict::kIncomplete);
  EXPECT_EQ(c.rows[order[5]].verdict, Verdict::kEmpty);
  EXPECT_EQ(c.rows[order.back()].verdict, Verdict::kMatch);
}

TEST(WorstFirst, PutsAMismatchWithoutFiguresFirst) {
  Comparison c;
  c.rows.push_back(statistics_row(1, 1.5));
  c.rows.push_back(Row{});  // a shape mismatch has no figures
  c.rows[0].verdict = c.rows[1].verdict = Verdict::kMismatch;
  EXPECT_EQ(worst_first(c).front(), 1u);
}

TEST(UserFrame, SkipsLibraries) {
  EXPECT_EQ(user_frame(gelu_sample().groups[0].stacks[0]),
            "model/mlp.py:41 in forward");
  EXPECT_EQ(user_frame({}), "");
  EXPECT_EQ(user_frame({"File \"/usr/lib/python3.11/site-packages/a.py\", "
                        "line 3, in f"}),
            "/usr/lib/python3.11/site-packages/a.py:3 in f");
  EXPECT_EQ(user_frame({"no frame at all\nsecond line"}), "no frame at all");
}

}  // namespace
}  // namespace assay
