// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "job/readers/shell_variables.h"

namespace plimsoll::job {

namespace {

constexpr std::size_t kMaxWords = 200'000;

// A command before expansion. An array assignment NAME=(a b) keeps its elements apart.
struct RawWord {
  std::string text;
  std::vector<std::string> elements;
  bool is_array = false;
};

struct RawCommand {
  std::vector<RawWord> words;
  int line = 0;
  bool is_conditional = false;  // after && or ||, or inside parentheses
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  // Next command; one without words is the end.
  Result<RawCommand> next() {
    RawCommand command;
    std::vector<RawWord>& words = command.words;
    while (at_ < text_.size()) {
      skip_blanks();
      if (at_ >= text_.size()) break;
      const char c = text_[at_];
      if (c == '#') {
        skip_line();
      } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
        const bool is_double = at_ + 1 < text_.size() && text_[at_ + 1] == c;
        follows_test_ = is_double && (c == '&' || c == '|');
        at_ += follows_test_ ? 2 : 1;
        if (c == '\n') end_line();
        if (!words.empty()) return command;
      } else if (c == '(' || c == ')') {
        ++at_;
        if (c == '(') ++parentheses_;
        if (c == ')' && parentheses_ > 0) --parentheses_;
        if (!words.empty()) return command;
      } else if (c == '<' || c == '>') {
        PLIMSOLL_TRY_STATUS(redirect(words));
      } else {
        if (words.empty()) {
          command.line = line_;
          command.is_conditional = follows_test_ || parentheses_ > 0;
        }
        PLIMSOLL_TRY(word, read_word());
        if (++count_ > kMaxWords) return bad_input("the script has more words than any launch script");
        words.push_back(std::move(word));
      }
    }
    return command;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r') {
        ++at_;
      } else if (text_[at_] == '\\' && at_ + 1 < text_.size() && (text_[at_ + 1] == '\n' || text_[at_ + 1] == '\r')) {
        at_ += text_[at_ + 1] == '\r' && at_ + 2 < text_.size() && text_[at_ + 2] == '\n' ? 3 : 2;
        ++line_;
      } else {
        break;
      }
    }
  }
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }
  // After a line break: the text of here-documents that the line announced is no part of the script.
  void end_line() {
    ++line_;
    for (const std::string& delimiter : here_documents_) {
      while (at_ < text_.size()) {
        const std::size_t start = at_;
        skip_line();
        const std::string_view read = trim(text_.substr(start, at_ - start));
        if (at_ < text_.size()) ++at_;
        ++line_;
        if (read == delimiter) break;
      }
    }
    here_documents_.clear();
  }
  Status redirect(std::vector<RawWord>& words) {
    const auto all_digits = [](const std::string& word) {
      return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
    };
    const bool touches_word = at_ > 0 && text_[at_ - 1] >= '0' && text_[at_ - 1] <= '9';
    if (touches_word && !words.empty() && all_digits(words.back().text)) words.pop_back();
    const std::size_t start = at_;
    while (at_ < text_.size() && (text_[at_] == '<' || text_[at_] == '>' || text_[at_] == '&')) ++at_;
    const std::string_view sign = text_.substr(start, at_ - start);
    if (sign == "<<" && at_ < text_.size() && text_[at_] == '-') ++at_;
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] == '\n' || text_[at_] == '(') return {};
    PLIMSOLL_TRY(target, read_word());
    if (sign != "<<") return {};
    std::string delimiter;
    for (const char c : target.text)
      if (c != '\'' && c != '"' && c != '\\') delimiter += c;
    here_documents_.push_back(std::move(delimiter));
    return {};
  }
  Result<RawWord> read_word() {
    RawWord word;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';' || c == '&' || c == '|' || c == ')' || c == '<' ||
          c == '>')
        break;
      if (c == '(') {
        const bool assigns = !word.text.empty() && word.text.back() == '=';
        if (!assigns) break;
        ++at_;
        word.is_array = true;
        PLIMSOLL_TRY(elements, read_array());
        word.elements = std::move(elements);
        return word;
      }
      PLIMSOLL_TRY_STATUS(read_piece(word.text));
    }
    return word;
  }
  // One character, quoted run or substitution.
  Status read_piece(std::string& out) {
    const char c = text_[at_];
    std::size_t end = at_ + 1;
    if (c == '\'') {
      end = text_.find('\'', at_ + 1);
      if (end == std::string_view::npos) return unclosed("a ' quote");
      ++end;
    } else if (c == '"') {
      for (end = at_ + 1; end < text_.size() && text_[end] != '"';) {
        if (text_[end] == '\\') {
          end += 2;
        } else if ((text_[end] == '$' && end + 1 < text_.size() && (text_[end + 1] == '(' || text_[end + 1] == '{')) ||
                   text_[end] == '`') {
          end = end_of_substitution(text_, end);
          if (end == std::string_view::npos) return unclosed("a $(...) or ${...}");
        } else {
          ++end;
        }
      }
      if (end >= text_.size()) return unclosed("a \" quote");
      ++end;
    } else if (c == '\\') {
      end = std::min(at_ + 2, text_.size());
    } else if (c == '`' || (c == '$' && at_ + 1 < text_.size() && (text_[at_ + 1] == '(' || text_[at_ + 1] == '{'))) {
      end = end_of_substitution(text_, at_);
      if (end == std::string_view::npos) return unclosed("a $(...) or ${...}");
    }
    const std::string_view piece = text_.substr(at_, end - at_);
    line_ += static_cast<int>(std::count(piece.begin(), piece.end(), '\n'));
    out += piece;
    at_ = end;
    return {};
  }
  Result<std::vector<std::string>> read_array() {
    std::vector<std::string> elements;
    while (true) {
      skip_blanks();
      if (at_ >= text_.size()) return tl::make_unexpected(unclosed("an array").error());
      const char c = text_[at_];
      if (c == ')') {
        ++at_;
        return elements;
      }
      if (c == '\n') {
        ++at_;
        ++line_;
      } else if (c == '#') {
        skip_line();
      } else if (c == '(' || c == ';' || c == '&' || c == '|' || c == '<' || c == '>') {
        return bad_input(fmt::format("line {}: '{}' inside an array", line_, c));
      } else {
        std::string element;
        while (at_ < text_.size() && std::string_view(" \t\r\n);&|<>(").find(text_[at_]) == std::string_view::npos)
          PLIMSOLL_TRY_STATUS(read_piece(element));
        if (++count_ > kMaxWords) return bad_input("the script has more words than any launch script");
        elements.push_back(std::move(element));
      }
    }
  }
  [[nodiscard]] Status unclosed(std::string_view what) const {
    return bad_input(fmt::format("line {}: {} is not closed", line_, what));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t count_ = 0;
  int line_ = 1;
  int parentheses_ = 0;
  bool follows_test_ = false;
  std::vector<std::string> here_documents_;
};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class Evaluator {
 public:
  Result<Shell> run(std::string_view text) {
    Lexer lexer(text);
    while (true) {
      PLIMSOLL_TRY(next, lexer.next());
      if (next.words.empty()) break;
      auto done = run_command(next);
      if (!done) {
        done.error().message = fmt::format("line {}: {}", next.line, done.error().message);
        return tl::make_unexpected(std::move(done.error()));
      }
    }
    for (const std::string& name : exported_) {
      const auto* value = variables_.find(name);
      if (value != nullptr && value->size() == 1 && value->front().unknown.empty())
        shell_.environment[name] = value->front().text;
    }
    return std::move(shell_);
  }

 private:
  Status run_command(const RawCommand& raw) {
    const std::vector<RawWord>& words = raw.words;
    std::size_t at = 0;
    while (at < words.size()) {
      const std::string& word = words[at].text;
      if (is_one_of(word, {"if", "for", "while", "until", "case", "select", "function", "{"})) {
        ++blocks_;
      } else if (is_one_of(word, {"fi", "done", "esac", "}"})) {
        blocks_ = std::max(blocks_ - 1, 0);
      } else if (!is_one_of(word, {"then", "else", "elif", "do", "!", "time", "exec", "nohup"})) {
        break;
      }
      ++at;
      if (is_one_of(word, {"for", "case", "select", "function"})) return {};  // a header holds no command
    }
    const bool sure = blocks_ == 0 && !raw.is_conditional;
    const bool declares =
        at < words.size() && is_one_of(words[at].text, {"export", "declare", "local", "readonly", "typeset"});
    const bool exports = declares && words[at].text == "export";
    if (declares) ++at;
    std::size_t assigned = at;
    while (assigned < words.size() && split_assignment(words[assigned])) ++assigned;
    const bool runs = !declares && assigned < words.size();
    for (; at < words.size(); ++at) {
      if (split_assignment(words[at])) {
        PLIMSOLL_TRY_STATUS(assign(words[at], sure, exports || runs));
      } else if (declares) {
        if (exports && is_name(words[at].text)) exported_.push_back(words[at].text);
      } else {
        break;
      }
    }
    if (declares || at == words.size()) return {};
    ShellCommand command;
    command.line = raw.line;
    for (; at < words.size(); ++at) {
      PLIMSOLL_TRY(expanded, variables_.expand(words[at].text));
      for (ShellWord& word : expanded) append(command, std::move(word));
      if (command.words.size() > kMaxWords) return bad_input("a command has more words than any command line");
    }
    if (!command.words.empty()) shell_.commands.push_back(std::move(command));
    return {};
  }

  // bash -c "python train.py --a 1": a quoted command is read as one.
  static void append(ShellCommand& command, ShellWord word) {
    const bool holds_flags = word.text.find(" --") != std::string::npos || word.text.find("\n--") != std::string::npos;
    if (!holds_flags) {
      command.words.push_back(std::move(word));
      return;
    }
    std::string part;
    for (const char c : word.text + " ") {
      if (c != ' ' && c != '\t' && c != '\n' && c != '\\') {
        part += c;
      } else if (!part.empty()) {
        command.words.push_back(ShellWord{std::move(part), {}});
        part.clear();
      }
    }
    for (const std::string& unknown : word.unknown) command.words.push_back(ShellWord{{}, {unknown}});
  }

  // NAME=value, NAME+=value, NAME=(...)
  static bool split_assignment(const RawWord& word) {
    const std::size_t equals = word.text.find('=');
    if (equals == std::string::npos || equals == 0) return false;
    const bool appends = word.text[equals - 1] == '+';
    return is_name(std::string_view(word.text).substr(0, equals - (appends ? 1 : 0)));
  }

  Status assign(const RawWord& word, bool sure, bool exports) {
    const std::size_t equals = word.text.find('=');
    const bool appends = word.text[equals - 1] == '+';
    const std::string name = word.text.substr(0, equals - (appends ? 1 : 0));
    std::vector<ShellWord> values;
    if (word.is_array) {
      for (const std::string& element : word.elements) {
        PLIMSOLL_TRY(expanded, variables_.expand(element));
        values.insert(values.end(), expanded.begin(), expanded.end());
        if (values.size() > kMaxWords) return bad_input("an array has more words than any command line");
      }
    } else {
      PLIMSOLL_TRY(value, variables_.expand_value(word.text.substr(equals + 1)));
      values.push_back(std::move(value));
    }
    variables_.set(name, std::move(values), word.is_array, appends, sure);
    if (exports && sure) exported_.push_back(name);
    return {};
  }

  ShellVariables variables_;
  Shell shell_;
  std::vector<std::string> exported_;
  int blocks_ = 0;
};

}  // namespace

Result<Shell> read_shell(std::string_view text) {
  PLIMSOLL_TRY(shell, Evaluator().run(text));
  for (const std::string_view line : split(text, '\n')) {
    constexpr std::string_view kBatch = "#SBATCH";
    if (line.substr(0, kBatch.size()) != kBatch) continue;
    for (const std::string_view option : split(trim(line.substr(kBatch.size())), ' '))
      if (!option.empty() && shell.batch_options.size() < 1000) shell.batch_options.emplace_back(option);
  }
  return shell;
}

}  // namespace plimsoll::job
