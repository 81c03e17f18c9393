// Verdicts, the reasons that carry them, and the process exit codes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// What was not compared is `kIncomplete`, never `kMatch`. `kEmpty` is an equal
// pair of zero elements: shown and counted, but no evidence.
enum class Verdict : std::uint8_t { kMatch, kMismatch, kIncomplete, kEmpty };

std::string_view to_string(Verdict verdict);  // "match", "mismatch", ...

// One criterion that decided, or that is worth a note.
struct Reason {
  std::string criterion;  // stable key: "shape", "alpha", "element_bound", ...
  std::string text;       // one line: figure, bound, place
  double figure = 0;
  double bound = 0;
  std::int64_t index = -1;  // flat element index, where one applies
  bool note = false;        // reported, but did not decide
};

struct Judgement {
  Verdict verdict = Verdict::kIncomplete;
  std::vector<Reason> reasons;  // deciding ones first
};

// Exit codes of every command.
inline constexpr int kExitMatch = 0;
inline constexpr int kExitMismatch = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreadable = 3;
inline constexpr int kExitIncomplete = 4;

}  // namespace assay
