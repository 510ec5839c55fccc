// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.h"

#include <cctype>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace plimsoll {

namespace {

using Step = NamePattern::Step;
using Op = NamePattern::Op;
using Steps = std::vector<Step>;
using Bytes = std::bitset<256>;

constexpr std::size_t kLongest = 1000;  // of an expression
constexpr int kDeepest = 16;            // groups in one another

std::size_t code(char c) { return static_cast<unsigned char>(c); }

void append(Steps& to, Steps from) { to.insert(to.end(), from.begin(), from.end()); }

Step jump(std::ptrdiff_t by) { return {Op::kJump, static_cast<std::int32_t>(by), 0, {}}; }
Step fork(std::ptrdiff_t first, std::ptrdiff_t second) {
  return {Op::kFork, static_cast<std::int32_t>(first), static_cast<std::int32_t>(second), {}};
}

// Digits, word characters or blanks for \d, \w and \s.
std::optional<Bytes> named_class(char letter) {
  Bytes bytes;
  for (int c = 0; c < 256; ++c) {
    const bool is = letter == 'd'   ? std::isdigit(c) != 0
                    : letter == 'w' ? c < 128 && (std::isalnum(c) != 0 || c == '_')
                                    : std::isspace(c) != 0;
    bytes.set(static_cast<std::size_t>(c), is);
  }
  if (letter != 'd' && letter != 'w' && letter != 's') return std::nullopt;
  return bytes;
}

// A recursive descent whose depth is bounded. The first problem sticks.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Steps read() {
    Steps steps = alternatives(0);
    if (ok() && at_ < text_.size()) fail("a closing bracket without an opening one");
    return steps;
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  [[nodiscard]] bool ok() const { return problem_.empty(); }
  [[nodiscard]] bool more() const { return ok() && at_ < text_.size(); }
  [[nodiscard]] bool sees(char c) const { return more() && text_[at_] == c; }
  bool takes(char c) {
    if (!sees(c)) return false;
    ++at_;
    return true;
  }
  void fail(std::string_view what) {
    if (ok()) problem_ = what;
  }

  Steps alternatives(int depth) {
    Steps left = sequence(depth);
    while (takes('|')) {
      Steps right = sequence(depth);
      Steps both{fork(1, std::ssize(left) + 2)};
      const auto over = std::ssize(right) + 1;
      append(both, std::move(left));
      both.push_back(jump(over));
      append(both, std::move(right));
      left = std::move(both);
    }
    return left;
  }

  Steps sequence(int depth) {
    Steps steps;
    while (more() && !sees('|') && !sees(')')) append(steps, repeated(atom(depth)));
    return steps;
  }

  Steps repeated(Steps once) {
    const auto length = std::ssize(once);
    Steps steps;
    if (takes('*')) {
      steps.push_back(fork(1, length + 2));
      append(steps, std::move(once));
      steps.push_back(jump(-(length + 1)));
    } else if (takes('+')) {
      steps = std::move(once);
      steps.push_back(fork(-length, 1));
    } else if (takes('?')) {
      steps.push_back(fork(1, length + 1));
      append(steps, std::move(once));
    } else {
      if (sees('{')) fail("counted repetition");
      return once;
    }
    takes('?');  // the shortest match first: the same names match
    if (sees('*') || sees('+') || sees('{')) fail("a repetition of a repetition");
    return steps;
  }

  Steps atom(int depth) {
    if (takes('(')) return group(depth);
    if (takes('[')) return {{Op::kByte, 1, 1, bracketed()}};
    if (takes('^')) return {{Op::kBegin, 1, 1, {}}};
    if (takes('$')) return {{Op::kEnd, 1, 1, {}}};
    Bytes bytes;
    if (takes('.')) return {{Op::kByte, 1, 1, bytes.set()}};
    if (sees('*') || sees('+') || sees('?')) fail("a repetition of nothing");
    bytes = sees('\\') ? escaped() : bytes.set(code(text_[at_++]));
    return {{Op::kByte, 1, 1, bytes}};
  }

  Steps group(int depth) {
    if (depth >= kDeepest) fail("groups too deep in one another");
    if (takes('?') && !takes(':')) fail("a group that looks around or has a name");
    Steps steps = ok() ? alternatives(depth + 1) : Steps{};
    if (!takes(')')) fail("a group that is not closed");
    return steps;
  }

  Bytes escaped() {
    ++at_;
    if (!more()) {
      fail("a backslash at the end");
      return {};
    }
    const char letter = text_[at_++];
    if (const auto known = named_class(letter)) return *known;
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) fail("an escaped letter or digit");
    return Bytes{}.set(code(letter));
  }

  Bytes bracketed() {
    const bool inverted = takes('^');
    Bytes bytes;
    for (bool first = true; more() && (first || !sees(']')); first = false) {
      const char low = text_[at_];
      if (low == '\\') {
        bytes |= escaped();
        continue;
      }
      ++at_;
      char high = low;
      if (sees('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        high = text_[at_ + 1];
        at_ += 2;
      }
      if (code(high) < code(low)) fail("a range that ends before it begins");
      for (std::size_t c = code(low); c <= code(high); ++c) bytes.set(c);
    }
    if (!takes(']')) fail("a class that is not closed");
    return inverted ? ~bytes : bytes;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string problem_;
};

}  // namespace

Result<NamePattern> NamePattern::read(std::string_view text) {
  if (text.size() > kLongest)
    return bad_input(fmt::format("an expression of {} characters; at most {} are read", text.size(), kLongest));
  Reader reader(text);
  NamePattern pattern;
  pattern.steps_ = reader.read();
  if (!reader.problem().empty())
    return bad_input(fmt::format("'{}' has {}, which is not understood", text.substr(0, 60), reader.problem()));
  return pattern;
}

bool NamePattern::starts(std::string_view name) const {
  std::vector<std::size_t> now, next, open;
  std::vector<std::size_t> seen(steps_.size() + 1, 0);  // the place in the name, plus one, that a step was entered at
  bool matched = false;
  const auto enter = [&](std::size_t step, std::size_t place, std::vector<std::size_t>& to) {
    open.assign(1, step);
    while (!open.empty()) {
      const std::size_t i = open.back();
      open.pop_back();
      if (seen[i] == place + 1) continue;
      seen[i] = place + 1;
      if (i == steps_.size()) {
        matched = true;
        return;
      }
      const Step& s = steps_[i];
      const auto target = [i](std::int32_t by) {
        return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(i) + by);
      };
      if (s.op == Op::kByte) to.push_back(i);
      if (s.op == Op::kFork) open.push_back(target(s.second));
      if (s.op == Op::kFork || s.op == Op::kJump) open.push_back(target(s.first));
      if (s.op == Op::kBegin && place == 0) open.push_back(i + 1);
      if (s.op == Op::kEnd && place == name.size()) open.push_back(i + 1);
    }
  };
  enter(0, 0, now);
  for (std::size_t place = 0; place < name.size() && !matched && !now.empty(); ++place) {
    next.clear();
    for (const std::size_t i : now)
      if (steps_[i].bytes[code(name[place])]) enter(i + 1, place + 1, next);
    std::swap(now, next);
  }
  return matched;
}

}  // namespace plimsoll
