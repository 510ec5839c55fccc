// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_syntax.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::job {

namespace {

constexpr std::size_t kMaxWords = 200'000;
constexpr int kMaxDepth = 60;
constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kWordEnds = " \t\r\n;&|)<>";

struct Token {
  enum class Kind { kWord, kOperator, kEnd };
  Kind kind = Kind::kEnd;
  RawWord word;
  std::string_view sign;
  int line = 0;
  bool touches_digits = false;  // 2>

  [[nodiscard]] bool is_sign(std::string_view wanted) const { return kind == Kind::kOperator && sign == wanted; }
  [[nodiscard]] bool is_word(std::string_view wanted) const {
    return kind == Kind::kWord && !word.is_array && word.text == wanted;
  }
};

class Lexer {
 public:
  Lexer(std::string_view text, std::vector<HereDocument>& documents) : text_(text), documents_(documents) {}

  Result<Token> next() {
    skip_blanks();
    Token token;
    token.line = line_;
    if (at_ >= text_.size()) return token;
    if (const std::size_t length = sign_length(); length > 0) {
      token.kind = Token::Kind::kOperator;
      token.sign = text_.substr(at_, length);
      token.touches_digits = at_ > 0 && text_[at_ - 1] >= '0' && text_[at_ - 1] <= '9';
      at_ += length;
      if (token.sign == "\n") end_line();
      return token;
    }
    token.kind = Token::Kind::kWord;
    PLIMSOLL_TRY(word, read_word());
    token.word = std::move(word);
    return token;
  }

