// The expressions of a spec: sizes, conditions and constraints over the
// hyperparameters. Nothing else can be named and nothing is executed.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "assay/conform/value.h"

namespace assay::conform {

// Integers, floats, 'text', true, false, names of parameters, [lists];
// ( ) + - * // / % and == != < <= > >= in, not in, and or not, a if c else b;
// min max abs ceil_div(a, b) round_up(a, b) len sum. Meanings are Python's
// (// and % floor); integers have 64 bits, an overflow is an error.
class Expression {
 public:
  // Throws Error{kUsage} "origin: text: what, at column n". Text of more than
  // 4,096 bytes or 64 nested levels is refused.
  static Expression parse(std::string text, const std::string& origin);

  // Throws Error{kUsage} for a name that is not in `parameters`, operands of
  // the wrong type, a division by zero, an overflow.
  Value evaluate(const Parameters& parameters) const;
  // A condition. Throws unless the value is true or false.
  bool holds(const Parameters& parameters) const;

  const std::string& text() const;
  // Names of parameters that it reads.
  std::set<std::string> names() const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace assay::conform
