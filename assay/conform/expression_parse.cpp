// Lexer and recursive descent of expressions. The grammar, loosest first:
//
//   condition  := or ['if' or 'else' condition]
//   or         := and {'or' and}
//   and        := not {'and' not}
//   not        := 'not' not | comparison
//   comparison := sum {('==' | ... | 'in' | 'not' 'in') sum}
//   sum        := product {('+' | '-') product}
//   product    := sign {('*' | '/' | '//' | '%') sign}
//   sign       := ('-' | '+') sign | atom
//   atom       := number | text | name | name '(' conditions ')'
//               | '(' condition ')' | '[' conditions ']'
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "assay/base/text.h"
#include "assay/conform/expression_node.h"

namespace assay::conform {
namespace {

constexpr int kMaxDepth = 64;

struct Token {
  enum class Kind { kEnd, kNumber, kText, kWord, kSign } kind = Kind::kEnd;
  std::string_view text;  // of kText: without its quotes
  int column = 1;
};

struct NamedFunction {
  std::string_view name;
  Function function;
  std::size_t least, most;  // arguments
};
constexpr NamedFunction kFunctions[] = {
    {"min", Function::kMin, 1, 64},
    {"max", Function::kMax, 1, 64},
    {"abs", Function::kAbs, 1, 1},
    {"ceil_div", Function::kCeilDiv, 2, 2},
    {"round_up", Function::kRoundUp, 2, 2},
    {"len", Function::kLen, 1, 1},
    {"sum", Function::kSum, 1, 1},
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& token() const { return token_; }
  bool is(std::string_view text) const {
    return token_.text == text && (token_.kind == Token::Kind::kWord ||
                                   token_.kind == Token::Kind::kSign);
  }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    advance();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text))
      fail(fmt::format("expected '{}', found {}", text, found()));
  }
  std::string found() const {
    if (token_.kind == Token::Kind::kEnd) return "the end";
    return fmt::format("'{}'", printable(token_.text));
  }
  [[noreturn]] void fail(std::string what) const {
    throw ExpressionProblem{std::move(what), token_.column};
  }

  void advance() {
    while (at_ < text_.size() && std::isspace(peek())) ++at_;
    token_ = {Token::Kind::kEnd, {}, static_cast<int>(at_) + 1};
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    const bool number = is_digit(c) || (c == '.' && at_ + 1 < text_.size() &&
                                        is_digit(text_[at_ + 1]));
    if (c == '\'' || c == '"') {
      quoted(c);
    } else if (number) {
      token_.kind = Token::Kind::kNumber;
      token_.text = text_.substr(at_, number_length());
      at_ += token_.text.size();
    } else if (is_word(c)) {
      std::size_t end = at_;
      while (end < text_.size() && is_word(text_[end])) ++end;
      token_.kind = Token::Kind::kWord;
      token_.text = text_.substr(at_, end - at_);
      at_ = end;
    } else {
      sign();
    }
  }

 private:
  unsigned char peek() const { return static_cast<unsigned char>(text_[at_]); }

  // Digits, a point, an exponent with its sign; what else clings to them is
  // part of the token, so that 12ab is one wrong number.
  std::size_t number_length() const {
    std::size_t end = at_;
    while (end < text_.size()) {
      const char c = text_[end];
      const bool after_exponent =
          end > at_ && (text_[end - 1] == 'e' || text_[end - 1] == 'E');
      if (!is_word(c) && c != '.' &&
          !(after_exponent && (c == '+' || c == '-')))
        break;
      ++end;
    }
    return end - at_;
  }

  void quoted(char quote) {
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a quote that does not end");
    token_.kind = Token::Kind::kText;
    token_.text = text_.substr(at_ + 1, end - at_ - 1);
    if (token_.text.find('\\') != std::string_view::npos)
      fail("text with a backslash: there are no escapes");
    at_ = end + 1;
  }

  void sign() {
    constexpr std::string_view kSigns[] = {"//", "==", "!=", "<=", ">=", "+",
                                           "-",  "*",  "/",  "%",  "<",  ">",
                                           "(",  ")",  "[",  "]",  ","};
    for (const std::string_view candidate : kSigns) {
      if (text_.substr(at_, candidate.size()) != candidate) continue;
      token_.kind = Token::Kind::kSign;
      token_.text = candidate;
      at_ += candidate.size();
      return;
    }
    fail(fmt::format("'{}' has no meaning here",
                     printable(text_.substr(at_, 1))));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Token token_;
};

