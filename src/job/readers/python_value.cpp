// SPDX-License-Identifier: Apache-2.0
// Python literals as they stand on the right side of cfg.x = y.
#include "job/readers/python_value.h"

#include <fmt/format.h>

#include "base/text.h"
#include "job/readers/shell_arithmetic.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<Node> read() {
    PLIMSOLL_TRY(value, value_at(0));
    skip_spaces();
    if (at_ != text_.size()) return failure("the end of the value");
    return value;
  }

 private:
  Result<Node> value_at(int depth) {
    if (depth > 32) return bad_input("the value is nested too deeply");
    skip_spaces();
    if (at_ >= text_.size()) return failure("a value");
    const char c = text_[at_];
    if (c == '"' || c == '\'') return string();
    if (c == '[' || c == '(') return repeated(list(c == '[' ? ']' : ')', depth));
    if (c == '{') return dictionary(depth);
    if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.') return number();
    return name(depth);
  }
  Result<Node> string() {
    const char quote = text_[at_++];
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) return bad_input("a quoted value is not closed");
    Node node = text_node(std::string(text_.substr(at_, end - at_)));
    at_ = end + 1;
    return node;
  }
  // Digits may be grouped with underscores; products such as 4 * 1024 are worked out.
  Result<Node> number() {
    std::string text;
    while (at_ < text_.size() && std::string_view(",])}#").find(text_[at_]) == std::string_view::npos) {
      if (text_[at_] != '_') text += text_[at_];
      ++at_;
    }
    const Node plain = document::parse_scalar(text);
    if (plain.is_number()) return plain;
    if (const auto value = text.find("**") == std::string::npos ? evaluate_arithmetic(text) : std::nullopt)
      return integer_node(*value);
    return bad_input(fmt::format("found {}, wanted a number", shown(text_node(text))));
  }
  Result<Node> list(char close, int depth) {
    Node node;
    node.kind = Node::Kind::kArray;
    ++at_;
    while (true) {
      skip_spaces();
      if (accept(close)) return node;
      PLIMSOLL_TRY(item, value_at(depth + 1));
      node.items.push_back(std::move(item));
      skip_spaces();
      if (accept(close)) return node;
      if (!accept(',')) return failure("',' or the end of a list");
    }
  }
  // ["p2p"] * 32
  Result<Node> repeated(Result<Node> listed) {
    constexpr std::int64_t kMaxItems = 10'000;
    if (!listed) return listed;
    skip_spaces();
    if (!accept('*')) return listed;
    std::string digits;
    skip_spaces();
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && digits.size() < 6) digits += text_[at_++];
    const Node times = document::parse_scalar(digits);
    if (!times.is_integer() || times.integer * static_cast<std::int64_t>(listed->items.size()) > kMaxItems)
      return failure("a small number of times");
    const std::vector<Node> once = listed->items;
    listed->items.clear();
    for (std::int64_t i = 0; i < times.integer; ++i)
      listed->items.insert(listed->items.end(), once.begin(), once.end());
    return listed;
  }
  Result<Node> dictionary(int depth) {
    Node node;
    node.kind = Node::Kind::kObject;
    ++at_;
    while (true) {
      skip_spaces();
      if (accept('}')) return node;
      if (at_ >= text_.size() || (text_[at_] != '"' && text_[at_] != '\'')) return failure("a quoted key");
      PLIMSOLL_TRY(key, string());
      skip_spaces();
      if (!accept(':')) return failure("':'");
      PLIMSOLL_TRY(item, value_at(depth + 1));
      node.members.emplace_back(key.text, std::move(item));
      skip_spaces();
      if (accept('}')) return node;
      if (!accept(',')) return failure("',' or '}'");
    }
  }
  // True, None, torch.bfloat16, bf16_mixed(), LoRA(dim=8)
  Result<Node> name(int depth) {
    const std::size_t start = at_;
    const auto is_part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    };
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    const std::string word(text_.substr(start, at_ - start));
    if (word.empty()) return failure("a value");
    if (word == "True" || word == "False") return bool_node(word == "True");
    if (word == "None") return Node{};
    skip_spaces();
    if (!accept('(')) return text_node(word);
    Node call;
    call.kind = Node::Kind::kObject;
    call.members.emplace_back("_target_", text_node(word));
    while (true) {
      skip_spaces();
      if (accept(')')) return call;
      // The one function whose argument has no name; it is kept as Bridge writes it: _args_.
      const bool is_lookup = word.ends_with("get_mixed_precision_config");
      if (is_lookup && at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
        PLIMSOLL_TRY(item, value_at(depth + 1));
        if (call.find("_args_") == nullptr) {
          Node list;
          list.kind = Node::Kind::kArray;
          call.members.emplace_back("_args_", std::move(list));
        }
        for (auto& member : call.members)
          if (member.first == "_args_") member.second.items.push_back(item);
        skip_spaces();
        if (accept(')')) return call;
        if (!accept(',')) return failure("',' or ')'");
        continue;
      }
      const std::size_t key_start = at_;
      while (at_ < text_.size() && is_part(text_[at_])) ++at_;
      const std::string key(text_.substr(key_start, at_ - key_start));
      skip_spaces();
      if (key.empty() || !accept('=')) return failure("keyword arguments only");
      PLIMSOLL_TRY(item, value_at(depth + 1));
      call.members.emplace_back(key, std::move(item));
      skip_spaces();
      if (accept(')')) return call;
      if (!accept(',')) return failure("',' or ')'");
    }
  }
  bool accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  [[nodiscard]] tl::unexpected<Error> failure(std::string_view want) const {
    return bad_input(
        fmt::format("wanted {} at {}", want, shown(text_node(std::string(text_.substr(std::min(at_, text_.size())))))));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Node> parse_python(std::string_view text) { return Reader(text).read(); }

}  // namespace plimsoll::job
