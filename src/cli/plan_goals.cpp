// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_goals.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/interrupt.h"
#include "cli/json_writer.h"
#include "cli/plan_report.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::optional<plan::Plan> plan_on(const Question& question, const plan::SearchOptions& options, std::int64_t gpus) {
  remember_progress(fmt::format("trying {} GPUs", gpus));
  auto found = plan_for(plan::with_gpus(question, gpus), options);
  if (!found || found->best.empty() || found->interrupted) return std::nullopt;
  return *std::move(found);
}

// "1T", "300B", "15e12": tokens.
std::optional<double> token_count(std::string_view text) {
  double scale = 1;
  constexpr std::pair<char, double> kUnits[] = {{'T', 1e12}, {'B', 1e9}, {'M', 1e6}, {'K', 1e3}};
  for (const auto& [letter, factor] : kUnits)
    if (!text.empty() && (text.back() == letter || text.back() == letter + ('a' - 'A'))) {
      scale = factor;
      text.remove_suffix(1);
      break;
    }
  double value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || !(value > 0) || value * scale > 1e18)
    return std::nullopt;
  return value * scale;
}

Question with_value(const Question& question, const std::string& key, std::int64_t value) {
  Question with = question;
  with.request = question.request.with(key, std::to_string(value));
  with.pinned.insert(key);
  return with;
}

// Doubled until nothing fits, then halved in between. Micro-batches have to divide the batch, so few values are worth
// asking, and a space of one micro-batch is small.
plan::Longest largest_micro_batch(const Question& question, const plan::SearchOptions& options) {
  const auto holds = [&](std::int64_t value) {
    remember_progress(fmt::format("trying micro_batch_size {}", value));
    const Question asked = with_value(question, "micro_batch_size", value);
    const auto job = first_job(asked);
    return job && plan::anything_fits(*job, plan::make_space(*job, asked.pinned, asked.space), options);
  };
  constexpr std::int64_t kMost = 1 << 14;
  std::int64_t low = 0;
  std::int64_t high = 1;
  while (high <= kMost && holds(high) && !interrupted()) {
    low = high;
    high *= 2;
  }
  const bool is_endless = high > kMost;
  while (!is_endless && high - low > std::max<std::int64_t>(1, low / 128) && !interrupted()) {
    const std::int64_t middle = (low + high) / 2;
    const bool fits = holds(middle);
    if (!interrupted()) (fits ? low : high) = middle;
  }
  return {low, high - low, is_endless};
}

}  // namespace

std::optional<FewestPlan> plan_on_fewest(const Question& question, const plan::SearchOptions& options,
                                         std::int64_t least, std::int64_t most, std::int64_t* without) {
  const auto fewest = plan::fewest_gpus(question, options, least, most, without, remember_progress);
  if (!fewest) return std::nullopt;
  auto found = plan_on(question, options, fewest->gpus);
  if (!found && !interrupted()) return std::nullopt;
  return FewestPlan{*fewest, found ? *std::move(found) : plan::Plan{}};
}

Result<ExitCode> answer_fewest_gpus(const Question& question, const plan::SearchOptions& options,
                                    const Arguments& arguments, const Console& console) {
  const std::int64_t most = question.request.options().gpus.value_or(1024);
  std::int64_t without = 0;
  const auto found = plan_on_fewest(question, options, 1, most, &without);
  if (interrupted()) {
    const std::string known = without > 0 ? fmt::format("nothing fits on {} GPUs", without) : "nothing was decided";
    if (arguments.has("json")) {
      JsonWriter json;
      json.begin_object().member("schema", 1).member("interrupted", true);
      if (found) json.member("fits_on_gpus", found->fewest.gpus);
      json.member("nothing_fits_on_gpus", without);
      console.print(json.end_object().take());
    } else if (found) {
      console.print(fmt::format("interrupted: {}; {} GPUs do, fewer may\n", known, found->fewest.gpus));
    } else {
      console.print(fmt::format("interrupted: {}; up to {} were to be tried\n", known, most));
    }
    return ExitCode::kNo;
  }
  if (!found) {
    // What the largest number lacks says more than a bare no.
    PLIMSOLL_TRY(miss, plan_for(question, options));
    if (arguments.has("json")) {
      console.print(plan_json(miss));
    } else {
      console.print(fmt::format("does not fit on up to {} GPUs; on {}:\n{}", most, most, plan_report(miss, console)));
    }
    return ExitCode::kNo;
  }
  if (arguments.has("json")) {
    console.print(plan_json(found->plan));
  } else {
    console.print(fmt::format(
        "fits from {} GPU{} on ({} were tried)\n\n{}", found->fewest.gpus, found->fewest.gpus == 1 ? "" : "s",
        found->fewest.step > 1 ? fmt::format("counts {} apart", found->fewest.step) : "powers of two in a node",
        plan_report(found->plan, console)));
  }
  return ExitCode::kYes;
}

