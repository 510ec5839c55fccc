// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/facts.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

constexpr int kTextWidth = 100;  // lines longer than this are hard to read, whatever the terminal

std::size_t text_width(int width) {
  return static_cast<std::size_t>(width > 0 ? std::min(width, kTextWidth) : kTextWidth);
}

std::string paragraphs(std::string_view text, int width) {
  std::string result;
  for (const std::string_view paragraph : split(text, '\n')) {
    // A line that starts with blanks is laid out by hand.
    if (paragraph.starts_with(' ')) {
      result += fmt::format("{}\n", paragraph);
      continue;
    }
    for (const std::string& line : wrap(paragraph, text_width(width))) result += line + '\n';
  }
  return result;
}

// "  left    right", the right side wrapped under itself.
std::string definition(std::string_view left, std::string_view right, std::size_t left_width, int width) {
  const std::size_t indent = left_width + 4;
  const std::size_t room = std::max<std::size_t>(20, text_width(width) - std::min(text_width(width), indent));
  std::string result = fmt::format("  {:<{}}  ", left, left_width);
  bool is_first = true;
  for (const std::string& line : wrap(right, room)) {
    if (!is_first) result += std::string(indent, ' ');
    result += line + '\n';
    is_first = false;
  }
  return result;
}

std::string spelling(const Flag& flag) {
  std::string text = flag.letter == '\0' ? std::string{} : fmt::format("-{}, ", flag.letter);
  text += fmt::format("--{}", flag.name);
  if (!flag.argument.empty()) text += fmt::format(" {}", flag.argument);
  return text;
}

std::string flag_list(std::span<const Flag> flags, int width) {
  std::size_t widest = 0;
  for (const Flag& flag : flags) widest = std::max(widest, spelling(flag).size());
  std::string text;
  for (const Flag& flag : flags) {
    const std::string help = flag.repeats ? fmt::format("{} (may be repeated)", flag.help) : std::string{flag.help};
    text += definition(spelling(flag), help, widest, width);
  }
  return text;
}

std::string entry_list(std::span<const Entry> entries, int width) {
  std::size_t widest = 0;
  for (const Entry& entry : entries) widest = std::max(widest, entry.name.size());
  std::string text;
  for (const Entry& entry : entries) text += definition(entry.name, entry.means, widest, width);
  return text;
}

}  // namespace

std::string help_of_program(std::span<const Verb* const> verbs, int width) {
  std::string text = "plimsoll tells before the launch whether a training job fits its GPUs, to the byte.\n\n";
  text += "usage: plimsoll VERB [ARGUMENT...]\n\n";
  std::size_t widest = 0;
  for (const Verb* verb : verbs) widest = std::max(widest, verb->name.size());
  for (const Verb* verb : verbs) text += definition(verb->name, verb->summary, widest, width);
  text += "\nplimsoll help VERB says more about one of them; plimsoll --version names the version.\n";
  text += "plimsoll keys lists the keys of a job, each of which is a flag of fit and plan.\n";
  text += "\nexit codes:\n" + entry_list(exit_codes(), width);
  text += "\nenvironment:\n" + entry_list(environment_variables(), width);
  text += "\nfiles:\n" + entry_list(files(), width);
  return text;
}

std::string help_of_verb(const Verb& verb, bool is_long, int width) {
  std::string usage = fmt::format("usage: plimsoll {}", verb.name);
  // Operands behind "--" are another program's words: ours come before.
  const bool last = verb.operands.starts_with("-- ");
  if (!verb.operands.empty() && !last) usage += fmt::format(" {}", verb.operands);
  usage += " [FLAG...]";
  if (verb.takes_keys) usage += " [--KEY VALUE...]";
  if (last) usage += fmt::format(" {}", verb.operands);
  std::string text = fmt::format("plimsoll {}: {}\n\n{}\n", verb.name, verb.summary, usage);
  if (is_long && !verb.details.empty()) text += fmt::format("\n{}", paragraphs(verb.details, width));
  text += fmt::format("\n{}", flag_list(all_flags(verb), width));
  if (!is_long) return text;
  if (!verb.examples.empty()) text += "\nexamples:\n";
  for (const Example& example : verb.examples) text += fmt::format("  {}\n      {}\n", example.command, example.says);
  return text;
}

}  // namespace plimsoll::cli
