#include "assay/report/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/report/columns.h"
#include "tests/report/files.h"
#include "tests/report/sample.h"

namespace assay {
namespace {

using testing::StartsWith;

std::string text_of(const Comparison& c) {
  return written([&](const auto& path) { write_csv(c, path); }, "report.csv");
}

// An RFC 4180 parser: records of fields.
std::vector<std::vector<std::string>> records(const std::string& text) {
  std::vector<std::vector<std::string>> result(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& field = result.back().back();
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      field += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      result.back().emplace_back();
    } else if (c == '\n' && !quoted) {
      result.push_back({""});
    } else {
      field += c;
    }
  }
  result.pop_back();  // after the last line end
  return result;
}

// Row `index` as column -> cell.
std::map<std::string, std::string> cells(const Comparison& c,
                                         std::size_t index) {
  const auto all = records(text_of(c));
  std::map<std::string, std::string> result;
  for (std::size_t i = 0; i < all[0].size(); ++i)
    result[all[0][i]] = all[index + 1].at(i);
  return result;
}

// Headers as msprobe 26 writes them.
TEST(Csv, TensorHeaderStartsAsMsprobeDoes) {
  EXPECT_THAT(
      text_of(gelu_sample()),
      StartsWith(
          "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench "
          "Tensor Shape,NPU Requires_grad,Bench "
          "Requires_grad,Cosine,EucDist,MaxAbsErr,MaxRelativeErr,One "
          "Thousandth Err Ratio,Five Thousandths Err Ratio,NPU max,NPU min,NPU "
          "mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench "
          "l2norm,Requires_grad "
          "Consistent,Result,Err_message,NPU_Stack_Info,Data_name,Verdict,"));
}

TEST(Csv, StatisticsHeaderStartsAsMsprobeDoes) {
  EXPECT_THAT(
      text_of(statistics_sample(10)),
      StartsWith(
          "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench "
          "Tensor Shape,NPU Requires_grad,Bench Requires_grad,Max diff,Min "
          "diff,Mean diff,L2norm "
          "diff,MaxRelativeErr,MinRelativeErr,MeanRelativeErr,NormRelativeErr,"
          "NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench "
          "mean,Bench l2norm,Requires_grad "
          "Consistent,Result,Err_message,NPU_Stack_Info,Verdict,"));
}

TEST(Csv, DigestHeaderStartsAsMsprobeDoes) {
  Comparison c = statistics_sample(10);
  c.rows[0].golden.digest = "0f3a5c11";
  EXPECT_THAT(text_of(c),
              StartsWith("NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor "
                         "Shape,Bench Tensor Shape,NPU Requires_grad,Bench "
                         "Requires_grad,NPU MD5,BENCH MD5,Requires_grad "
                         "Consistent,Result,Err_message,NPU_Stack_Info,"
                         "Verdict,"));
}

TEST(Csv, EveryRecordHasEveryColumn) {
  for (const Comparison& c :
       {gelu_sample(), large_sample(600), statistics_sample(600)}) {
    const auto all = records(text_of(c));
    ASSERT_EQ(all.size(), c.rows.size() + 1);
    for (const auto& record : all) EXPECT_EQ(record.size(), all[0].size());
  }
}

TEST(Csv, WritesTheFiguresOfATensorRow) {
  const auto row = cells(gelu_sample(), 5);
  EXPECT_EQ(row.at("NPU Name"), "Module.layers.3.mlp.GELU.forward.0.output.0");
  EXPECT_EQ(row.at("NPU Dtype"), "torch.float32");
  EXPECT_EQ(row.at("NPU Tensor Shape"), "[4, 32, 256]");
  EXPECT_EQ(row.at("MaxAbsErr"), "0.00047");
  EXPECT_EQ(std::stod(row.at("EucDist")), 0x1p-12 * std::sqrt(32768.0));
  // 1 - share of elements whose relative error reaches 0.001.
  EXPECT_EQ(std::stod(row.at("One Thousandth Err Ratio")), 1 - 0x1p-12 * 20);
  EXPECT_EQ(row.at("NPU max"), "3.250244140625");
  EXPECT_EQ(row.at("Bench max"), "3.25");
  EXPECT_EQ(row.at("Requires_grad Consistent"), "True");
  EXPECT_EQ(row.at("Result"), "error");
  EXPECT_EQ(row.at("Err_message"),
            "[\"|alpha - 1| 2.0e-04 over 1.1e-05\", \"max abs 4.7e-04 over "
            "6.0e-06 at [3, 17, 201]\", \"3 zeros differ in sign\"]");
  EXPECT_EQ(row.at("Data_name"),
            "['Module.layers.3.mlp.GELU.forward.0.output.0.pt', "
            "'Module.layers.3.mlp.GELU.forward.0.output.0.pt']");
  EXPECT_EQ(row.at("Verdict"), "mismatch");
  EXPECT_EQ(row.at("Origin"), "born");
  EXPECT_EQ(row.at("Max Abs Index"), "[3, 17, 201]");
  EXPECT_EQ(row.at("Alpha"), "0.9998");
}

TEST(Csv, WhatWasNotComparedNeverPasses) {
  const auto missing = cells(gelu_sample(), 8);
  EXPECT_EQ(missing.at("NPU Name"), "N/A");
  EXPECT_EQ(missing.at("Cosine"), "unsupported");
  EXPECT_EQ(missing.at("Result"), "warning");
  EXPECT_EQ(missing.at("Verdict"), "incomplete");
  EXPECT_EQ(missing.at("Reason"), "missing in the target");
  EXPECT_EQ(missing.at("Data_name"),
            "['-1', 'Module.layers.3.mlp.fc2.Linear.forward.0.output.1.pt']");
  const auto empty = cells(gelu_sample(), 9);
  EXPECT_EQ(empty.at("Cosine"), "unsupported");
  EXPECT_EQ(empty.at("Result"), "N/A");
  EXPECT_EQ(empty.at("Verdict"), "empty");
}

TEST(Csv, UsesMsprobesWordsForShapesAndNonfinite) {
  Comparison c = gelu_sample();
  c.rows[5].target.facts.shape = {4, 32};
  EXPECT_EQ(cells(c, 5).at("Cosine"), "shape unmatched");
  c = gelu_sample();
  c.rows[5].stats->nonfinite_mismatches = 1;
  EXPECT_EQ(cells(c, 5).at("MaxAbsErr"), "N/A");
  c = gelu_sample();
  c.rows[5].stats->target.l2 = 0;
  EXPECT_EQ(cells(c, 5).at("Cosine"), "Nan");
}

// F62: a loss has one element and still gets its figures.
TEST(Csv, F62OneElementHasNoCosineButAnError) {
  Comparison c = gelu_sample();
  c.rows[5].stats->count = c.rows[5].stats->finite = 1;
  EXPECT_EQ(cells(c, 5).at("Cosine"), "unsupported");
  EXPECT_EQ(cells(c, 5).at("MaxAbsErr"), "0.00047");
}

TEST(Csv, WritesStatisticsAsMsprobeDoes) {
  Comparison c = statistics_sample(6);
  c.rows[0].golden.stats = {2.0, 0.0, -0.5, INFINITY};
  c.rows[0].target.stats = {2.5, -1.0, -0.5, INFINITY};
  auto row = cells(c, 0);
  EXPECT_EQ(row.at("Max diff"), "0.5");
  EXPECT_EQ(row.at("MaxRelativeErr"), "25.0%");
  EXPECT_EQ(row.at("Min diff"), "-1.0");
  EXPECT_EQ(row.at("MinRelativeErr"), "inf");  // the golden is 0
  EXPECT_EQ(row.at("Mean diff"), "0");
  EXPECT_EQ(row.at("MeanRelativeErr"), "0");
  EXPECT_EQ(row.at("L2norm diff"), "0");  // both +inf
  c.rows[0].target.stats = {NAN, {}, 0.0, -INFINITY};
  row = cells(c, 0);
  EXPECT_EQ(row.at("Max diff"), "Nan");
  EXPECT_EQ(row.at("MaxRelativeErr"), "Nan");
  EXPECT_EQ(row.at("Min diff"), "N/A");
  EXPECT_EQ(row.at("L2norm diff"), "-inf");
  EXPECT_EQ(row.at("NormRelativeErr"), "inf");
}

TEST(Csv, WritesValuesOfNonTensors) {
  Comparison c = statistics_sample(6);
  Row& row = c.rows[0];
  row.is_tensor = false;
  row.evidence = Evidence::kValue;
  for (RowSide* side : {&row.golden, &row.target}) {
    side->facts.dtype.reset();
    side->facts.dtype_text = "int";
    side->facts.shape.clear();
    side->value = "-64";
  }
  auto got = cells(c, 0);
  EXPECT_EQ(got.at("NPU Dtype"), "<class 'int'>");
  EXPECT_EQ(got.at("NPU Tensor Shape"), "[]");
  EXPECT_EQ(got.at("NPU max"), "-64");  // a number is no formula
  EXPECT_EQ(got.at("Max diff"), "0");
  row.target.value = "65";
  EXPECT_EQ(cells(c, 0).at("Max diff"), "Diff");
}

TEST(Csv, StackIsOnTheFirstRowOfAnOperator) {
  Comparison c = gelu_sample();
  EXPECT_EQ(cells(c, 4).at("NPU_Stack_Info").substr(0, 14), "['File /opt/ve");
  EXPECT_EQ(cells(c, 5).at("NPU_Stack_Info"), "N/A");
}

TEST(Csv, DefusesFormulas) {
  Comparison c = gelu_sample();
  for (const char* name : {"=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)"}) {
    c.rows[0].golden.name = c.rows[0].target.name = name;
    EXPECT_EQ(cells(c, 0).at("NPU Name"), std::string("'") + name);
  }
}

TEST(Csv, QuotesSeparatorsAndEscapesControls) {
  Comparison c = gelu_sample();
  c.rows[0].golden.name = "a,\"b\"\nc\x01\xFF";
  EXPECT_EQ(cells(c, 0).at("Bench Name"),
            "a,\"b\"\xEF\xBF\xBD"
            "0ac\xEF\xBF\xBD"
            "01\xEF\xBF\xBD"
            "ff");
}

TEST(Csv, IsTheSameForAnyNumberOfThreads) {
  const Comparison c = large_sample(5000);
  const std::string all = text_of(c);
  set_thread_count(1);
  EXPECT_EQ(text_of(c), all);
  set_thread_count(0);
}

}  // namespace
}  // namespace assay
