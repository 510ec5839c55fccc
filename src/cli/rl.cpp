// SPDX-License-Identifier: Apache-2.0
// plimsoll rl: sizes and balances a post-training run before it starts.
#include <charconv>

#include <fmt/format.h>

#include "answer/rl.h"
#include "base/suggest.h"
#include "cli/job_input.h"
#include "cli/job_keys.h"
#include "cli/output_file.h"
#include "cli/rl_observe.h"
#include "cli/rl_report.h"
#include "cli/rl_timeline.h"
#include "cli/table.h"
#include "cli/verb.h"

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

Result<std::int64_t> positive(const Arguments& arguments, const char* flag, std::int64_t otherwise, std::int64_t most) {
  const auto text = arguments.value(flag);
  if (!text) return otherwise;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || value < 1 || value > most)
    return usage_error(fmt::format("--{} is '{}'; wanted 1 to {}", flag, *text, most));
  return value;
}

void show_warnings(const std::vector<std::string>& warnings, const Console& console) {
  for (const std::string& warning : warnings) console.warn(warning);
}

// --emit FRAMEWORK DIR: the folder is the last operand.
Status emit(const rl::Run& run, const std::vector<rl::KeyReason>& reasons, const std::string& folder, Existing existing,
            const Console& console) {
  PLIMSOLL_TRY(file, rl::write_config(run, reasons));
  PLIMSOLL_TRY_STATUS(write_folder(folder, {{file.name, file.text, file.executable}}, existing));
  console.next("written: " + folder + "/" + file.name);
  return {};
}

Result<ExitCode> run_plan(const answer::RlDraft& draft, const lever::World& world, const Arguments& arguments,
                          const std::string& folder, const Console& console) {
  PLIMSOLL_TRY(keep, positive(arguments, "top", 5, 100));
  PLIMSOLL_TRY(plan, answer::plan_rl(draft, world, static_cast<std::size_t>(keep), to_person(console)));
  if (!folder.empty() && !plan.best.empty())
    PLIMSOLL_TRY_STATUS(
        emit(plan.best.front().run, answer::reasons_of(plan.best.front()), folder, existing_files(arguments), console));
  console.print(arguments.has("json") ? answer::to_json(plan)
                                      : fold_prose(rl_plan_report(plan, console), console.prose_width));
  if (!plan.best.empty()) show_warnings(plan.best.front().evaluation.warnings, console);
  return plan.best.empty() ? ExitCode::kNo : ExitCode::kYes;
}

Result<ExitCode> run_observe(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty())
    return usage_error("--observe wants files that a run wrote", "plimsoll rl --observe metrics.jsonl vllm.log");
  answer::ObserveQuestion question{arguments.operands, arguments.keys, {}};
  if (const auto path = arguments.value("run")) question.run = answer::RlInput{*path, arguments.keys, {}};
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(observation, answer::observe_rl(question, world));
  console.print(arguments.has("json") ? answer::to_json(observation)
                                      : fold_prose(observation_text(observation, console), console.prose_width));
  show_warnings(observation.warnings, console);
  return observation.verdict == rl::Verdict::kUnknown ? ExitCode::kNo : ExitCode::kYes;
}

