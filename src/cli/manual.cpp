// SPDX-License-Identifier: Apache-2.0
#include "cli/manual.h"

#include <fmt/format.h>

#include "answer/listing.h"
#include "answer/rl.h"
#include "base/text.h"
#include "cli/facts.h"
#include "job/keys.h"

namespace plimsoll::cli {

namespace {

// roff reads a line that begins with a dot or an apostrophe as a request, and a backslash as an escape; a hyphen that
// is typed has to stay one.
std::string escaped(std::string_view text) {
  std::string result;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
    line_begins = c == '\n';
  }
  return result;
}

std::string upper(std::string_view text) {
  std::string result;
  for (const char c : text) result += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return result;
}

std::string head(std::string_view name, std::string_view summary, std::string_view version) {
  return fmt::format(".TH {} 1 \"\" \"plimsoll {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", upper(name), version,
                     escaped(name), escaped(summary));
}

std::string paragraphs(std::string_view text) {
  std::string result;
  for (const std::string_view paragraph : split(text, '\n'))
    if (!trim(paragraph).empty()) result += fmt::format(".PP\n{}\n", escaped(trim(paragraph)));
  return result;
}

std::string flag_entry(const Flag& flag) {
  std::string spelling = flag.letter == '\0' ? std::string{} : fmt::format("\\-{}, ", flag.letter);
  spelling += fmt::format("\\-\\-{}", escaped(flag.name));
  std::string text = fmt::format(".TP\n.B {}", spelling);
  if (!flag.argument.empty()) text += fmt::format(" \\fI{}\\fR", escaped(flag.argument));
  return text + fmt::format("\n{}{}\n", escaped(flag.help), flag.repeats ? " (may be repeated)" : "");
}

std::string section(std::string_view title, std::span<const Entry> entries) {
  std::string text = fmt::format(".SH {}\n", title);
  for (const Entry& entry : entries) text += fmt::format(".TP\n.B {}\n{}\n", escaped(entry.name), escaped(entry.means));
  return text;
}

}  // namespace

std::string manual_of_program(std::span<const Verb* const> verbs, std::string_view version) {
  std::string text = head("plimsoll", "memory and time of training language models", version);
  text += ".SH SYNOPSIS\n.B plimsoll\n.I VERB\n[\\fIARGUMENT\\fR...]\n.SH DESCRIPTION\n";
  text += escaped(
              "Tells before the launch whether a training job fits its GPUs, to the byte; finds the fastest "
              "configuration that does; after a crash says why memory ran out and prices the fixes; and replays "
              "recorded memory histories under other allocator settings.") +
          "\n.SH VERBS\n";
  for (const Verb* verb : verbs)
    text += fmt::format(".TP\n.BR plimsoll\\-{} (1)\n{}\n", escaped(verb->name), escaped(verb->summary));
  text += section("EXIT STATUS", exit_codes());
  text += section("ENVIRONMENT", environment_variables());
  text += section("FILES", files());
  text += ".SH KEYS OF A JOB\n";
  for (const job::KeyInfo& key : job::key_table())
    text += fmt::format(".TP\n.B {} \\fR[{}] {}\n{}\n", escaped(key.name), escaped(key.section), escaped(key.type),
                        escaped(key.doc));
  text += ".SH KEYS OF A RUN OF RL\n";
  for (const rl::Key& key : rl::key_table())
    text += fmt::format(".TP\n.B {} \\fR[{}] {}\n{}\n", escaped(key.name), escaped(key.section),
                        escaped(rl::type_name(key)), escaped(key.doc));
  text += ".SH SETTINGS OF THE ALLOCATOR\n";
  for (const allocator::Setting* setting : answer::find_allocator_settings("").value_or(answer::AllocatorSettings{}))
    text += fmt::format(".TP\n.B {} \\fRsince PyTorch {}.{}\n{}\n", escaped(setting->name), setting->since.major,
                        setting->since.minor, escaped(setting->doc));
  return text;
}

std::string manual_of_verb(const Verb& verb, std::string_view version) {
  const std::string name = fmt::format("plimsoll-{}", verb.name);
  std::string text = head(name, verb.summary, version);
  text += fmt::format(".SH SYNOPSIS\n.B plimsoll {}\n{}[\\fIFLAG\\fR...]{}\n", escaped(verb.name),
                      verb.operands.empty() ? "" : escaped(verb.operands) + "\n",
                      verb.takes_keys ? " [\\fB\\-\\-\\fIKEY VALUE\\fR...]" : "");
  text += ".SH DESCRIPTION\n" + paragraphs(verb.details) + ".SH OPTIONS\n";
  for (const Flag& flag : all_flags(verb)) text += flag_entry(flag);
  if (!verb.examples.empty()) text += ".SH EXAMPLES\n";
  for (const Example& example : verb.examples)
    text += fmt::format(".TP\n.B {}\n{}\n", escaped(example.command), escaped(example.says));
  text += section("EXIT STATUS", exit_codes());
  return text + ".SH SEE ALSO\n.BR plimsoll (1)\n";
}

}  // namespace plimsoll::cli
