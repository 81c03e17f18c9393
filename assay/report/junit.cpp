#include "assay/report/junit.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "assay/base/atomic_file.h"
#include "assay/report/markup.h"
#include "assay/report/row_view.h"
#include "assay/report/wording.h"

namespace assay {
namespace {

constexpr std::size_t kRowsShown = 20;  // of one operator, in its message

std::string reasons_line(const Row& row) {
  std::string text;
  for (const Reason& reason : row.reasons)
    text += (text.empty() ? "" : "; ") + reason.text;
  if (text.empty()) text = missing_text(row);
  if (!row.cause.empty()) text += "; " + likely_text(row.cause);
  return text;
}

std::string row_line(const Row& row) {
  std::string text = row.name();
  if (row.origin != Origin::kNone)
    text += " (" + std::string(to_string(row.origin)) + ")";
  return xml_text(text + ": " + reasons_line(row)) + "\n";
}

// One line for each row of the operator that shares its verdict.
std::string failure_text(const Comparison& c, const OpRow& op) {
  std::string text;
  std::size_t rows = 0;
  const std::size_t end =
      std::min<std::size_t>(c.rows.size(), op.first_row + op.row_count);
  for (std::size_t i = op.first_row; i < end; ++i) {
    if (c.rows[i].verdict != op.verdict) continue;
    if (rows++ < kRowsShown) text += row_line(c.rows[i]);
  }
  if (rows > kRowsShown) text += fmt::format("{} more\n", rows - kRowsShown);
  return text;
}

std::string first_message(const Comparison& c, const OpRow& op) {
  const std::size_t end =
      std::min<std::size_t>(c.rows.size(), op.first_row + op.row_count);
  for (std::size_t i = op.first_row; i < end; ++i)
    if (c.rows[i].verdict == op.verdict) return reasons_line(c.rows[i]);
  return std::string(to_string(op.verdict));
}

// Why there is nothing to compare.
std::string skip_message(const Comparison& c, const OpRow& op) {
  const std::string told = first_message(c, op);
  return told.empty() || op.row_count == 0 ? "nothing but empty tensors" : told;
}

std::string test_case(const Comparison& c, const Group& group,
                      const OpRow& op) {
  const std::string head =
      fmt::format("    <testcase classname=\"step{}.rank{}\" name=\"{}\"",
                  group.step, group.rank, xml_text(op.name));
  switch (op.verdict) {
    case Verdict::kMatch:
      return head + "/>\n";
    case Verdict::kEmpty:
      return head + fmt::format(
                        ">\n      <skipped message=\"{}\"/>\n"
                        "    </testcase>\n",
                        xml_text(skip_message(c, op)));
    case Verdict::kMismatch:
    case Verdict::kIncomplete:
      break;
  }
  return head + fmt::format(
                    ">\n      <failure type=\"{}\" message=\"{}\">{}"
                    "</failure>\n    </testcase>\n",
                    to_string(op.verdict), xml_text(first_message(c, op)),
                    failure_text(c, op));
}

std::int64_t count_ops(const Group& group, auto&& predicate) {
  return std::count_if(group.ops.begin(), group.ops.end(),
                       [&](const OpRow& op) { return predicate(op.verdict); });
}

bool is_failure(Verdict verdict) {
  return verdict == Verdict::kMismatch || verdict == Verdict::kIncomplete;
}

bool is_skipped(Verdict verdict) { return verdict == Verdict::kEmpty; }

void write_suite(const Comparison& c, const Group& group, AtomicFile& file) {
  file.write(fmt::format(
      "  <testsuite name=\"step{}.rank{}\" tests=\"{}\" failures=\"{}\" "
      "errors=\"0\" skipped=\"{}\">\n",
      group.step, group.rank, group.ops.size(), count_ops(group, is_failure),
      count_ops(group, is_skipped)));
  for (const OpRow& op : group.ops) file.write(test_case(c, group, op));
  file.write("  </testsuite>\n");
}

// A comparison without a single operator proves nothing: it fails.
void write_nothing(AtomicFile& file) {
  file.write(
      "  <testsuite name=\"assay\" tests=\"1\" failures=\"1\" errors=\"0\" "
      "skipped=\"0\">\n    <testcase classname=\"assay\" name=\"compare\">\n"
      "      <failure type=\"incomplete\" message=\"nothing was compared\"/>\n"
      "    </testcase>\n  </testsuite>\n");
}

}  // namespace

void write_junit(const Comparison& comparison,
                 const std::filesystem::path& path) {
  std::int64_t tests = 0, failures = 0, skipped = 0;
  for (const Group& group : comparison.groups) {
    tests += static_cast<std::int64_t>(group.ops.size());
    failures += count_ops(group, is_failure);
    skipped += count_ops(group, is_skipped);
  }
  AtomicFile file(path);
  file.write("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  file.write(fmt::format(
      "<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" "
      "errors=\"0\" skipped=\"{}\">\n",
      wording(comparison.subject).command, std::max<std::int64_t>(tests, 1),
      tests == 0 ? 1 : failures, skipped));
  for (const Group& group : comparison.groups)
    write_suite(comparison, group, file);
  if (tests == 0) write_nothing(file);
  file.write("</testsuites>\n");
  file.commit();
}

}  // namespace assay