Value number_value(const Lexer& lexer) {
  const std::string_view text = lexer.token().text;
  const char* end = text.data() + text.size();
  if (std::all_of(text.begin(), text.end(), is_digit)) {
    std::int64_t value = 0;
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc()) lexer.fail("an integer beyond 64 bits");
    if (text.size() > 1 && text[0] == '0') lexer.fail("a leading zero");
    return value;
  }
  double value = 0;
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec == std::errc::result_out_of_range)
    lexer.fail("a number beyond double precision");
  if (result.ec != std::errc() || result.ptr != end)
    lexer.fail(fmt::format("'{}' is no number", printable(text)));
  return value;
}

class Parser {
 public:
  Parser(std::string_view text, std::set<std::string>* names)
      : lexer_(text), names_(names) {}

  ExpressionNode parse() {
    ExpressionNode root = condition();
    if (lexer_.token().kind != Token::Kind::kEnd)
      lexer_.fail("expected an operator, found " + lexer_.found());
    return root;
  }

 private:
  using Kind = ExpressionNode::Kind;
  using Operand = ExpressionNode (Parser::*)();

  // Counts what can nest.
  class Level {
   public:
    explicit Level(Parser* parser) : parser_(parser) {
      if (++parser_->depth_ > kMaxDepth)
        parser_->lexer_.fail(
            fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    ~Level() { --parser_->depth_; }

   private:
    Parser* parser_;
  };

  ExpressionNode node(Kind kind) const {
    ExpressionNode made;
    made.kind = kind;
    made.column = lexer_.token().column;
    return made;
  }

  ExpressionNode condition() {
    const Level level(this);
    ExpressionNode then = either();
    if (!lexer_.is("if")) return then;
    ExpressionNode made = node(Kind::kCondition);
    lexer_.advance();
    made.children.push_back(either());
    lexer_.expect("else");
    made.children.push_back(std::move(then));
    made.children.push_back(condition());
    return made;
  }

  // operand {symbol operand}, where `symbol` reads one of this precedence.
  template <typename ReadSymbol>
  ExpressionNode chain(Kind kind, Operand operand, ReadSymbol symbol) {
    ExpressionNode first = (this->*operand)();
    ExpressionNode made = node(kind);
    int column = lexer_.token().column;
    std::optional<Symbol> found = symbol();
    if (!found) return first;
    made.children.push_back(std::move(first));
    for (; found; found = symbol()) {
      made.symbols.push_back(*found);
      made.columns.push_back(column);
      made.children.push_back((this->*operand)());
      column = lexer_.token().column;
    }
    return made;
  }

  struct Spelled {
    std::string_view text;
    Symbol symbol;
  };
  std::optional<Symbol> accept(std::initializer_list<Spelled> symbols) {
    for (const Spelled& candidate : symbols)
      if (lexer_.accept(candidate.text)) return candidate.symbol;
    return std::nullopt;
  }

  ExpressionNode either() {
    return chain(Kind::kLogic, &Parser::both, [this] {
      return accept({{"or", Symbol::kOr}});
    });
  }
  ExpressionNode both() {
    return chain(Kind::kLogic, &Parser::negation, [this] {
      return accept({{"and", Symbol::kAnd}});
    });
  }
  ExpressionNode negation() {
    if (!lexer_.is("not")) return comparison();
    const Level level(this);
    ExpressionNode made = node(Kind::kNot);
    lexer_.advance();
    made.children.push_back(negation());
    return made;
  }
  ExpressionNode comparison() {
    return chain(Kind::kCompare, &Parser::sum,
                 [this]() -> std::optional<Symbol> {
                   if (lexer_.accept("not")) {
                     lexer_.expect("in");
                     return Symbol::kNotIn;
                   }
                   return accept({{"==", Symbol::kEqual},
                                  {"!=", Symbol::kNotEqual},
                                  {"<=", Symbol::kLessEqual},
                                  {">=", Symbol::kGreaterEqual},
                                  {"<", Symbol::kLess},
                                  {">", Symbol::kGreater},
                                  {"in", Symbol::kIn}});
                 });
  }
  ExpressionNode sum() {
    return chain(Kind::kArithmetic, &Parser::product, [this] {
      return accept({{"+", Symbol::kAdd}, {"-", Symbol::kSubtract}});
    });
  }
  ExpressionNode product() {
    return chain(Kind::kArithmetic, &Parser::sign, [this] {
      return accept({{"*", Symbol::kMultiply},
                     {"//", Symbol::kFloorDivide},
                     {"/", Symbol::kDivide},
                     {"%", Symbol::kModulo}});
    });
  }
  ExpressionNode sign() {
    if (!lexer_.is("-") && !lexer_.is("+")) return atom();
    const Level level(this);
    ExpressionNode made = node(Kind::kNegate);
    const bool minus = lexer_.is("-");
    lexer_.advance();
    made.children.push_back(sign());
    if (minus) return made;
    return std::move(made.children.front());
  }

  ExpressionNode atom() {
    ExpressionNode made = node(Kind::kLiteral);
    const Token token = lexer_.token();
    if (token.kind == Token::Kind::kNumber) {
      made.literal = number_value(lexer_);
      lexer_.advance();
      return made;
    }
    if (token.kind == Token::Kind::kText) {
      made.literal = token.text;
      lexer_.advance();
      return made;
    }
    if (token.kind == Token::Kind::kWord) return word();
    if (lexer_.accept("(")) {
      ExpressionNode inner = condition();
      lexer_.expect(")");
      return inner;
    }
    if (lexer_.accept("[")) {
      made.kind = Kind::kList;
      made.children = conditions("]");
      return made;
    }
    lexer_.fail("expected a value, found " + lexer_.found());
  }

  // Up to and with `close`.
  std::vector<ExpressionNode> conditions(std::string_view close) {
    std::vector<ExpressionNode> items;
    while (!lexer_.accept(close)) {
      items.push_back(condition());
      if (!lexer_.is(close)) lexer_.expect(",");
    }
    return items;
  }

  ExpressionNode word() {
    constexpr std::string_view kReserved[] = {"if", "else", "and",
                                              "or", "not",  "in"};
    const std::string_view text = lexer_.token().text;
    if (std::count(std::begin(kReserved), std::end(kReserved), text))
      lexer_.fail("expected a value, found " + lexer_.found());
    ExpressionNode made = node(Kind::kName);
    lexer_.advance();
    if (lexer_.accept("(")) return call(text, std::move(made));
    if (text == "true" || text == "false") {
      made.kind = Kind::kLiteral;
      made.literal = text == "true";
      return made;
    }
    made.name = text;
    names_->insert(made.name);
    return made;
  }

  ExpressionNode call(std::string_view name, ExpressionNode made) {
    const auto found =
        std::find_if(std::begin(kFunctions), std::end(kFunctions),
                     [name](const NamedFunction& f) { return f.name == name; });
    if (found == std::end(kFunctions))
      throw ExpressionProblem{fmt::format("no function '{}'", printable(name)),
                              made.column};
    made.kind = Kind::kCall;
    made.name = name;
    made.function = found->function;
    made.children = conditions(")");
    const std::size_t count = made.children.size();
    if (count < found->least || count > found->most)
      throw ExpressionProblem{fmt::format("{} of {} arguments", name, count),
                              made.column};
    return made;
  }

  Lexer lexer_;
  std::set<std::string>* names_;
  int depth_ = 0;
};

}  // namespace

void parse_expression(const std::string& text, ExpressionNode* root,
                      std::set<std::string>* names) {
  *root = Parser(text, names).parse();
}

}  // namespace assay::conform
