// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "answer/ahead.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/job_keys.h"
#include "cli/pager.h"
#include "cli/run_folder.h"
#include "cli/waiting.h"

namespace plimsoll::cli {

namespace {

Result<const Verb*> find_verb(std::string_view name) {
  std::vector<std::string> names = {"help"};
  for (const Verb* verb : verbs()) {
    if (verb->name == name) return verb;
    names.emplace_back(verb->name);
  }
  const std::string meant = did_you_mean(name, names);
  return usage_error(fmt::format("there is no verb '{}'", name),
                     meant.empty() ? "plimsoll help lists the verbs" : meant);
}

ColorMode color_mode(const std::optional<std::string>& value) {
  if (value == "always") return ColorMode::kAlways;
  return value == "never" ? ColorMode::kNever : ColorMode::kAuto;
}

// Surplus operands are an error, not ignored: nearly always a value whose flag was mistyped or a shell's glob.
Status check_operands(const Verb& verb, const Arguments& arguments) {
  if (verb.most_operands < 0 || arguments.operands.size() <= static_cast<std::size_t>(verb.most_operands)) return {};
  const std::string& surplus = arguments.operands[static_cast<std::size_t>(verb.most_operands)];
  const std::string hint = fmt::format("plimsoll {} --help says what it takes", verb.name);
  return usage_error(verb.most_operands == 0 ? fmt::format("{} takes no operands, found '{}'", verb.name, surplus)
                                             : fmt::format("{} takes {} operand, found '{}' as well", verb.name,
                                                           verb.most_operands, surplus),
                     hint);
}

Result<ExitCode> run_help(std::span<const std::string> words, Console& console) {
  if (words.size() > 1) return usage_error(fmt::format("help takes one verb, found '{}' as well", words[1]));
  if (words.empty() || words[0] == "help" || words[0] == "-h" || words[0] == "--help") {
    const Pager pager(console);
    console.print(help_of_program(verbs(), console.width));
    return ExitCode::kYes;
  }
  PLIMSOLL_TRY(verb, find_verb(words[0]));
  const Pager pager(console);
  console.print(help_of_verb(*verb, true, console.width));
  return ExitCode::kYes;
}

// The console has the line of a person who waits for as long as a verb works.
class Waited {
 public:
  Waited(Console& console, Waiting* waiting) : console_(console) { console.waiting = waiting; }
  ~Waited() { console_.waiting = nullptr; }
  Waited(const Waited&) = delete;
  Waited& operator=(const Waited&) = delete;

 private:
  Console& console_;
};

Result<ExitCode> run_verb(const Verb& verb, std::span<const std::string> words, Console& console) {
  // Help is given even where the rest of the line is wrong.
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word != "-h" && word != "--help") continue;
    const Pager pager(console);
    console.print(help_of_verb(verb, word == "--help", console.width));
    return ExitCode::kYes;
  }
  std::optional<answer::Ahead> ahead;
  if (verb.reads_ahead) ahead.emplace();
  const std::vector<Flag> flags = all_flags(verb);
  std::optional<KeySet> keys;
  if (verb.takes_keys) keys = verb.keys != nullptr ? verb.keys() : job_keys();
  PLIMSOLL_TRY(arguments, parse_arguments(verb.name, words, flags, keys ? &*keys : nullptr));
  PLIMSOLL_TRY_STATUS(check_operands(verb, arguments));
  set_color(console, color_mode(arguments.value("color")));
  console.quiet = arguments.has("quiet");
  std::optional<Pager> pager;
  if (!verb.streams) pager.emplace(console);
  std::optional<Waiting> waiting;
  if (!verb.streams && !console.quiet && can_show_waiting()) waiting.emplace(verb.name);
  const Waited waited(console, waiting ? &*waiting : nullptr);
  PLIMSOLL_TRY(of_ranks, answer_for_ranks(verb.name, arguments, console));
  if (of_ranks) return *of_ranks;
  PLIMSOLL_TRY(expanded, with_run_folders(verb.name, std::move(arguments)));
  return verb.run(expanded, console);
}

Result<ExitCode> dispatch(std::span<const std::string> words, Console& console) {
  if (words.empty())
    return usage_error("a verb is missing", "plimsoll help lists the verbs; plimsoll fit JOB is where to start");
  const std::string& first = words[0];
  const std::span<const std::string> rest = words.subspan(1);
  if (first == "help") return run_help(rest, console);
  if (first == "-h" || first == "--help") return run_help({}, console);
  if (first == "--version") {
    if (!rest.empty()) return usage_error(fmt::format("--version stands alone, found '{}' as well", rest[0]));
    console.print(fmt::format("plimsoll {}\nsources {}\n", version(), sources()));
    return ExitCode::kYes;
  }
  if (first.starts_with('-'))
    return usage_error(fmt::format("flags follow the verb, found '{}' before it", first),
                       "plimsoll VERB FLAG..., or one of --help and --version alone");
  PLIMSOLL_TRY(verb, find_verb(first));
  return run_verb(*verb, rest, console);
}

}  // namespace

int run_program(std::span<const std::string> words, Console console) {
  const Result<ExitCode> result = dispatch(words, console);
  return end_with(result, console);
}

}  // namespace plimsoll::cli
