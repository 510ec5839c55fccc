// SPDX-License-Identifier: Apache-2.0
// plimsoll fit: does this job fit, where is the peak, what would change it.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "answer/captured.h"
#include "answer/fit.h"
#include "answer/proof.h"
#include "answer/sweep.h"
#include "answer/where_it_fits.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/fit_capture_report.h"
#include "cli/fit_report.h"
#include "cli/job_input.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

Result<memory::AskedRanks> asked_ranks(const Arguments& arguments) {
  memory::AskedRanks asked;
  asked.all = arguments.has("all-ranks");
  const std::optional<std::string> text = arguments.value("rank");
  if (!text) return asked;
  if (asked.all) return usage_error("--rank and --all-ranks exclude each other");
  const std::string_view number = text->starts_with("pp=") ? std::string_view{*text}.substr(3) : std::string_view{};
  std::int64_t rank = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), rank);
  if (number.empty() || parsed.ec != std::errc{} || parsed.ptr != number.data() + number.size() || rank < 0)
    return usage_error(fmt::format("--rank is '{}'; wanted pp=N, such as pp=2", *text),
                       "ranks that differ only in tp, dp, cp or ep hold the same");
  asked.pp = rank;
  return asked;
}

void show_warnings(const std::vector<std::string>& warnings, const Console& console) {
  for (const std::string& warning : warnings) console.warn(warning);
}

std::string command_line(const Arguments& arguments) {
  std::string text = "plimsoll fit";
  for (const std::string& operand : arguments.operands) text += ' ' + operand;
  for (const auto& [flag, value] : arguments.flags)
    if (flag != "json" && flag != "quiet" && flag != "color") text += fmt::format(" --{} {}", flag, value);
  for (const auto& [key, value] : arguments.keys) text += fmt::format(" --{} {}", replace(key, '_', '-'), value);
  return text;
}

// The smallest of the changes that make it fit, as a command; else a sweep to look around.
void suggest_next(const answer::Fit& fit, const Arguments& arguments, const Console& console) {
  const std::string command = command_line(arguments);
  if (fit.memory.fits) {
    console.next(fmt::format("{} --sweep micro_batch_size={},{}", command, fit.job.batch.micro_batch,
                             2 * fit.job.batch.micro_batch));
    return;
  }
  const lever::PricedChange* smallest = nullptr;
  for (const lever::PricedChange& priced : fit.changes)
    if (priced.fits && (smallest == nullptr || priced.difference > smallest->difference)) smallest = &priced;
  // Where no single change is enough, several are: the ladder looks for them.
  const bool has_files = std::any_of(arguments.operands.begin(), arguments.operands.end(),
                                     [](const std::string& operand) { return file_exists(operand); });
  const std::string ladder = "plimsoll plan --from" + command.substr(std::string_view{"plimsoll fit"}.size());
  console.next(smallest != nullptr ? fmt::format("{} {}", command, lever::as_flags(smallest->change.settings))
               : has_files         ? ladder
                                   : fmt::format("{} --all-ranks", command));
}

Result<ExitCode> run_one(const job::Request& request, const Arguments& arguments, const memory::AskedRanks& asked,
                         const Console& console) {
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(fit, answer::fit(request, world, asked));
  if (const auto path = arguments.value("proof")) {
    PLIMSOLL_TRY(proof, answer::read_proof(*path));
    PLIMSOLL_TRY_STATUS(answer::apply_proof(proof, fit));
  }
  console.print(arguments.has("json") ? answer::to_json(fit)
                                      : fold_prose(fit_report(fit, console), console.prose_width));
  for (const std::string& note : fit.job.notes) console.note(note);
  show_warnings(fit.memory.warnings, console);
  suggest_next(fit, arguments, console);
  return fit.holds() ? ExitCode::kYes : ExitCode::kNo;
}

Result<ExitCode> run_sweep(const job::Request& request, const std::vector<job::Settings>& points,
                           const Arguments& arguments, const memory::AskedRanks& asked, const Console& console) {
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(sweep, answer::sweep(request, points, world, asked, to_person(console)));
  console.print(arguments.has("json") ? answer::to_json(sweep) : sweep_report(sweep, console));
  show_warnings(sweep.warnings, console);
  return sweep.any_fits() ? ExitCode::kYes : ExitCode::kNo;
}

