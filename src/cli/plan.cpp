// SPDX-License-Identifier: Apache-2.0
// plimsoll plan: the fastest configuration that fits.
#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "answer/plan.h"
#include "answer/plan_files.h"
#include "base/bytes.h"
#include "base/interrupt.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/job_input.h"
#include "cli/output_file.h"
#include "cli/plan_goals_report.h"
#include "cli/plan_ladder_report.h"
#include "cli/plan_report.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

Result<std::size_t> positive(const Arguments& arguments, const char* flag, std::size_t otherwise) {
  const auto text = arguments.value(flag);
  if (!text) return otherwise;
  std::size_t value = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || value == 0)
    return usage_error(fmt::format("--{} is '{}'; wanted a positive whole number", flag, *text));
  return value;
}

plan::SearchOptions options_of(const Console& console, std::size_t keep, const Arguments& arguments,
                               const lever::World& world) {
  plan::SearchOptions options;
  options.world = &world;
  options.keep = keep;
  options.stop = &stop_flag();
  if (arguments.value("objective").value_or("time") == "headroom") options.objective = plan::Objective::kHeadroom;
  options.progress = [&console](const plan::Counts& counts) {
    console.progress(
        {fmt::format("considered {} configurations", with_commas(static_cast<std::int64_t>(counts.considered))), {}});
  };
  return options;
}

// --emit TARGET DIR: the folder is the last operand.
Status write_files(const job::Job& job, const std::vector<emit::Reason>& reasons, emit::Target target,
                   const std::string& folder, const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(files, emit::emit(job, target, reasons));
  std::vector<NewFile> written;
  for (emit::File& file : files) written.push_back({std::move(file.name), std::move(file.text), file.executable});
  PLIMSOLL_TRY_STATUS(write_folder(folder, written, existing_files(arguments)));
  if (arguments.has("json")) return {};
  for (const NewFile& file : written) console.print("written: " + folder + "/" + file.path + "\n");
  return {};
}

Status check_vary(const Arguments& arguments) {
  for (const std::string& vary : arguments.values("vary"))
    if (vary != "precision") return usage_error(fmt::format("--vary is '{}'; wanted precision", vary));
  return {};
}

// --from climbs, it does not search: flags that only a search can answer are refused, not ignored.
Status refuse_flags_of_search(const Arguments& arguments) {
  for (const char* flag : {"fix", "keep", "top", "objective", "tokens", "explain", "compare", "min-gpus", "max", "svg"})
    if (arguments.has(flag))
      return usage_error(fmt::format("--{} is a question to a search; --from climbs from one job", flag),
                         "leave out --from to search, or --" + std::string(flag) + " to climb");
  return check_vary(arguments);
}

Result<ExitCode> improve(const Arguments& arguments, std::optional<emit::Target> target, const std::string& folder,
                         const Console& console) {
  PLIMSOLL_TRY_STATUS(refuse_flags_of_search(arguments));
  Arguments as_fit = arguments;
  as_fit.operands = arguments.values("from");
  // The files of one job, as fit takes them: --from A B is --from A --from B.
  for (const std::string& operand : arguments.operands)
    if (std::find(as_fit.operands.begin(), as_fit.operands.end(), operand) == as_fit.operands.end())
      as_fit.operands.push_back(operand);
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(request, read_input(as_fit));
  PLIMSOLL_TRY(ladder, plan::climb(request, world, {.changes_numerics = arguments.has("vary")}));
  if (const auto first = job::resolve(request)) say_learned(world, *first, console);
  console.print(arguments.has("json") ? answer::to_json(ladder) : ladder_report(ladder, console));
  if (target && ladder.fits) {
    PLIMSOLL_TRY(job, job::resolve(request.with(ladder.settings)));
    PLIMSOLL_TRY_STATUS(write_files(job, answer::reasons_of(ladder), *target, folder, arguments, console));
  }
  return ladder.fits ? ExitCode::kYes : ExitCode::kNo;
}

// "1,3": two rows of the table.
Result<std::pair<std::size_t, std::size_t>> compared_rows(const std::string& text) {
  std::size_t rows[2] = {0, 0};
  const std::size_t comma = text.find(',');
  for (const int i : {0, 1}) {
    const std::string part = comma == std::string::npos ? std::string{}
                             : i == 0                   ? text.substr(0, comma)
                                                        : text.substr(comma + 1);
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), rows[i]);
    if (part.empty() || parsed.ec != std::errc{} || parsed.ptr != part.data() + part.size() || rows[i] == 0 ||
        rows[i] > 100)
      return usage_error(fmt::format("--compare is '{}'; wanted two rows such as 1,3", text));
  }
  return std::pair{rows[0], rows[1]};
}

Status has_row(const plan::Plan& plan, const char* flag, std::size_t row) {
  if (row <= plan.best.size() || plan.best.empty()) return {};
  return usage_error(fmt::format("--{} asks for row {}; the plan has {}", flag, row, plan.best.size()));
}

