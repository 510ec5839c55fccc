// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_read.h"

#include "job/readers/shell_batch.h"

namespace plimsoll::job {

Result<ShellWord> text_of_document(const ShellNode& node, const ShellScript& script, ShellVariables& variables) {
  const HereDocument& document = script.documents[static_cast<std::size_t>(node.here_document)];
  if (document.is_quoted) return ShellWord{document.text, {}};
  return variables.expand_value(with_plain_quotes(document.text));
}

// IFS=, read -r A B <<< "$LIST": the words of the list, the rest to the last name.
Status read_words(const ShellNode& node, const ShellCommand& command, ShellVariables& variables) {
  PLIMSOLL_TRY(list, variables.expand_value(node.here_string));
  std::string separators = " \t\n";
  if (const ShellVariable* ifs = variables.find("IFS"); ifs != nullptr && ifs->words.size() == 1)
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
    PLIMSOLL_TRY_STATUS(variables.set(names[i], {i < parts.size() ? parts[i] : ShellWord{}}, false, false));
  if (fills_array && !names.empty()) PLIMSOLL_TRY_STATUS(variables.set(names.front(), std::move(parts), true, false));
  variables.unset("IFS");
  return {};
}

// read -r -d '' COMMAND <<EOF: the whole text is one value.
Status read_document(const ShellNode& node, const ShellScript& script, const ShellCommand& command,
                     ShellVariables& variables) {
  PLIMSOLL_TRY(text, text_of_document(node, script, variables));
  for (std::size_t i = 1; i < command.words.size(); ++i)
    if (is_name(command.words[i].text)) PLIMSOLL_TRY_STATUS(variables.set(command.words[i].text, {text}, false, false));
  return {};
}

Status read_unknown(const ShellCommand& command, ShellVariables& variables) {
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const std::string& name = command.words[i].text;
    if (is_name(name)) PLIMSOLL_TRY_STATUS(variables.set(name, {ShellWord{marked(name), {name}}}, false, false));
  }
  return {};
}

std::size_t script_word(const ShellCommand& command) {
  for (std::size_t i = 0; i + 1 < command.words.size(); ++i) {
    const std::string_view shell = command.words[i].text;
    const std::string_view name = shell.substr(shell.rfind('/') + 1);
    if (name != "bash" && name != "sh" && name != "zsh") continue;
    std::size_t at = i + 1;
    while (at < command.words.size() && command.words[at].text.starts_with('-')) ++at;  // -x, -e
    return at;
  }
  return command.words.size();
}

std::string echoed_text(const ShellCommand& command) {
  std::string text;
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    if (text.empty() && (word == "-e" || word == "-n")) continue;
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace plimsoll::job