// A model and nothing else: a table of the common GPUs.
Result<ExitCode> run_where(const job::Request& request, const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(where, answer::where_it_fits(request, world));
  console.print(arguments.has("json") ? answer::to_json(where)
                                      : fold_prose(where_report(where, console), console.prose_width));
  for (const std::string& note : request.options().notes) console.note(note);
  console.next(fmt::format("plimsoll fit {} --gpu h100 --gpus 8", where.model));
  return where.any() ? ExitCode::kYes : ExitCode::kNo;
}

Result<ExitCode> run_fit(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(captured, answer::are_captures(arguments.operands));
  if (captured) return fit_captures(arguments, console);
  if (arguments.has("allocator"))
    return usage_error("--allocator is for captures; a job has its environment in its files",
                       "[environment] PYTORCH_CUDA_ALLOC_CONF = \"...\" in the job file");
  PLIMSOLL_TRY(asked, asked_ranks(arguments));
  PLIMSOLL_TRY(points, answer::sweep_points(arguments.values("sweep")));
  PLIMSOLL_TRY(request, read_input(arguments));
  if (!arguments.has("sweep") && answer::asks_where_it_fits(request)) return run_where(request, arguments, console);
  if (!arguments.has("sweep")) return run_one(request, arguments, asked, console);
  for (const auto& [key, value] : points.front())
    if (request.sets(key)) return usage_error(fmt::format("{} is both a flag and swept", key));
  return run_sweep(request, points, arguments, asked, console);
}

std::vector<Flag> flags_of_fit() {
  std::vector<Flag> all = job_flags();
  const std::vector<Flag> own = {
      {.name = "rank", .argument = "pp=N", .help = "answer for this pipeline rank instead of the worst"},
      {.name = "all-ranks", .argument = "", .help = "answer for every pipeline rank"},
      {.name = "calibration",
       .argument = "FILE",
       .help = "efficiencies measured on your cluster instead of the built-in ones"},
      {.name = "proof", .argument = "FILE", .help = "what plimsoll prove measured of this job: a narrower interval"},
      {.name = "allocator",
       .argument = "CONF",
       .help = "PYTORCH_CUDA_ALLOC_CONF of a captured step, such as expandable_segments:True"},
      {.name = "sweep",
       .argument = "KEY=A,B,...",
       .help = "a table with one answer per value; several make the product",
       .repeats = true},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace

extern const Verb kFit;
const Verb kFit = {
    .name = "fit",
    .summary = "does a training job fit its GPUs, and where is the peak",
    .operands = "[FILE...]",
    .most_operands = -1,
    .details =
        "Reads a job from one or several files that together describe it, recognised by their content: a job file "
        "(TOML or JSON), a Hugging Face config.json, Megatron-LM scripts and arguments, Megatron-Bridge "
        "configurations, Transformers TrainingArguments, accelerate, DeepSpeed and torchtitan files. - is standard "
        "input. A catalogue name does for the model: --model llama3-70b.\n"
        "\n"
        "Every key of a job is a flag and overrules the files: --micro-batch-size 2, --sequence-parallel, "
        "--no-sequence-parallel. plimsoll keys lists them; tp, pp, vpp, cp, ep and etp stand for the parallel sizes.\n"
        "\n"
        "The answer is for the worst rank: whether it fits, the table of its memory, whose rows sum to the capacity "
        "of the GPU, the instant of the peak and what is alive then, the next peak, the time of a step with the parts "
        "that sum to it, and by how much the usual changes would move the memory. Exit code 0 fits, 1 does not fit or "
        "would be refused by the framework (plimsoll lint says why); with --sweep, 0 when any point fits.",
    .flags = flags_of_fit(),
    .takes_keys = true,
    .reads_ahead = true,
    .examples = {{"plimsoll fit job.toml", "the answer for a job file"},
                 {"plimsoll fit job.toml --micro-batch-size 2 --recompute-modules mlp", "with two keys overruled"},
                 {"plimsoll fit config.json training_args.json ds_config.json --gpu h100 --gpus 8",
                  "a Transformers job with DeepSpeed"},
                 {"plimsoll fit step.capture --gpu h200", "a step that plimsoll capture recorded"},
                 {"plimsoll fit job.toml --sweep micro_batch_size=1,2,4 --sweep tp=2,4", "six answers in a table"}},
    .run = run_fit,
};

}  // namespace plimsoll::cli
