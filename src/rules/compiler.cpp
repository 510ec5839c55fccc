// SPDX-License-Identifier: Apache-2.0
// Text to program: a lexer, a descent over the precedence levels that is bounded by kMaxExpressionDepth, and
// a check of types where they are known.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "rules/expression.h"

namespace plimsoll::rules {

namespace {

struct Token {
  enum class Kind : std::uint8_t { kEnd, kName, kNumber, kText, kVersion, kSymbol };

  Kind kind = Kind::kEnd;
  std::string_view text;  // without quotes
  std::size_t at = 0;     // 1-based
  Value number;
};

struct Function {
  std::string_view name;
  Op op;
  std::vector<Type> parameters;
  Type result;
};

const std::vector<Function>& functions() {
  static const std::vector<Function> table = {
      {"set", Op::kSet, {Type::kAny}, Type::kBoolean},
      {"len", Op::kLength, {Type::kList}, Type::kNumber},
      {"subset", Op::kSubset, {Type::kList, Type::kList}, Type::kBoolean},
      {"intersects", Op::kIntersects, {Type::kList, Type::kList}, Type::kBoolean},
      {"contains", Op::kContains, {Type::kText, Type::kText}, Type::kBoolean},
      {"lcm", Op::kLcm, {Type::kNumber, Type::kNumber}, Type::kNumber},
      {"min", Op::kMin, {Type::kNumber, Type::kNumber}, Type::kNumber},
      {"max", Op::kMax, {Type::kNumber, Type::kNumber}, Type::kNumber},
      {"product", Op::kProduct, {Type::kList}, Type::kNumber},
      {"default", Op::kDefault, {Type::kNumber, Type::kNumber}, Type::kNumber},
  };
  return table;
}

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.'; }

bool fits(Type wanted, Type found) { return wanted == Type::kAny || found == Type::kAny || wanted == found; }

}  // namespace

class Compiler {
 public:
  Compiler(std::string_view text, const Resolver& resolve) : text_(text), resolve_(resolve) {}

  Result<Program> run() {
    if (text_.size() > kMaxExpression)
      return bad_input(fmt::format("the expression has {} bytes, wanted at most {}", text_.size(), kMaxExpression));
    PLIMSOLL_TRY_STATUS(next());
    PLIMSOLL_TRY(type, disjunction());
    if (token_.kind != Token::Kind::kEnd) return unexpected("an operator or the end");
    if (deepest_ > kMaxStack) return bad_input("the expression needs too many values at once");
    program_.type_ = type;
    return std::move(program_);
  }

 private:
  template <class... Args>
  [[nodiscard]] tl::unexpected<Error> wrong(std::size_t at, fmt::format_string<Args...> format, Args&&... args) const {
    return bad_input(fmt::format("at {}: {}", at, fmt::format(format, std::forward<Args>(args)...)));
  }
  [[nodiscard]] tl::unexpected<Error> unexpected(std::string_view wanted) const {
    if (token_.kind == Token::Kind::kEnd) return wrong(token_.at, "wanted {}, found the end", wanted);
    return wrong(token_.at, "wanted {}, found '{}'", wanted, token_.text);
  }

  Status number() {
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    double real = 0;
    const auto parsed = std::from_chars(begin, end, real);
    if (parsed.ec != std::errc{}) return wrong(at_ + 1, "a number that cannot be read");
    constexpr double kExact = 9007199254740992.0;  // 2^53: integers below are exact as doubles
    token_.kind = Token::Kind::kNumber;
    token_.text = std::string_view(begin, static_cast<std::size_t>(parsed.ptr - begin));
    const bool whole = real == std::floor(real) && std::abs(real) < kExact && token_.text.find('.') == token_.text.npos;
    token_.number = whole ? Value::of(static_cast<std::int64_t>(real)) : Value::of(real);
    at_ += token_.text.size();
    return {};
  }