  // The inside of (( ... )), whose first parenthesis is read.
  Result<std::string> arithmetic() {
    int depth = 2;
    const std::size_t start = ++at_;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] == '(') ++depth;
      if (text_[at_] == ')' && --depth == 0) {
        ++at_;
        return std::string(text_.substr(start, at_ - start - 2));
      }
    }
    return bad_input(fmt::format("line {}: (( is not closed", line_));
  }
  [[nodiscard]] bool follows(char c) const { return at_ < text_.size() && text_[at_] == c; }

  // Words up to ]]; signs inside are words, too.
  Result<std::vector<RawWord>> condition() {
    std::vector<RawWord> words;
    while (true) {
      skip_blanks();
      if (at_ >= text_.size()) return bad_input(fmt::format("line {}: [[ is not closed", line_));
      if (text_[at_] == '\n') {
        ++at_;
        ++line_;
        continue;
      }
      RawWord word;
      if (const std::string_view two = text_.substr(at_, 2); two == "&&" || two == "||") {
        word.text = two;
        at_ += 2;
      } else if (std::string_view("()<>;&|").find(text_[at_]) != std::string_view::npos) {
        word.text = text_[at_++];
      } else {
        while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) == std::string_view::npos &&
               (word.text.empty() || text_.substr(at_, 2) != "&&") && word.text != "]]")
          PLIMSOLL_TRY_STATUS(read_piece(word.text));
      }
      PLIMSOLL_TRY_STATUS(count());
      if (word.text == "]]") return words;
      words.push_back(std::move(word));
    }
  }

  // A here-document that the current line announces.
  int announce(std::string delimiter, bool strips_tabs) {
    HereDocument document;
    document.is_quoted = delimiter.find_first_of("'\"\\") != std::string::npos;
    std::erase_if(delimiter, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    documents_.push_back(std::move(document));
    announced_.push_back({std::move(delimiter), documents_.size() - 1, strips_tabs});
    return static_cast<int>(documents_.size()) - 1;
  }

  [[nodiscard]] int line() const { return line_; }

 private:
  struct Announced {
    std::string delimiter;
    std::size_t index;
    bool strips_tabs;
  };

  [[nodiscard]] Status count() {
    return ++words_ > kMaxWords ? Status{bad_input("the script has more words than any launch script")} : Status{};
  }
  [[nodiscard]] std::size_t sign_length() const {
    if (is_value_to_fill_in()) return 0;
    for (const std::string_view sign :
         {"&>>", "<<-", "<<<", ";;&", "&&", "||", ";;", ";&", "|&", "&>", ">>", "<<", ">&",
          "<&",  ">|",  "<>",  "<(",  ">(", ";",  "&",  "|",  "(",  ")",  "<",  ">",  "\n"})
      if (text_.substr(at_, sign.size()) == sign) return sign.size();
    return 0;
  }
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (kBlanks.find(text_[at_]) != std::string_view::npos) {
        ++at_;
      } else if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (text_[at_] == '\\' && at_ + 1 == text_.size()) {  // bash goes on with nothing
        ++at_;
      } else if (text_[at_] == '\\' && at_ + 1 < text_.size() && (text_[at_ + 1] == '\n' || text_[at_ + 1] == '\r')) {
        at_ += text_[at_ + 1] == '\r' && at_ + 2 < text_.size() && text_[at_ + 2] == '\n' ? 3 : 2;
        ++line_;
      } else {
        return;
      }
    }
  }
  void end_line() {
    ++line_;
    for (const Announced& announced : announced_) {
      std::string& text = documents_[announced.index].text;
      while (at_ < text_.size()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        ++line_;
        if (trim(line) == announced.delimiter) break;
        while (announced.strips_tabs && line.substr(0, 1) == "\t") line.remove_prefix(1);
        text += line;
        text += '\n';
      }
    }
    announced_.clear();
  }
  Result<RawWord> read_word() {
    RawWord word;
    PLIMSOLL_TRY_STATUS(count());
    while (at_ < text_.size()) {
      if (is_place_holder(word) || (word.text.empty() && is_value_to_fill_in())) {
        const std::size_t end = text_.find('>', at_) + 1;
        word.text += fmt::format("'{}'", replace(text_.substr(at_, end - at_), '\'', ' '));
        at_ = end;
        continue;
      }
      if (kWordEnds.find(text_[at_]) != std::string_view::npos) break;
      if (text_[at_] == '(') {
        if (word.text.empty() || word.text.back() != '=') break;
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
  // NAME=<path of the data>: what examples leave to the reader.
  [[nodiscard]] bool is_place_holder(const RawWord& word) const {
    return !word.text.empty() && word.text.back() == '=' && starts_place_holder(">\n");
  }
  // <...> of one word, or of one line.
  [[nodiscard]] bool starts_place_holder(std::string_view ends) const {
    if (at_ + 1 >= text_.size() || text_[at_] != '<') return false;
    const char next = text_[at_ + 1];
    const bool is_letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    const std::size_t end = text_.find_first_of(ends, at_);
    return is_letter && end != std::string_view::npos && text_[end] == '>';
  }
  // --model <PATH-OF-THE-MODEL>: a shell would redirect, but nobody reads a file behind a flag.
  [[nodiscard]] bool is_value_to_fill_in() const {
    if (at_ < 4 || !starts_place_holder("> \t\n")) return false;
    std::size_t end = at_;
    while (end > 0 && (text_[end - 1] == ' ' || text_[end - 1] == '\t')) --end;
    constexpr std::size_t kLongestFlag = 80;
    const std::size_t start = text_.substr(0, end).find_last_of(" \t\n");
    const std::size_t flag = start == std::string_view::npos ? 0 : start + 1;
    return end < at_ && end - flag < kLongestFlag && text_.substr(flag, 2) == "--" &&
           text_.substr(flag, end - flag).find('=') == std::string_view::npos;
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
      PLIMSOLL_TRY(closed, end_of_double_quote());
      end = closed;
    } else if (c == '\\') {
      end = std::min(at_ + 2, text_.size());
    } else if (opens_substitution(text_, at_)) {
      end = end_of_substitution(text_, at_);
      if (end == std::string_view::npos) return unclosed("a $(...) or ${...}");
    }
    const std::string_view piece = text_.substr(at_, end - at_);
    line_ += static_cast<int>(std::count(piece.begin(), piece.end(), '\n'));
    out += piece;
    at_ = end;
    return {};
  }
  Result<std::size_t> end_of_double_quote() {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') {
      const char c = text_[end];
      if (c == '\\') {
        end += 2;
      } else if (opens_substitution(text_, end)) {
        end = end_of_substitution(text_, end);
        if (end == std::string_view::npos) return tl::make_unexpected(unclosed("a $(...) or ${...}").error());
      } else {
        ++end;
      }
    }
    if (end >= text_.size()) return tl::make_unexpected(unclosed("a \" quote").error());
    return end + 1;
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
      } else if (std::string_view("(;&|<>").find(c) != std::string_view::npos) {
        return bad_input(fmt::format("line {}: '{}' inside an array", line_, c));
      } else {
        std::string element;
        while (at_ < text_.size() && kWordEnds.find(text_[at_]) == std::string_view::npos && text_[at_] != '(')
          PLIMSOLL_TRY_STATUS(read_piece(element));
        PLIMSOLL_TRY_STATUS(count());
        elements.push_back(std::move(element));
      }
    }
  }
  [[nodiscard]] Status unclosed(std::string_view what) const {
    return bad_input(fmt::format("line {}: {} is not closed", line_, what));
  }

  std::string_view text_;
  std::vector<HereDocument>& documents_;
  std::vector<Announced> announced_;
  std::size_t at_ = 0;
  std::size_t words_ = 0;
  int line_ = 1;
};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

