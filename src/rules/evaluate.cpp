// SPDX-License-Identifier: Apache-2.0
// The stack machine. A planner runs it for every rule of every candidate, so it touches nothing but the
// program, the stack and the facts that the program asks for.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/checked.h"
#include "document/node.h"
#include "rules/expression.h"
#include "rules/facts.h"

namespace plimsoll::rules {

namespace {

using Kind = Value::Kind;

bool is_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return a.kind() == Kind::kInteger && b.kind() == Kind::kInteger ? a.integer == b.integer
                                                                    : a.as_real() == b.as_real();
  if (a.kind() != b.kind()) return false;
  if (a.kind() == Kind::kText) return a.view() == b.view();
  return a.kind() == Kind::kBoolean && a.integer == b.integer;
}

bool is_less(const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) return false;
  return a.kind() == Kind::kInteger && b.kind() == Kind::kInteger ? a.integer < b.integer : a.as_real() < b.as_real();
}

Value floor_divided(std::int64_t a, std::int64_t b, bool wants_rest) {
  if (b == 0 || b == -1) return b == 0 ? Value{} : Value::of(wants_rest ? std::int64_t{0} : -a);
  std::int64_t quotient = a / b;
  std::int64_t rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
    --quotient;
  }
  return Value::of(wants_rest ? rest : quotient);
}

Value arithmetic(Op op, const Value& a, const Value& b) {
  if (!a.is_number() || !b.is_number()) return {};
  if (a.kind() == Kind::kReal || b.kind() == Kind::kReal) {
    const double x = a.as_real();
    const double y = b.as_real();
    switch (op) {
      case Op::kAdd:
        return Value::of(x + y);
      case Op::kSubtract:
        return Value::of(x - y);
      case Op::kMultiply:
        return Value::of(x * y);
      case Op::kMin:
        return Value::of(std::min(x, y));
      case Op::kMax:
        return Value::of(std::max(x, y));
      default:
        return op == Op::kDivide && y != 0 ? Value::of(x / y) : Value{};
    }
  }
  // Beyond this no size of a job is meant, and negating or adding two stays in range.
  constexpr std::int64_t kLargest = std::int64_t{1} << 61;
  if (std::abs(a.integer) > kLargest || std::abs(b.integer) > kLargest) return {};
  switch (op) {
    case Op::kAdd:
      return Value::of(a.integer + b.integer);
    case Op::kSubtract:
      return Value::of(a.integer - b.integer);
    case Op::kMultiply: {
      const auto product = checked_mul(a.integer, b.integer);
      return product ? Value::of(*product) : Value{};
    }
    case Op::kDivide:
      return floor_divided(a.integer, b.integer, false);
    case Op::kModulo:
      return floor_divided(a.integer, b.integer, true);
    case Op::kMin:
      return Value::of(std::min(a.integer, b.integer));
    case Op::kMax:
      return Value::of(std::max(a.integer, b.integer));
    case Op::kLcm: {
      if (a.integer <= 0 || b.integer <= 0) return {};
      const auto product = checked_mul(a.integer / std::gcd(a.integer, b.integer), b.integer);
      return product ? Value::of(*product) : Value{};
    }
    default:
      return {};
  }
}

bool holds(const List& list, std::string_view word) { return std::find(list.begin(), list.end(), word) != list.end(); }

bool holds(const Value& list, const Value& item) {
  if (item.kind() == Kind::kText) return holds(*list.list, item.view());
  return holds(*list.list, to_text(item));
}

bool are_lists(const Value& a, const Value& b) { return a.kind() == Kind::kList && b.kind() == Kind::kList; }

// The product of the numbers in a list of words; none where one is not a number.
Value product(const Value& value) {
  if (value.kind() != Kind::kList) return {};
  Value result = Value::of(std::int64_t{1});
  for (const std::string& word : *value.list) {
    const document::Node number = document::parse_scalar(word);
    if (!number.is_integer()) return {};
    result = arithmetic(Op::kMultiply, result, Value::of(number.integer));
  }
  return result;
}

// Everything that takes two values and leaves one.
Value combined(Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEqual:
      return Value::of(is_equal(a, b));
    case Op::kNotEqual:
      return Value::of(!a.is_none() && !b.is_none() && !is_equal(a, b));
    case Op::kLess:
      return Value::of(is_less(a, b));
    case Op::kLessOrEqual:
      return Value::of(is_less(a, b) || (a.is_number() && is_equal(a, b)));
    case Op::kGreater:
      return Value::of(is_less(b, a));
    case Op::kGreaterOrEqual:
      return Value::of(is_less(b, a) || (a.is_number() && is_equal(a, b)));
    case Op::kIn:
      return Value::of(b.kind() == Kind::kList && !a.is_none() && holds(b, a));
    case Op::kNotIn:
      return Value::of(b.kind() == Kind::kList && !a.is_none() && !holds(b, a));
    case Op::kSubset:
      return Value::of(!are_lists(a, b) || std::all_of(a.list->begin(), a.list->end(),
                                                       [&b](const std::string& word) { return holds(*b.list, word); }));
    case Op::kIntersects:
      return Value::of(are_lists(a, b) && std::any_of(a.list->begin(), a.list->end(),
                                                      [&b](const std::string& word) { return holds(*b.list, word); }));
    case Op::kDefault:
      return a.is_none() ? b : a;
    case Op::kContains:
      return Value::of(a.kind() == Kind::kText && b.kind() == Kind::kText &&
                       a.view().find(b.view()) != std::string_view::npos);
    default:
      return arithmetic(op, a, b);
  }
}

