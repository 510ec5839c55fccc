// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace plimsoll {

namespace {

using Set = std::bitset<256>;

enum class Op : std::uint8_t { kSet, kSplit, kJump, kBegin, kEnd, kBoundary, kMatch };

struct Instruction {
  Op op = Op::kMatch;
  std::uint32_t set = 0;  // kSet: index of the characters
  std::int32_t a = 0;     // kSplit, kJump: targets, relative to this instruction
  std::int32_t b = 0;
};

using Steps = std::vector<Instruction>;

constexpr std::size_t kMostInstructions = 2'000;  // repeats of repeats grow: more names no modules
constexpr int kDeepest = 100;                     // groups in groups
constexpr int kMostRepeats = 500;

Set range_of(unsigned char low, unsigned char high) {
  Set set;
  for (unsigned c = low; c <= high; ++c) set.set(c);
  return set;
}

Set class_of(char letter) {
  Set set;
  switch (letter) {
    case 'd':
    case 'D':
      set = range_of('0', '9');
      break;
    case 'w':
    case 'W':
      set = range_of('0', '9') | range_of('a', 'z') | range_of('A', 'Z');
      set.set('_');
      break;
    default:
      for (const char c : {' ', '\t', '\n', '\r', '\f', '\v'}) set.set(static_cast<unsigned char>(c));
  }
  return letter == 'D' || letter == 'W' || letter == 'S' ? ~set : set;
}

bool is_class(char letter) {
  return letter == 'd' || letter == 'D' || letter == 'w' || letter == 'W' || letter == 's' || letter == 'S';
}

}  // namespace

struct NamePattern::Program {
  Steps code;
  std::vector<Set> sets;
};

namespace {

class Parser {
 public:
  Parser(std::string_view text, std::vector<Set>& sets) : text_(text), sets_(sets) {}

  Result<Steps> parse() {
    PLIMSOLL_TRY(code, alternatives(0));
    if (at_ < text_.size()) return wrong("an unmatched ')'");
    return code;
  }

 private:
  tl::unexpected<Error> wrong(std::string_view what) const {
    return bad_input(fmt::format("the pattern '{}' has {} at place {}", text_.substr(0, 80), what, at_ + 1));
  }
  bool more() const { return at_ < text_.size(); }
  bool next_is(char c) const { return more() && text_[at_] == c; }

  Instruction set(const Set& characters) {
    sets_.push_back(characters);
    return {Op::kSet, static_cast<std::uint32_t>(sets_.size() - 1), 0, 0};
  }

  Result<Steps> alternatives(int depth) {
    if (depth > kDeepest) return wrong("too many groups in groups");
    PLIMSOLL_TRY(code, sequence(depth));
    while (next_is('|')) {
      ++at_;
      PLIMSOLL_TRY(other, sequence(depth));
      // split to both; the first jumps over the second
      Steps joined;
      joined.push_back({Op::kSplit, 0, 1, static_cast<std::int32_t>(code.size()) + 2});
      joined.insert(joined.end(), code.begin(), code.end());
      joined.push_back({Op::kJump, 0, static_cast<std::int32_t>(other.size()) + 1, 0});
      joined.insert(joined.end(), other.begin(), other.end());
      code = std::move(joined);
      if (code.size() > kMostInstructions) return wrong("too many parts");
    }
    return code;
  }

  Result<Steps> sequence(int depth) {
    Steps code;
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      PLIMSOLL_TRY(one, atom(depth));
      PLIMSOLL_TRY(repeated, repeats(std::move(one)));
      code.insert(code.end(), repeated.begin(), repeated.end());
      if (code.size() > kMostInstructions) return wrong("too many parts");
    }
    return code;
  }