Result<ExitCode> answer_largest(const Question& question, const std::string& key, const plan::SearchOptions& options,
                                const Arguments& arguments, const Console& console) {
  if (key == "global_batch_size")
    return usage_error("--max global_batch_size has no answer: micro-batches accumulate, so memory sets no limit to it",
                       "--max micro_batch_size asks for the largest batch that is on the GPU at once");
  if (key != "seq_length" && key != "micro_batch_size")
    return usage_error(fmt::format("--max is '{}'; wanted seq_length or micro_batch_size", key));
  plan::Longest longest = key == "seq_length" ? plan::longest_sequence(question, options, remember_progress)
                                              : largest_micro_batch(question, options);
  const auto say_interrupted = [&](std::string_view known) {
    if (arguments.has("json")) {
      JsonWriter json;
      json.begin_object().member("schema", 1).member("interrupted", true).member("key", key);
      console.print(json.member("fits_at", longest.tokens).end_object().take());
    } else {
      console.print(longest.tokens == 0 ? fmt::format("interrupted: nothing was decided about {}\n", key)
                                        : fmt::format("interrupted: {} {} fits; {}\n", key, longest.tokens, known));
    }
    return ExitCode::kNo;
  };
  if (interrupted()) return say_interrupted("larger was not decided");
  if (longest.tokens == 0) {
    console.print(fmt::format("nothing fits at {} {}\n", key, key == "seq_length" ? 1024 : 1));
    return ExitCode::kNo;
  }
  PLIMSOLL_TRY(found, plan_for(with_value(question, key, longest.tokens), options));
  if (found.interrupted) return say_interrupted("nothing larger does, and the plan for it was not finished");
  if (arguments.has("json")) {
    console.print(plan_json(found));
  } else {
    const std::string note = longest.is_endless ? ", the most that is asked for"
                             : longest.step > 1 ? fmt::format(" (in steps of {})", with_commas(longest.step))
                                                : std::string{};
    console.print(
        fmt::format("largest {} that fits: {}{}\n\n{}", key, longest.tokens, note, plan_report(found, console)));
  }
  return ExitCode::kYes;
}

Result<ExitCode> answer_gpu_hours(const Question& question, const plan::SearchOptions& options,
                                  const Arguments& arguments, const Console& console) {
  const std::string text = arguments.value("tokens").value_or("1T");
  const auto tokens = token_count(text);
  if (!tokens) return usage_error(fmt::format("--tokens is '{}'; wanted a number such as 300B or 15T", text));
  if (!question.request.options().gpus)
    return usage_error("--objective gpu-hours wants --gpus, the most GPUs that there are");
  struct Row {
    std::int64_t gpus;
    plan::Plan plan;
    double gpu_hours;
    double days;
  };
  std::vector<Row> rows;
  const std::int64_t most = *question.request.options().gpus;
  for (std::int64_t gpus = 1; gpus <= most; gpus = gpus < most && 2 * gpus > most ? most : 2 * gpus) {
    if (interrupted()) break;
    if (auto found = plan_on(question, options, gpus)) {
      const double rate = found->best.front().time.tokens_per_second_per_gpu;  // of one GPU
      const double hours = *tokens / rate / 3600;
      rows.push_back({gpus, *std::move(found), hours, hours / static_cast<double>(gpus) / 24});
    }
  }
  if (interrupted() && !arguments.has("json"))
    console.print(fmt::format("interrupted: {} numbers of GPUs were answered\n", rows.size()));
  if (rows.empty()) {
    if (interrupted()) return ExitCode::kNo;
    console.print(fmt::format("does not fit on up to {} GPUs\n", most));
    return ExitCode::kNo;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.gpu_hours < b.gpu_hours; });
  if (arguments.has("json")) {
    JsonWriter json;
    json.begin_object().member("schema", 1);
    if (interrupted()) json.member("interrupted", true);
    json.member("tokens", *tokens).key("counts_of_gpus").begin_array();
    for (const Row& row : rows) {
      json.begin_object().member("gpus", row.gpus).member("gpu_hours", row.gpu_hours).member("days", row.days);
      json.member("step_seconds", row.plan.best.front().time.seconds).key("settings").begin_object();
      for (const auto& [key, value] : row.plan.best.front().settings) json.member(key, value);
      json.end_object().end_object();
    }
    console.print(json.end_array().end_object().take());
    return ExitCode::kYes;
  }
  Table table({{"GPUs", Align::kRight},
               {"GPU-hours", Align::kRight},
               {"days", Align::kRight},
               {"tokens/s/GPU", Align::kRight},
               {"headroom", Align::kRight},
               {"configuration", Align::kLeft, true}});
  for (const Row& row : rows) {
    const plan::Found& best = row.plan.best.front();
    table.add_row({std::to_string(row.gpus), with_commas(static_cast<std::int64_t>(row.gpu_hours)),
                   fmt::format("{:.1f}", row.days), fmt::format("{:.0f}", best.time.tokens_per_second_per_gpu),
                   format_gib(best.worst.headroom), shown(row.plan, best)});
  }
  console.print(
      fmt::format("{} tokens, fewest GPU-hours first\n\n{}", text, table.to_text(console.width, console.colour_out)));
  return ExitCode::kYes;
}

}  // namespace plimsoll::cli