Value changed(Op op, const Value& value) {
  switch (op) {
    case Op::kNot:
      return Value::of(!value.is_true());
    case Op::kSet:
      return Value::of(!value.is_none());
    case Op::kLength:
      return value.kind() == Kind::kList ? Value::of(static_cast<std::int64_t>(value.list->size())) : Value{};
    case Op::kNegate:
      return arithmetic(Op::kSubtract, Value::of(std::int64_t{0}), value);
    default:
      return product(value);
  }
}

// Everything but loads and jumps: takes its operands from the stack and leaves the result there.
void apply(Op op, std::array<Value, kMaxStack>& stack, std::size_t& top) {
  switch (op) {
    case Op::kNot:
    case Op::kNegate:
    case Op::kSet:
    case Op::kLength:
    case Op::kProduct:
      stack[top - 1] = changed(op, stack[top - 1]);
      break;
    default:
      --top;
      stack[top - 1] = combined(op, stack[top - 1], stack[top]);
      break;
  }
}

bool is_unary(Op op) {
  return op == Op::kNot || op == Op::kNegate || op == Op::kSet || op == Op::kLength || op == Op::kProduct;
}

}  // namespace

Value Machine::run(std::span<const Instruction> code, std::span<const Value> constants, const FactSource& facts) {
  std::array<Value, kMaxStack>& stack = stack_;  // the compiler refuses programs that need more
  std::size_t top = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const Instruction instruction = code[at];
    switch (instruction.op) {
      case Op::kConstant:
        stack[top++] = constants[instruction.argument];
        break;
      case Op::kFact:
        stack[top++] = facts.load(instruction.argument);
        break;
      case Op::kSkipIfFalse:
      case Op::kSkipIfTrue: {
        const bool flag = stack[top - 1].is_true();
        if (flag == (instruction.op == Op::kSkipIfTrue)) {
          stack[top - 1] = Value::of(flag);
          at = std::size_t{instruction.argument} - 1;
        } else {
          --top;
        }
        break;
      }
      default:
        apply(instruction.op, stack, top);
        break;
    }
  }
  return top == 0 ? Value{} : stack[0];
}

bool Machine::can_be_true(const Program& program, const FactSource& facts) {
  std::array<bool, kMaxStack> is_open{};  // the value at this place depends on facts that vary
  struct Pending {
    std::size_t target;
    bool decides;  // the right side's value that settles the whole: false for and, true for or
  };
  std::vector<Pending> pending;  // jumps that may or may not be taken
  std::size_t top = 0;
  const std::vector<Instruction>& code = program.code();
  // A right side that leaves the whole open makes it open, whatever it is itself.
  const auto join_at = [&](std::size_t at) {
    while (!pending.empty() && pending.back().target == at) {
      const bool settles = !is_open[top - 1] && stack_[top - 1].is_true() == pending.back().decides;
      is_open[top - 1] = !settles;
      pending.pop_back();
    }
  };
  for (std::size_t at = 0; at < code.size(); ++at) {
    join_at(at);
    const Instruction instruction = code[at];
    switch (instruction.op) {
      case Op::kConstant:
        is_open[top] = false;
        stack_[top++] = program.constants()[instruction.argument];
        break;
      case Op::kFact:
        is_open[top] = facts.varies(instruction.argument);
        stack_[top] = is_open[top] ? Value{} : facts.load(instruction.argument);
        ++top;
        break;
      case Op::kSkipIfFalse:
      case Op::kSkipIfTrue: {
        const bool skips_on = instruction.op == Op::kSkipIfTrue;
        if (is_open[top - 1]) {
          pending.push_back({instruction.argument, skips_on});
          --top;
        } else if (stack_[top - 1].is_true() == skips_on) {
          stack_[top - 1] = Value::of(skips_on);
          at = std::size_t{instruction.argument} - 1;
        } else {
          --top;
        }
        break;
      }
      default: {
        const bool unary = is_unary(instruction.op);
        bool open = is_open[top - 1] || (!unary && is_open[top - 2]);
        // Nothing known beside something unknown is still nothing: no comparison with it is true.
        const auto is_nothing = [&](std::size_t place) { return !is_open[place] && stack_[place].is_none(); };
        if (!unary && instruction.op != Op::kDefault && (is_nothing(top - 1) || is_nothing(top - 2))) open = false;
        apply(instruction.op, stack_, top);
        is_open[top - 1] = open;
        break;
      }
    }
  }
  join_at(code.size());
  return top > 0 && (is_open[0] || stack_[0].is_true());
}

}  // namespace plimsoll::rules
