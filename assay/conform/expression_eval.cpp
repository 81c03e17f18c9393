// What the operators of expressions compute: Python's meanings over checked
// 64-bit integers and doubles. A bool counts as the integer 0 or 1 in
// arithmetic and comparisons, as in Python; a condition has to be a bool.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "assay/base/checked.h"
#include "assay/base/text.h"
#include "assay/conform/expression_node.h"

namespace assay::conform {
namespace {

[[noreturn]] void fail(std::string what, int column) {
  throw ExpressionProblem{std::move(what), column};
}

std::string show(const Value& value) {
  std::string text = printable(to_json(value));
  return text.size() > 40 ? text.substr(0, 37) + "..." : text;
}

bool countable(const Value& value) {
  return value.is_number() || value.is_bool();
}
bool whole(const Value& value) { return value.is_integer() || value.is_bool(); }
std::int64_t integer_of(const Value& value) {
  return value.is_bool() ? value.boolean() : value.integer();
}
double double_of(const Value& value) {
  return value.is_bool() ? value.boolean() : value.number();
}

Value checked(std::optional<std::int64_t> result, int column) {
  if (!result) fail("an integer beyond 64 bits", column);
  return *result;
}
Value finite(double result, int column) {
  if (!std::isfinite(result)) fail("a number beyond double precision", column);
  return result;
}

Value integer_arithmetic(Symbol symbol, std::int64_t a, std::int64_t b,
                         int column) {
  std::int64_t out = 0;
  switch (symbol) {
    case Symbol::kAdd:
      return checked(checked_add(a, b), column);
    case Symbol::kSubtract:
      if (__builtin_sub_overflow(a, b, &out))
        fail("an integer beyond 64 bits", column);
      return out;
    case Symbol::kMultiply:
      return checked(checked_mul(a, b), column);
    default:
      break;
  }
  if (b == 0) fail("a division by zero", column);
  if (symbol == Symbol::kDivide)
    return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) {  // the one quotient that can leave 64 bits
    if (symbol == Symbol::kModulo) return 0;
    return integer_arithmetic(Symbol::kSubtract, 0, a, column);
  }
  const std::int64_t rest = a % b;
  const bool rounds_down = rest != 0 && (a < 0) != (b < 0);
  if (symbol == Symbol::kModulo) return rounds_down ? rest + b : rest;
  return a / b - rounds_down;
}

// CPython's float_divmod: % has the sign of b, // is a whole number.
Value double_divmod(Symbol symbol, double a, double b, int column) {
  double modulo = std::fmod(a, b);
  double quotient = (a - modulo) / b;
  if (modulo != 0) {
    if ((b < 0) != (modulo < 0)) {
      modulo += b;
      quotient -= 1;
    }
  } else {
    modulo = std::copysign(0.0, b);
  }
  if (symbol == Symbol::kModulo) return finite(modulo, column);
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return finite(quotient - floored > 0.5 ? floored + 1 : floored, column);
}

Value arithmetic(Symbol symbol, const Value& a, const Value& b, int column) {
  if (!countable(a) || !countable(b))
    fail(fmt::format("arithmetic on {}", show(countable(a) ? b : a)), column);
  if (whole(a) && whole(b))
    return integer_arithmetic(symbol, integer_of(a), integer_of(b), column);
  const double x = double_of(a), y = double_of(b);
  if (symbol == Symbol::kAdd) return finite(x + y, column);
  if (symbol == Symbol::kSubtract) return finite(x - y, column);
  if (symbol == Symbol::kMultiply) return finite(x * y, column);
  if (y == 0) fail("a division by zero", column);
  if (symbol == Symbol::kDivide) return finite(x / y, column);
  return double_divmod(symbol, x, y, column);
}

// -1, 0 or 1; exact for an integer against a double.
int compare_numbers(const Value& a, const Value& b) {
  const auto order = [](auto x, auto y) { return (x > y) - (x < y); };
  if (whole(a) && whole(b)) return order(integer_of(a), integer_of(b));
  if (!whole(a) && !whole(b)) return order(a.number(), b.number());
  if (!whole(a)) return -compare_numbers(b, a);
  const double y = b.number();
  if (y >= 0x1p63) return -1;
  if (y < -0x1p63) return 1;
  const double floored = std::floor(y);
  const int whole_order =
      order(integer_of(a), static_cast<std::int64_t>(floored));
  return whole_order == 0 && y > floored ? -1 : whole_order;
}

bool equal(const Value& a, const Value& b) {
  if (countable(a) && countable(b)) return compare_numbers(a, b) == 0;
  if (!a.is_list() || !b.is_list()) return a == b;
  if (a.list().size() != b.list().size()) return false;
  for (std::size_t i = 0; i < a.list().size(); ++i)
    if (!equal(a.list()[i], b.list()[i])) return false;
  return true;
}

bool contains(const Value& item, const Value& whole_value, int column) {
  if (whole_value.is_text() && item.is_text())
    return whole_value.text().find(item.text()) != std::string::npos;
  if (!whole_value.is_list())
    fail(
        fmt::format("{} in {}: expected a list", show(item), show(whole_value)),
        column);
  for (const Value& candidate : whole_value.list())
    if (equal(item, candidate)) return true;
  return false;
}

int order_of(const Value& a, const Value& b, int column) {
  if (countable(a) && countable(b)) return compare_numbers(a, b);
  if (!a.is_text() || !b.is_text())
    fail(fmt::format("{} and {} have no order", show(a), show(b)), column);
  const int order = a.text().compare(b.text());
  return (order > 0) - (order < 0);
}

bool compare(Symbol symbol, const Value& a, const Value& b, int column) {
  switch (symbol) {
    case Symbol::kEqual:
      return equal(a, b);
    case Symbol::kNotEqual:
      return !equal(a, b);
    case Symbol::kIn:
      return contains(a, b, column);
    case Symbol::kNotIn:
      return !contains(a, b, column);
    case Symbol::kLess:
      return order_of(a, b, column) < 0;
    case Symbol::kLessEqual:
      return order_of(a, b, column) <= 0;
    case Symbol::kGreater:
      return order_of(a, b, column) > 0;
    default:
      return order_of(a, b, column) >= 0;
  }
}

bool condition_of(const Value& value, int column) {
  if (!value.is_bool())
    fail(fmt::format("{} is no condition", show(value)), column);
  return value.boolean();
}

std::int64_t ceil_div(const List& arguments, int column) {
  if (!whole(arguments[0]) || !whole(arguments[1]))
    fail("expected two integers", column);
  const std::int64_t a = integer_of(arguments[0]);
  const std::int64_t b = integer_of(arguments[1]);
  if (b <= 0) fail(fmt::format("a division by {}", b), column);
  return a / b + (a % b > 0);
}

Value extreme(const List& arguments, bool largest, int column) {
  if (arguments.size() == 1 && !arguments[0].is_list())
    fail(fmt::format("{}: expected a list", show(arguments[0])), column);
  const List& items = arguments.size() == 1 ? arguments[0].list() : arguments;
  if (items.empty()) fail("the extreme of an empty list", column);
  const Value* best = &items[0];
  for (const Value& item : items) {
    const int order = order_of(item, *best, column);
    if (largest ? order > 0 : order < 0) best = &item;
  }
  return *best;
}

Value length(const Value& value, int column) {
  if (value.is_list()) return static_cast<std::int64_t>(value.list().size());
  if (value.is_text()) return static_cast<std::int64_t>(value.text().size());
  fail(fmt::format("{} has no length", show(value)), column);
}

Value total(const Value& value, int column) {
  if (!value.is_list())
    fail(fmt::format("{}: expected a list", show(value)), column);
  Value sum = 0;
  for (const Value& item : value.list())
    sum = arithmetic(Symbol::kAdd, sum, item, column);
  return sum;
}

Value absolute(const Value& value, int column) {
  if (!countable(value))
    fail(fmt::format("arithmetic on {}", show(value)), column);
  if (!whole(value)) return std::fabs(value.number());
  const std::int64_t x = integer_of(value);
  return x < 0 ? arithmetic(Symbol::kSubtract, 0, x, column) : Value(x);
}

Value call(Function function, const List& arguments, int column) {
  switch (function) {
    case Function::kMin:
      return extreme(arguments, false, column);
    case Function::kMax:
      return extreme(arguments, true, column);
    case Function::kAbs:
      return absolute(arguments[0], column);
    case Function::kCeilDiv:
      return ceil_div(arguments, column);
    case Function::kRoundUp:
      return arithmetic(Symbol::kMultiply, ceil_div(arguments, column),
                        arguments[1], column);
    case Function::kLen:
      return length(arguments[0], column);
    default:
      return total(arguments[0], column);
  }
}

Value negate(const Value& value, int column) {
  // 0 - x would lose the sign of -0.0.
  if (value.is_number() && !value.is_integer()) return -value.number();
  return arithmetic(Symbol::kSubtract, 0, value, column);
}

Value name_value(const ExpressionNode& node, const Parameters& parameters) {
  const auto found = parameters.find(node.name);
  if (found == parameters.end())
    fail(fmt::format("no parameter '{}'", node.name), node.column);
  return found->second;
}

class Evaluator {
 public:
  explicit Evaluator(const Parameters& parameters) : parameters_(parameters) {}

