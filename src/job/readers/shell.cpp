// SPDX-License-Identifier: Apache-2.0
// Follows a script command by command. Nothing is run: commands are collected with their words filled in.
#include "job/readers/shell.h"

#include <algorithm>
#include <deque>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "job/readers/shell_arithmetic.h"
#include "job/readers/shell_batch.h"
#include "job/readers/shell_condition.h"
#include "job/readers/shell_patterns.h"
#include "job/readers/shell_syntax.h"
#include "job/readers/shell_variables.h"

namespace plimsoll::job {

namespace {

constexpr int kMaxSteps = 50'000;  // commands that are followed, loops unrolled
constexpr int kMaxDepth = 40;      // functions and scripts inside scripts
constexpr std::size_t kMaxRounds = 256;
constexpr std::size_t kMaxFileBytes = 1 << 20;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// NAME=value, NAME+=value, NAME[key]=value, NAME=(...): where the name ends, or nothing.
std::optional<std::size_t> end_of_name(const RawWord& word) {
  const std::size_t equals = word.text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  std::string_view name(word.text.data(), equals - (word.text[equals - 1] == '+' ? 1 : 0));
  if (!name.empty() && name.back() == ']') name = name.substr(0, name.find('['));
  if (!is_name(name)) return std::nullopt;
  return equals;
}

class Runner {
 public:
  explicit Runner(const ShellOptions& options) : options_(options) {}

  Result<Shell> run(std::string_view text) {
    PLIMSOLL_TRY_STATUS(variables_.set("HOME", {ShellWord{"~", {}}}, false, false));  // every login has one
    PLIMSOLL_TRY_STATUS(take_arguments());
    variables_.script_path = options_.path;
    if (!options_.path.empty()) PLIMSOLL_TRY_STATUS(name_source(options_.path));
    PLIMSOLL_TRY_STATUS(run_text(text));
    shell_.environment = exported();
    keep_unused_flags();
    for (const std::string& name : variables_.assumed_unset()) shell_.assumed_unset.push_back(name);
    return std::move(shell_);
  }

  Status set_batch_options(std::vector<std::string> options) {
    shell_.batch_options = std::move(options);
    for (const auto& [name, value] : variables_of_batch(shell_.batch_options))
      PLIMSOLL_TRY_STATUS(variables_.set(name, {ShellWord{value, {}}}, false, false));
    return {};
  }

 private:
  enum class Flow { kOn, kExit, kReturn, kBreak, kContinue };

  Status take_arguments() {
    std::size_t at = 0;
    for (; at < options_.arguments.size(); ++at) {
      const std::string& word = options_.arguments[at];
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || !is_name(std::string_view(word).substr(0, equals))) break;
      const std::string name = word.substr(0, equals);
      PLIMSOLL_TRY_STATUS(variables_.set(name, {ShellWord{word.substr(equals + 1), {}}}, false, false));
      exported_.insert(name);
    }
    if (at == options_.arguments.size()) return {};
    variables_.positional.emplace();
    for (; at < options_.arguments.size(); ++at)
      variables_.positional->push_back(ShellWord{options_.arguments[at], {}});
    return {};
  }

  [[nodiscard]] std::map<std::string, std::string> exported() const {
    std::map<std::string, std::string> environment;
    for (const std::string& name : exported_) {
      const ShellVariable* value = variables_.find(name);
      if (value != nullptr && value->words.size() == 1 && value->words.front().unknown.empty())
        environment[name] = value->words.front().text;
    }
    return environment;
  }

  // Flags in variables, for scripts that only set them (the model of another script).
  void keep_unused_flags() {
    constexpr std::size_t kMaxFlags = 2000;
    for (const auto& [name, variable] : variables_.all())
      for (const ShellWord& word : variable.words) {
        const bool holds_flags = word.text.find("--") != std::string::npos;
        if (!holds_flags && (shell_.unused.empty() || !variable.is_array)) continue;
        const std::string flat = replace(replace(word.text, '\n', ' '), '\\', ' ');
        for (const std::string_view part : split(flat, ' ')) {
          if (part.empty() || shell_.unused.size() > kMaxFlags) continue;
          ShellWord kept{without_marks(part), marked_names(part)};
          shell_.unused.push_back(std::move(kept));
        }
      }
  }

