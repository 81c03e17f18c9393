// Overflow search: over all steps and ranks of a trace, the first operator
// that made NaN or infinity of finite inputs, how it went on, and what came
// near. Data, and the one function that finds it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/overflow/meaning.h"
#include "assay/compare/overflow/value_state.h"
#include "assay/metrics/verdict.h"

namespace assay {

// What an operator has to do with a value that is not finite.
enum class OverflowKind : std::uint8_t {
  kBorn,        // inputs and parameters finite, an output is not
  kEntered,     // an input or parameter that no captured operator put out
  kArrived,     // came from another rank: its own input is finite
  kUnknown,     // an output is not finite; not all inputs are known
  kPropagated,  // an input was not finite before
};
std::string_view to_string(OverflowKind kind);  // "born", ...

// One input, parameter or output as the trace has it.
struct OverflowLeaf {
  std::string leaf;   // "input.0"
  std::string dtype;  // "float16", "" for plain values
  Shape shape;
  std::string text;  // plain values
  ValueState value;
  Meaning meaning = Meaning::kValue;
};

struct OverflowSender {
  std::int64_t rank = 0;
  std::string op;
};

struct OverflowFinding {
  OverflowKind kind = OverflowKind::kUnknown;
  std::int64_t step = 0, rank = 0;
  std::string op;        // its name
  OverflowLeaf leaf;     // the first that is not finite
  std::string note;      // one line, "" when there is nothing to add
  double dtype_max = 0;  // largest finite value of the leaf's dtype, or 0
  std::optional<OverflowSender> sender;  // kArrived, where it is known
  // Of kPropagated empty but for the first finding of the trace.
  std::vector<OverflowLeaf> inputs, outputs;
  std::vector<std::string> call_path;  // outermost module first
  std::vector<std::string> stack;      // innermost frame first
};

// A finite tensor at the edge of its dtype's range.
struct RangeNote {
  std::int64_t step = 0, rank = 0;
  std::string name;   // of the record
  std::string dtype;  // canonical name
  double largest = 0, dtype_max = 0;
  std::int64_t count = 0;
  std::int64_t saturated = -1, zeros = -1;  // elements; -1: unknown
  // Zeros beyond those of the operator's input of equal size; -1: unknown.
  std::int64_t underflow = -1;

  // The share of elements that the dtype's range is known to have cost: ended
  // at the maximum or became zero, the larger of the two.
  double share() const;
};

struct Unseen {
  std::int64_t step = 0, rank = 0;
  std::string name;
  std::string why;
};

struct OverflowCounts {
  std::int64_t ops = 0, records = 0;
  // Operators; each is counted once.
  std::int64_t born = 0, entered = 0, arrived = 0, unknown = 0, propagated = 0;
  std::int64_t absorbed = 0;  // took in what is not finite, put out finite
  std::int64_t masked = 0;    // put out -inf on purpose
  std::int64_t near = 0, quantised = 0;  // tensors: OverflowReport::near, ...
  std::int64_t unseen = 0;               // records
};

struct OverflowReport {
  std::string path;  // as the user named it
  std::vector<std::int64_t> steps, ranks;
  // kMismatch: found; kMatch: everything was looked at and is finite;
  // kIncomplete: nothing found, but not everything was looked at.
  Verdict verdict = Verdict::kIncomplete;
  // Execution order over the ranks, as in rank_order.h.
  std::optional<OverflowFinding> first;
  // By step, rank and execution order. Propagated ones are only counted.
  std::vector<OverflowFinding> found;
  // What the first went on to: the next operators of its rank that carry it,
  // at most kCarried / 2, then where it arrived on other ranks, in all at most
  // kCarried.
  std::vector<OverflowFinding> carried;
  std::vector<RangeNote> near;       // beyond half of the dtype's maximum
  std::vector<RangeNote> quantised;  // FP8 and FP4 with saturation or zeros
  std::vector<Unseen> unseen;        // at most kListedUnseen; counts has all
  OverflowCounts counts;
  std::vector<std::string> warnings;
  std::int64_t bytes = 0;  // of elements that were read
  double seconds = 0;
  bool interrupted = false;
};
// "overflow", "finite" or "incomplete".
std::string_view overflow_word(Verdict verdict);

inline constexpr std::size_t kCarried = 20;
inline constexpr std::size_t kDetailed = 1000;  // of `found`, with leaves
inline constexpr std::size_t kListedUnseen = 1000;

struct OverflowOptions {
  std::vector<std::string> only;  // globs on record or operator names
  // Whether a step or rank is wanted; empty: all are.
  std::function<bool(std::int64_t)> step, rank;
  TraceReadOptions read;
  // Called from any thread: traces done, of how many, and bytes of elements
  // read so far.
  std::function<void(std::int64_t done, std::int64_t total, std::int64_t bytes)>
      progress;
  const std::atomic<bool>* stop = nullptr;
};

// One step's ranks are in memory at a time. Throws Error{kUnreadable} where
// nothing is there or the only trace cannot be read, Error{kUsage} where no
// step or rank is wanted; one unreadable trace among many is unseen.
OverflowReport find_overflow(const std::string& path,
                             const OverflowOptions& options);

}  // namespace assay
