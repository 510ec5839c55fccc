// SPDX-License-Identifier: Apache-2.0
// The arguments that Megatron-LM prints when it starts: "------ arguments ------" and lines "name ...... value".
#include <fmt/format.h>

#include "base/lines.h"
#include "base/text.h"
#include "framework/megatron_lm/flags.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

namespace {

constexpr std::string_view kArgumentsStart = "- arguments -";
constexpr std::string_view kArgumentsEnd = "- end of arguments -";
constexpr std::size_t kMaxArguments = 5000;

// "[default0]:  micro_batch_size ................ 4", with or without what a launcher writes in front.
std::optional<std::pair<std::string_view, std::string_view>> printed_argument(std::string_view line) {
  const std::size_t dots = line.find(" ....");
  if (dots == std::string_view::npos) return std::nullopt;
  std::string_view name = trim(line.substr(0, dots));
  name = name.substr(name.find_last_of(" :]|") + 1);
  const std::string_view rest = line.substr(dots + 1);
  const std::size_t value = rest.find_first_not_of('.');
  if (name.empty() || value == std::string_view::npos) return std::nullopt;
  return std::pair{name, trim(rest.substr(value))};
}

}  // namespace

bool is_megatron_log(std::string_view text) {
  const std::string_view start = text.substr(0, 1 << 20);
  const std::size_t at = start.find(kArgumentsStart);
  return at != std::string_view::npos && start.find(" ....", at) != std::string_view::npos;
}

Result<Draft> read_megatron_log(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kMegatronLog;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  draft.read_as = "the arguments that Megatron-LM printed";
  std::string_view text = file.text;
  text = text.substr(text.find(kArgumentsStart));
  const std::size_t end = text.find(kArgumentsEnd);
  if (end == std::string_view::npos) draft.notes.push_back(fmt::format("{}: the list of arguments is cut", file.path));
  text = text.substr(0, end);
  std::size_t count = 0;
  for (const std::string_view line : lines(text)) {
    const auto argument = printed_argument(line);
    if (!argument) continue;
    if (++count > kMaxArguments) return bad_input("more arguments than Megatron-LM has");
    const auto& [name, value] = *argument;
    if (name == "world_size") draft.assign("gpus", document::parse_scalar(value), "world_size");
    if (value == "None" || value.empty()) continue;
    // Every argument is printed, with its default and under the parser's own name: what no key holds says nothing.
    const Alias* alias = find_alias(Framework::kMegatronLm, name);
    const bool sets = is_key(name) || (alias != nullptr && alias->kind == AliasKind::kKey);
    const bool is_derived = name == "params_dtype" || name == "world_size";
    if (sets && !is_derived) assign_flag(draft, name, document::parse_scalar(value));
  }
  if (count == 0) return bad_input("no argument of Megatron-LM is printed in the log");
  settle_megatron(draft);
  return draft;
}

}  // namespace plimsoll::job
