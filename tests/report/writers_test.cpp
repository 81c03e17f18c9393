// The ordered writer, and what the xlsx, junit and html files hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/report/csv.h"
#include "assay/report/html.h"
#include "assay/report/html_data.h"
#include "assay/report/json.h"
#include "assay/report/junit.h"
#include "assay/report/ordered_writer.h"
#include "assay/report/xlsx.h"
#include "tests/report/files.h"
#include "tests/report/sample.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(OrderedWriter, KeepsTheOrderForAnyNumberOfThreads) {
  std::string expected;
  for (int i = 0; i < 10'000; ++i) expected += std::to_string(i) + "\n";
  for (const int threads : {1, 2, 7}) {
    set_thread_count(threads);
    const auto text = written(
        [](const auto& path) {
          AtomicFile file(path);
          write_ordered(
              file, 10'000,
              [](std::int64_t begin, std::int64_t end, std::string& out) {
                for (; begin < end; ++begin)
                  out += std::to_string(begin) + "\n";
              });
          file.commit();
        },
        "order");
    EXPECT_EQ(text, expected);
  }
  set_thread_count(0);
}

TEST(OrderedWriter, PassesExceptionsOn) {
  AtomicFile file(scratch("fails"));
  EXPECT_THROW(
      write_ordered(file, 10'000,
                    [](std::int64_t begin, std::int64_t, std::string&) {
                      if (begin > 3000) throw Error(Code::kInternal, "x");
                    }),
      Error);
}

TEST(Writers, AFolderThatIsAbsentIsNamed) {
  const Comparison c = gelu_sample();
  const auto path = scratch("absent") / "report";
  for (const auto write :
       {write_json, write_csv, write_xlsx, write_junit, write_html}) {
    try {
      write(c, path);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnreadable);
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
    }
  }
}

TEST(Writers, LeaveNothingButTheReport) {
  const auto path = scratch("report.xlsx");
  write_xlsx(gelu_sample(), path);
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(path.parent_path())) {
    EXPECT_EQ(entry.path(), path);
    ++files;
  }
  EXPECT_EQ(files, 1u);
}

std::string junit_of(const Comparison& c) {
  return written([&](const auto& path) { write_junit(c, path); }, "junit.xml");
}

TEST(Junit, CountsOperators) {
  const std::string text = junit_of(gelu_sample());
  EXPECT_THAT(text, HasSubstr("<testsuites name=\"assay compare\" tests=\"10\" "
                              "failures=\"3\" errors=\"0\" skipped=\"2\">"));
  EXPECT_THAT(text, HasSubstr("<testsuite name=\"step0.rank0\" tests=\"5\" "
                              "failures=\"2\" errors=\"0\" skipped=\"1\">"));
  EXPECT_THAT(
      text,
      HasSubstr("<failure type=\"mismatch\" message=\"|alpha - 1| 2.0e-04 over "
                "1.1e-05; max abs 4.7e-04 over 6.0e-06 at [3, 17, 201]; 3 "
                "zeros differ in sign; likely: another GELU variant (error "
                "peaks near x = -2.7)\">"));
  EXPECT_THAT(text, HasSubstr("<skipped"));
}

TEST(Junit, SaysWhyItSkips) {
  Comparison c = gelu_sample();
  for (Row& row : c.rows)
    if (row.verdict == Verdict::kEmpty)
      row.reasons = {{"expected", "differs as it has to", 0, 0, -1, true}};
  EXPECT_THAT(junit_of(c), HasSubstr("<skipped message=\"differs as it has "
                                     "to\"/>"));
}

TEST(Junit, WhatWasNotComparedFails) {
  EXPECT_THAT(junit_of(gelu_sample()),
              HasSubstr("<failure type=\"incomplete\" message=\"missing in the "
                        "target\">"));
  EXPECT_THAT(junit_of(Comparison{}), HasSubstr("tests=\"1\" failures=\"1\""));
}

