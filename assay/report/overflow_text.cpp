#include "assay/report/overflow_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "assay/base/text.h"
#include "assay/report/display.h"
#include "assay/report/overflow_finding_text.h"
#include "assay/report/row_view.h"
#include "assay/report/terminal_table.h"

namespace assay {
namespace {

// Of what the first finding went on to: the first few tell where it went.
constexpr std::size_t kShownCarried = 5;
constexpr std::size_t kShortestName = 48;

std::string numbered(const std::vector<std::int64_t>& numbers,
                     std::string_view word) {
  if (numbers.size() == 1) return fmt::format("{}{}", word, numbers.front());
  return plural(static_cast<std::int64_t>(numbers.size()), word);
}

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return "?";
  return fmt::format("{:.3g} %", 100.0 * static_cast<double>(part) /
                                     static_cast<double>(whole));
}

class OverflowText {
 public:
  OverflowText(const OverflowReport& report, const OverflowTextOptions& options)
      : report_(report), options_(options) {}

  std::string run() {
    if (options_.quiet) return quiet_line();
    add_header();
    add_verdict();
    if (report_.first) add_first(*report_.first);
    text_ += counts_line();
    add_found();
    add_near();
    add_quantised();
    add_unseen();
    add_warnings();
    return std::move(text_);
  }

 private:
  std::string word() const {
    return colored(report_.verdict, overflow_word(report_.verdict),
                   options_.color);
  }

  std::string quiet_line() const {
    std::string line = word();
    if (report_.first) line += " " + safe_text(report_.first->op);
    return line + "   " + counts_line();
  }

  void add_header() {
    text_ += numbered(report_.steps, "step") + ", " +
             numbered(report_.ranks, "rank") + ", " +
             plural(report_.counts.records, "record");
    if (report_.bytes > 0) text_ += ", " + human_bytes(report_.bytes);
    text_ += ", " + human_seconds(report_.seconds) + "\n";
  }

  // "(step 0, rank 1)" as far as there are several.
  std::string place(std::int64_t step, std::int64_t rank) const {
    const bool steps = report_.steps.size() > 1;
    const bool ranks = report_.ranks.size() > 1;
    if (steps && ranks) return fmt::format("  (step {}, rank {})", step, rank);
    if (steps) return fmt::format("  (step {})", step);
    return ranks ? fmt::format("  (rank {})", rank) : "";
  }

  void add_verdict() {
    text_ += word() + "   ";
    const OverflowCounts& counts = report_.counts;
    if (report_.first) {
      text_ += "first: " + safe_text(report_.first->op) +
               place(report_.first->step, report_.first->rank);
    } else if (counts.records == 0) {
      text_ += "nothing was looked at";
    } else if (report_.verdict == Verdict::kMatch) {
      text_ += plural(counts.records, "record") + " of " +
               plural(counts.ops, "operator") + " looked at, all are finite";
    } else {
      text_ += fmt::format(
          "{} of {} could not be looked at; the others are finite",
          human_count(counts.unseen), plural(counts.records, "record"));
    }
    text_ += "\n";
  }

  void line(const std::string& text) { text_ += "  " + text + "\n"; }

  void add_first(const OverflowFinding& first) {
    line(kind_text(first));
    if (!first.note.empty()) line(safe_text(first.note));
    add_leaves(first.inputs, first.outputs);
    if (first.dtype_max > 0) {
      line(fmt::format("the largest {} is {}", safe_text(first.leaf.dtype),
                       format_double(first.dtype_max)));
    }
    const std::string frame = safe_text(user_frame(first.stack));
    if (!frame.empty()) line(frame);
    add_carried();
  }

  void add_leaves(const std::vector<OverflowLeaf>& inputs,
                  const std::vector<OverflowLeaf>& outputs) {
    std::vector<const OverflowLeaf*> leaves;
    for (const auto* list : {&inputs, &outputs}) {
      for (const OverflowLeaf& leaf : *list) leaves.push_back(&leaf);
    }
    const std::size_t shown = std::min(leaves.size(), options_.limit);
    std::size_t width = 0;
    for (std::size_t i = 0; i < shown; ++i)
      width = std::max(width, display_width(safe_text(leaves[i]->leaf)));
    for (std::size_t i = 0; i < shown; ++i) {
      line("  " + pad_right(safe_text(leaves[i]->leaf), width) + "  " +
           leaf_text(*leaves[i]));
    }
    if (shown < leaves.size())
      line(fmt::format("  ... {} more", leaves.size() - shown));
  }

  // The next operators, and of arrivals on other ranks up to two.
  std::vector<const OverflowFinding*> shown_carried() const {
    std::vector<const OverflowFinding*> next, arrived;
    for (const OverflowFinding& f : report_.carried)
      (f.kind == OverflowKind::kArrived ? arrived : next).push_back(&f);
    const std::size_t limit = std::min(options_.limit, kShownCarried);
    arrived.resize(std::min({arrived.size(), limit, std::size_t{2}}));
    next.resize(std::min(next.size(), limit - arrived.size()));
    next.insert(next.end(), arrived.begin(), arrived.end());
    return next;
  }

  void add_carried() {
    const auto shown = shown_carried();
    for (const OverflowFinding* f : shown) {
      std::string text = f == shown.front() ? "went on to  " : "            ";
      text += safe_text(f->op) + place(f->step, f->rank);
      if (f->kind == OverflowKind::kArrived) text += " from " + sender_text(*f);
      line(text);
    }
    const std::int64_t more = report_.counts.propagated +
                              report_.counts.arrived -
                              static_cast<std::int64_t>(shown.size());
    if (!shown.empty() && more > 0)
      line(fmt::format("            and {} more", human_count(more)));
  }

