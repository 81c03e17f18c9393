// What two rows of one output say before any figure: whether there is
// anything to compare, and whether it is the same thing on both sides.
#pragma once

#include <string>
#include <string_view>

#include "assay/precheck/detail/detail.h"
#include "assay/precheck/ratio/judge.h"

namespace assay::precheck {

// What msprobe does with a blank cell.
inline constexpr std::string_view kTakenForZero = "takes a blank figure for 0";

// ": " and the row's message, "" where it has none.
std::string said_of(const Detail& detail);

class RatioFacts {
 public:
  RatioFacts(const Detail& device, const Detail& reference,
             RatioFindings& findings)
      : device_(device), reference_(reference), findings_(findings) {}

  // True: they decide, and why is among the findings, unless empty().
  bool decide() { return judge_computed() || judge_shape(); }
  // Both sides have the same shape, without an element.
  bool empty() const { return empty_; }

 private:
  bool judge_computed();
  bool judge_shape();
  void differ(std::string_view what, std::string_view device,
              std::string_view reference);

  const Detail& device_;
  const Detail& reference_;
  RatioFindings& findings_;
  bool empty_ = false;
};

}  // namespace assay::precheck
