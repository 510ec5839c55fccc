// SPDX-License-Identifier: Apache-2.0
// A parsed configuration file: one tree type for JSON, TOML and YAML, so that every reader of job/
// works on the same thing. Members keep the file's order; duplicate keys are an error of the parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace plimsoll::document {

// Deeper nesting than this is an attack or a mistake, not a configuration.
inline constexpr int kMaxDepth = 64;

struct Node {
  enum class Kind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

  // Defined in node.cpp: a pair of a string and this type is only complete after the class, and clang
  // refuses to generate these before.
  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<Node> items;                            // kArray
  std::vector<std::pair<std::string, Node>> members;  // kObject
  int line = 0;                                       // 1-based where the format gives it, else 0

  [[nodiscard]] bool is_null() const { return kind == Kind::kNull; }
  [[nodiscard]] bool is_bool() const { return kind == Kind::kBool; }
  [[nodiscard]] bool is_integer() const { return kind == Kind::kInteger; }
  [[nodiscard]] bool is_number() const { return kind == Kind::kInteger || kind == Kind::kReal; }
  [[nodiscard]] bool is_string() const { return kind == Kind::kString; }
  [[nodiscard]] bool is_array() const { return kind == Kind::kArray; }
  [[nodiscard]] bool is_object() const { return kind == Kind::kObject; }
  [[nodiscard]] double as_real() const { return kind == Kind::kInteger ? static_cast<double>(integer) : real; }

  // The member of that name, or nullptr. A null value counts as present.
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
};

// "an integer", "a string", ... for messages.
[[nodiscard]] std::string_view kind_name(Node::Kind kind);

// The value as a person would write it on a command line: true, 12, 0.5, [a, b].
[[nodiscard]] std::string to_text(const Node& node);

// The tree as one line of JSON; a number that JSON cannot hold becomes null.
[[nodiscard]] std::string to_json(const Node& node);

[[nodiscard]] Result<Node> parse_json(std::string_view text);
[[nodiscard]] Result<Node> parse_toml(std::string_view text);
[[nodiscard]] Result<Node> parse_yaml(std::string_view text);

// A scalar written without a format around it, as on a command line: "true", "12", "1e-4", "[a, [b, c]]",
// "null". Lists may nest up to kMaxDepth; what is none of these is a string, also "nan" and "inf".
[[nodiscard]] Node parse_scalar(std::string_view text);

}  // namespace plimsoll::document
