// The tree behind an Expression: what the parser builds and the evaluator
// walks.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/expression.h"

namespace assay::conform {

enum class Symbol : std::uint8_t {
  // clang-format off
  kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo,
  kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual,
  kIn, kNotIn, kAnd, kOr,
  // clang-format on
};

enum class Function : std::uint8_t {
  kMin,
  kMax,
  kAbs,
  kCeilDiv,
  kRoundUp,
  kLen,
  kSum,
};

// One node. Operators of the same precedence are one chain, so that the depth
// of a tree is that of its brackets and not of its length.
struct ExpressionNode {
  enum class Kind : std::uint8_t {
    kLiteral,
    kName,
    kList,
    kCall,        // function(children)
    kNegate,      // -child
    kNot,         // not child
    kCondition,   // children[1] if children[0] else children[2]
    kArithmetic,  // children[0] symbols[0] children[1] ..., from the left
    kCompare,     // the same, every neighbouring pair must hold
    kLogic,       // all symbols kAnd, or all kOr
  };
  Kind kind = Kind::kLiteral;
  Function function = Function::kMin;
  int column = 1;  // where messages point: of the operator, where there is one
  Value literal;
  std::string name;
  std::vector<ExpressionNode> children;
  std::vector<Symbol> symbols;
  std::vector<int> columns;  // of the symbols
};

struct Expression::Parsed {
  std::string text, origin;
  ExpressionNode root;
  std::set<std::string> names;

  // Throws Error{kUsage} "origin: text: what, at column n".
  [[noreturn]] void fail(const std::string& what, int column) const;
};

// Fills root and names from text.
void parse_expression(const std::string& text, ExpressionNode* root,
                      std::set<std::string>* names);

// What parser and evaluator throw inside; expression.cpp adds the text.
struct ExpressionProblem {
  std::string what;
  int column;
};

Value evaluate_node(const ExpressionNode& node, const Parameters& parameters);

}  // namespace assay::conform