  Result<Steps> atom(int depth) {
    const char c = text_[at_];
    if (c == '(') return group(depth);
    if (c == '[') return choice();
    if (c == '*' || c == '+' || c == '?') return wrong("nothing to repeat");
    ++at_;
    if (c == '.') {
      Set any;
      any.set();
      any.reset('\n');
      return Steps{set(any)};
    }
    if (c == '^') return Steps{{Op::kBegin, 0, 0, 0}};
    if (c == '$') return Steps{{Op::kEnd, 0, 0, 0}};
    if (c == '\\' && next_is('b')) {
      ++at_;
      return Steps{{Op::kBoundary, 0, 0, 0}};
    }
    if (c != '\\') return Steps{set(range_of(static_cast<unsigned char>(c), static_cast<unsigned char>(c)))};
    if (!more()) return wrong("a '\\' with nothing after it");
    PLIMSOLL_TRY(escape, escaped());
    return Steps{set(escape)};
  }

  // After the backslash.
  Result<Set> escaped() {
    const char letter = text_[at_];
    if (is_class(letter)) {
      ++at_;
      return class_of(letter);
    }
    const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    if (is_letter || (letter >= '0' && letter <= '9')) return wrong("an escape that is not modelled");
    ++at_;
    return range_of(static_cast<unsigned char>(letter), static_cast<unsigned char>(letter));
  }

  Result<Steps> group(int depth) {
    ++at_;
    if (next_is('?')) {
      if (text_.substr(at_, 2) != "?:") return wrong("a look ahead or behind or a named group, which is not modelled,");
      at_ += 2;
    }
    PLIMSOLL_TRY(code, alternatives(depth + 1));
    if (!next_is(')')) return wrong("a '(' without its ')'");
    ++at_;
    return code;
  }

  Result<Steps> choice() {
    ++at_;
    const bool negated = next_is('^');
    if (negated) ++at_;
    Set characters;
    bool first = true;
    while (more() && (text_[at_] != ']' || first)) {
      first = false;
      const auto low = static_cast<unsigned char>(text_[at_]);
      if (low == '\\') {
        ++at_;
        if (!more()) break;
        PLIMSOLL_TRY(escape, escaped());
        characters |= escape;
        continue;
      }
      ++at_;
      if (next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        const auto high = static_cast<unsigned char>(text_[at_ + 1]);
        if (high < low) return wrong("a range that runs backwards");
        characters |= range_of(low, high);
        at_ += 2;
        continue;
      }
      characters.set(low);
    }
    if (!more()) return wrong("a '[' without its ']'");
    ++at_;
    return Steps{set(negated ? ~characters : characters)};
  }

  // {m}, {m,}, {,n} and {m,n}; anything else in braces stands for itself, as in Python.
  bool read_counts(int& low, int& high) {
    std::size_t at = at_ + 1;
    const auto number = [&](int& value) {
      bool any = false;
      for (value = 0; at < text_.size() && text_[at] >= '0' && text_[at] <= '9'; ++at, any = true)
        value = std::min(10 * value + (text_[at] - '0'), kMostRepeats + 1);
      return any;
    };
    const bool has_low = number(low);
    bool has_high = has_low;
    high = low;
    if (at < text_.size() && text_[at] == ',') {
      ++at;
      has_high = number(high);
      if (!has_high) high = -1;
      if (!has_low && !has_high) return false;
    } else if (!has_low) {
      return false;
    }
    if (at >= text_.size() || text_[at] != '}') return false;
    at_ = at + 1;
    return true;
  }

  Result<Steps> repeats(Steps one) {
    while (more()) {
      const char c = text_[at_];
      int low = 0;
      int high = -1;  // without end
      if (c == '*') {
        ++at_;
      } else if (c == '+') {
        low = 1;
        ++at_;
      } else if (c == '?') {
        high = 1;
        ++at_;
      } else if (c != '{' || !read_counts(low, high)) {
        break;
      }
      if (low > kMostRepeats || high > kMostRepeats || (high >= 0 && high < low))
        return wrong("a bad count of repeats");
      if (next_is('?')) ++at_;  // lazy: another match, the same answer
      PLIMSOLL_TRY(code, repeated(one, low, high));
      one = std::move(code);
    }
    return one;
  }