  Status next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    token_ = Token{};
    token_.at = at_ + 1;
    if (at_ >= text_.size()) return {};
    const char c = text_[at_];
    const bool digit_follows = at_ + 1 < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_ + 1])) != 0;
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
    if (c == '"' || c == '\'') {
      const std::size_t end = text_.find(c, at_ + 1);
      if (end == std::string_view::npos) return wrong(at_ + 1, "a text that does not end");
      token_.kind = Token::Kind::kText;
      token_.text = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return {};
    }
    if (is_name_start(c)) {
      std::size_t end = at_ + 1;
      while (end < text_.size() && is_name_part(text_[end])) ++end;
      token_.kind = c == 'v' && digit_follows ? Token::Kind::kVersion : Token::Kind::kName;
      token_.text = text_.substr(at_, end - at_);
      at_ = end;
      return {};
    }
    token_.kind = Token::Kind::kSymbol;
    constexpr std::string_view kDouble[] = {"==", "!=", "<=", ">="};
    for (const std::string_view symbol : kDouble)
      if (text_.substr(at_, 2) == symbol) token_.text = text_.substr(at_, 2);
    if (token_.text.empty()) {
      if (std::string_view("+-*/%<>()[],").find(c) == std::string_view::npos)
        return wrong(at_ + 1, "'{}' means nothing here",
                     std::isprint(static_cast<unsigned char>(c)) != 0 ? std::string(1, c) : std::string("?"));
      token_.text = text_.substr(at_, 1);
    }
    at_ += token_.text.size();
    return {};
  }

  [[nodiscard]] bool at_symbol(std::string_view symbol) const {
    return token_.kind == Token::Kind::kSymbol && token_.text == symbol;
  }
  [[nodiscard]] bool at_word(std::string_view word) const {
    return token_.kind == Token::Kind::kName && token_.text == word;
  }
  Status expect(std::string_view symbol) {
    if (!at_symbol(symbol)) return unexpected(fmt::format("'{}'", symbol));
    return next();
  }

  // `change` is how many values the instruction leaves on the stack beyond those it takes.
  Status emit(Op op, std::size_t argument, int change) {
    if (program_.code_.size() >= kMaxProgram) return wrong(token_.at, "the expression is too long");
    program_.code_.push_back({op, static_cast<std::uint16_t>(argument)});
    depth_of_stack_ += change;
    deepest_ = std::max(deepest_, static_cast<std::size_t>(std::max(depth_of_stack_, 0)));
    return {};
  }
  Status constant(Value value) {
    program_.constants_.push_back(value);
    return emit(Op::kConstant, program_.constants_.size() - 1, 1);
  }
  Status text_constant(std::string_view text) {
    program_.texts_.push_back(std::make_unique<std::string>(text));
    return constant(Value::of(std::string_view(*program_.texts_.back())));
  }

  // and, or: the right side runs only where the left one leaves it open.
  Result<Type> chain(std::string_view word, Op skip, Result<Type> (Compiler::*operand)()) {
    std::size_t at = token_.at;
    PLIMSOLL_TRY(type, (this->*operand)());
    std::vector<std::size_t> jumps;
    while (at_word(word)) {
      PLIMSOLL_TRY_STATUS(boolean(type, at, word));
      PLIMSOLL_TRY_STATUS(next());
      jumps.push_back(program_.code_.size());
      PLIMSOLL_TRY_STATUS(emit(skip, 0, -1));
      at = token_.at;
      PLIMSOLL_TRY(right, (this->*operand)());
      PLIMSOLL_TRY_STATUS(boolean(right, at, word));
      type = Type::kBoolean;
    }
    for (const std::size_t jump : jumps)
      program_.code_[jump].argument = static_cast<std::uint16_t>(program_.code_.size());
    return type;
  }
  Result<Type> disjunction() { return chain("or", Op::kSkipIfTrue, &Compiler::conjunction); }
  Result<Type> conjunction() { return chain("and", Op::kSkipIfFalse, &Compiler::negation); }

  Status boolean(Type type, std::size_t at, std::string_view word) {
    if (fits(Type::kBoolean, type)) return {};
    return wrong(at, "'{}' wants a boolean, found a {}", word, name_of(type));
  }

  Result<Type> negation() {
    if (!at_word("not")) return comparison();
    PLIMSOLL_TRY_STATUS(deeper());
    const std::size_t at = token_.at;
    PLIMSOLL_TRY_STATUS(next());
    PLIMSOLL_TRY(type, negation());
    PLIMSOLL_TRY_STATUS(boolean(type, at, "not"));
    PLIMSOLL_TRY_STATUS(emit(Op::kNot, 0, 0));
    --depth_;
    return Type::kBoolean;
  }

  Result<Type> comparison() {
    PLIMSOLL_TRY(left, sum());
    const std::size_t at = token_.at;
    struct Row {
      std::string_view symbol;
      Op op;
    };
    constexpr Row kRows[] = {{"==", Op::kEqual},       {"!=", Op::kNotEqual}, {"<", Op::kLess},
                             {"<=", Op::kLessOrEqual}, {">", Op::kGreater},   {">=", Op::kGreaterOrEqual}};
    for (const Row& row : kRows) {
      if (!at_symbol(row.symbol)) continue;
      PLIMSOLL_TRY_STATUS(next());
      PLIMSOLL_TRY(right, sum());
      const bool orders = row.op != Op::kEqual && row.op != Op::kNotEqual;
      const bool ordered = fits(Type::kNumber, left) || left == Type::kVersion;
      if (!fits(left, right) || left == Type::kList || right == Type::kList || (orders && !ordered))
        return wrong(at, "'{}' cannot compare a {} with a {}", row.symbol, name_of(left), name_of(right));
      PLIMSOLL_TRY_STATUS(emit(row.op, 0, -1));
      return Type::kBoolean;
    }
    const bool negated = at_word("not");
    if (negated) {
      PLIMSOLL_TRY_STATUS(next());
      if (!at_word("in")) return unexpected("'in' after 'not'");
    }
    if (!at_word("in")) return left;
    PLIMSOLL_TRY_STATUS(next());
    PLIMSOLL_TRY(right, sum());
    if (!fits(Type::kList, right)) return wrong(at, "'in' wants a list, found a {}", name_of(right));
    if (left == Type::kList || left == Type::kBoolean)
      return wrong(at, "'in' wants a text or a number, found a {}", name_of(left));
    PLIMSOLL_TRY_STATUS(emit(negated ? Op::kNotIn : Op::kIn, 0, -1));
    return Type::kBoolean;
  }

  struct Operator {
    std::string_view symbol;
    Op op;
  };
  template <std::size_t kCount>
  Result<Type> arithmetic(const Operator (&operators)[kCount], Result<Type> (Compiler::*operand)()) {
    PLIMSOLL_TRY(left, (this->*operand)());
    while (true) {
      const auto* const found = std::find_if(std::begin(operators), std::end(operators),
                                             [this](const Operator& row) { return at_symbol(row.symbol); });
      if (found == std::end(operators)) return left;
      const std::size_t at = token_.at;
      PLIMSOLL_TRY_STATUS(next());
      PLIMSOLL_TRY(right, (this->*operand)());
      if (!fits(Type::kNumber, left) || !fits(Type::kNumber, right))
        return wrong(at, "'{}' wants numbers, found a {} and a {}", found->symbol, name_of(left), name_of(right));
      PLIMSOLL_TRY_STATUS(emit(found->op, 0, -1));
      left = Type::kNumber;
    }
  }
  Result<Type> sum() {
    constexpr Operator kOperators[] = {{"+", Op::kAdd}, {"-", Op::kSubtract}};
    return arithmetic(kOperators, &Compiler::term);
  }
  Result<Type> term() {
    constexpr Operator kOperators[] = {{"*", Op::kMultiply}, {"/", Op::kDivide}, {"%", Op::kModulo}};
    return arithmetic(kOperators, &Compiler::unary);
  }
  Result<Type> unary() {
    if (!at_symbol("-")) return primary();
    PLIMSOLL_TRY_STATUS(deeper());
    const std::size_t at = token_.at;
    PLIMSOLL_TRY_STATUS(next());
    PLIMSOLL_TRY(type, unary());
    if (!fits(Type::kNumber, type)) return wrong(at, "'-' wants a number, found a {}", name_of(type));
    PLIMSOLL_TRY_STATUS(emit(Op::kNegate, 0, 0));
    --depth_;
    return Type::kNumber;
  }

  Status deeper() {
    if (++depth_ > kMaxExpressionDepth) return wrong(token_.at, "the expression is nested too deeply");
    return {};
  }

  Result<Type> list() {
    auto items = std::make_unique<List>();
    PLIMSOLL_TRY_STATUS(next());
    while (!at_symbol("]")) {
      if (!items->empty()) PLIMSOLL_TRY_STATUS(expect(","));
      if (token_.kind == Token::Kind::kNumber) {
        items->push_back(to_text(token_.number));
      } else if (token_.kind == Token::Kind::kText) {
        items->emplace_back(token_.text);
      } else {
        return unexpected("a text or a number in the list");
      }
      PLIMSOLL_TRY_STATUS(next());
    }
    PLIMSOLL_TRY_STATUS(next());
    program_.lists_.push_back(std::move(items));
    PLIMSOLL_TRY_STATUS(constant(Value::of(program_.lists_.back().get())));
    return Type::kList;
  }

  Result<Type> call(const Token& name) {
    const auto& table = functions();
    const auto found =
        std::find_if(table.begin(), table.end(), [&name](const Function& row) { return row.name == name.text; });
    if (found == table.end()) return wrong(name.at, "unknown function '{}'", name.text);
    PLIMSOLL_TRY_STATUS(next());
    for (std::size_t i = 0; i < found->parameters.size(); ++i) {
      if (i > 0) PLIMSOLL_TRY_STATUS(expect(","));
      const std::size_t at = token_.at;
      PLIMSOLL_TRY(type, disjunction());
      if (!fits(found->parameters[i], type))
        return wrong(at, "{}() wants a {}, found a {}", name.text, name_of(found->parameters[i]), name_of(type));
    }
    PLIMSOLL_TRY_STATUS(expect(")"));
    PLIMSOLL_TRY_STATUS(emit(found->op, 0, 1 - static_cast<int>(found->parameters.size())));
    return found->result;
  }

  Result<Type> name() {
    const Token token = token_;
    PLIMSOLL_TRY_STATUS(next());
    if (at_symbol("(")) return call(token);
    if (token.text == "true" || token.text == "false") {
      PLIMSOLL_TRY_STATUS(constant(Value::of(token.text == "true")));
      return Type::kBoolean;
    }
    if (token.text == "and" || token.text == "or" || token.text == "not" || token.text == "in")
      return wrong(token.at, "wanted a value, found '{}'", token.text);
    const auto resolved = resolve_(token.text);
    if (!resolved) return wrong(token.at, "unknown fact '{}'", token.text);
    PLIMSOLL_TRY_STATUS(emit(Op::kFact, resolved->fact, 1));
    return resolved->type;
  }

  Result<Type> primary() {
    PLIMSOLL_TRY_STATUS(deeper());
    auto type = primary_inside();
    --depth_;
    return type;
  }
  Result<Type> primary_inside() {
    switch (token_.kind) {
      case Token::Kind::kNumber: {
        PLIMSOLL_TRY_STATUS(constant(token_.number));
        PLIMSOLL_TRY_STATUS(next());
        return Type::kNumber;
      }
      case Token::Kind::kText: {
        PLIMSOLL_TRY_STATUS(text_constant(token_.text));
        PLIMSOLL_TRY_STATUS(next());
        return Type::kText;
      }
      case Token::Kind::kVersion: {
        PLIMSOLL_TRY_STATUS(constant(version_of(token_.text)));
        PLIMSOLL_TRY_STATUS(next());
        return Type::kVersion;
      }
      case Token::Kind::kName:
        return name();
      case Token::Kind::kSymbol:
        if (token_.text == "[") return list();
        if (token_.text == "(") {
          PLIMSOLL_TRY_STATUS(next());
          PLIMSOLL_TRY(type, disjunction());
          PLIMSOLL_TRY_STATUS(expect(")"));
          return type;
        }
        break;
      case Token::Kind::kEnd:
        break;
    }
    return unexpected("a value");
  }

  std::string_view text_;
  const Resolver& resolve_;
  std::size_t at_ = 0;
  Token token_;
  Program program_;
  int depth_ = 0;  // of the descent
  int depth_of_stack_ = 0;
  std::size_t deepest_ = 0;
};

Result<Program> compile(std::string_view text, const Resolver& resolve) { return Compiler(text, resolve).run(); }

}  // namespace plimsoll::rules