  // A script, a sourced file, or the text behind bash -c.
  Status run_text(std::string_view text) {
    if (++depth_ > kMaxDepth) return bad_input("scripts call each other too deeply");
    PLIMSOLL_TRY(script, parse_shell(text));
    scripts_.push_back(std::move(script));
    const ShellScript& parsed = scripts_.back();
    const ShellScript* outer = std::exchange(script_, &parsed);
    auto done = run_list(parsed.body);
    script_ = outer;
    --depth_;
    if (!done) return tl::make_unexpected(std::move(done.error()));
    return {};
  }

  // ${BASH_SOURCE[0]} of what is followed now.
  Status name_source(const std::string& path) {
    return variables_.set("BASH_SOURCE", {ShellWord{path, {}}}, true, false);
  }

  // The status of the last command.
  Result<Truth> run_list(const std::vector<ShellNode>& nodes) {
    Truth status = Truth::kTrue;
    for (std::size_t i = 0; i < nodes.size() && flow_ == Flow::kOn; ++i) {
      const ShellNode& node = nodes[i];
      const bool is_and = node.link == ShellNode::Link::kAnd;
      const bool is_or = node.link == ShellNode::Link::kOr;
      // A command of the machine is taken to succeed here: cd x && run, mkdir x || exit.
      if ((is_and && status == Truth::kFalse) || (is_or && status == Truth::kTrue)) continue;
      if (++steps_ > kMaxSteps) return bad_input("the script takes more steps than any launch script");
      const bool unsure = (is_and || is_or) && status == Truth::kUnknown;
      Result<Truth> next = Truth::kUnknown;
      if (unsure) {
        const auto run = [&]() -> Status {
          next = run_node(node);
          return next ? Status{} : Status{tl::make_unexpected(next.error())};
        };
        PLIMSOLL_TRY_STATUS(run_branches({run}, false));
        next = Truth::kUnknown;
      } else {
        next = run_node(node);
      }
      if (!next) {
        if (next.error().message.substr(0, 5) != "line ")
          next.error().message = fmt::format("line {}: {}", node.line, next.error().message);
        return next;
      }
      if (!node.is_piped) status = node.is_negated ? !*next : *next;
    }
    return status;
  }

  // Follows branches of which one runs (or none, unless one must); what they leave different is unknown.
  Status run_branches(const std::vector<std::function<Status()>>& branches, bool one_must_run) {
    std::vector<ShellVariables::Changes> changes;
    ++unsure_;
    for (const auto& branch : branches) {
      variables_.begin_branch();
      Status done = branch();
      auto changed = variables_.end_branch();
      flow_ = Flow::kOn;  // whether it left is not known
      if (!done) return done;
      if (!changed) return tl::make_unexpected(std::move(changed.error()));
      changes.push_back(*std::move(changed));
    }
    --unsure_;
    if (!one_must_run) changes.emplace_back();
    return changes.empty() ? Status{} : variables_.merge(changes);
  }

  Result<Truth> run_node(const ShellNode& node) {
    switch (node.kind) {
      case ShellNode::Kind::kSimple:
        return run_simple(node);
      case ShellNode::Kind::kGroup:
        return run_list(node.body.front());
      case ShellNode::Kind::kIf:
        return run_if(node);
      case ShellNode::Kind::kCase:
        return run_case(node);
      case ShellNode::Kind::kFor:
        return run_for(node);
      case ShellNode::Kind::kLoop:
        return run_loop(node);
      case ShellNode::Kind::kFunction:
        functions_[node.words.front().text] = {&node, script_};
        return Truth::kTrue;
      case ShellNode::Kind::kArithmetic: {
        PLIMSOLL_TRY(value, variables_.expand_value(fmt::format("$(({}))", node.words.front().text), true));
        if (!value.unknown.empty()) return Truth::kUnknown;
        return value.text == "0" ? Truth::kFalse : Truth::kTrue;
      }
    }
    return Truth::kUnknown;
  }

  Result<Truth> run_condition(const std::vector<ShellNode>& nodes) {
    const bool outer = std::exchange(is_condition_, true);
    auto truth = run_list(nodes);
    is_condition_ = outer;
    return truth;
  }