Result<answer::Question> question_of(const Arguments& arguments) {
  answer::PlanInput asked;
  PLIMSOLL_TRY(input, input_of(arguments));
  asked.input = std::move(input);
  asked.fixed = arguments.values("fix");
  asked.kept = arguments.values("keep");
  asked.target = arguments.value("emit").value_or("");
  PLIMSOLL_TRY_STATUS(check_vary(arguments));
  asked.changes_numerics = arguments.has("vary");
  return answer::read_question(std::move(asked));
}

Result<plan::Plan> search(const answer::Question& question, std::optional<emit::Target> target,
                          const plan::SearchOptions& options, const Console& console) {
  if (!target) return plan::plan_for(question, options);
  PLIMSOLL_TRY(writable, answer::plan_to_write(question, *target, options));
  if (!writable.left.empty())
    console.warn("left as the job has it, because the files to write cannot say another: " + join(writable.left, ", "));
  return std::move(writable.plan);
}

Result<ExitCode> run_plan(const Arguments& given, const Console& console) {
  Arguments arguments = given;
  std::string folder;
  std::optional<emit::Target> target;
  if (const auto name = arguments.value("emit")) {
    target = emit::target_from(*name);
    if (!target)
      return usage_error(fmt::format("--emit is '{}'; wanted one of {}", *name, join(emit::target_names(), ", ")),
                         did_you_mean(*name, emit::target_names()));
    const bool names_job = arguments.has("model") || arguments.has("from");
    if (arguments.operands.size() < (names_job ? 1U : 2U))
      return usage_error("--emit wants a target and a folder", "plimsoll plan MODEL ... --emit megatron-lm DIR");
    if (arguments.has("from"))
      return usage_error("--emit writes the result of a search; --from changes a given job instead",
                         "plimsoll plan JOB ... --emit TARGET DIR searches from the same job");
    folder = arguments.operands.back();
    arguments.operands.pop_back();
  }
  if (arguments.has("from")) return improve(arguments, target, folder, console);
  std::pair<std::size_t, std::size_t> compared{0, 0};
  if (auto text = arguments.value("compare")) {
    // --compare 1 3 is read like --compare 1,3.
    const bool is_number =
        !arguments.operands.empty() && arguments.operands.back().find_first_not_of("0123456789") == std::string::npos;
    if (text->find(',') == std::string::npos && is_number) {
      *text += "," + arguments.operands.back();
      arguments.operands.pop_back();
    }
    PLIMSOLL_TRY(rows, compared_rows(*text));
    compared = rows;
  }
  PLIMSOLL_TRY(keep, positive(arguments, "top", 5));
  PLIMSOLL_TRY(explained, positive(arguments, "explain", 0));
  const std::string objective = arguments.value("objective").value_or("time");
  if (arguments.has("tokens") && objective != "gpu-hours")
    return usage_error("--tokens belongs to --objective gpu-hours");
  if (arguments.has("min-gpus") + arguments.has("max") + (objective == "gpu-hours") > 1)
    return usage_error("--min-gpus, --max and --objective gpu-hours are different questions; ask one at a time");
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(question, question_of(arguments));
  if (const auto first = plan::first_job(question)) say_learned(world, *first, console);
  if (!question.assumed.empty())
    console.warn("assumed, as only a model is named: " + lever::as_flags(question.assumed));
  if (arguments.has("min-gpus")) {
    PLIMSOLL_TRY(fewest, answer::fewest_gpus(question, options_of(console, 3, arguments, world), to_person(console)));
    console.print(arguments.has("json") ? answer::to_json(fewest) : fewest_gpus_report(fewest, console));
    return fewest.fewest && !fewest.interrupted ? ExitCode::kYes : ExitCode::kNo;
  }
  if (const auto key = arguments.value("max")) {
    PLIMSOLL_TRY(largest, answer::largest_value(question, answer::full_key_name(*key),
                                                options_of(console, 1, arguments, world), to_person(console)));
    console.print(arguments.has("json") ? answer::to_json(largest) : largest_value_report(largest, console));
    return largest.plan ? ExitCode::kYes : ExitCode::kNo;
  }
  if (objective == "gpu-hours") {
    PLIMSOLL_TRY(hours, answer::gpu_hours(question, arguments.value("tokens").value_or("1T"),
                                          options_of(console, 1, arguments, world), to_person(console)));
    console.print(arguments.has("json") ? answer::to_json(hours) : gpu_hours_report(hours, console));
    return hours.rows.empty() ? ExitCode::kNo : ExitCode::kYes;
  }
  const plan::SearchOptions options =
      options_of(console, std::max({keep, explained + 1, compared.first, compared.second}), arguments, world);
  PLIMSOLL_TRY(found, search(question, target, options, console));
  PLIMSOLL_TRY_STATUS(has_row(found, "explain", explained));
  PLIMSOLL_TRY_STATUS(has_row(found, "compare", std::max(compared.first, compared.second)));
  // A search that was cut short has no best to hand out. What cannot be written does not take the answer with it.
  Status written;
  if (target && !found.best.empty() && !found.interrupted)
    written = write_files(found.best.front().job, answer::reasons_of(found, found.best.front()), *target, folder,
                          arguments, console);
  if (const auto path = arguments.value("svg"); path && written && !found.interrupted)
    written = write_whole(*path, pareto_svg(found), existing_files(arguments));
  if (arguments.has("json")) {
    console.print(answer::to_json(found));
  } else if (compared.first > 0 && !found.best.empty()) {
    console.print(plan_comparison(found, compared.first - 1, compared.second - 1, console));
  } else if (explained > 0 && !found.best.empty()) {
    console.print(fold_prose(plan_explanation(found, explained - 1, console), console.prose_width));
  } else {
    console.print(fold_prose(plan_report(found, console), console.prose_width));
    for (const std::string& warning : answer::warnings_of(found)) console.warn(warning);
    if (found.best.empty() && !found.interrupted)
      if (const auto would = answer::what_would_fit(question, options_of(console, 1, arguments, world)))
        console.print(fmt::format("would fit {}: {}\n", would->with, would->configuration));
  }
  PLIMSOLL_TRY_STATUS(written);
  return found.best.empty() ? ExitCode::kNo : ExitCode::kYes;
}

