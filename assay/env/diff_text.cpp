#include "assay/env/diff_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "assay/base/text.h"
#include "assay/env/diff.h"
#include "assay/report/display.h"
#include "assay/report/terminal_table.h"

namespace assay::env {
namespace {

constexpr std::size_t kValueWidth = 48;
constexpr std::size_t kWarnings = 8;

class DiffText {
 public:
  DiffText(const Comparison& diff, const DiffTextOptions& options)
      : diff_(diff), options_(options) {}

  std::string run() {
    if (options_.quiet) return verdict() + "   " + counts();
    text_ = safe_text(diff_.golden_path) + " against " +
            safe_text(diff_.target_path) + "\n";
    text_ += verdict() + "   " + headline() + "\n";
    add_culprits();
    if (options_.all) {
      add_all();
    } else {
      add_expected();
    }
    text_ += counts();
    const auto& warnings = diff_.warnings;
    for (std::size_t i = 0; i < warnings.size() && i < kWarnings; ++i)
      text_ += "warning: " + safe_text(warnings[i]) + "\n";
    if (warnings.size() > kWarnings)
      text_ += fmt::format("warning: {} more\n", warnings.size() - kWarnings);
    return std::move(text_);
  }

 private:
  std::string verdict() const {
    return colored(diff_.verdict, to_string(diff_.verdict), options_.color);
  }

  std::string headline() const {
    const Counts& c = diff_.counts;
    if (c.total() == 0) return "there is nothing that both sides collected";
    if (c.mismatch > 0)
      return "first: " + safe_text(diff_.first_divergence->name);
    if (c.incomplete > 0)
      return "nothing that is known of both differs, but not all is known";
    if (c.match == 0) return "nothing was compared that may not differ";
    return "all that was collected is the same";
  }

  static bool is_culprit(const Row& row) {
    return row.verdict == Verdict::kMismatch ||
           row.verdict == Verdict::kIncomplete;
  }

  // By group, so that the reason stands once.
  void add_culprits() {
    std::size_t shown = 0, hidden = 0, number = 0;
    for (const OpRow& op : ops()) {
      const std::size_t culprits = culprits_of(op);
      if (culprits == 0) continue;
      ++number;
      const std::size_t room =
          shown < options_.limit ? options_.limit - shown : 0;
      const std::size_t here =
          options_.all ? culprits : std::min(culprits, room);
      hidden += culprits - here;
      if (here == 0) continue;
      shown += here;
      add_group(number, op, here);
    }
    if (hidden > 0)
      text_ += fmt::format("{} more {}: --all shows them\n", hidden,
                           hidden == 1 ? "setting" : "settings");
  }

  const std::vector<OpRow>& ops() const {
    static const std::vector<OpRow> none;
    return diff_.groups.empty() ? none : diff_.groups[0].ops;
  }

  std::size_t culprits_of(const OpRow& op) const {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < op.row_count; ++i)
      count += is_culprit(diff_.rows[op.first_row + i]) ? 1 : 0;
    return count;
  }

  void add_group(std::size_t number, const OpRow& op, std::size_t count) {
    text_ += fmt::format("\n{:>2}  {}\n", number, safe_text(op.name));
    const std::string why = why_of(op);
    if (!why.empty()) add_wrapped(why);
    for (std::size_t i = 0; i < count; ++i)
      add_row(diff_.rows[op.first_row + i]);
    if (number > 0 && count == 0) text_ += "\n";
  }

  // Rows of fingerprints say why in their own way; the group's is the common
  // one.
  std::string why_of(const OpRow& op) const {
    std::string why;
    for (std::uint32_t i = 0; i < op.row_count; ++i) {
      const Row& row = diff_.rows[op.first_row + i];
      if (row.verdict == Verdict::kMismatch && !row.is_tensor &&
          !row.cause.empty())
        return safe_text(row.cause);
    }
    return why;
  }

  void add_wrapped(const std::string& sentence) {
    const std::size_t width =
        options_.columns == 0 ? 0 : std::max<std::size_t>(options_.columns, 40);
    std::string line = "    ";
    for (const std::string_view word : split(sentence, ' ')) {
      if (width > 0 && line.size() > 4 &&
          display_width(line) + display_width(word) + 1 > width) {
        text_ += line + "\n";
        line = "    ";
      }
      if (line.size() > 4) line += ' ';
      line.append(word);
    }
    text_ += line + "\n";
  }

  static std::string side_text(const RowSide& side) {
    if (!side.present) return "-";
    std::string text = side.value;
    if (!side.digest.empty())
      text = side.facts.dtype_text + " " + assay::to_string(side.facts.shape) +
             " " + side.digest.substr(0, 8);
    return elide_middle(safe_text(text), kValueWidth);
  }

  static std::string from_text(const Row& row) {
    const std::string &a = row.golden.file, &b = row.target.file;
    if (a.empty() && b.empty()) return "";
    if (a == b || b.empty()) return "  (" + safe_text(a) + ")";
    if (a.empty()) return "  (" + safe_text(b) + ")";
    return "  (" + safe_text(a) + ", " + safe_text(b) + ")";
  }

  void add_row(const Row& row) {
    text_ += "    " +
             colored(row.verdict,
                     pad_right(row.verdict == Verdict::kMismatch     ? "differs"
                               : row.verdict == Verdict::kIncomplete ? "unknown"
                               : row.verdict == Verdict::kEmpty ? "expected"
                                                                : "same",
                               8),
                     options_.color) +
             " " + safe_text(row.name()) + "  " + side_text(row.golden);
    if (row.verdict != Verdict::kMatch) text_ += " | " + side_text(row.target);
    text_ += from_text(row) + "\n";
    add_notes(row);
  }

  // What the two values do not say by themselves.
  void add_notes(const Row& row) {
    if (!row.reasons.empty()) {
      const Reason& reason = row.reasons.front();
      const bool plain = reason.criterion == kDiffers && !row.is_tensor &&
                         reason.text.find(" against ") != std::string::npos;
      if (!plain || row.name() == "random.calls")
        text_ += "               " + safe_text(reason.text) + "\n";
    }
    if (row.is_tensor && !row.cause.empty())
      text_ += "               likely: " + safe_text(row.cause) + "\n";
  }

  void add_expected() {
    std::vector<std::string> names;
    for (const Row& row : diff_.rows)
      if (row.verdict == Verdict::kEmpty)
        names.push_back(safe_text(row.name()) + " " + side_text(row.golden) +
                        " | " + side_text(row.target));
    if (names.empty()) return;
    text_ += "\nexpected of two machines or vendors\n";
    const std::size_t shown = std::min(names.size(), options_.limit);
    for (std::size_t i = 0; i < shown; ++i) text_ += "    " + names[i] + "\n";
    if (shown < names.size())
      text_ +=
          fmt::format("    {} more: --all shows them\n", names.size() - shown);
  }

  void add_all() {
    text_ += "\nthe rest\n";
    for (const Row& row : diff_.rows)
      if (!is_culprit(row)) add_row(row);
  }

  std::string counts() const {
    const Counts& c = diff_.counts;
    return fmt::format("same {}   differ {}   unknown {}   expected {}\n",
                       human_count(c.match), human_count(c.mismatch),
                       human_count(c.incomplete), human_count(c.empty));
  }

  const Comparison& diff_;
  const DiffTextOptions& options_;
  std::string text_;
};

}  // namespace

std::string render_diff(const Comparison& diff,
                        const DiffTextOptions& options) {
  return DiffText(diff, options).run();
}

}  // namespace assay::env