class Parser {
 public:
  Parser(std::string_view text, std::vector<HereDocument>& documents) : lexer_(text, documents) {}

  Result<std::vector<ShellNode>> script() {
    PLIMSOLL_TRY_STATUS(advance());
    PLIMSOLL_TRY(body, list({}, 0));
    if (token_.kind != Token::Kind::kEnd)
      return bad_input(
          fmt::format("line {}: unexpected '{}'", token_.line,
                      token_.kind == Token::Kind::kWord ? token_.word.text.substr(0, 40) : std::string(token_.sign)));
    return body;
  }

 private:
  using Words = std::initializer_list<std::string_view>;

  Status advance() {
    PLIMSOLL_TRY(token, lexer_.next());
    token_ = std::move(token);
    return {};
  }
  [[nodiscard]] bool at_any(Words words) const {
    for (const std::string_view word : words)
      if (token_.is_word(word) || token_.is_sign(word)) return true;
    return false;
  }
  Status expect(std::string_view word, std::string_view block, int line) {
    if (!token_.is_word(word) && !token_.is_sign(word))
      return bad_input(fmt::format("line {}: {} has no {}", line, block, word));
    return advance();
  }
  Status skip_lines() {
    while (token_.is_sign("\n") || token_.is_sign(";")) PLIMSOLL_TRY_STATUS(advance());
    return {};
  }

  // Commands up to one of the words or signs that end the block.
  Result<std::vector<ShellNode>> list(Words ends, int depth) {
    if (depth > kMaxDepth) return bad_input(fmt::format("line {}: blocks are nested too deeply", token_.line));
    std::vector<ShellNode> nodes;
    ShellNode::Link link = ShellNode::Link::kAlways;
    while (true) {
      while (token_.is_sign("\n") || token_.is_sign(";") || token_.is_sign("&")) PLIMSOLL_TRY_STATUS(advance());
      if (token_.kind == Token::Kind::kEnd || at_any(ends)) return nodes;
      if (at_any({")", ";;", ";&", ";;&", "fi", "done", "esac", "then", "do", "else", "elif", "}"})) return nodes;
      PLIMSOLL_TRY(node, command(depth));
      node.link = link;
      link = token_.is_sign("&&")   ? ShellNode::Link::kAnd
             : token_.is_sign("||") ? ShellNode::Link::kOr
                                    : ShellNode::Link::kAlways;
      node.is_piped = token_.is_sign("|") || token_.is_sign("|&");
      nodes.push_back(std::move(node));
      if (link != ShellNode::Link::kAlways || nodes.back().is_piped) {
        PLIMSOLL_TRY_STATUS(advance());
        PLIMSOLL_TRY_STATUS(skip_lines());
      }
    }
  }

  Result<ShellNode> command(int depth) {
    ShellNode node;
    node.line = token_.line;
    while (token_.is_word("!") || token_.is_word("time")) {
      if (token_.is_word("!")) node.is_negated = !node.is_negated;
      PLIMSOLL_TRY_STATUS(advance());
    }
    Status done;
    if (token_.is_word("if")) {
      done = conditional(node, depth);
    } else if (token_.is_word("while") || token_.is_word("until")) {
      done = loop(node, depth);
    } else if (token_.is_word("for") || token_.is_word("select")) {
      done = for_each(node, depth);
    } else if (token_.is_word("case")) {
      done = choice(node, depth);
    } else if (token_.is_word("function")) {
      done = function(node, depth);
    } else if (token_.is_word("{") || token_.is_sign("(")) {
      done = group(node, depth);
    } else {
      done = simple(node, depth);
    }
    if (!done) return tl::make_unexpected(std::move(done.error()));
    if (node.kind != ShellNode::Kind::kSimple && node.kind != ShellNode::Kind::kFunction)
      PLIMSOLL_TRY_STATUS(redirections(node));
    return node;
  }

