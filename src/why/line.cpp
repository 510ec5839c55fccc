// SPDX-License-Identifier: Apache-2.0
#include "why/line.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "why/signal.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr int kMostRank = 10'000'000;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9E3779B97F4A7C15ULL + (a << 6U) + (a >> 2U);
  return a * 0xBF58476D1CE4E5B9ULL;
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 1469598103934665603ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

// Removes escape sequences: ESC [ ... letter, ESC ] ... BEL, and a bare "[A" that some viewers leave.
void append_without_colours(std::string_view raw, std::string& out) {
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const char c = raw[i];
    if (c == '\x1b' && i + 1 < raw.size()) {
      if (raw[i + 1] == '[') {
        i += 2;
        while (i < raw.size() && !is_letter(raw[i])) ++i;
      } else if (raw[i + 1] == ']') {
        i += 2;
        while (i < raw.size() && raw[i] != '\a') ++i;
      }
      continue;
    }
    out.push_back(c == '\0' || c == '\n' ? ' ' : c);
  }
}

// How much of the text a run of digits takes.
std::size_t digits(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

std::optional<int> number_at(std::string_view text, std::size_t at) {
  const std::size_t count = digits(text, at);
  if (count == 0 || count > 8) return std::nullopt;
  int number = 0;
  std::from_chars(text.data() + at, text.data() + at + count, number);
  if (number > kMostRank) return std::nullopt;
  return number;
}

bool is_level(std::string_view word, Level* level) {
  struct Name {
    std::string_view text;
    Level level;
  };
  static constexpr std::array<Name, 8> kNames = {{{"INFO", Level::kInfo},
                                                  {"WARNING", Level::kWarning},
                                                  {"WARN", Level::kWarning},
                                                  {"ERROR", Level::kError},
                                                  {"CRITICAL", Level::kError},
                                                  {"FATAL", Level::kError},
                                                  {"DEBUG", Level::kInfo},
                                                  {"TRACE", Level::kInfo}}};
  for (const Name& name : kNames)
    if (equals_ignoring_case(word, name.text)) {
      *level = name.level;
      return true;
    }
  return false;
}

// "2025-11-05 02:50:00,123", "2025/11/05T...", "17:16:27.123", "10-25 17:16:27": length, or 0.
std::size_t timestamp(std::string_view text) {
  std::size_t at = 0;
  const std::size_t first = digits(text, 0);
  bool has_date = false;
  if ((first == 4 || first == 2) && text.size() > first + 2 && (text[first] == '-' || text[first] == '/') &&
      digits(text, first + 1) == 2) {
    at = first + 3;
    if (at < text.size() && (text[at] == '-' || text[at] == '/') && digits(text, at + 1) >= 2)
      at += 1 + digits(text, at + 1);
    has_date = true;
    if (at < text.size() && (text[at] == ' ' || text[at] == 'T' || text[at] == '_')) {
      if (digits(text, at + 1) != 2 || at + 3 >= text.size() || text[at + 3] != ':') return at;
      ++at;
    }
  }
  if (digits(text, at) == 2 && at + 2 < text.size() && text[at + 2] == ':' && digits(text, at + 3) == 2) {
    at += 5;
    if (at < text.size() && text[at] == ':' && digits(text, at + 1) >= 2) at += 1 + digits(text, at + 1);
    if (at < text.size() && (text[at] == '.' || text[at] == ',')) at += 1 + digits(text, at + 1);
    if (at < text.size() && text[at] == 'Z') ++at;
    if (at < text.size() && text[at] == '+' && digits(text, at + 1) >= 2) {
      at += 1 + digits(text, at + 1);
      if (at < text.size() && text[at] == ':') at += 1 + digits(text, at + 1);
    }
    return at;
  }
  return has_date ? at : 0;
}

// The clock of a timestamp; `day` is that of a logger which writes it apart (W1115), else 0.
Clock clock_of(std::string_view stamp, std::int64_t day) {
  Clock clock;
  std::size_t at = 0;
  while (at + 8 <= stamp.size() &&
         !(is_digit(stamp[at]) && stamp[at + 2] == ':' && stamp[at + 5] == ':' && is_digit(stamp[at + 6])))
    ++at;
  if (at + 8 > stamp.size()) return clock;
  const auto two = [&](std::size_t i) { return std::int64_t{number_at(stamp.substr(i, 2), 0).value_or(0)}; };
  clock.milliseconds = ((two(at) * 60 + two(at + 3)) * 60 + two(at + 6)) * 1000;
  if (at + 9 < stamp.size() && (stamp[at + 8] == '.' || stamp[at + 8] == ',')) {
    std::int64_t unit = 100;
    for (std::size_t i = at + 9; i < stamp.size() && is_digit(stamp[i]) && unit > 0; ++i, unit /= 10)
      clock.milliseconds += (stamp[i] - '0') * unit;
  }
  constexpr std::int64_t kDay = 86'400'000;
  clock.kind = Clock::Kind::kTimeOfDay;
  if (day > 0) {
    clock.kind = Clock::Kind::kDayOfYear;
    clock.milliseconds += (day / 100 * 31 + day % 100) * kDay;
  } else if (at >= 10 && digits(stamp, 0) == 4) {
    clock.kind = Clock::Kind::kDate;
    const std::int64_t year = number_at(stamp.substr(0, 4), 0).value_or(0);
    clock.milliseconds += ((year * 12 + two(5)) * 31 + two(8)) * kDay;
  }
  return clock;
}

class Prefix {
 public:
  Prefix(std::string_view text, Line& line) : rest_(text), line_(line) {}

  std::string_view strip() {
    for (int i = 0; i < 10; ++i) {
      while (!rest_.empty() && is_blank(rest_.front())) {
        rest_.remove_prefix(1);
        ++line_.indent;
      }
      if (rest_.empty() || !one()) break;
      line_.indent = 0;
    }
    return rest_;
  }

 private:
  bool take(std::size_t count) {
    rest_.remove_prefix(std::min(count, rest_.size()));
    return true;
  }
  void from_rank(int rank) {
    line_.rank = rank;
    line_.stream = mixed(line_.file, 0x1000U + static_cast<std::uint64_t>(rank));
  }
  void from_writer(std::string_view name) { line_.stream = mixed(mixed(line_.file, 7), hash_of(name)); }

  bool one() {
    switch (rest_.front()) {
      case '[':
        return bracket();
      case '(':
        return parenthesis();
      case '|':
        return rest_.size() > 1 && rest_[1] == ' ' && take(2);
      case '>':  // quoted in a report
        return rest_.size() > 1 && rest_[1] == ' ' && take(2);
      case '-':
        return rest_.size() > 2 && rest_[1] == ' ' && took_time_ && take(2);
      default:
        break;
    }
    if (is_digit(rest_.front())) return number();
    return letters();
  }

  bool bracket() {
    const std::size_t close = rest_.find(']');
    if (close > 120) return false;
    const std::string_view inside = trim(rest_.substr(1, close - 1));
    if (inside.empty()) return false;
    if (is_digit(inside.front())) return counted(inside, close);
    return named_rank(inside, close) || leveled(inside, close) || labelled(inside, close);
  }

  // One character behind a bracket that is taken.
  [[nodiscard]] std::size_t with_colon(std::size_t close) const {
    return close + 1 + (close + 1 < rest_.size() && rest_[close + 1] == ':' ? 1 : 0);
  }

  // [rank 3], [default2]:
  bool named_rank(std::string_view inside, std::size_t close) {
    for (const std::string_view name : {std::string_view{"rank"}, std::string_view{"default"}}) {
      if (find_word(inside, name) != 0) continue;
      std::size_t at = name.size();
      while (at < inside.size() && (inside[at] == ' ' || inside[at] == '_' || inside[at] == ':')) ++at;
      const auto rank = number_at(inside, at);
      if (!rank || at + digits(inside, at) != inside.size()) continue;
      from_rank(*rank);
      return take(with_colon(close));
    }
    return false;
  }

  // [1,3]<stderr>: of MPI, [  422.304335] of the kernel, [2025-11-05 02:50:00], and what a launcher or a viewer counts.
  bool counted(std::string_view inside, std::size_t close) {
    const std::size_t count = digits(inside, 0);
    if (count < inside.size() && inside[count] == ',' && close + 1 < rest_.size() && rest_[close + 1] == '<') {
      const auto rank = number_at(inside, count + 1);
      const std::size_t colon = rest_.find(">:", close);
      if (rank && colon != kNone) {
        from_rank(*rank);
        return take(colon + 2);
      }
    }
    if (count < inside.size() && inside[count] == '.' && count + 1 + digits(inside, count + 1) == inside.size()) {
      line_.is_kernel = true;
      return take(close + 1);
    }
    if (const std::size_t length = timestamp(inside); length > 0) {
      took_time_ = true;
      line_.clock = clock_of(inside.substr(0, length), 0);
      return take(close + 1);
    }
    // It stands before the program's own prefix: "[0] [rank0]: text".
    return count == inside.size() && trim(rest_.substr(close + 1)).starts_with("[rank") && take(close + 1);
  }

  // [ERROR], [W17:08:29 ProcessGroupNCCL.cpp:1427]
  bool leveled(std::string_view inside, std::size_t close) {
    Level level = Level::kNone;
    if (is_level(inside, &level)) {
      line_.level = level;
      return take(with_colon(close));
    }
    const char first = inside.front();
    const bool letter = first == 'W' || first == 'E' || first == 'I' || first == 'F';
    if (!letter || inside.size() <= 3 || !is_digit(inside[1])) return false;
    line_.level = first == 'W' ? Level::kWarning : first == 'I' ? Level::kInfo : Level::kError;
    return take(close + 1);
  }

  bool labelled(std::string_view inside, std::size_t close) {
    // A label of a log service stands before the writer's own prefix: [labels.container: engine] (Worker pid=1) ...
    const std::string_view next = trim(rest_.substr(std::min(close + 1, rest_.size())));
    if (took_time_ && next.starts_with('(') && has_text(next.substr(0, next.find(')')), "pid=")) return take(close + 1);
    // The name of a logger after its time and level: "2023-09-14 21:27:58 [INFO] [Driver] text".
    if (took_time_ && line_.level != Level::kNone && !named_ && !next.empty() && !next.starts_with('[') &&
        std::all_of(inside.begin(), inside.end(), [](char c) { return is_word(c) || c == '.' || c == '-'; })) {
      named_ = true;
      return take(close + 1);
    }
    const std::size_t source = inside.rfind(':');
    return source != kNone && source + 1 < inside.size() && digits(inside, source + 1) == inside.size() - source - 1 &&
           inside.find(".py") != kNone && take(close + 1);  // [core.py:708]
  }

  bool parenthesis() {
    const std::size_t close = rest_.find(')');
    if (close > 160) return false;
    const std::string_view inside = rest_.substr(1, close - 1);
    if (!has_text(inside, "pid=")) return false;
    from_writer(inside);
    for (const std::string_view name : {std::string_view{"rank="}, std::string_view{"_dp"}, std::string_view{"_tp"}})
      if (const std::size_t at = find_word(inside, name); at != kNone)
        if (const auto rank = number_at(inside, at + name.size())) {
          line_.rank = rank;
          break;
        }
    return take(close + 1);
  }

  bool number() {
    if (const std::size_t length = timestamp(rest_); length > 0 && (length > 4 || took_time_)) {
      took_time_ = true;
      line_.clock = clock_of(rest_.substr(0, length), 0);
      return take(length);
    }
    const std::size_t count = digits(rest_, 0);
    if (!numbered_ && count <= 5 && count + 1 < rest_.size() && rest_[count] == ':' && rest_[count + 1] == ' ') {
      numbered_ = true;  // srun --label
      from_rank(*number_at(rest_, 0));
      return take(count + 1);
    }
    return false;
  }

  bool letters() {
    std::size_t end = 0;
    while (end < rest_.size() && (is_word(rest_[end]) || rest_[end] == '-' || rest_[end] == '.')) ++end;
    const std::string_view word = rest_.substr(0, end);
    if (glog()) return true;
    Level level = Level::kNone;
    if (end < rest_.size() && is_level(word, &level)) {
      line_.level = level;
      return behind_level(end);
    }
    return logger(word) || service(word) || syslog(word);
  }

  // W1115 02:54:06.123456 12 file.cc:7] text
  bool glog() {
    const char first = rest_.front();
    const bool letter = first == 'W' || first == 'E' || first == 'I' || first == 'F' || first == 'D';
    if (!letter || rest_.size() <= 8) return false;
    const std::size_t gap = rest_[1] == ' ' ? 2 : 1;
    std::size_t at = gap;
    if (digits(rest_, gap) == 4 && gap + 4 < rest_.size() && rest_[gap + 4] == ' ') at = gap + 5;
    const std::size_t length = timestamp(rest_.substr(at));
    if (length < 5) return false;
    line_.level = first == 'W' ? Level::kWarning : first == 'E' || first == 'F' ? Level::kError : Level::kInfo;
    const std::size_t close = rest_.find("] ", at);
    took_time_ = true;
    line_.clock = clock_of(rest_.substr(at, length), at > gap ? number_at(rest_.substr(gap, 4), 0).value_or(0) : 0);
    if (close < 200) return take(close + 2);
    return take(rest_.size() > at + length && rest_.back() == ']' ? rest_.size() : at + length);
  }

  // "ERROR: text", "ERROR core.py:7] text", "ERROR 10-25 13:08:43 text".
  bool behind_level(std::size_t end) {
    if (rest_[end] == ':') return take(end + 1);
    if (rest_[end] != ' ') return false;
    const std::string_view after = rest_.substr(end + 1);
    const std::size_t close = after.find("] ");
    const std::size_t bare = after.find(".py:");
    if (bare != kNone && close != kNone && bare < close && close < 60) return take(end + 1 + close + 2);
    return (took_time_ || timestamp(trim(after)) > 0 || trim(after).starts_with('|')) && take(end);
  }

  // log4j writes the logger's name after time and level: "INFO container.Reporter: text".
  bool logger(std::string_view word) {
    const std::size_t end = word.size();
    if (!took_time_ || line_.level == Level::kNone || named_ || word.find('.') == kNone || end + 1 >= rest_.size() ||
        rest_[end] != ':' || rest_[end + 1] != ' ' || parse_exception(rest_))
      return false;
    named_ = true;
    return take(end + 1);
  }

  // "vllm-1  | text", and "vllm  | text": a service without a number is padded by two blanks; a row of a table has more
  // bars.
  bool service(std::string_view word) {
    const std::size_t end = word.size();
    std::size_t bar = end;
    while (bar < rest_.size() && rest_[bar] == ' ') ++bar;
    if (end == 0 || bar == end || bar + 1 >= rest_.size() || rest_[bar] != '|' || rest_[bar + 1] != ' ') return false;
    const bool numbered = std::any_of(word.begin(), word.end(), is_digit) && word.find('-') != kNone;
    const bool padded = bar >= end + 2 && bar + 2 < rest_.size() && rest_.find('|', bar + 1) == kNone && !took_time_;
    if (!numbered && !padded) return false;
    from_writer(word);
    return take(bar + 2);
  }

  // Nov 15 02:33:11 host kernel: text
  bool syslog(std::string_view word) {
    static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
    if (word.size() != 3 || kMonths.find(word) == kNone || rest_.size() <= 16 ||
        digits(trim(rest_.substr(3, 4)), 0) == 0)
      return false;
    const std::size_t colon = rest_.find("kernel:");
    if (colon >= 90) return false;
    line_.is_kernel = true;
    return take(colon + 7);
  }

  std::string_view rest_;
  Line& line_;
  bool took_time_ = false;
  bool numbered_ = false;
  bool named_ = false;
};

}  // namespace

