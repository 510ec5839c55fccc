// SPDX-License-Identifier: Apache-2.0
// plimsoll diff: what explains the difference between two peaks, of recordings, jobs or captured steps.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "answer/captured.h"
#include "base/bytes.h"
#include "base/file.h"
#include "cli/diff_report.h"
#include "cli/job_input.h"
#include "cli/recording_flags.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

Result<answer::GrowthLimit> growth_limit(const Arguments& arguments) {
  answer::GrowthLimit limit;
  const auto text = arguments.value("limit");
  if (!text) return limit;
  if (text->ends_with('%')) {
    double percent = 0;
    const auto parsed = std::from_chars(text->data(), text->data() + text->size() - 1, percent);
    if (parsed.ec == std::errc{} && parsed.ptr == text->data() + text->size() - 1 && percent >= 0) {
      limit.share = percent / 100;
      return limit;
    }
  } else if (const auto bytes = parse_bytes(*text); bytes && *bytes >= 0) {
    limit.bytes = *bytes;
    return limit;
  }
  return usage_error(fmt::format("--limit is '{}'; wanted a share such as 5%, or bytes such as 2GiB", *text));
}

namespace {

// --time-limit 5%: how much longer a token of the second job may take.
Result<std::optional<double>> time_limit(const Arguments& arguments) {
  const auto text = arguments.value("time-limit");
  if (!text) return std::optional<double>{};
  double percent = 0;
  const std::size_t digits = text->ends_with('%') ? text->size() - 1 : 0;
  const auto parsed = std::from_chars(text->data(), text->data() + digits, percent);
  if (digits == 0 || parsed.ec != std::errc{} || parsed.ptr != text->data() + digits || !(percent >= 0))
    return usage_error(fmt::format("--time-limit is '{}'; wanted a share such as 5%", *text));
  return std::optional(percent / 100);
}

// A recording begins as pickles and compressed files do; a job is text.
bool is_text(const std::string& path) {
  const auto head = read_file(path, kMaxTextFile);
  return head && head->find('\0') == std::string::npos && !head->starts_with('\x80') && !head->starts_with("\x1f\x8b");
}

Result<ExitCode> diff_jobs(const Arguments& arguments, const answer::GrowthLimit& limit, const Console& console) {
  PLIMSOLL_TRY(world, world_of(arguments));
  PLIMSOLL_TRY(most_slower, time_limit(arguments));
  std::vector<job::Request> requests;
  for (const std::string& path : arguments.operands) {
    answer::Input input;
    input.operands = {path};
    input.settings = arguments.keys;
    PLIMSOLL_TRY(request, answer::read_input(std::move(input)));
    requests.push_back(std::move(request));
  }
  PLIMSOLL_TRY(diff, answer::compare_jobs(requests[0], requests[1], world));
  if (const auto first = job::resolve(requests[0])) say_learned(world, *first, console);
  diff.name_a = arguments.operands[0];
  diff.name_b = arguments.operands[1];
  const bool within =
      !limit.exceeded(diff.a.device_used, diff.b.device_used) && !(most_slower && diff.slower() > *most_slower);
  console.print(arguments.has("json") ? answer::to_json(diff, within)
                                      : fold_prose(job_diff_report(diff, console), console.prose_width));
  return within ? ExitCode::kYes : ExitCode::kNo;
}

Result<ExitCode> diff_recordings(const Arguments& arguments, const answer::GrowthLimit& limit, const Console& console) {
  for (const char* flag : {"time-limit", "calibration"})
    if (arguments.has(flag))
      return usage_error(fmt::format("--{} is about the time of jobs; these are recordings", flag));
  if (!arguments.keys.empty())
    return usage_error(fmt::format("{} is a key of jobs; these are recordings", arguments.keys.front().first));
  PLIMSOLL_TRY(conditions, recording_conditions(arguments));
  PLIMSOLL_TRY(diff, answer::compare_recordings(arguments.operands[0], arguments.operands[1], conditions));
  const bool within = diff.within(limit);
  console.print(arguments.has("json") ? answer::to_json(diff, within)
                                      : fold_prose(recording_diff_report(diff, console), console.prose_width));
  for (const answer::Recording* recording : {&diff.a, &diff.b})
    for (const std::string& warning : recording->warnings) console.warn(recording->path + ": " + warning);
  return within ? ExitCode::kYes : ExitCode::kNo;
}

// At least one of the two is a captured step.
Result<ExitCode> diff_steps(const Arguments& arguments, const answer::GrowthLimit& limit, const Console& console) {
  for (const char* flag : {"time-limit", "calibration"})
    if (arguments.has(flag)) return usage_error(fmt::format("--{} is about time; a capture has none", flag));
  for (const char* flag : {"device", "torch", "capacity", "fraction"})
    if (arguments.has(flag)) return usage_error(fmt::format("--{} is of recordings; this is a captured step", flag));
  for (const std::string& path : arguments.operands)
    if (!answer::is_captured(path) && !is_text(path))
      return bad_input(
          fmt::format("{} is a recording, the other a captured step; wanted two of a kind, or a step and "
                      "the job that describes it",
                      path));
  const answer::StepDiffQuestion question{arguments.operands[0], arguments.operands[1],
                                          arguments.value("gpu").value_or(""),
                                          arguments.value("allocator").value_or(""), arguments.keys};
  PLIMSOLL_TRY(diff, answer::compare_steps(question));
  const bool within = !limit.exceeded(diff.a.rank.device_used, diff.b.rank.device_used);
  console.print(arguments.has("json") ? answer::to_json(diff, within)
                                      : fold_prose(step_diff_report(diff, console), console.prose_width));
  for (const answer::StepDiff::Side* side : {&diff.a, &diff.b})
    for (const std::string& warning : side->warnings) console.warn(side->name + ": " + warning);
  return within ? ExitCode::kYes : ExitCode::kNo;
}

Result<ExitCode> run_diff(const Arguments& arguments, const Console& console) {
  if (arguments.operands.size() != 2)
    return usage_error(fmt::format("diff compares two files, found {}", arguments.operands.size()),
                       "plimsoll diff before.pickle after.pickle, or plimsoll diff before.toml after.toml");
  PLIMSOLL_TRY(limit, growth_limit(arguments));
  for (const std::string& path : arguments.operands) {
    if (path == "-") return usage_error("diff reads files, not standard input");
    PLIMSOLL_TRY_STATUS(check_regular_file(path));
  }
  if (std::ranges::any_of(arguments.operands, answer::is_captured)) return diff_steps(arguments, limit, console);
  if (arguments.has("allocator")) return usage_error("--allocator is of captures; these are none");
  const bool first = is_text(arguments.operands[0]);
  if (first != is_text(arguments.operands[1]))
    return bad_input(fmt::format("{} and {} are a job and a recording; wanted two of a kind", arguments.operands[0],
                                 arguments.operands[1]));
  return first ? diff_jobs(arguments, limit, console) : diff_recordings(arguments, limit, console);
}

std::vector<Flag> flags_of_diff() {
  std::vector<Flag> all = {
      {.name = "limit", .argument = "5%", .help = "exit with 1 when the second is larger by more: a share, or bytes"},
      {.name = "time-limit", .argument = "5%", .help = "of jobs: exit with 1 when a token takes longer by more"},
      {.name = "calibration", .argument = "FILE", .help = "of jobs: efficiencies measured on your own cluster"},
      {.name = "allocator",
       .argument = "CONF",
       .help = "of captures: PYTORCH_CUDA_ALLOC_CONF, such as expandable_segments:True"}};
  all.insert(all.end(), recording_flags().begin(), recording_flags().end());
  return all;
}

}  // namespace