  Status conditional(ShellNode& node, int depth) {
    const int line = token_.line;
    node.kind = ShellNode::Kind::kIf;
    PLIMSOLL_TRY_STATUS(advance());
    PLIMSOLL_TRY(condition, list({"then"}, depth + 1));
    PLIMSOLL_TRY_STATUS(expect("then", "if", line));
    PLIMSOLL_TRY(yes, list({"elif", "else", "fi"}, depth + 1));
    node.body.push_back(std::move(condition));
    node.body.push_back(std::move(yes));
    if (token_.is_word("elif")) {
      if (depth > kMaxDepth) return bad_input(fmt::format("line {}: too many elif", token_.line));
      ShellNode other;
      other.line = token_.line;
      PLIMSOLL_TRY_STATUS(conditional(other, depth + 1));  // reads up to fi
      node.body.emplace_back();
      node.body.back().push_back(std::move(other));
      return {};
    }
    if (token_.is_word("else")) {
      PLIMSOLL_TRY_STATUS(advance());
      PLIMSOLL_TRY(no, list({"fi"}, depth + 1));
      node.body.push_back(std::move(no));
    }
    return expect("fi", "if", line);
  }

  Status loop(ShellNode& node, int depth) {
    const int line = token_.line;
    node.kind = ShellNode::Kind::kLoop;
    node.is_until = token_.is_word("until");
    PLIMSOLL_TRY_STATUS(advance());
    PLIMSOLL_TRY(condition, list({"do"}, depth + 1));
    PLIMSOLL_TRY_STATUS(expect("do", "a loop", line));
    PLIMSOLL_TRY(body, list({"done"}, depth + 1));
    node.body.push_back(std::move(condition));
    node.body.push_back(std::move(body));
    return expect("done", "a loop", line);
  }

  Status for_each(ShellNode& node, int depth) {
    const int line = token_.line;
    node.kind = ShellNode::Kind::kFor;
    PLIMSOLL_TRY_STATUS(advance());
    if (token_.is_sign("(")) {
      if (!lexer_.follows('(')) return bad_input(fmt::format("line {}: for has no variable", line));
      PLIMSOLL_TRY(ignored, lexer_.arithmetic());
      node.kind = ShellNode::Kind::kLoop;  // how often it runs is not worked out
      node.body.emplace_back();
      PLIMSOLL_TRY_STATUS(advance());
    } else {
      if (token_.kind != Token::Kind::kWord) return bad_input(fmt::format("line {}: for has no variable", line));
      node.words.push_back(std::move(token_.word));
      PLIMSOLL_TRY_STATUS(advance());
      while (token_.is_sign("\n")) PLIMSOLL_TRY_STATUS(advance());
      if (token_.is_word("in")) {
        node.has_items = true;
        PLIMSOLL_TRY_STATUS(advance());
        while (token_.kind == Token::Kind::kWord) {
          node.words.push_back(std::move(token_.word));
          PLIMSOLL_TRY_STATUS(advance());
        }
      }
    }
    PLIMSOLL_TRY_STATUS(skip_lines());
    PLIMSOLL_TRY_STATUS(expect("do", "for", line));
    PLIMSOLL_TRY(body, list({"done"}, depth + 1));
    node.body.push_back(std::move(body));
    return expect("done", "for", line);
  }

  Status choice(ShellNode& node, int depth) {
    const int line = token_.line;
    node.kind = ShellNode::Kind::kCase;
    PLIMSOLL_TRY_STATUS(advance());
    if (token_.kind != Token::Kind::kWord) return bad_input(fmt::format("line {}: case has no word", line));
    node.words.push_back(std::move(token_.word));
    PLIMSOLL_TRY_STATUS(advance());
    PLIMSOLL_TRY_STATUS(skip_lines());
    PLIMSOLL_TRY_STATUS(expect("in", "case", line));
    while (true) {
      PLIMSOLL_TRY_STATUS(skip_lines());
      if (token_.is_word("esac")) return advance();
      if (token_.is_sign("(")) PLIMSOLL_TRY_STATUS(advance());
      std::vector<std::string> patterns;
      while (token_.kind == Token::Kind::kWord) {
        patterns.push_back(std::move(token_.word.text));
        PLIMSOLL_TRY_STATUS(advance());
        if (token_.is_sign("|")) PLIMSOLL_TRY_STATUS(advance());
      }
      PLIMSOLL_TRY_STATUS(expect(")", "a pattern of case", line));
      PLIMSOLL_TRY(body, list({";;", ";&", ";;&", "esac"}, depth + 1));
      node.patterns.push_back(std::move(patterns));
      node.body.push_back(std::move(body));
      if (at_any({";;", ";&", ";;&"})) {
        PLIMSOLL_TRY_STATUS(advance());
      } else if (!token_.is_word("esac")) {
        return bad_input(fmt::format("line {}: case has no esac", line));
      }
    }
  }

