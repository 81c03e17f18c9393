#include "assay/report/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/report/display.h"
#include "tests/report/files.h"
#include "tests/report/sample.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string golden_text(const std::string& name) {
  return read_text(std::filesystem::path(ASSAY_TEST_DATA) / "report" / name);
}

Comparison incomplete_only() {
  Comparison c = gelu_sample();
  std::erase_if(c.rows,
                [](const Row& r) { return r.verdict != Verdict::kIncomplete; });
  c.first_divergence.reset();
  c.counts = {};
  c.counts.incomplete = 2;
  c.verdict = Verdict::kIncomplete;
  return c;
}

TEST(Terminal, ShowsTheSummaryAndTheWorstRows) {
  EXPECT_EQ(render_terminal(gelu_sample()), golden_text("terminal.txt"));
}

TEST(Terminal, ShowsAllRowsWithoutALimitOnTheWidth) {
  TerminalOptions options;
  options.all = true;
  options.columns = 0;
  EXPECT_EQ(render_terminal(gelu_sample(), options),
            golden_text("terminal_all.txt"));
}

TEST(Terminal, ColoursOnlyWhenAsked) {
  EXPECT_THAT(render_terminal(gelu_sample()), Not(HasSubstr("\x1b")));
  TerminalOptions options;
  options.color = true;
  EXPECT_THAT(render_terminal(gelu_sample(), options),
              HasSubstr("\x1b[1;31mmismatch\x1b[0m   first divergence"));
}

// Calls that were made again have no order in which errors are inherited.
TEST(Terminal, FollowsTheSubjectInItsWords) {
  Comparison c = gelu_sample();
  c.subject = Subject::kDevices;
  c.rows[0].golden.present = false;
  c.rows[0].verdict = Verdict::kIncomplete;
  c.rows[0].reasons.clear();
  const std::string text = render_terminal(c);
  EXPECT_THAT(text, HasSubstr("mismatch   first mismatch: "));
  EXPECT_THAT(text, HasSubstr("missing in the reference"));
  for (const char* word : {"born", "inherited", "divergence", "record"})
    EXPECT_THAT(text, Not(HasSubstr(word)));
  c.groups.resize(1);
  for (Row& row : c.rows) row.group = 0;
  EXPECT_THAT(render_terminal(c), StartsWith("18 outputs"));
}

TEST(Terminal, LeavesOutTheHeaderAndSaysWhatItIsTold) {
  TerminalOptions options;
  options.header = false;
  options.rows = 1;
  options.more = ".rows has all";
  const std::string text = render_terminal(gelu_sample(), options);
  EXPECT_THAT(text, ::testing::StartsWith("mismatch   first divergence"));
  EXPECT_THAT(text, ::testing::EndsWith("4 more, .rows has all\n"));
}

TEST(Terminal, QuietIsOneLine) {
  TerminalOptions options;
  options.quiet = true;
  EXPECT_EQ(render_terminal(gelu_sample(), options),
            "mismatch Module.layers.3.mlp.GELU.forward.0   match 11   mismatch "
            "3 (1 born, 2 inherited)   incomplete 2   empty 2\n");
}

TEST(Terminal, SaysWhyRowsAreIncomplete) {
  const std::string text = render_terminal(incomplete_only());
  EXPECT_THAT(text, HasSubstr("incomplete   2 of 2 records could not be "
                              "compared"));
  EXPECT_THAT(text,
              HasSubstr("not compared: 2 records, missing in the target"));
}

TEST(Terminal, OperatorsThatDrawAreOneCauseHoweverManyElementsDiffer) {
  Comparison c = incomplete_only();
  for (std::size_t i = 0; i < 2; ++i) {
    Row& row = c.rows[i];
    row.golden = row.target = gelu_sample().rows[0].golden;
    Reason reason;
    reason.criterion = "random";
    reason.text =
        std::to_string(i + 3) + " of 9 elements differ, but the operator draws";
    row.reasons = {reason};
  }
  EXPECT_THAT(render_terminal(c),
              HasSubstr("not compared: 2 records, the operator draws; first"));
}

TEST(Terminal, NothingComparedIsNoMatch) {
  const std::string text = render_terminal(Comparison{});
  EXPECT_THAT(text, HasSubstr("incomplete   nothing was compared"));
  EXPECT_THAT(text, Not(HasSubstr("agree")));
}

TEST(Terminal, EscapesNames) {
  Comparison c = gelu_sample();
  c.first_divergence->name = "evil\x1b[2J\nmatch 1";
  c.rows[5].golden.name = "evil\r\x1b]0;x\x07";
  const std::string text = render_terminal(c);
  EXPECT_THAT(text, HasSubstr("evil\\x1b[2J\\x0amatch 1"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(Terminal, KeepsToTheWidthOfTheTerminal) {
  for (const std::size_t columns : {80u, 120u, 200u}) {
    TerminalOptions options;
    options.columns = columns;
    const std::string text = render_terminal(gelu_sample(), options);
    const std::string table = text.substr(text.find("\nverdict"));
    std::size_t from = 1;
    for (std::size_t at; (at = table.find('\n', from)) != std::string::npos;
         from = at + 1)
      EXPECT_LE(display_width(table.substr(from, at - from)), columns);
  }
}

TEST(Terminal, InterruptedRunsSaySo) {
  Comparison c = gelu_sample();
  c.interrupted = true;
  EXPECT_THAT(render_terminal(c), HasSubstr("interrupted: the rows that were "
                                            "not reached are incomplete"));
}

}  // namespace
}  // namespace assay
