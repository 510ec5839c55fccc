// SPDX-License-Identifier: Apache-2.0
// The language of conditions. One pass turns text into a program for a small stack machine: no recursion,
// no allocation and only forward jumps when it runs, so its cost is bounded by its length.
//
//   tp > 1 and not sequence_parallel            boolean:    and, or, not
//   seq_length % (2 * cp) != 0                  integers:   + - * / %, / rounds down
//   recompute_granularity in ["full"]           membership: in, not in
//   set(moe_expert_capacity_factor)             presence
//   te_version < v2.10                          versions
//   env.NAME, given.KEY                         the environment; a key as a file or flag gave it
//
// A fact that nobody knows is none. Arithmetic with none, division by zero and overflow give none; every
// comparison with none is false, != included, so that what is not known violates no rule.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rules/value.h"

namespace plimsoll::rules {

inline constexpr int kMaxExpressionDepth = 32;       // parentheses, lists and calls
inline constexpr std::size_t kMaxProgram = 2048;     // instructions
inline constexpr std::size_t kMaxStack = 32;         // values
inline constexpr std::size_t kMaxExpression = 8192;  // bytes of text

enum class Op : std::uint8_t {
  kConstant,
  kFact,
  kNot,
  kNegate,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
  kSet,
  kLength,
  kSubset,
  kIntersects,
  kContains,
  kLcm,
  kMin,
  kMax,
  kProduct,
  kDefault,
  kSkipIfFalse,  // and: keeps false and jumps, else drops it
  kSkipIfTrue,   // or
};

struct Instruction {
  Op op;
  std::uint16_t argument = 0;  // constant, fact or jump target
};

class Program {
 public:
  [[nodiscard]] const std::vector<Instruction>& code() const { return code_; }
  [[nodiscard]] const std::vector<Value>& constants() const { return constants_; }
  [[nodiscard]] Type type() const { return type_; }
  [[nodiscard]] bool empty() const { return code_.empty(); }

 private:
  friend class Compiler;

  std::vector<Instruction> code_;
  std::vector<Value> constants_;
  std::vector<std::unique_ptr<std::string>> texts_;  // what constants point at; stays in place when moved
  std::vector<std::unique_ptr<List>> lists_;
  Type type_ = Type::kAny;
};

struct ResolvedName {
  std::uint16_t fact = 0;
  Type type = Type::kAny;
};
using Resolver = std::function<std::optional<ResolvedName>(std::string_view name)>;

// Errors name the position: "at 14: wanted ')', found 'x'".
[[nodiscard]] Result<Program> compile(std::string_view text, const Resolver& resolve);

class FactSource;

// Runs programs; one machine serves any number of them, one after the other.
class Machine {
 public:
  [[nodiscard]] Value run(const Program& program, const FactSource& facts) {
    return run(program.code(), program.constants(), facts);
  }
  [[nodiscard]] Value run(std::span<const Instruction> code, std::span<const Value> constants, const FactSource& facts);
  // Whether the program can answer true for some values of the facts that vary.
  [[nodiscard]] bool can_be_true(const Program& program, const FactSource& facts);

 private:
  std::array<Value, kMaxStack> stack_;
};

}  // namespace plimsoll::rules