std::vector<Flag> flags_of_plan() {
  std::vector<Flag> all = job_flags();
  const std::vector<Flag> own = {
      {.name = "fix", .argument = "KEY=VALUE", .help = "a knob that is not to be chosen", .repeats = true},
      {.name = "keep",
       .argument = "KEY",
       .help = "leave this knob, or all of a section such as precision, as the job has it",
       .repeats = true},
      {.name = "vary",
       .argument = "WHAT",
       .help = "precision: also gradients in bf16 and weights gathered in FP8, which round differently",
       .repeats = true},
      {.name = "top", .argument = "N", .help = "how many configurations to show; 5 if not given"},
      {.name = "objective",
       .argument = "WHAT",
       .help = "time (the default), headroom or gpu-hours",
       .choices = "time, headroom, gpu-hours"},
      {.name = "tokens", .argument = "N", .help = "of --objective gpu-hours: 300B, 15T; 1T if not given"},
      {.name = "explain", .argument = "N", .help = "the memory and time of the N-th, against the next"},
      {.name = "compare", .argument = "A,B", .help = "two rows of the table side by side"},
      {.name = "from",
       .argument = "JOB",
       .help = "make this job fit in the steps that cost least, instead of a search",
       .repeats = true},
      {.name = "emit",
       .argument = "TARGET",
       .help = "write the best as files into the folder that is the last operand: job, megatron-lm, megatron-bridge, "
               "transformers, deepspeed, fsdp2, torchtitan"},
      {.name = "force", .argument = "", .help = kForceHelp},
      {.name = "min-gpus", .argument = "", .help = "the fewest GPUs on which something fits"},
      {.name = "max", .argument = "KEY", .help = "the largest seq_length or micro_batch_size that fits"},
      {.name = "svg", .argument = "FILE", .help = "draw the front of memory against time"},
      {.name = "calibration", .argument = "FILE", .help = "efficiencies measured on your own cluster"},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace

extern const Verb kPlan;
const Verb kPlan = {
    .name = "plan",
    .summary = "the fastest configuration that fits",
    .operands = "[MODEL | FILE...]",
    .most_operands = -1,
    .details =
        "Prices every configuration of a model on a cluster in memory and time, and shows the fastest that fit. Chosen "
        "are the parallel sizes (tensor, pipeline and its chunks, context, expert, expert tensor), how layers are "
        "dealt to stages, the micro-batch, what is recomputed or moved to the host, how the optimizer is kept (on the "
        "host, in instances; ZeRO stage, FSDP replicas and resharding where the framework has them), overlaps and the "
        "allocator's setting. Every key that is given as a flag, with --fix or named by --keep stays as it is. Nothing "
        "is proposed that a rule of the framework forbids, and nothing that changes what is learned unless --vary asks "
        "for it. The best are simulated and walked through the allocator before they are shown.\n"
        "\n"
        "Exit code 0 when something fits, 1 when nothing does.",
    .flags = flags_of_plan(),
    .takes_keys = true,
    .examples = {{"plimsoll plan llama3-70b --gpu h100-sxm-80gb --gpus 32 --seq-length 4096 --global-batch-size 32",
                  "the fastest ways to train it"},
                 {"plimsoll plan job.toml --fix tensor_model_parallel_size=4", "with one knob given"},
                 {"plimsoll plan llama3-8b --gpu h100 --gpus 64 --seq-length 8192 --global-batch-size 64 --min-gpus",
                  "how few GPUs would do"}},
    .run = run_plan,
};

}  // namespace plimsoll::cli
