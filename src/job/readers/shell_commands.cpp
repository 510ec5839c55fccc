// SPDX-License-Identifier: Apache-2.0
// One simple command: what it assigns, what the shell itself does with it, or that it is kept as one that runs.
#include <algorithm>

#include <fmt/format.h>

#include "job/readers/shell_arithmetic.h"
#include "job/readers/shell_read.h"
#include "job/readers/shell_runner.h"

namespace plimsoll::job {

namespace {

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

Result<Truth> after(const Status& done, Truth truth) {
  if (!done) return tl::make_unexpected(done.error());
  return truth;
}

}  // namespace

Result<Truth> ShellRunner::run_simple(const ShellNode& node) {
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

Status ShellRunner::assign(const RawWord& word, bool exports) {
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

Result<Truth> ShellRunner::run_words(const ShellNode& node, std::size_t at) {
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
  if (name != "sed") stream_.reset();  // what another command makes of it is not known
  if (name == "sed") {
    PLIMSOLL_TRY_STATUS(edit_stream(node, command));
    return is_condition_ ? Truth::kUnknown : Truth::kTrue;
  }
  if (name == "true" || name == ":") return Truth::kTrue;
  if (name == "false") return Truth::kFalse;
  if (name == "echo" && !node.output.empty()) PLIMSOLL_TRY_STATUS(write_words(node, command));
  if (is_one_of(name, {"echo", "printf", "cat", "tee", "cd", "mkdir", "ulimit", "module", "wait", "trap", "pip"}))
    return is_condition_ ? Truth::kUnknown : Truth::kTrue;
  // A guard ("if the image is not set, say so and leave"): who starts the script gets past it.
  const bool is_failure = command.words.size() > 1 && command.words[1].text != "0" && command.words[1].unknown.empty();
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
  if (name == "read" && !node.here_string.empty()) return after(read_words(node, command, variables_), Truth::kTrue);
  const bool takes_all =
      std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) { return word.text == "-d"; });
  if (name == "read" && node.here_document >= 0 && takes_all)
    return after(read_document(node, *script_, command, variables_), Truth::kUnknown);
  if (name == "read" || name == "mapfile" || name == "readarray") {
    PLIMSOLL_TRY_STATUS(read_unknown(command, variables_));
    return Truth::kUnknown;
  }
  if (name == "source" || name == ".") return source(command);
  if (name == "eval") {
    return run_inner(echoed_text(command), {}, node.line);
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
  if (const auto script = script_of(command)) return run_script(script->first, script->second, command, node.line);
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

Result<Truth> ShellRunner::call(const Function function, ShellCommand& command) {
  if (++depth_ > kMaxShellDepth) return bad_input("functions call each other too deeply");
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

Result<Truth> ShellRunner::shift(const ShellCommand& command) {
  if (!variables_.positional) return Truth::kUnknown;
  const auto count =
      command.words.size() > 1 ? evaluate_arithmetic(command.words[1].text) : std::optional<std::int64_t>(1);
  auto& words = *variables_.positional;
  if (!count || *count < 0 || *count > static_cast<std::int64_t>(words.size())) return Truth::kFalse;
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(*count));
  return Truth::kTrue;
}

Result<Truth> ShellRunner::set_positional(const ShellCommand& command) {
  if (command.words.size() > 1 && command.words[1].text == "--")
    variables_.positional.emplace(command.words.begin() + 2, command.words.end());
  return Truth::kTrue;
}
}  // namespace plimsoll::job
