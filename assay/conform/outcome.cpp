#include "assay/conform/outcome.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace assay::conform {
namespace {

// Kinds of errors that no check of arguments raises, in C++ and in Python.
constexpr std::string_view kFaults[] = {
    "internal",        "memory",           "unreadable",
    "MemoryError",     "OutOfMemoryError", "ImportError",
    "NameError",       "AttributeError",   "ModuleNotFoundError",
    "SyntaxError",     "SystemError",      "UnboundLocalError",
    "RecursionError",  "OSError",          "FileNotFoundError",
    "PermissionError", "KeyboardInterrupt"};

}  // namespace

bool Outcome::refused() const {
  if (status != RunAnswer::Status::kError) return false;
  return std::find(std::begin(kFaults), std::end(kFaults), error) ==
         std::end(kFaults);
}

}  // namespace assay::conform
