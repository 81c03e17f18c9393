// The beginning and the end of a stream of text, whatever its length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay::conform {

// Keeps `limit` bytes: the first half, and the last of what follows. What is
// wrong stands at either end: a traceback at the last, its cause at the first.
class CappedLog {
 public:
  explicit CappedLog(std::size_t limit) : half_(limit / 2) {}
  void append(std::string_view bytes);
  void clear();
  bool empty() const { return head_.empty(); }
  // With a line between that says how many bytes are left out.
  std::string text() const;
  // The last line that is not blank, "" without one.
  std::string last_line() const;

 private:
  std::size_t half_;
  std::string head_, tail_;
  std::int64_t dropped_ = 0;
};

}  // namespace assay::conform