  Status run_body(const std::vector<ShellNode>& nodes) {
    const bool outer = std::exchange(is_condition_, false);
    auto done = run_list(nodes);
    is_condition_ = outer;
    return done ? Status{} : Status{tl::make_unexpected(std::move(done.error()))};
  }

  Result<Truth> run_if(const ShellNode& node) {
    PLIMSOLL_TRY(truth, run_condition(node.body[0]));
    const bool has_else = node.body.size() > 2;
    ++guarded_;
    auto done = run_if_branches(node, truth, has_else);
    --guarded_;
    return done;
  }

  Result<Truth> run_if_branches(const ShellNode& node, Truth truth, bool has_else) {
    if (truth == Truth::kTrue) {
      PLIMSOLL_TRY_STATUS(run_body(node.body[1]));
    } else if (truth == Truth::kFalse) {
      if (has_else) PLIMSOLL_TRY_STATUS(run_body(node.body[2]));
    } else {
      std::vector<std::function<Status()>> branches = {[&] { return run_body(node.body[1]); }};
      if (has_else) branches.emplace_back([&] { return run_body(node.body[2]); });
      PLIMSOLL_TRY_STATUS(run_branches(branches, has_else));
    }
    return Truth::kTrue;
  }

  Result<Truth> run_case(const ShellNode& node) {
    PLIMSOLL_TRY(subject, variables_.expand_value(node.words.front().text, true));
    std::vector<std::function<Status()>> branches;
    bool has_default = false;
    for (std::size_t i = 0; i < node.body.size(); ++i) {
      bool matches = false;
      for (const std::string& raw : node.patterns[i]) {
        PLIMSOLL_TRY(pattern, variables_.expand_value(raw, true));
        matches = matches || (subject.unknown.empty() && matches_pattern(pattern.text, subject.text));
        has_default = has_default || pattern.text == "*";
      }
      if (matches) {
        PLIMSOLL_TRY_STATUS(run_body(node.body[i]));
        return Truth::kTrue;
      }
      branches.emplace_back([&node, i, this] { return run_body(node.body[i]); });
    }
    if (!subject.unknown.empty()) PLIMSOLL_TRY_STATUS(run_branches(branches, has_default));
    return Truth::kTrue;
  }

  Result<Truth> run_for(const ShellNode& node) {
    const std::string& name = node.words.front().text;
    std::vector<ShellWord> items;
    bool is_known = true;
    if (!node.has_items) {
      is_known = variables_.positional.has_value();
      if (is_known) items = *variables_.positional;
    }
    for (std::size_t i = 1; i < node.words.size(); ++i) {
      PLIMSOLL_TRY(words, variables_.expand(node.words[i].text));
      for (ShellWord& word : words) {
        is_known = is_known && word.unknown.empty();
        items.push_back(std::move(word));
      }
    }
    if (!is_known || items.size() > kMaxRounds) {
      const auto once = [&]() -> Status {
        PLIMSOLL_TRY_STATUS(variables_.set(name, {ShellWord{marked(name), {name}}}, false, false));
        return run_body(node.body.front());
      };
      PLIMSOLL_TRY_STATUS(run_branches({once}, false));
      return Truth::kTrue;
    }
    for (const ShellWord& item : items) {
      PLIMSOLL_TRY_STATUS(variables_.set(name, {item}, false, false));
      PLIMSOLL_TRY_STATUS(run_body(node.body.front()));
      if (flow_ == Flow::kBreak || flow_ == Flow::kContinue) {
        const bool leaves = flow_ == Flow::kBreak;
        flow_ = Flow::kOn;
        if (leaves) break;
      }
      if (flow_ != Flow::kOn) break;
    }
    return Truth::kTrue;
  }

  Result<Truth> run_loop(const ShellNode& node) {
    for (std::size_t round = 0; round < kMaxRounds; ++round) {
      Truth truth = Truth::kUnknown;
      if (!node.body[0].empty()) {
        PLIMSOLL_TRY(condition, run_condition(node.body[0]));
        truth = node.is_until ? !condition : condition;
      }
      if (truth == Truth::kFalse) return Truth::kTrue;
      if (truth == Truth::kUnknown) {
        PLIMSOLL_TRY_STATUS(run_branches({[&] { return run_body(node.body[1]); }}, false));
        return Truth::kTrue;
      }
      PLIMSOLL_TRY_STATUS(run_body(node.body[1]));
      if (flow_ == Flow::kBreak || flow_ == Flow::kContinue) {
        const bool leaves = flow_ == Flow::kBreak;
        flow_ = Flow::kOn;
        if (leaves) return Truth::kTrue;
      }
      if (flow_ != Flow::kOn) return Truth::kTrue;
    }
    return Truth::kTrue;  // a loop that waits
  }