  Result<Steps> repeated(const Steps& one, int low, int high) {
    const std::size_t copies = static_cast<std::size_t>(high < 0 ? low + 1 : high);
    if ((one.size() + 2) * (copies + 1) > kMostInstructions) return wrong("too many repeats");
    Steps code;
    const auto length = static_cast<std::int32_t>(one.size());
    for (int i = 0; i < low; ++i) code.insert(code.end(), one.begin(), one.end());
    if (high < 0) {  // split over the loop, or into it and back
      code.push_back({Op::kSplit, 0, 1, length + 2});
      code.insert(code.end(), one.begin(), one.end());
      code.push_back({Op::kJump, 0, -length - 1, 0});
      return code;
    }
    for (int i = low; i < high; ++i) {
      code.push_back({Op::kSplit, 0, 1, length + 1});
      code.insert(code.end(), one.begin(), one.end());
    }
    return code;
  }

  std::string_view text_;
  std::vector<Set>& sets_;
  std::size_t at_ = 0;
};

// The places of a program that a text has brought it to, each once.
class Threads {
 public:
  Threads(const Steps& code, std::string_view text) : code_(&code), text_(text), seen_(code.size(), 0) {}

  void begin_step() {
    ++step_;
    list_.clear();
  }
  void add(std::size_t pc, std::size_t at) {
    pending_.assign(1, pc);
    while (!pending_.empty()) {
      const std::size_t here = pending_.back();
      pending_.pop_back();
      if (seen_[here] == step_) continue;
      seen_[here] = step_;
      const Instruction& i = (*code_)[here];
      const auto to = [&](std::int32_t by) {
        pending_.push_back(static_cast<std::size_t>(static_cast<std::int64_t>(here) + by));
      };
      switch (i.op) {
        case Op::kSplit:
          to(i.b);
          to(i.a);
          break;
        case Op::kJump:
          to(i.a);
          break;
        case Op::kBegin:
          if (at == 0) to(1);
          break;
        case Op::kEnd:
          if (at == text_.size()) to(1);
          break;
        case Op::kBoundary:
          if (is_word(at) != (at > 0 && is_word(at - 1))) to(1);
          break;
        default:
          list_.push_back(here);
      }
    }
  }
  const std::vector<std::size_t>& list() const { return list_; }

 private:
  bool is_word(std::size_t at) const {
    return at < text_.size() && class_of('w').test(static_cast<unsigned char>(text_[at]));
  }

  const Steps* code_;
  std::string_view text_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t step_ = 0;
  std::vector<std::size_t> list_, pending_;
};

}  // namespace

Result<NamePattern> NamePattern::parse(std::string_view text) {
  auto program = std::make_shared<Program>();
  Parser parser(text, program->sets);
  PLIMSOLL_TRY(code, parser.parse());
  program->code = std::move(code);
  program->code.push_back({});
  return NamePattern(std::move(program));
}

bool NamePattern::run(std::string_view text, bool whole) const {
  const Steps& code = program_->code;
  Threads now(code, text);
  Threads next(code, text);
  now.begin_step();
  now.add(0, 0);
  const auto is_done = [&code](std::size_t pc) { return code[pc].op == Op::kMatch; };
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!whole && std::any_of(now.list().begin(), now.list().end(), is_done)) return true;
    next.begin_step();
    for (const std::size_t pc : now.list())
      if (code[pc].op == Op::kSet && program_->sets[code[pc].set].test(static_cast<unsigned char>(text[at])))
        next.add(pc + 1, at + 1);
    if (next.list().empty()) return false;
    std::swap(now, next);
  }
  return std::any_of(now.list().begin(), now.list().end(), is_done);
}

bool NamePattern::matches(std::string_view text) const { return run(text, true); }

bool NamePattern::starts(std::string_view text) const { return run(text, false); }

Status check_pattern(std::string_view text) {
  PLIMSOLL_TRY(pattern, NamePattern::parse(text));
  (void)pattern;
  return {};
}

bool is_pattern(std::string_view text) { return text.find_first_of("*()|\\^$+?[]{}") != std::string_view::npos; }

}  // namespace plimsoll