Result<ExitCode> answer_run(const answer::RlDraft& draft, const lever::World& world, const Arguments& arguments,
                            const std::string& folder, const Console& console) {
  answer::RlOptions options;
  options.timeline = arguments.has("timeline") || arguments.has("svg");
  if (arguments.has("steps")) {
    PLIMSOLL_TRY(steps, positive(arguments, "steps", 1, 10'000));
    options.steps = steps;
  }
  PLIMSOLL_TRY(rl, answer::evaluate_rl(draft, world, options));
  if (const auto path = arguments.value("svg"))
    PLIMSOLL_TRY_STATUS(write_whole(*path, timeline_svg(rl.evaluation), existing_files(arguments)));
  if (!folder.empty()) PLIMSOLL_TRY_STATUS(emit(rl.run, {}, folder, existing_files(arguments), console));
  if (arguments.has("knobs")) {
    const auto priced = answer::price_rl_knobs(draft, rl, world, options, to_person(console));
    console.print(arguments.has("json") ? answer::to_json(priced) : rl_knobs_report(priced, console));
  } else if (arguments.has("json")) {
    console.print(answer::to_json(rl));
  } else {
    console.print(fold_prose(rl_report(rl.run, rl.evaluation, console), console.prose_width));
    if (arguments.has("timeline")) console.print('\n' + timeline_text(rl.evaluation, console.width));
  }
  show_warnings(rl.evaluation.warnings, console);
  if (!arguments.has("json") && !arguments.has("knobs"))
    console.next(fmt::format("plimsoll rl {} --plan", arguments.operands.empty() ? "..." : arguments.operands.front()));
  return rl.evaluation.fits() ? ExitCode::kYes : ExitCode::kNo;
}

Result<ExitCode> run_rl(const Arguments& given, const Console& console) {
  if (given.has("keys")) {
    console.print(given.has("json") ? answer::rl_keys_json() : rl_keys_report(console));
    return ExitCode::kYes;
  }
  if (given.has("observe")) return run_observe(given, console);
  if (given.has("run")) return usage_error("--run belongs to --observe", "plimsoll rl FILE answers for a run");
  Arguments arguments = given;
  std::string folder;
  if (const auto target = arguments.value("emit")) {
    if (arguments.operands.empty())
      return usage_error("--emit wants a framework and a folder", "plimsoll rl run.toml --plan --emit telescope DIR");
    if (!rl::from_name<rl::Framework>(*target))
      return usage_error(fmt::format("--emit is '{}'; wanted one of {}", *target, rl::choices<rl::Framework>()),
                         did_you_mean(*target, rl::choices<rl::Framework>()));
    folder = arguments.operands.back();
    arguments.operands.pop_back();
  }
  if (arguments.operands.size() > 1)
    return usage_error(fmt::format("rl takes one run, found '{}' as well", arguments.operands[1]),
                       "metrics of a run that ran: plimsoll rl --observe FILE...");
  PLIMSOLL_TRY(draft, answer::read_rl({arguments.operand(), arguments.keys, arguments.value("emit").value_or("")}));
  show_warnings(draft.warnings, console);
  PLIMSOLL_TRY(world, world_of(arguments));
  return arguments.has("plan") ? run_plan(draft, world, arguments, folder, console)
                               : answer_run(draft, world, arguments, folder, console);
}

std::vector<Flag> flags_of_rl() {
  return {
      {.name = "plan", .argument = "", .help = "rank splits and settings; what the file or a flag gives stays"},
      {.name = "top", .argument = "N", .help = "how many of them to show; 5 if not given"},
      {.name = "knobs", .argument = "", .help = "turn every knob alone and show what changes"},
      {.name = "timeline", .argument = "", .help = "draw the last simulated steps as text"},
      {.name = "svg", .argument = "FILE", .help = "draw them as SVG"},
      {.name = "steps", .argument = "N", .help = "trainer steps to simulate; 32 if not given"},
      {.name = "force", .argument = "", .help = kForceHelp},
      {.name = "emit",
       .argument = "FRAMEWORK",
       .help = "write the run, or the best plan, as that framework's configuration into the folder that is the last "
               "operand: telescope, verl, openrlhf, nemo-rl, prime-rl"},
      {.name = "observe", .argument = "", .help = "name the bottleneck of a run from the files it wrote, the operands"},
      {.name = "run", .argument = "FILE", .help = "of --observe: the run that wrote them, so that advice has amounts"},
      {.name = "calibration", .argument = "FILE", .help = "efficiencies measured on your own cluster, for the trainer"},
      {.name = "keys", .argument = "", .help = "list the keys of a run"},
  };
}

}  // namespace

extern const Verb kRl;
const Verb kRl = {
    .name = "rl",
    .summary = "size and balance an RL post-training run: trainer, inference servers, rollouts",
    .operands = "[FILE...]",
    .most_operands = -1,
    .details =
        "Reads a run from one TOML or JSON file, or the framework's own configuration, and flags: model, GPUs, the "
        "algorithm (group size, prompts per step, "
        "extra passes), the lengths of prompts and completions, the framework (telescope, verl, openrlhf, nemo-rl, "
        "prime-rl, generic) whose defaults and rules apply, [trainer] with the keys of a training job, and [inference] "
        "with those of vLLM or SGLang. Every key is a flag too and overrules the file; --keys lists them.\n"
        "\n"
        "The answer: whether the trainer fits in its step and while weights are gathered and sent, what a server does "
        "with its memory and whether it starts, the seconds of a step, tokens per second by a closed form and by a "
        "simulation of the loop with its length distribution and rules of staleness, and what bounds the run.\n"
        "\n"
        "--plan chooses the split of the GPUs, the size and lanes of a server, the limit of staleness, seq_len and the "
        "trainer's parallelism, as far as they are not given. --observe reads metrics (JSON lines, console), logs of "
        "vLLM "
        "and SGLang and Prometheus text of a run that ran, and names its bottleneck and the knob to turn. Exit code 0 "
        "when it runs or the files say what bounds it, 1 when a side does not fit or they do not.",
    .flags = flags_of_rl(),
    .takes_keys = true,
    .keys = rl_keys,
    .examples = {{"plimsoll rl run.toml", "the answer for a run"},
                 {"plimsoll rl run.toml --max-async-rollout 4 --timeline", "with one knob turned, and drawn in time"},
                 {"plimsoll rl run.toml --plan", "the best splits and settings"},
                 {"plimsoll rl run.toml --knobs", "what every knob is worth"},
                 {"plimsoll rl run.toml --plan --emit telescope DIR", "the best one as a configuration"},
                 {"plimsoll rl --observe metrics.jsonl vllm.log", "what bounded a run that ran"},
                 {"plimsoll rl --observe metrics.jsonl --run run.toml", "and what the advice would win"}},
    .run = run_rl,
};

}  // namespace plimsoll::cli
