#include "assay/conform/expression.h"

#include <fmt/format.h>

#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/expression_node.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMaxBytes = 4096;

}  // namespace

void Expression::Parsed::fail(const std::string& what, int column) const {
  throw Error(Code::kUsage, fmt::format("{}: {}: {}, at column {}", origin,
                                        printable(text), what, column));
}

Expression Expression::parse(std::string text, const std::string& origin) {
  auto parsed = std::make_shared<Parsed>();
  parsed->origin = origin;
  if (text.size() > kMaxBytes)
    throw Error(Code::kUsage,
                fmt::format("{}: an expression of {} bytes, expected at most "
                            "{}",
                            origin, text.size(), kMaxBytes));
  parsed->text = std::move(text);
  try {
    parse_expression(parsed->text, &parsed->root, &parsed->names);
  } catch (const ExpressionProblem& problem) {
    parsed->fail(problem.what, problem.column);
  }
  Expression expression;
  expression.parsed_ = std::move(parsed);
  return expression;
}

Value Expression::evaluate(const Parameters& parameters) const {
  if (!parsed_) throw Error(Code::kInternal, "an expression without text");
  try {
    return evaluate_node(parsed_->root, parameters);
  } catch (const ExpressionProblem& problem) {
    parsed_->fail(problem.what, problem.column);
  }
}

bool Expression::holds(const Parameters& parameters) const {
  const Value value = evaluate(parameters);
  if (!value.is_bool())
    parsed_->fail(fmt::format("{} is no condition", printable(to_json(value))),
                  1);
  return value.boolean();
}

const std::string& Expression::text() const {
  static const std::string kNone;
  return parsed_ ? parsed_->text : kNone;
}

std::set<std::string> Expression::names() const {
  return parsed_ ? parsed_->names : std::set<std::string>();
}

}  // namespace assay::conform
