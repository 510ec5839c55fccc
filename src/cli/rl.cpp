// SPDX-License-Identifier: Apache-2.0
// plimsoll rl: sizes and balances a post-training run before it starts.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/fit_time.h"
#include "cli/job_keys.h"
#include "cli/output_file.h"
#include "cli/rl_observe.h"
#include "cli/rl_report.h"
#include "cli/rl_timeline.h"
#include "cli/verb.h"
#include "rl/frameworks/config.h"
#include "rl/keys.h"
#include "rl/observe/amounts.h"
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

struct Input {
  std::optional<job::InputFile> file;  // our own format; a framework's configuration is in the settings
  rl::Settings settings;
  std::vector<std::string> warnings;
};

// --emit names the framework that the answer is for.
void use_framework(rl::Settings& settings, const std::string& name) {
  std::erase_if(settings, [](const auto& given) { return given.first == "framework"; });
  settings.emplace_back("framework", name);
}

Result<Input> read_input(const Arguments& arguments) {
  Input input;
  input.settings = arguments.keys;
  if (arguments.operands.empty()) {
    const auto is_model = [](const auto& given) { return given.first == "model"; };
    if (std::any_of(arguments.keys.begin(), arguments.keys.end(), is_model)) return input;
    return usage_error("a run is missing; wanted a file, or --model and the other keys",
                       "plimsoll rl run.toml, or plimsoll rl --model qwen3-8b --gpu h100 --gpus 16 ...");
  }
  const std::string& path = arguments.operands.front();
  PLIMSOLL_TRY(text, read_file(path));
  const std::string name = path == "-" ? "standard input" : path;
  const auto framework = rl::recognise_config(text);
  if (!framework) {
    input.file = job::InputFile{name, std::move(text)};
    return input;
  }
  auto config = rl::read_config_settings(*framework, name, text, arguments.keys);
  if (!config) return tl::make_unexpected(std::move(config.error()).with_context(name));
  input.warnings = config->assumed;
  if (!config->ignored.empty()) {
    constexpr std::size_t kNamed = 8;
    std::vector<std::string> named = config->ignored;
    const std::size_t more = named.size() > kNamed ? named.size() - kNamed : 0;
    named.resize(named.size() - more);
    input.warnings.push_back(
        fmt::format("{}: not read: {}{}", name, join(named, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  rl::Settings settings = std::move(config->settings);
  for (const auto& given : arguments.keys) {
    const rl::Key* key = rl::find_key(given.first);
    std::erase_if(settings, [&](const auto& one) {
      return one.first == given.first || (key != nullptr && rl::find_key(one.first) == key);
    });
    settings.push_back(given);
  }
  input.settings = std::move(settings);
  return input;
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

// Progress for a person who watches, not more often than they read.
std::function<void(const std::string&)> each_second(const Console& console) {
  using Clock = std::chrono::steady_clock;
  return [&console, last = Clock::now()](const std::string& text) mutable {
    remember_progress(text);
    if (Clock::now() - last < std::chrono::seconds(1)) return;
    last = Clock::now();
    console.progress(text);
  };
}

// --emit FRAMEWORK DIR: the folder is the last operand.
Status emit(const rl::Run& run, const std::vector<rl::KeyReason>& reasons, const std::string& folder, Existing existing,
            const Console& console) {
  PLIMSOLL_TRY(file, rl::write_config(run, reasons));
  PLIMSOLL_TRY_STATUS(write_folder(folder, {{file.name, file.text, file.executable}}, existing));
  console.next("written: " + folder + "/" + file.name);
  return {};
}

std::string reason_of(std::string_view key, const rl::Proposal& proposal) {
  const rl::Evaluation& answer = proposal.evaluation;
  const rl::Simulation& simulation = answer.simulation;
  if (key == "trainer_num_workers")
    return fmt::format("the trainer then waits {:.0f} % of the time", 100 * simulation.trainer_idle);
  if (key == "inference_num_workers") return "one server more or less is no faster";
  if (key == "inference_tensor_parallel_size")
    return fmt::format("leaves {} of KV cache on each GPU", format_bytes(answer.server.kv_bytes));
  if (key == "max_concurrent_prompts_per_server")
    return fmt::format("{:.0f} requests run on a server and fill {:.0f} % of its cache", simulation.mean_running,
                       100 * simulation.kv_usage);
  if (key == "max_async_rollout")
    return fmt::format("samples are {:.1f} steps old, {:.0f} % of the groups end too late", simulation.mean_staleness,
                       100 * simulation.late_share);
  if (key == "seq_len")
    return fmt::format("{} samples fill {} bins", answer.time.packed.samples, answer.time.packed.bins);
  return fmt::format("the fastest that fits: {} at its peak", format_bytes(answer.memory.peak()));
}

std::vector<rl::KeyReason> reasons_of(const rl::Proposal& proposal) {
  std::vector<rl::KeyReason> reasons;
  for (const auto& [key, value] : proposal.settings) reasons.push_back({key, reason_of(key, proposal)});
  return reasons;
}

Result<ExitCode> run_plan(const rl::Run& draft, const Arguments& arguments, const std::string& folder,
                          const Console& console) {
  rl::PlanOptions options;
  PLIMSOLL_TRY(world, world_of(arguments));
  options.world = std::move(world);
  PLIMSOLL_TRY(keep, positive(arguments, "top", 5, 100));
  options.keep = static_cast<std::size_t>(keep);
  options.progress = each_second(console);
  PLIMSOLL_TRY(plan, rl::plan(draft, options));
  if (!folder.empty() && !plan.best.empty())
    PLIMSOLL_TRY_STATUS(
        emit(plan.best.front().run, reasons_of(plan.best.front()), folder, existing_files(arguments), console));
  console.print(arguments.has("json") ? rl_plan_json(plan) : rl_plan_report(plan, console));
  if (!plan.best.empty()) show_warnings(plan.best.front().evaluation.warnings, console);
  return plan.best.empty() ? ExitCode::kNo : ExitCode::kYes;
}

Result<ExitCode> run_observe(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty())
    return usage_error("--observe wants files that a run wrote", "plimsoll rl --observe metrics.jsonl vllm.log");
  rl::ObserveOptions options;
  double prompts = 0;
  double group = 1;
  for (const auto& [key, value] : arguments.keys) {
    if (key == "framework") {
      options.framework = rl::from_name<rl::Framework>(value);
      if (!options.framework)
        return usage_error(fmt::format("--framework is '{}'; wanted one of {}", value, rl::choices<rl::Framework>()));
      continue;
    }
    const auto number = job::to_real(document::parse_scalar(value), {1, 1e9});
    if (key == "max_concurrent_prompts_per_server" && number) prompts = *number;
    if (key == "group_size" && number) group = *number;
  }
  if (prompts > 0) options.lanes = prompts * group;
  PLIMSOLL_TRY(observation, rl::observe_files(arguments.operands, options));
  if (const auto path = arguments.value("run")) {
    Arguments of_run = arguments;
    of_run.operands = {*path};
    PLIMSOLL_TRY(input, read_input(of_run));
    PLIMSOLL_TRY(draft, rl::read_draft(input.file, input.settings));
    PLIMSOLL_TRY(world, world_of(arguments));
    rl::EvaluationOptions how;
    how.world = std::move(world);
    PLIMSOLL_TRY_STATUS(rl::add_amounts(draft, how, observation));
  }
  console.print(arguments.has("json") ? observation_json(observation) : observation_text(observation, console));
  show_warnings(observation.warnings, console);
  return observation_exit_code(observation) == 0 ? ExitCode::kYes : ExitCode::kNo;
}

Result<ExitCode> answer_run(const Input& input, const rl::Run& draft, const Arguments& arguments,
                            const std::string& folder, const Console& console) {
  rl::Run run = draft;
  if (auto done = rl::complete(run); !done)
    return tl::make_unexpected(input.file ? std::move(done.error()).with_context(input.file->path)
                                          : std::move(done.error()));
  rl::EvaluationOptions options;
  PLIMSOLL_TRY(world, world_of(arguments));
  options.world = std::move(world);
  PLIMSOLL_TRY(steps, positive(arguments, "steps", options.simulation.steps, 10'000));
  options.simulation.steps = steps;
  options.simulation.timeline = arguments.has("timeline") || arguments.has("svg");
  PLIMSOLL_TRY(answer, rl::evaluate(run, options));
  if (const auto path = arguments.value("svg"))
    PLIMSOLL_TRY_STATUS(write_whole(*path, timeline_svg(answer), existing_files(arguments)));
  if (!folder.empty()) PLIMSOLL_TRY_STATUS(emit(run, {}, folder, existing_files(arguments), console));
  if (arguments.has("knobs")) {
    options.simulation.timeline = false;
    const auto priced = rl::price_knobs(draft, run, answer, rl::knobs_of(run, answer), options, each_second(console));
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

Result<ExitCode> run(const Arguments& given, const Console& console) {
  if (given.has("keys")) {
    console.print(given.has("json") ? rl_keys_json() : rl_keys_report(console));
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
      return usage_error(fmt::format("--emit is '{}'; wanted one of {}", *target, rl::choices<rl::Framework>()));
    folder = arguments.operands.back();
    arguments.operands.pop_back();
  }
  if (arguments.operands.size() > 1)
    return usage_error(fmt::format("rl takes one run, found '{}' as well", arguments.operands[1]),
                       "metrics of a run that ran: plimsoll rl --observe FILE...");
  PLIMSOLL_TRY(input, read_input(arguments));
  if (const auto target = arguments.value("emit")) use_framework(input.settings, *target);
  PLIMSOLL_TRY(draft, rl::read_draft(input.file, input.settings));
  show_warnings(input.warnings, console);
  return arguments.has("plan") ? run_plan(draft, arguments, folder, console)
                               : answer_run(input, draft, arguments, folder, console);
}

std::vector<Flag> flags() {
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
    .flags = flags(),
    .takes_keys = true,
    .keys = rl_keys,
    .examples = {{"plimsoll rl run.toml", "the answer for a run"},
                 {"plimsoll rl run.toml --max-async-rollout 4 --timeline", "with one knob turned, and drawn in time"},
                 {"plimsoll rl run.toml --plan", "the best splits and settings"},
                 {"plimsoll rl run.toml --knobs", "what every knob is worth"},
                 {"plimsoll rl run.toml --plan --emit telescope DIR", "the best one as a configuration"},
                 {"plimsoll rl --observe metrics.jsonl vllm.log", "what bounded a run that ran"},
                 {"plimsoll rl --observe metrics.jsonl --run run.toml", "and what the advice would win"}},
    .run = run,
};

}  // namespace plimsoll::cli