  std::string counts_line() const {
    const OverflowCounts& c = report_.counts;
    std::string text;
    const auto add = [&](std::string_view name, std::int64_t count) {
      text += (text.empty() ? "" : "   ") + std::string(name) + " " +
              human_count(count);
    };
    add("born", c.born);
    add("entered", c.entered);
    add("arrived", c.arrived);
    add("unknown", c.unknown);
    add("propagated", c.propagated);
    add("absorbed", c.absorbed);
    add("masked", c.masked);
    add("not looked at", c.unseen);
    return text + "\n";
  }

  // A name gives way where the line is too long, but not beyond telling.
  void named(const std::string& text, const std::string& name,
             const std::string& tail = "") {
    const std::size_t used = display_width(text) + display_width(tail);
    const std::size_t room =
        options_.columns > used ? options_.columns - used : 0;
    const std::string safe = safe_text(name);
    text_ += text +
             (options_.columns == 0
                  ? safe
                  : elide_middle(safe, std::max(room, kShortestName))) +
             tail + "\n";
  }

  // What there is besides the first.
  void add_found() {
    std::size_t shown = 0, others = 0;
    for (const OverflowFinding& f : report_.found) {
      const OverflowFinding& first = *report_.first;
      if (f.op == first.op && f.step == first.step && f.rank == first.rank)
        continue;
      if (++others > options_.limit) continue;
      ++shown;
      named(fmt::format("also {:<8} ", to_string(f.kind)),
            f.op + "." + f.leaf.leaf,
            place(f.step, f.rank) + "  " + special_text(f.leaf.value) +
                (f.sender ? fmt::format(" from rank {}", f.sender->rank) : ""));
    }
    if (shown < others)
      text_ +=
          fmt::format("also {} more, --limit N shows them\n", others - shown);
  }

  template <typename Key>
  static std::vector<const RangeNote*> ranked(
      const std::vector<RangeNote>& notes, Key key) {
    std::vector<const RangeNote*> order;
    for (const RangeNote& note : notes) order.push_back(&note);
    std::stable_sort(order.begin(), order.end(),
                     [&](const RangeNote* a, const RangeNote* b) {
                       return key(*a) > key(*b);
                     });
    return order;
  }

  void add_near() {
    const auto notes = ranked(report_.near, [](const RangeNote& n) {
      return n.largest / n.dtype_max;
    });
    if (notes.empty()) return;
    text_ += "near the edge: " +
             plural(static_cast<std::int64_t>(notes.size()), "finite tensor") +
             " beyond half of what the dtype holds\n";
    for (std::size_t i = 0; i < std::min(notes.size(), options_.limit); ++i) {
      const RangeNote& n = *notes[i];
      named(fmt::format("  {} of {}  {}  ", format_double(n.largest),
                        format_double(n.dtype_max), n.dtype),
            n.name, place(n.step, n.rank));
    }
    add_more(notes.size());
  }

  void add_quantised() {
    const auto notes =
        ranked(report_.quantised, [](const RangeNote& n) { return n.share(); });
    if (notes.empty()) return;
    text_ += "quantised: " +
             plural(static_cast<std::int64_t>(notes.size()), "tensor") +
             " with elements at the largest magnitude or at zero\n";
    for (std::size_t i = 0; i < std::min(notes.size(), options_.limit); ++i) {
      const RangeNote& n = *notes[i];
      std::string text = "  " + n.dtype;
      if (n.saturated >= 0)
        text += "  saturated " + percent(n.saturated, n.count);
      if (n.underflow >= 0) {
        text += "  underflow " + percent(n.underflow, n.count);
      } else if (n.zeros >= 0) {
        text += "  zeros " + percent(n.zeros, n.count);
      }
      named(text + "  ", n.name, place(n.step, n.rank));
    }
    add_more(notes.size());
  }

  void add_more(std::size_t count) {
    if (count > options_.limit)
      text_ += fmt::format("  {} more\n", count - options_.limit);
  }

  void add_unseen() {
    struct Cause {
      std::int64_t count = 0;
      const Unseen* first = nullptr;
    };
    std::map<std::string, Cause> causes;
    for (const Unseen& one : report_.unseen) {
      Cause& cause = causes[one.why];
      if (cause.count++ == 0) cause.first = &one;
    }
    std::vector<std::pair<std::string, Cause>> order(causes.begin(),
                                                     causes.end());
    std::stable_sort(order.begin(), order.end(), [](auto& a, auto& b) {
      return a.second.count > b.second.count;
    });
    std::int64_t told = 0;
    for (std::size_t i = 0; i < std::min(order.size(), options_.limit); ++i) {
      const auto& [why, cause] = order[i];
      told += cause.count;
      named("not looked at: " + plural(cause.count, "record") + ", " +
                safe_text(why) + "; first ",
            cause.first->name, place(cause.first->step, cause.first->rank));
    }
    if (told < report_.counts.unseen) {
      text_ += fmt::format("not looked at: {} more\n",
                           human_count(report_.counts.unseen - told));
    }
  }

  void add_warnings() {
    if (report_.interrupted)
      text_ += "interrupted: what was not reached was not looked at\n";
    const auto& warnings = report_.warnings;
    const std::size_t shown = std::min(warnings.size(), options_.limit);
    for (std::size_t i = 0; i < shown; ++i)
      text_ += "warning: " + safe_text(warnings[i]) + "\n";
    if (shown < warnings.size())
      text_ += fmt::format("warning: {} more\n", warnings.size() - shown);
  }

  const OverflowReport& report_;
  const OverflowTextOptions& options_;
  std::string text_;
};

}  // namespace

std::string render_overflow(const OverflowReport& report,
                            const OverflowTextOptions& options) {
  return OverflowText(report, options).run();
}

}  // namespace assay