  Result<Truth> run_simple(const ShellNode& node) {
    const std::vector<RawWord>& words = node.words;
    if (words.empty()) return Truth::kTrue;
    const std::string& first = words.front().text;
    if (first == "[[" || first == "[" || first == "test") {
      std::vector<RawWord> inside(words.begin() + 1, words.end());
      if (first != "test" && !inside.empty()) inside.pop_back();
      return evaluate_condition(inside, first == "[[", variables_);
    }
    std::size_t at = 0;
    while (at < words.size() && is_one_of(words[at].text, {"exec", "nohup", "command", "builtin"})) ++at;
    const bool declares =
        at < words.size() && is_one_of(words[at].text, {"export", "declare", "local", "readonly", "typeset"});
    const bool exports = declares && words[at].text == "export";
    if (declares) ++at;
    std::size_t assigned = at;
    while (assigned < words.size() && end_of_name(words[assigned])) ++assigned;
    const bool runs = !declares && assigned < words.size();
    for (; at < words.size(); ++at) {
      if (end_of_name(words[at])) {
        PLIMSOLL_TRY_STATUS(assign(words[at], exports || runs));
      } else if (declares) {
        if (exports && is_name(words[at].text)) exported_.insert(words[at].text);
      } else {
        break;
      }
    }
    if (declares || at == words.size()) return Truth::kTrue;
    return run_words(node, at);
  }

