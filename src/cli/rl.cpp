// SPDX-License-Identifier: Apache-2.0
// plimsoll rl: sizes and balances a post-training run before it starts.
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "base/file.h"
#include "cli/job_keys.h"
#include "cli/rl_report.h"
#include "cli/rl_timeline.h"
#include "cli/verb.h"
#include "rl/keys.h"
#include "rl/read.h"

namespace plimsoll::cli {

namespace {

KeyKind kind_of(std::string_view name) {
  if (name == "framework") return KeyKind::kValue;
  const rl::Key* key = rl::find_key(name);
  if (key == nullptr) return job_keys().kind_of(name);
  return rl::type_name(*key) == "boolean" ? KeyKind::kSwitch : KeyKind::kValue;
}

KeySet rl_keys() {
  KeySet keys = job_keys();
  keys.kind_of = kind_of;
  for (const rl::Key& key : rl::key_table()) keys.names.emplace_back(key.name);
  return keys;
}

Result<std::optional<job::InputFile>> read_input(const Arguments& arguments) {
  if (arguments.operands.empty()) {
    for (const auto& [key, value] : arguments.keys)
      if (key == "model") return std::optional<job::InputFile>{};
    return usage_error("a run is missing; wanted a file, or --model and the other keys",
                       "plimsoll rl run.toml, or plimsoll rl --model qwen3-8b --gpu h100 --gpus 16 ...");
  }
  PLIMSOLL_TRY(text, read_file(arguments.operands.front()));
  const std::string& path = arguments.operands.front();
  return std::optional{job::InputFile{path == "-" ? "standard input" : path, std::move(text)}};
}

Result<std::int64_t> positive(const Arguments& arguments, const char* flag, std::int64_t otherwise, std::int64_t most) {
  const auto text = arguments.value(flag);
  if (!text) return otherwise;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || value < 1 || value > most)
    return usage_error(fmt::format("--{} is '{}'; wanted 1 to {}", flag, *text, most));
  return value;
}

Status write_text(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return bad_input(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written)
    return bad_input(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  return {};
}

void show_warnings(const std::vector<std::string>& warnings, const Console& console) {
  for (const std::string& warning : warnings) console.warn(warning);
}

Result<ExitCode> run_plan(const rl::Run& draft, const Arguments& arguments, const Console& console) {
  rl::PlanOptions options;
  PLIMSOLL_TRY(keep, positive(arguments, "top", 5, 100));
  options.keep = static_cast<std::size_t>(keep);
  PLIMSOLL_TRY(plan, rl::plan(draft, options));
  console.print(arguments.has("json") ? rl_plan_json(plan) : rl_plan_report(plan, console));
  if (!plan.best.empty()) show_warnings(plan.best.front().evaluation.warnings, console);
  return plan.best.empty() ? ExitCode::kNo : ExitCode::kYes;
}

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  if (arguments.has("keys")) {
    console.print(rl_keys_report(console));
    return ExitCode::kYes;
  }
  PLIMSOLL_TRY(file, read_input(arguments));
  PLIMSOLL_TRY(draft, rl::read_draft(file, arguments.keys));
  if (arguments.has("plan")) return run_plan(draft, arguments, console);
  rl::Run run = draft;
  if (auto done = rl::complete(run); !done)
    return tl::make_unexpected(file ? std::move(done.error()).with_context(file->path) : std::move(done.error()));
  rl::EvaluationOptions options;
  PLIMSOLL_TRY(steps, positive(arguments, "steps", options.simulation.steps, 10'000));
  options.simulation.steps = steps;
  options.simulation.timeline = arguments.has("timeline") || arguments.has("svg");
  PLIMSOLL_TRY(answer, rl::evaluate(run, options));
  if (const auto path = arguments.value("svg")) PLIMSOLL_TRY_STATUS(write_text(*path, timeline_svg(answer)));
  if (arguments.has("knobs")) {
    options.simulation.timeline = false;
    const auto priced = rl::price_knobs(draft, run, answer, rl::knobs_of(run, answer), options);
    console.print(arguments.has("json") ? rl_knobs_json(priced) : rl_knobs_report(priced, console));
  } else if (arguments.has("json")) {
    console.print(rl_json(run, answer));
  } else {
    console.print(rl_report(run, answer, console));
    if (arguments.has("timeline")) console.print('\n' + timeline_text(answer, console.width));
  }
  show_warnings(answer.warnings, console);
  if (!arguments.has("json") && !arguments.has("knobs"))
    console.next(fmt::format("plimsoll rl {} --plan", arguments.operands.empty() ? "..." : arguments.operands.front()));
  return answer.fits() ? ExitCode::kYes : ExitCode::kNo;
}

std::vector<Flag> flags() {
  return {
      {.name = "plan", .argument = "", .help = "rank splits and settings; what the file or a flag gives stays"},
      {.name = "top", .argument = "N", .help = "how many of them to show; 5 if not given"},
      {.name = "knobs", .argument = "", .help = "turn every knob alone and show what changes"},
      {.name = "timeline", .argument = "", .help = "draw the last simulated steps as text"},
      {.name = "svg", .argument = "FILE", .help = "draw them as SVG"},
      {.name = "steps", .argument = "N", .help = "trainer steps to simulate; 32 if not given"},
      {.name = "keys", .argument = "", .help = "list the keys of a run"},
  };
}

}  // namespace

extern const Verb kRl;
const Verb kRl = {
    .name = "rl",
    .summary = "size and balance an RL post-training run: trainer, inference servers, rollouts",
    .operands = "[FILE]",
    .most_operands = 1,
    .details =
        "Reads a run from one TOML or JSON file and flags: model, GPUs, the algorithm (group size, prompts per step, "
        "extra passes), the lengths of prompts and completions, the framework (telescope, verl, openrlhf, nemo-rl, "
        "prime-rl, generic) whose defaults and rules apply, [trainer] with the keys of a training job, and [inference] "
        "with those of vLLM or SGLang. Every key is a flag too and overrules the file; --keys lists them.\n"
        "\n"
        "The answer: whether the trainer fits in its step and while weights are gathered and sent, what a server does "
        "with its memory and whether it starts, the seconds of a step, tokens per second by a closed form and by a "
        "simulation of the loop with its length distribution and rules of staleness, and what bounds the run.\n"
        "\n"
        "--plan chooses the split of the GPUs, the size and lanes of a server, the limit of staleness, seq_len and the "
        "trainer's parallelism, as far as they are not given. Exit code 0 when it runs, 1 when a side does not fit.",
    .flags = flags(),
    .takes_keys = true,
    .keys = rl_keys,
    .examples = {{"plimsoll rl run.toml", "the answer for a run"},
                 {"plimsoll rl run.toml --max-async-rollout 4 --timeline", "with one knob turned, and drawn in time"},
                 {"plimsoll rl run.toml --plan", "the best splits and settings"},
                 {"plimsoll rl run.toml --knobs", "what every knob is worth"}},
    .run = run,
};

}  // namespace plimsoll::cli
