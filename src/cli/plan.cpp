// SPDX-License-Identifier: Apache-2.0
// plimsoll plan: the fastest configuration that fits.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/job_input.h"
#include "cli/job_keys.h"
#include "cli/plan_ladder.h"
#include "cli/plan_report.h"
#include "cli/verb.h"
#include "model/catalog.h"

namespace plimsoll::cli {

namespace {

std::atomic<bool> g_stop{false};  // set by the handler of SIGINT, which may touch nothing else

extern "C" void stop_search(int) { g_stop.store(true); }

Result<std::size_t> positive(const Arguments& arguments, const char* flag, std::size_t otherwise) {
  const auto text = arguments.value(flag);
  if (!text) return otherwise;
  std::size_t value = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || value == 0)
    return usage_error(fmt::format("--{} is '{}'; wanted a positive whole number", flag, *text));
  return value;
}

struct Question {
  JobInput input;
  std::set<std::string, std::less<>> pinned;
};

Result<Question> read_question(const Arguments& arguments) {
  Arguments base = arguments;
  // A model's name stands where a job file could.
  if (base.operands.size() == 1 && !arguments.has("model") && !file_exists(base.operands[0]) &&
      model::find_model(base.operands[0])) {
    base.flags.emplace_back("model", base.operands[0]);
    base.operands.clear();
  }
  for (const std::string& fix : arguments.values("fix")) {
    const std::size_t equals = fix.find('=');
    if (equals == std::string::npos) return usage_error(fmt::format("--fix is '{}'; wanted KEY=VALUE", fix));
    base.keys.emplace_back(job_keys().full_name(fix.substr(0, equals)), fix.substr(equals + 1));
  }
  PLIMSOLL_TRY(input, read_input(base));
  if (!input.options.framework && base.operands.empty()) input.options.framework = job::Framework::kMegatronBridge;
  Question question{std::move(input), {}};
  for (const auto& [key, value] : base.keys) question.pinned.insert(key);
  for (const std::string& keep : arguments.values("keep")) question.pinned.insert(job_keys().full_name(keep));
  return question;
}

// A first job that the framework accepts: the batch may not divide before the model is split.
Result<job::Job> first_job(const Question& question) {
  const Settings one_sequence =
      question.pinned.contains("micro_batch_size") ? Settings{} : Settings{{"micro_batch_size", "1"}};
  auto plain = make_job(replaced(question.input, one_sequence), {});
  if (plain || !question.input.options.gpus) return plain;
  const std::int64_t gpus = *question.input.options.gpus;
  for (const std::int64_t tensor : {8, 4, 2, 1}) {
    for (std::int64_t pipeline = 1; pipeline <= 64 && tensor * pipeline <= gpus; ++pipeline) {
      Settings settings = one_sequence;
      const auto add = [&](const char* key, std::int64_t value) {
        if (!question.pinned.contains(key)) settings.emplace_back(key, std::to_string(value));
      };
      add("tensor_model_parallel_size", tensor);
      add("pipeline_model_parallel_size", pipeline);
      if (auto job = make_job(replaced(question.input, settings), {})) return job;
    }
  }
  return plain;
}

plan::SearchOptions options_of(const Console& console, std::size_t keep, const Arguments& arguments) {
  plan::SearchOptions options;
  options.keep = keep;
  options.stop = &g_stop;
  if (arguments.value("objective").value_or("time") == "headroom") options.objective = plan::Objective::kHeadroom;
  options.progress = [&console](const plan::Counts& counts) {
    console.progress(
        fmt::format("considered {} configurations", with_commas(static_cast<std::int64_t>(counts.considered))));
  };
  return options;
}

Result<plan::Plan> plan_for(const Question& question, const plan::SearchOptions& options) {
  PLIMSOLL_TRY(job, first_job(question));
  return plan::search(job, plan::make_space(job, question.pinned), options);
}

// The fewest GPUs, by whole nodes and powers of two below one, on which something fits.
Result<ExitCode> fewest_gpus(const Question& question, const Arguments& arguments, const Console& console) {
  const std::int64_t most = question.input.options.gpus.value_or(1024);
  plan::SearchOptions options = options_of(console, 3, arguments);
  for (std::int64_t gpus = 1; gpus <= most; gpus *= 2) {
    Question smaller = question;
    smaller.input.options.gpus = gpus;
    const auto found = plan_for(smaller, options);
    if (!found || found->best.empty()) continue;
    if (arguments.has("json")) {
      console.print(plan_json(*found));
    } else {
      console.print(
          fmt::format("fits from {} GPUs on (powers of two were tried)\n\n{}", gpus, plan_report(*found, console)));
    }
    return ExitCode::kYes;
  }
  console.print(fmt::format("does not fit on up to {} GPUs\n", most));
  return ExitCode::kNo;
}

// The largest value of a key for which something fits: doubled until nothing does, then halved in between.
Result<ExitCode> largest_value(const Question& question, const std::string& key, const Arguments& arguments,
                               const Console& console) {
  const bool sequence = key == "seq_length";
  if (!sequence && key != "micro_batch_size" && key != "global_batch_size")
    return usage_error(fmt::format("--max is '{}'; wanted seq_length, micro_batch_size or global_batch_size", key));
  const std::int64_t unit = sequence ? 1024 : 1;
  plan::SearchOptions options = options_of(console, 1, arguments);
  const auto found_at = [&](std::int64_t units) -> Result<plan::Plan> {
    Question with = question;
    with.input = replaced(with.input, {{key, std::to_string(units * unit)}});
    with.pinned.insert(key);
    return plan_for(with, options);
  };
  const auto holds = [&](std::int64_t units) {
    const auto found = found_at(units);
    return found && !found->best.empty();
  };
  std::int64_t low = 0;
  std::int64_t high = 1;
  constexpr std::int64_t kMost = 1 << 14;
  while (high <= kMost && holds(high)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (holds(middle) ? low : high) = middle;
  }
  if (low == 0) {
    console.print(fmt::format("nothing fits at {} {}\n", key, unit));
    return ExitCode::kNo;
  }
  PLIMSOLL_TRY(found, found_at(low));
  if (arguments.has("json")) {
    console.print(plan_json(found));
  } else {
    console.print(fmt::format("largest {} that fits: {}\n\n{}", key, low * unit, plan_report(found, console)));
  }
  return ExitCode::kYes;
}

Status write_text(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return bad_input(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written)
    return bad_input(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  return {};
}

Result<ExitCode> improve(const Arguments& arguments, const Console& console) {
  Arguments as_fit = arguments;
  as_fit.operands = arguments.values("from");
  PLIMSOLL_TRY(input, read_input(as_fit));
  PLIMSOLL_TRY(ladder, climb(input));
  console.print(arguments.has("json") ? ladder_json(ladder) : ladder_report(ladder, console));
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

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  if (arguments.has("from")) return improve(arguments, console);
  std::pair<std::size_t, std::size_t> compared{0, 0};
  if (const auto text = arguments.value("compare")) {
    PLIMSOLL_TRY(rows, compared_rows(*text));
    compared = rows;
  }
  PLIMSOLL_TRY(keep, positive(arguments, "top", 5));
  PLIMSOLL_TRY(explained, positive(arguments, "explain", 0));
  const std::string objective = arguments.value("objective").value_or("time");
  if (objective != "time" && objective != "headroom")
    return usage_error(fmt::format("--objective is '{}'; wanted time or headroom", objective));
  PLIMSOLL_TRY(question, read_question(arguments));
  std::signal(SIGINT, stop_search);
  if (arguments.has("min-gpus")) return fewest_gpus(question, arguments, console);
  if (const auto key = arguments.value("max"))
    return largest_value(question, job_keys().full_name(*key), arguments, console);
  PLIMSOLL_TRY(found,
               plan_for(question, options_of(console, std::max({keep, explained + 1, compared.first, compared.second}),
                                             arguments)));
  if (const auto path = arguments.value("svg")) PLIMSOLL_TRY_STATUS(write_text(*path, pareto_svg(found)));
  if (arguments.has("json")) {
    console.print(plan_json(found));
  } else if (compared.first > 0 && std::max(compared.first, compared.second) <= found.best.size()) {
    console.print(plan_comparison(found, compared.first - 1, compared.second - 1, console));
  } else if (explained > 0 && explained <= found.best.size()) {
    console.print(plan_explanation(found, explained - 1, console));
  } else {
    console.print(plan_report(found, console));
  }
  return found.best.empty() ? ExitCode::kNo : ExitCode::kYes;
}

std::vector<Flag> flags() {
  std::vector<Flag> all = job_flags();
  const std::vector<Flag> own = {
      {.name = "fix", .argument = "KEY=VALUE", .help = "a knob that is not to be chosen", .repeats = true},
      {.name = "keep", .argument = "KEY", .help = "leave this knob as the job has it", .repeats = true},
      {.name = "top", .argument = "N", .help = "how many configurations to show; 5 if not given"},
      {.name = "objective", .argument = "WHAT", .help = "time (the default) or headroom"},
      {.name = "explain", .argument = "N", .help = "the memory and time of the N-th, against the next"},
      {.name = "compare", .argument = "A,B", .help = "two rows of the table side by side"},
      {.name = "from",
       .argument = "JOB",
       .help = "make this job fit in the steps that cost least, instead of a search",
       .repeats = true},
      {.name = "min-gpus", .argument = "", .help = "the fewest GPUs on which something fits"},
      {.name = "max",
       .argument = "KEY",
       .help = "the largest seq_length, micro_batch_size or global_batch_size that fits"},
      {.name = "svg", .argument = "FILE", .help = "draw the front of memory against time"},
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
        "are the parallel sizes (tensor, pipeline and its chunks, context, expert, expert tensor), the micro-batch, "
        "recomputation, and the ZeRO stage where the framework has one; every key that is given as a flag, with --fix "
        "or named by --keep stays as it is. Nothing is proposed that a rule of the framework forbids. The best are "
        "walked through the allocator before they are shown.\n"
        "\n"
        "Exit code 0 when something fits, 1 when nothing does.",
    .flags = flags(),
    .takes_keys = true,
    .examples = {{"plimsoll plan llama3-70b --gpu h100-sxm-80gb --gpus 32 --seq-length 4096 --global-batch-size 32",
                  "the fastest ways to train it"},
                 {"plimsoll plan job.toml --fix tensor_model_parallel_size=4", "with one knob given"},
                 {"plimsoll plan llama3-8b --gpu h100 --gpus 64 --seq-length 8192 --global-batch-size 64 --min-gpus",
                  "how few GPUs would do"}},
    .run = run,
};

}  // namespace plimsoll::cli