  Status assign(const RawWord& word, bool exports) {
    const std::size_t equals = *end_of_name(word);
    const bool appends = word.text[equals - 1] == '+';
    std::string name = word.text.substr(0, equals - (appends ? 1 : 0));
    if (const std::size_t bracket = name.find('['); bracket != std::string::npos) {
      PLIMSOLL_TRY(key, variables_.expand_value(std::string_view(name).substr(bracket + 1, name.size() - bracket - 2)));
      name = fmt::format("{}[{}]", name.substr(0, bracket), key.text);
    }
    std::vector<ShellWord> values;
    if (word.is_array) {
      for (const std::string& element : word.elements) {
        PLIMSOLL_TRY(expanded, variables_.expand(element));
        std::move(expanded.begin(), expanded.end(), std::back_inserter(values));
      }
    } else {
      PLIMSOLL_TRY(value, variables_.expand_value(std::string_view(word.text).substr(equals + 1)));
      values.push_back(std::move(value));
    }
    PLIMSOLL_TRY_STATUS(variables_.set(name, std::move(values), word.is_array, appends));
    if (exports && exported_.size() < 10'000) exported_.insert(std::move(name));
    return {};
  }

  Result<Truth> run_words(const ShellNode& node, std::size_t at) {
    ShellCommand command;
    command.line = node.line;
    command.is_certain = unsure_ == 0;
    for (; at < node.words.size(); ++at) {
      PLIMSOLL_TRY(expanded, variables_.expand(node.words[at].text));
      std::move(expanded.begin(), expanded.end(), std::back_inserter(command.words));
    }
    if (command.words.empty()) return Truth::kTrue;
    const std::string name = command.words.front().text;
    if (node.here_document >= 0 && !node.output.empty() && name == "cat") PLIMSOLL_TRY_STATUS(write_file(node));
    if (const auto found = functions_.find(name); found != functions_.end()) return call(found->second, command);
    if (name == "true" || name == ":") return Truth::kTrue;
    if (name == "false") return Truth::kFalse;
    if (name == "echo" && !node.output.empty()) PLIMSOLL_TRY_STATUS(write_words(node, command));
    if (is_one_of(name, {"echo", "printf", "cat", "tee", "cd", "mkdir", "ulimit", "module", "wait", "trap", "pip"}))
      return is_condition_ ? Truth::kUnknown : Truth::kTrue;
    // A guard ("if the image is not set, say so and leave"): who starts the script gets past it.
    const bool is_failure =
        command.words.size() > 1 && command.words[1].text != "0" && command.words[1].unknown.empty();
    if (name == "exit" && is_failure && guarded_ > 0) return Truth::kTrue;
    if (is_one_of(name, {"exit", "return", "break", "continue"})) {
      flow_ = name == "exit"     ? Flow::kExit
              : name == "return" ? Flow::kReturn
              : name == "break"  ? Flow::kBreak
                                 : Flow::kContinue;
      return Truth::kTrue;
    }
    if (name == "unset") {
      for (std::size_t i = 1; i < command.words.size(); ++i) variables_.unset(command.words[i].text);
      return Truth::kTrue;
    }
    if (name == "shift") return shift(command);
    if (name == "set") return set_positional(command);
    if (name == "read" && !node.here_string.empty()) return read_words(node, command);
    const bool takes_all = std::any_of(command.words.begin(), command.words.end(),
                                       [](const ShellWord& word) { return word.text == "-d"; });
    if (name == "read" && node.here_document >= 0 && takes_all) return read_document(node, command);
    if (name == "read" || name == "mapfile" || name == "readarray") {
      for (std::size_t i = 1; i < command.words.size(); ++i)
        if (is_name(command.words[i].text)) {
          const std::string& variable = command.words[i].text;
          PLIMSOLL_TRY_STATUS(variables_.set(variable, {ShellWord{marked(variable), {variable}}}, false, false));
        }
      return Truth::kUnknown;
    }
    if (name == "source" || name == ".") return source(command);
    if (name == "eval") {
      std::string text;
      for (std::size_t i = 1; i < command.words.size(); ++i) text += (i > 1 ? " " : "") + command.words[i].text;
      return run_inner(text, {}, node.line);
    }
    // srun ... bash -c "python train.py ...": the text is a script of its own, and what stands before starts it.
    for (std::size_t i = 0; i + 2 < command.words.size(); ++i) {
      const std::string& shell = command.words[i].text;
      const bool is_shell = is_one_of(std::string_view(shell).substr(shell.rfind('/') + 1), {"bash", "sh", "zsh"});
      const std::string& option = command.words[i + 1].text;
      const bool gives_text = option.size() >= 2 && option.size() <= 5 && option[0] == '-' && option.back() == 'c';
      if (!is_shell || !gives_text) continue;
      const ShellWord inner = command.words[i + 2];
      command.words.resize(i + 1);  // the shell stays: what it exports, nothing before it decides
      return run_inner(inner.text, std::move(command.words), node.line);
    }
    if (const auto script = script_of(command)) return run_script(*script, command, node.line);
    command.words.insert(command.words.begin(), launcher_.begin(), launcher_.end());
    command.environment = exported();
    if (shell_.commands.size() > 2000) return bad_input("the script runs more commands than any launch script");
    bytes_ += 256;
    for (ShellWord& word : command.words) {
      if (!word.unknown.empty()) word.text = without_marks(word.text);
      bytes_ += word.text.size() + sizeof(ShellWord);
    }
    for (const auto& [key, value] : command.environment) bytes_ += key.size() + value.size() + 96;
    if (bytes_ > (16U << 20U)) return bad_input("the script runs more words than any launch script");
    shell_.commands.push_back(std::move(command));
    return is_condition_ ? Truth::kUnknown : Truth::kTrue;
  }

  // IFS=, read -r A B <<< "$LIST": the words of the list, the rest to the last name.
  Result<Truth> read_words(const ShellNode& node, const ShellCommand& command) {
    PLIMSOLL_TRY(list, variables_.expand_value(node.here_string));
    std::string separators = " \t\n";
    if (const ShellVariable* ifs = variables_.find("IFS"); ifs != nullptr && ifs->words.size() == 1)
      separators = ifs->words.front().text;
    std::vector<std::string> names;
    bool fills_array = false;
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      const std::string& word = command.words[i].text;
      if (word.starts_with('-')) fills_array = fills_array || word.find('a') != std::string::npos;
      if (is_name(word)) names.push_back(word);
    }
    std::vector<ShellWord> parts;
    for (std::string& part : split_fields(list.text, separators, fills_array ? 1000 : names.size()))
      parts.push_back(ShellWord{part, marked_names(part)});
    for (std::size_t i = 0; i < names.size() && !fills_array; ++i)
      PLIMSOLL_TRY_STATUS(variables_.set(names[i], {i < parts.size() ? parts[i] : ShellWord{}}, false, false));
    if (fills_array && !names.empty())
      PLIMSOLL_TRY_STATUS(variables_.set(names.front(), std::move(parts), true, false));
    variables_.unset("IFS");
    return Truth::kTrue;
  }

