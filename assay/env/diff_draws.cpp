// Calls that drew random numbers, in their order: the first that differs.
#include <algorithm>

#include "assay/env/diff_rows.h"

namespace assay::env {
namespace {

std::string place(const Snapshot& snapshot, const Draw& draw) {
  if (draw.stack < 0) return "";
  const auto& stack = snapshot.stacks[static_cast<std::size_t>(draw.stack)];
  return stack.empty() ? "" : " at " + stack.front();
}

std::string call_text(const Snapshot& snapshot, std::size_t i) {
  if (i >= snapshot.draws.size())
    return static_cast<std::int64_t>(i) < snapshot.draw_count
               ? "a call that is not listed"
               : "no call any more";
  const Draw& draw = snapshot.draws[i];
  return draw.function + "(" + draw.arguments + ")" + place(snapshot, draw);
}

bool same_call(const Draw& a, const Draw& b) {
  return a.function == b.function && a.arguments == b.arguments;
}

std::string calls(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " call" : " calls");
}

Row row_of(const std::string& golden, const std::string& target) {
  const Value first{Kind::kText, golden, ""}, second{Kind::kText, target, ""};
  return value_row(&first, &second);
}

// Whether the runs make the same calls.
void add_calls(const DiffSides& sides, std::size_t first, DiffRows& rows) {
  const Snapshot &golden = sides.golden, &target = sides.target;
  const std::size_t listed = std::min(golden.draws.size(), target.draws.size());
  const bool same = golden.draw_count == target.draw_count &&
                    golden.draw_hash == target.draw_hash;
  if (first == listed && (same || (golden.draws.size() == listed &&
                                   target.draws.size() == listed))) {
    Row row = row_of(calls(golden.draw_count), calls(target.draw_count));
    if (same && !golden.draw_hash.empty()) {
      row.verdict = Verdict::kMatch;
    } else {
      judge(row, Verdict::kMismatch, kDiffers,
            "other calls behind the first " +
                calls(static_cast<std::int64_t>(listed)) +
                ", which alone are listed");
    }
    return rows.add(Section::kRandom, "calls", std::move(row));
  }
  const auto hidden = [&](const Snapshot& side) {
    return first >= side.draws.size() &&
           static_cast<std::int64_t>(first) < side.draw_count;
  };
  Row row = row_of(call_text(golden, first), call_text(target, first));
  if (hidden(golden) || hidden(target)) {
    judge(row, Verdict::kIncomplete, kNotKnown,
          "lists of different lengths: the first " +
              calls(static_cast<std::int64_t>(first)) + " are the same");
    return rows.add(Section::kRandom, "calls", std::move(row));
  }
  judge(row, Verdict::kMismatch, kDiffers,
        "call " + std::to_string(first) + " is the first that differs: " +
            call_text(golden, first) + " against " + call_text(target, first));
  rows.add(Section::kRandom, "calls", std::move(row));
}

// Whether the same calls gave the same numbers, as far as they were kept.
void add_numbers(const DiffSides& sides, std::size_t end, DiffRows& rows) {
  const Snapshot &golden = sides.golden, &target = sides.target;
  std::int64_t compared = 0;
  for (std::size_t i = 0; i < end; ++i) {
    const Draw &a = golden.draws[i], &b = target.draws[i];
    if (a.result.empty() || b.result.empty()) continue;
    ++compared;
    if (a.result == b.result) continue;
    Row row = row_of(call_text(golden, i), call_text(target, i));
    judge(row, Verdict::kMismatch, kDiffers,
          "the same calls, but call " + std::to_string(i) +
              " gave other numbers: " + call_text(golden, i));
    row.cause = "another seed, or a generator in another state";
    return rows.add(Section::kRandom, "numbers", std::move(row));
  }
  Row row = row_of(calls(golden.draw_count), calls(target.draw_count));
  const auto all = std::max(golden.draw_count, target.draw_count);
  if (compared == all) {
    row.verdict = Verdict::kMatch;
  } else {
    judge(row, Verdict::kIncomplete, kNotKnown,
          "the numbers of " + calls(compared) + " of " + std::to_string(all) +
              " were compared: those of devices, and behind the list, are not "
              "kept");
  }
  rows.add(Section::kRandom, "numbers", std::move(row));
}

}  // namespace

void diff_draws(const DiffSides& sides, DiffRows& rows) {
  const auto &golden = sides.golden.draws, &target = sides.target.draws;
  if (sides.golden.draw_count == 0 && sides.target.draw_count == 0) return;
  const std::size_t listed = std::min(golden.size(), target.size());
  std::size_t first = 0;
  while (first < listed && same_call(golden[first], target[first])) ++first;
  add_calls(sides, first, rows);
  add_numbers(sides, first, rows);
}

}  // namespace assay::env
