// SPDX-License-Identifier: Apache-2.0
// What an expression computes with: sixteen bytes that own nothing. Texts and lists point into the job,
// into a Checker or into the rule's own constants, which all outlive the evaluation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::rules {

using List = std::vector<std::string>;

// Types as far as they are known when a rule is read; kAny fits everything.
enum class Type : std::uint8_t { kAny, kBoolean, kNumber, kText, kList, kVersion };

[[nodiscard]] std::string_view name_of(Type type);

struct Value {
  enum class Kind : std::uint8_t { kNone, kBoolean, kInteger, kReal, kText, kList };

  // The kind in the lowest byte and the size of a text above it: one word, because the machine copies values
  // as words, and a word that was written in pieces is slow to read back.
  std::uint64_t tag = 0;
  union {
    std::int64_t integer = 0;  // kBoolean, too: 0 or 1
    double real;
    const char* text;
    const List* list;
  };

  [[nodiscard]] Kind kind() const { return static_cast<Kind>(tag & 0xff); }

  [[nodiscard]] static Value of(bool flag) {
    Value value(Kind::kBoolean);
    value.integer = flag ? 1 : 0;
    return value;
  }
  [[nodiscard]] static Value of(std::int64_t number) {
    Value value(Kind::kInteger);
    value.integer = number;
    return value;
  }
  [[nodiscard]] static Value of(double number) {
    Value value(Kind::kReal);
    value.real = number;
    return value;
  }
  [[nodiscard]] static Value of(std::string_view text) {
    Value value(Kind::kText, text.size());
    value.text = text.data();
    return value;
  }
  [[nodiscard]] static Value of(const char* text) { return of(std::string_view(text)); }
  [[nodiscard]] static Value of(const List* list) {
    Value value(Kind::kList);
    value.list = list;
    return value;
  }

  Value() = default;
  explicit Value(Kind kind, std::uint64_t size = 0) : tag(static_cast<std::uint64_t>(kind) | size << 8) {}

  [[nodiscard]] bool is_none() const { return kind() == Kind::kNone; }
  [[nodiscard]] bool is_true() const { return kind() == Kind::kBoolean && integer != 0; }
  [[nodiscard]] bool is_number() const { return kind() == Kind::kInteger || kind() == Kind::kReal; }
  [[nodiscard]] double as_real() const { return kind() == Kind::kReal ? real : static_cast<double>(integer); }
  [[nodiscard]] std::string_view view() const { return {text, static_cast<std::size_t>(tag >> 8)}; }
};
static_assert(sizeof(Value) == 16);

// A version as a number that orders like the version: 2.10.1 is 2'010'001. Parts stop at the first that is
// not a number ("2.7.0.dev0" is 2.7.0); none where there is no number at all.
[[nodiscard]] Value version_of(std::string_view text);

// For messages: true, 12, 0.5, a, [a, b]; "none" for nothing.
[[nodiscard]] std::string to_text(const Value& value);

}  // namespace plimsoll::rules