TEST(Junit, EscapesHostileNames) {
  Comparison c = gelu_sample();
  c.groups[0].ops[0].name = "<a b=\"&\">\x01\xFF\xEF\xBF\xBF";
  EXPECT_THAT(junit_of(c), HasSubstr("name=\"&lt;a b=&quot;&amp;&quot;&gt;"
                                     "\xEF\xBF\xBD"
                                     "01\xEF\xBF\xBD"
                                     "ff\""));
}

TEST(Xlsx, IsAZipFile) {
  const std::string text = written(
      [](const auto& path) { write_xlsx(gelu_sample(), path); }, "report.xlsx");
  EXPECT_EQ(text.substr(0, 4), "PK\x03\x04");
}

nlohmann::json page_data(const Comparison& c) {
  return nlohmann::json::parse(html_data(c, html_rows(c, 1000)));
}

TEST(HtmlData, HasEveryColumn) {
  const auto data = page_data(gelu_sample());
  const auto& rows = data["rows"];
  ASSERT_EQ(rows["count"], 18);
  EXPECT_EQ(rows["verdict"], "000001112300000023");
  for (const char* column : {"op", "name", "goldenDtype", "targetShape",
                             "error", "maxAbs", "ulpMax", "alpha"})
    EXPECT_EQ(rows[column].size(), 18u) << column;
  EXPECT_EQ(rows["goldenStats"].size(), 4 * 18u);
  // Six significant digits.
  EXPECT_EQ(rows["error"][5], 0.000244141);
  EXPECT_TRUE(rows["error"][9].is_null());
  EXPECT_EQ(data["divergence"]["row"], 5);
  EXPECT_EQ(data["details"]["5"]["place"], "[3, 17, 201]");
  const auto& strings = data["strings"];
  EXPECT_EQ(strings[data["ops"]["name"][2].get<int>()],
            "Module.layers.3.mlp.GELU.forward.0");
  EXPECT_EQ(strings[rows["name"][5].get<int>()], "output.0");
}

TEST(HtmlData, KeepsEveryRowThatIsNoMatchBeyondTheLimit) {
  const Comparison c = gelu_sample();
  EXPECT_EQ(html_rows(c, 18).size(), 18u);
  EXPECT_EQ(html_rows(c, 9),
            (std::vector<std::size_t>{0, 1, 5, 6, 7, 8, 9, 16, 17}));
  EXPECT_EQ(html_rows(c, 2), (std::vector<std::size_t>{5, 6, 7, 8, 9, 16, 17}));
  const auto data = nlohmann::json::parse(html_data(c, html_rows(c, 9)));
  EXPECT_EQ(data["meta"]["omitted"], 9);
  EXPECT_EQ(data["divergence"]["row"], 2);
}

TEST(HtmlData, NamesCannotLeaveTheScriptElement) {
  Comparison c = gelu_sample();
  c.groups[0].ops[0].name = kHostileName;
  const std::string page =
      written([&](const auto& path) { write_html(c, path); }, "hostile.html");
  const std::string open = R"(<script type="application/json" id="data">)";
  const std::size_t begin = page.find(open) + open.size();
  const std::string text =
      page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_THAT(text, Not(HasSubstr("<")));
  EXPECT_THAT(text, Not(HasSubstr("\xE2\x80\xA8")));
  const auto data = nlohmann::json::parse(text);
  const auto& strings = data["strings"];
  EXPECT_NE(std::find(strings.begin(), strings.end(), kHostileName),
            strings.end());
}

TEST(Html, IsOneFileWithoutRequests) {
  const std::string page = written(
      [](const auto& path) { write_html(gelu_sample(), path); }, "report.html");
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  EXPECT_THAT(page, HasSubstr("Chart.js v"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(testing::ContainsRegex("(src|href)=.https?:")));
}

}  // namespace
}  // namespace assay