  Value operator()(const ExpressionNode& node) const {
    using Kind = ExpressionNode::Kind;
    switch (node.kind) {
      case Kind::kLiteral:
        return node.literal;
      case Kind::kName:
        return name_value(node, parameters_);
      case Kind::kList:
        return items(node);
      case Kind::kCall:
        return call(node.function, items(node), node.column);
      case Kind::kNegate:
        return negate((*this)(node.children[0]), node.column);
      case Kind::kNot:
        return !condition(node.children[0]);
      case Kind::kCondition:
        return (*this)(node.children[condition(node.children[0]) ? 1 : 2]);
      case Kind::kArithmetic:
        return fold(node);
      case Kind::kCompare:
        return comparisons(node);
      default:
        return logic(node);
    }
  }

 private:
  bool condition(const ExpressionNode& node) const {
    return condition_of((*this)(node), node.column);
  }
  List items(const ExpressionNode& node) const {
    List values;
    for (const ExpressionNode& child : node.children)
      values.push_back((*this)(child));
    return values;
  }
  Value fold(const ExpressionNode& node) const {
    Value value = (*this)(node.children[0]);
    for (std::size_t i = 0; i < node.symbols.size(); ++i)
      value = arithmetic(node.symbols[i], value, (*this)(node.children[i + 1]),
                         node.columns[i]);
    return value;
  }
  bool comparisons(const ExpressionNode& node) const {
    Value left = (*this)(node.children[0]);
    for (std::size_t i = 0; i < node.symbols.size(); ++i) {
      Value right = (*this)(node.children[i + 1]);
      if (!compare(node.symbols[i], left, right, node.columns[i])) return false;
      left = std::move(right);
    }
    return true;
  }
  bool logic(const ExpressionNode& node) const {
    const bool decides = node.symbols[0] == Symbol::kOr;
    for (const ExpressionNode& child : node.children)
      if (condition(child) == decides) return decides;
    return !decides;
  }

  const Parameters& parameters_;
};

}  // namespace

Value evaluate_node(const ExpressionNode& node, const Parameters& parameters) {
  return Evaluator(parameters)(node);
}

}  // namespace assay::conform
