// What the reports call the sides and the rows of a comparison, by its subject.
#pragma once

#include <string>
#include <string_view>

#include "assay/compare/comparison.h"

namespace assay {

struct Wording {
  std::string_view report;  // the kind of page: "comparison report"
  std::string_view golden, target;
  std::string_view record;  // one of them; +s for more
  std::string_view first;   // "first divergence"
  // Rows follow from each other: some errors are born, others inherited.
  bool flows = true;
  // What the command's --only takes: "row", "call", or "" where it has none.
  std::string_view only = "row";
  std::string_view command = "assay compare";  // that makes it
};

const Wording& wording(Subject subject);

// "missing in the golden", by what that side is called; "" when both are there.
std::string missing_text(const Row& row, const Wording& words);

}  // namespace assay