  Status function(ShellNode& node, int depth) {
    PLIMSOLL_TRY_STATUS(advance());
    if (token_.kind != Token::Kind::kWord) return bad_input(fmt::format("line {}: function has no name", node.line));
    node.words.push_back(std::move(token_.word));
    PLIMSOLL_TRY_STATUS(advance());
    if (token_.is_sign("(")) {
      PLIMSOLL_TRY_STATUS(advance());
      PLIMSOLL_TRY_STATUS(expect(")", "a function", node.line));
    }
    return function_body(node, depth);
  }

  Status function_body(ShellNode& node, int depth) {
    node.kind = ShellNode::Kind::kFunction;
    while (token_.is_sign("\n")) PLIMSOLL_TRY_STATUS(advance());
    if (token_.kind == Token::Kind::kEnd || depth > kMaxDepth)
      return bad_input(fmt::format("line {}: a function has no body", node.line));
    PLIMSOLL_TRY(body, command(depth + 1));
    node.body.emplace_back();
    node.body.back().push_back(std::move(body));
    return {};
  }

  Status group(ShellNode& node, int depth) {
    const int line = token_.line;
    const bool braces = token_.is_word("{");
    if (!braces && lexer_.follows('(')) {
      node.kind = ShellNode::Kind::kArithmetic;
      PLIMSOLL_TRY(expression, lexer_.arithmetic());
      node.words.push_back({std::move(expression), {}, false});
      return advance();
    }
    node.kind = ShellNode::Kind::kGroup;
    PLIMSOLL_TRY_STATUS(advance());
    PLIMSOLL_TRY(body, list({braces ? "}" : ")"}, depth + 1));
    node.body.push_back(std::move(body));
    return expect(braces ? "}" : ")", braces ? "{" : "(", line);
  }

  Status simple(ShellNode& node, int depth) {
    while (true) {
      PLIMSOLL_TRY_STATUS(redirections(node));
      if (token_.kind != Token::Kind::kWord) break;
      const bool opens_condition = node.words.empty() && token_.is_word("[[");
      node.words.push_back(std::move(token_.word));
      if (opens_condition) {
        PLIMSOLL_TRY(words, lexer_.condition());
        std::move(words.begin(), words.end(), std::back_inserter(node.words));
        node.words.push_back({"]]", {}, false});
      }
      PLIMSOLL_TRY_STATUS(advance());
      if (token_.is_sign("(")) {
        if (node.words.size() != 1) return bad_input(fmt::format("line {}: unexpected '('", token_.line));
        PLIMSOLL_TRY_STATUS(advance());
        PLIMSOLL_TRY_STATUS(expect(")", "a function", node.line));
        return function_body(node, depth);
      }
    }
    if (node.words.empty() && node.output.empty() && node.here_document < 0 && !redirected_)
      return bad_input(fmt::format("line {}: unexpected '{}'", token_.line, token_.sign));
    return {};
  }

  // > file, 2>&1, <<EOF at this place; only the target of > and the here-document are kept.
  Status redirections(ShellNode& node) {
    redirected_ = false;
    while (
        token_.kind == Token::Kind::kOperator &&
        is_one_of(token_.sign, {"<", ">", ">>", "<<", "<<-", "<<<", ">&", "<&", "&>", "&>>", ">|", "<>", "<(", ">("})) {
      redirected_ = true;
      const std::string_view sign = token_.sign;
      const auto all_digits = [](const std::string& word) {
        return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
      };
      if (token_.touches_digits && !node.words.empty() && all_digits(node.words.back().text)) node.words.pop_back();
      PLIMSOLL_TRY_STATUS(advance());
      if (sign == "<(" || sign == ">(") {
        PLIMSOLL_TRY(ignored, list({")"}, kMaxDepth / 2));
        PLIMSOLL_TRY_STATUS(expect(")", "<(", node.line));
        continue;
      }
      if (token_.kind != Token::Kind::kWord) continue;
      std::string target = std::move(token_.word.text);
      if (sign == "<<" || sign == "<<-") {
        node.here_document = lexer_.announce(std::move(target), sign == "<<-");
      } else if (sign == ">" || sign == ">|") {
        node.output = std::move(target);
      } else if (sign == "<<<") {
        node.here_string = std::move(target);
      }
      PLIMSOLL_TRY_STATUS(advance());
    }
    return {};
  }

  Lexer lexer_;
  Token token_;
  bool redirected_ = false;
};

}  // namespace

Result<ShellScript> parse_shell(std::string_view text) {
  ShellScript script;
  PLIMSOLL_TRY(body, Parser(text, script.documents).script());
  script.body = std::move(body);
  return script;
}

}  // namespace plimsoll::job
