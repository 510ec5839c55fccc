// SPDX-License-Identifier: Apache-2.0
// Scripts inside a script: what it sources, starts, writes before it starts, or hands to bash -c.
#include <fmt/format.h>

#include "job/readers/shell_read.h"
#include "job/readers/shell_runner.h"
#include "job/readers/shell_sed.h"

namespace plimsoll::job {

namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;

}  // namespace

Result<Truth> ShellRunner::run_inner(const std::string& text, std::vector<ShellWord> launcher, int line) {
  const std::vector<ShellWord> outer = launcher_;
  launcher_.insert(launcher_.end(), launcher.begin(), launcher.end());
  const std::size_t before = shell_.commands.size();
  auto done = run_text(text);
  launcher_ = outer;
  if (!done) return tl::make_unexpected(std::move(done.error()));
  for (std::size_t i = before; i < shell_.commands.size(); ++i) shell_.commands[i].line = line;
  return Truth::kTrue;
}

Result<Truth> ShellRunner::source(const ShellCommand& command) {
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

std::optional<std::pair<std::string, std::size_t>> ShellRunner::script_of(const ShellCommand& command) {
  const std::size_t at = script_word(command);
  if (at >= command.words.size()) return std::nullopt;
  const std::string& path = command.words[at].text;
  if (const auto written = written_.find(path); written != written_.end()) return std::pair(written->second, at);
  if (!options_.follows_scripts || !options_.read_file || !command.words[at].unknown.empty()) return std::nullopt;
  auto text = options_.read_file(path);
  if (!text || (sourced_ += text->size()) > kMaxFileBytes) return std::nullopt;
  if (shell_.notes.size() < 20) shell_.notes.push_back(fmt::format("the commands of {} are read", path));
  return std::pair(*std::move(text), at);
}

Result<Truth> ShellRunner::run_script(const std::string& text, std::size_t at, ShellCommand& command, int line) {
  variables_.begin_branch();
  std::vector<std::string> hidden;
  for (const auto& [name, variable] : variables_.all())
    if (name != "HOME" && exported_.find(name) == exported_.end()) hidden.push_back(name);
  for (const std::string& name : hidden) variables_.unset(name);
  auto outer = std::move(variables_.positional);
  variables_.positional.emplace(command.words.begin() + static_cast<std::ptrdiff_t>(at) + 1, command.words.end());
  command.words.resize(at);
  auto done = run_inner(text, std::move(command.words), line);
  flow_ = Flow::kOn;
  variables_.positional = std::move(outer);
  auto changes = variables_.end_branch();
  if (!changes) return tl::make_unexpected(std::move(changes.error()));
  return done;
}

Status ShellRunner::write_words(const ShellNode& node, const ShellCommand& command) {
  PLIMSOLL_TRY(path, variables_.expand_value(node.output));
  keep_script(path.text, echoed_text(command));
  return {};
}

void ShellRunner::keep_script(const std::string& path, std::string text) {
  if (path.empty() || path.starts_with("/dev/")) return;
  if (written_bytes_ += text.size(); written_bytes_ < kMaxFileBytes) written_[path] = std::move(text);
}

Status ShellRunner::edit_stream(const ShellNode& node, const ShellCommand& command) {
  std::optional<std::string> text = std::exchange(stream_, std::nullopt);
  const std::optional<SedCommand> edit = parse_sed(command);
  if (edit && !edit->file.empty()) {
    const auto written = shell_.files.find(edit->file);
    text = written != shell_.files.end() ? std::optional(written->second)
           : options_.read_file          ? options_.read_file(edit->file)
                                         : std::nullopt;
    if (text && (sourced_ += text->size()) > kMaxFileBytes) text.reset();
  }
  if (edit && text) {
    text = substitute(*edit, *text, kMaxFileBytes);
  } else {
    text.reset();
  }
  if (node.is_piped) {
    stream_ = std::move(text);
  } else if (text && !node.output.empty()) {
    PLIMSOLL_TRY(path, variables_.expand_value(node.output));
    if (path.unknown.empty() && (written_bytes_ += text->size()) < kMaxFileBytes)
      shell_.files[path.text] = *std::move(text);
  }
  return {};
}

Status ShellRunner::write_file(const ShellNode& node) {
  PLIMSOLL_TRY(path, variables_.expand_value(node.output));
  PLIMSOLL_TRY(document, text_of_document(node, *script_, variables_));
  keep_script(path.text, document.text);
  std::string text = document.unknown.empty() ? std::move(document.text) : std::string{};
  if (path.unknown.empty() || !path.text.empty()) shell_.files[path.text] = std::move(text);
  return {};
}
}  // namespace plimsoll::job
