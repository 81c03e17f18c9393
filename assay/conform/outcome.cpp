#include "assay/conform/outcome.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace assay::conform {
namespace {

// Kinds of errors with which a check of arguments says no, of the engine and
// in Python. Every other kind, and none at all, is a fault: a crash in the
// middle would pass for a refusal where one is expected.
constexpr std::string_view kRefusals[] = {
    "usage",        "ValueError", "TypeError",          "AssertionError",
    "RuntimeError", "IndexError", "NotImplementedError"};

}  // namespace

bool Outcome::refused() const {
  if (status != RunAnswer::Status::kError) return false;
  return std::find(std::begin(kRefusals), std::end(kRefusals), error) !=
         std::end(kRefusals);
}

}  // namespace assay::conform