  Result<Truth> run_inner(const std::string& text, std::vector<ShellWord> launcher, int line) {
    const std::vector<ShellWord> outer = launcher_;
    launcher_.insert(launcher_.end(), launcher.begin(), launcher.end());
    const std::size_t before = shell_.commands.size();
    auto done = run_text(text);
    launcher_ = outer;
    if (!done) return tl::make_unexpected(std::move(done.error()));
    for (std::size_t i = before; i < shell_.commands.size(); ++i) shell_.commands[i].line = line;
    return Truth::kTrue;
  }

  struct Function {
    const ShellNode* node = nullptr;
    const ShellScript* script = nullptr;
  };

  Result<Truth> call(const Function function, ShellCommand& command) {
    if (++depth_ > kMaxDepth) return bad_input("functions call each other too deeply");
    auto outer = std::move(variables_.positional);
    variables_.positional.emplace(command.words.begin() + 1, command.words.end());
    const ShellScript* outer_script = std::exchange(script_, function.script);
    auto done = run_list(function.node->body.front());
    script_ = outer_script;
    if (flow_ == Flow::kReturn) flow_ = Flow::kOn;
    variables_.positional = std::move(outer);
    --depth_;
    return done;
  }

  Result<Truth> shift(const ShellCommand& command) {
    if (!variables_.positional) return Truth::kUnknown;
    const auto count =
        command.words.size() > 1 ? evaluate_arithmetic(command.words[1].text) : std::optional<std::int64_t>(1);
    auto& words = *variables_.positional;
    if (!count || *count < 0 || *count > static_cast<std::int64_t>(words.size())) return Truth::kFalse;
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(*count));
    return Truth::kTrue;
  }

  Result<Truth> set_positional(const ShellCommand& command) {
    if (command.words.size() > 1 && command.words[1].text == "--")
      variables_.positional.emplace(command.words.begin() + 2, command.words.end());
    return Truth::kTrue;
  }

  Result<Truth> source(const ShellCommand& command) {
    if (command.words.size() < 2) return Truth::kUnknown;
    const ShellWord& word = command.words[1];
    std::optional<std::string> text;
    if (options_.read_file && !word.text.empty()) text = options_.read_file(word.text);
    if (!text) {
      if (shell_.notes.size() < 20)
        shell_.notes.push_back(fmt::format("source {}: not found, so what it sets is not known",
                                           word.text.empty() ? "of an unknown file" : word.text.substr(0, 200)));
      return Truth::kUnknown;
    }
    if (sourced_ += text->size(); sourced_ > kMaxFileBytes) return bad_input("the script sources too much");
    if (!options_.path.empty()) PLIMSOLL_TRY_STATUS(name_source(word.text));
    PLIMSOLL_TRY_STATUS(run_text(*text));
    if (!options_.path.empty()) PLIMSOLL_TRY_STATUS(name_source(options_.path));
    return Truth::kTrue;
  }

  struct Script {
    std::string text;
    std::size_t at = 0;  // its name in the command
  };

  // srun ... bash run.sh a b: a script that this one wrote, or, where options say so, one that lies beside it.
  std::optional<Script> script_of(const ShellCommand& command) {
    for (std::size_t i = 0; i + 1 < command.words.size(); ++i) {
      const std::string_view shell = std::string_view(command.words[i].text);
      if (!is_one_of(shell.substr(shell.rfind('/') + 1), {"bash", "sh", "zsh"})) continue;
      std::size_t at = i + 1;
      while (at < command.words.size() && command.words[at].text.starts_with('-')) ++at;  // -x, -e
      if (at >= command.words.size()) return std::nullopt;
      const std::string& path = command.words[at].text;
      if (const auto written = written_.find(path); written != written_.end()) return Script{written->second, at};
      if (!options_.follows_scripts || !options_.read_file || !command.words[at].unknown.empty()) return std::nullopt;
      auto text = options_.read_file(path);
      if (!text || (sourced_ += text->size()) > kMaxFileBytes) return std::nullopt;
      if (shell_.notes.size() < 20) shell_.notes.push_back(fmt::format("the commands of {} are read", path));
      return Script{*std::move(text), at};
    }
    return std::nullopt;
  }