void clean_line(std::string_view raw, std::string& scratch, Line& line) {
  scratch.assign(1, '\n');
  append_without_colours(raw, scratch);
  while (scratch.size() > 1 && (is_blank(scratch.back()) || scratch.back() == '\r')) scratch.pop_back();
  scratch.push_back('\n');
  const std::string_view whole = std::string_view{scratch}.substr(1, scratch.size() - 2);
  line.stream = line.rank ? mixed(line.file, 0x1000U + static_cast<std::uint64_t>(*line.rank)) : mixed(line.file, 1);
  line.indent = 0;
  Prefix prefix(whole, line);
  line.text = prefix.strip();
}

std::optional<std::string> structured_message(std::string_view raw) {
  const std::string_view text = trim(raw.substr(0, std::min<std::size_t>(raw.size(), 1U << 16)));
  if (!text.starts_with("{\"")) return std::nullopt;
  for (const std::string_view key : {std::string_view{"\"msg\""}, std::string_view{"\"message\""},
                                     std::string_view{"\"log\""}, std::string_view{"\"text\""}}) {
    std::size_t at = text.find(key);
    if (at == kNone) continue;
    at += key.size();
    while (at < text.size() && (is_blank(text[at]) || text[at] == ':')) ++at;
    if (at >= text.size() || text[at] != '"') continue;
    std::string value;
    for (++at; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] != '\\' || at + 1 >= text.size()) {
        value.push_back(text[at]);
        continue;
      }
      const char escaped = text[++at];
      value.push_back(escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped == 'r' ? '\r' : escaped);
    }
    return value;
  }
  return std::nullopt;
}

std::optional<int> rank_of_file(std::string_view path) {
  const std::string low = lower(path);
  const std::string_view text = low;
  for (const std::string_view name : {std::string_view{"rank"}, std::string_view{"global_rank"}}) {
    for (std::size_t at = text.rfind(name); at != kNone; at = at == 0 ? kNone : text.rfind(name, at - 1)) {
      std::size_t digit = at + name.size();
      while (digit < text.size() && (text[digit] == '_' || text[digit] == '-' || text[digit] == '.')) ++digit;
      if (const auto rank = number_at(text, digit)) return rank;
    }
  }
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() >= 3 && parts[parts.size() - 3].starts_with("attempt_")) {
    const std::string_view folder = parts[parts.size() - 2];
    if (!folder.empty() && digits(folder, 0) == folder.size()) return number_at(folder, 0);
  }
  const std::string_view name = parts.back();
  for (const std::string_view start :
       {std::string_view{"log."}, std::string_view{"stderr."}, std::string_view{"stdout."}})
    if (name.starts_with(start) && digits(name, start.size()) == name.size() - start.size())
      return number_at(name, start.size());
  return std::nullopt;
}

}  // namespace plimsoll::why
