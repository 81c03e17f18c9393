// A pickle reader that runs nothing: a small subset of the opcodes builds an
// inert value graph, and a global is a number from the caller's table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace assay {

// A name a pickle may mention. `id` is the caller's own; `callable` lets
// REDUCE apply it, which only records that it was applied.
struct PickleGlobal {
  std::string_view module, name;
  int id = 0;
  bool callable = false;
};

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kBigInt,  // beyond 64 bits; the value is not kept
  kFloat,
  kString,      // UTF-8 not checked; Pickle::text()
  kBytes,       // as kString
  kTuple,       // Pickle::items()
  kList,        // Pickle::items()
  kDict,        // Pickle::items(): key, value, key, value, ...
  kGlobal,      // `at` is PickleGlobal::id, `count` 1 where callable
  kPersistent,  // Pickle::items(): the parts of the persistent id
  kCall,        // Pickle::items(): callable, argument tuple, state, then keys
                // and values set on the result; state is kNone without BUILD
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::uint32_t count = 0;  // bytes of text, items of a tuple
  std::uint64_t at = 0;     // bool, int and float bits, or where to find it

  bool is(PickleKind k) const { return kind == k; }
  std::int64_t integer() const { return static_cast<std::int64_t>(at); }
  double real() const;  // kFloat
};

// The graph may share values and be cyclic (a list can contain itself):
// whoever walks it bounds depth and steps.
class Pickle {
 public:
  const PickleValue& root() const { return root_; }
  std::span<const PickleValue> items(const PickleValue& value) const;
  std::string_view text(const PickleValue& value) const;

 private:
  friend class PickleMachine;
  std::span<const std::byte> bytes_;
  std::vector<PickleValue> cells_;  // items of tuples and persistent ids
  std::vector<std::vector<PickleValue>> containers_;
  PickleValue root_;
};

// Reads `bytes`, which must be one pickle of protocol 2 to 5, ended by STOP at
// the last byte. The result refers to `bytes`. Iterative: nesting costs memory,
// not stack. Takes at most about `max_memory` bytes. Throws Error{kRefused}
// naming `file` and `base` + position for an opcode outside the subset, for a
// global outside `allowed` ("global not allowed: posix.system"), for a broken
// stack or memo, and for memory beyond the limit.
Pickle parse_pickle(std::span<const std::byte> bytes,
                    std::span<const PickleGlobal> allowed,
                    std::string_view file, std::uint64_t base,
                    std::uint64_t max_memory);

}  // namespace assay