extern const Verb kDiff;
const Verb kDiff = {
    .name = "diff",
    .summary = "what explains the difference between two recordings, jobs or captured steps",
    .operands = "BEFORE AFTER",
    .most_operands = 2,
    .details =
        "Two snapshots of PyTorch: which stacks, sizes and categories hold more at the peak, largest change first. "
        "Stacks are matched by their functions, so that moved lines do not matter.\n"
        "\n"
        "Two jobs: every key that differs is changed in the first job, one after the other, and each step is priced "
        "by the full answer of plimsoll fit, in bytes and in seconds; the steps sum to the difference. Keys that the "
        "framework accepts only together are one step.\n"
        "\n"
        "A captured step (plimsoll capture) and another, or the job that describes it, at the same batch and length: "
        "which tensors are alive at one peak alone, made by what, and the first request that differs. --gpu says for "
        "which GPU; a job has its own.\n"
        "\n"
        "Two folders of plimsoll run, or of many ranks' snapshots, rank files or logs: what each rank holds and how "
        "long its steps take, rank by rank, alike ranks in one row.\n"
        "\n"
        "With --limit the exit code is 1 when the second needs more memory than that above the first, with "
        "--time-limit when a token takes longer: a check for CI.",
    .flags = flags_of_diff(),
    .takes_keys = true,
    .examples = {{"plimsoll diff before.pickle after.pickle", "an OOM regression, traced to the lines that grew"},
                 {"plimsoll diff main.toml change.toml --limit 5% --time-limit 3%",
                  "for CI: fails when memory or time grows by more"},
                 {"plimsoll diff job.toml step.capture", "the tensor in which a job and the real code differ"}},
    .run = run_diff,
};

}  // namespace plimsoll::cli