  // It sees what is exported and its own arguments, and changes nothing here.
  Result<Truth> run_script(const Script& script, ShellCommand& command, int line) {
    variables_.begin_branch();
    std::vector<std::string> hidden;
    for (const auto& [name, variable] : variables_.all())
      if (name != "HOME" && exported_.find(name) == exported_.end()) hidden.push_back(name);
    for (const std::string& name : hidden) variables_.unset(name);
    auto outer = std::move(variables_.positional);
    variables_.positional.emplace(command.words.begin() + static_cast<std::ptrdiff_t>(script.at) + 1,
                                  command.words.end());
    command.words.resize(script.at);
    auto done = run_inner(script.text, std::move(command.words), line);
    flow_ = Flow::kOn;
    variables_.positional = std::move(outer);
    auto changes = variables_.end_branch();
    if (!changes) return tl::make_unexpected(std::move(changes.error()));
    return done;
  }

  // echo "$COMMAND" > run.sh
  Status write_words(const ShellNode& node, const ShellCommand& command) {
    PLIMSOLL_TRY(path, variables_.expand_value(node.output));
    std::string text;
    for (std::size_t i = 1; i < command.words.size(); ++i)
      if (command.words[i].text != "-e" && command.words[i].text != "-n")
        text += (text.empty() ? "" : " ") + command.words[i].text;
    keep_script(path.text, std::move(text));
    return {};
  }
  void keep_script(const std::string& path, std::string text) {
    if (path.empty() || path.starts_with("/dev/")) return;
    if (written_bytes_ += text.size(); written_bytes_ < kMaxFileBytes) written_[path] = std::move(text);
  }

  // cat <<EOF > file: a configuration that the script writes before it starts.
  Status write_file(const ShellNode& node) {
    PLIMSOLL_TRY(path, variables_.expand_value(node.output));
    PLIMSOLL_TRY(document, text_of_document(node));
    keep_script(path.text, document.text);
    std::string text = document.unknown.empty() ? std::move(document.text) : std::string{};
    if (path.unknown.empty() || !path.text.empty()) shell_.files[path.text] = std::move(text);
    return {};
  }

  Result<ShellWord> text_of_document(const ShellNode& node) {
    const HereDocument& document = script_->documents[static_cast<std::size_t>(node.here_document)];
    if (document.is_quoted) return ShellWord{document.text, {}};
    return variables_.expand_value(with_plain_quotes(document.text));
  }

  // read -r -d '' COMMAND <<EOF: the whole text is one value.
  Result<Truth> read_document(const ShellNode& node, const ShellCommand& command) {
    PLIMSOLL_TRY(text, text_of_document(node));
    for (std::size_t i = 1; i < command.words.size(); ++i)
      if (is_name(command.words[i].text))
        PLIMSOLL_TRY_STATUS(variables_.set(command.words[i].text, {text}, false, false));
    return Truth::kUnknown;
  }

  const ShellOptions& options_;
  ShellVariables variables_;
  Shell shell_;
  std::set<std::string> exported_;
  std::map<std::string, Function, std::less<>> functions_;
  std::deque<ShellScript> scripts_;  // functions point into them
  const ShellScript* script_ = nullptr;
  std::vector<ShellWord> launcher_;
  Flow flow_ = Flow::kOn;
  bool is_condition_ = false;
  int unsure_ = 0;
  int guarded_ = 0;  // conditions around the command
  int depth_ = 0;
  int steps_ = 0;
  std::map<std::string, std::string> written_;  // files that the script writes, with the marks of what is not known
  std::size_t written_bytes_ = 0;
  std::size_t sourced_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

Result<Shell> read_shell(std::string_view text, const ShellOptions& options) {
  std::vector<std::string> batch_options = batch_options_of(text);
  Runner runner(options);
  PLIMSOLL_TRY_STATUS(runner.set_batch_options(std::move(batch_options)));
  return runner.run(text);
}

}  // namespace plimsoll::job
