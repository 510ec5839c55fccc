// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "answer/json.h"
#include "answer/plan.h"
#include "base/interrupt.h"
#include "base/suggest.h"
#include "base/usage.h"

namespace plimsoll::answer {

namespace {

std::optional<plan::Plan> plan_on(const Question& question, const plan::SearchOptions& options, std::int64_t gpus,
                                  const Progress& progress) {
  tell(progress, fmt::format("trying {} GPUs", gpus));
  auto found = plan::plan_for(plan::with_gpus(question, gpus), options);
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
plan::Longest largest_micro_batch(const Question& question, const plan::SearchOptions& options,
                                  const Progress& progress) {
  const auto holds = [&](std::int64_t value) {
    tell(progress, fmt::format("trying micro_batch_size {}", value));
    const Question asked = with_value(question, "micro_batch_size", value);
    const auto job = plan::first_job(asked);
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

Result<FewestGpus> fewest_gpus(const Question& question, const plan::SearchOptions& options, const Progress& progress) {
  FewestGpus answer;
  answer.tried_to = question.request.options().gpus.value_or(1024);
  answer.fewest = plan::fewest_gpus(question, options, 1, answer.tried_to, &answer.nothing_fits_on, words_to(progress));
  if (answer.fewest) answer.plan = plan_on(question, options, answer.fewest->gpus, progress);
  answer.interrupted = interrupted();
  if (answer.interrupted || answer.plan) return answer;
  // What the largest number lacks says more than a bare no.
  answer.fewest.reset();
  PLIMSOLL_TRY(miss, plan::plan_for(question, options));
  answer.plan = std::move(miss);
  return answer;
}

std::string to_json(const FewestGpus& answer) {
  if (!answer.interrupted) return to_json(*answer.plan);
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("interrupted", true);
  if (answer.fewest) json.member("fits_on_gpus", answer.fewest->gpus);
  return json.member("nothing_fits_on_gpus", answer.nothing_fits_on).end_object().take();
}

Result<LargestValue> largest_value(const Question& question, const std::string& key, const plan::SearchOptions& options,
                                   const Progress& progress) {
  if (key == "global_batch_size")
    return usage_error("--max global_batch_size has no answer: micro-batches accumulate, so memory sets no limit to it",
                       "--max micro_batch_size asks for the largest batch that is on the GPU at once");
  if (key != "seq_length" && key != "micro_batch_size")
    return usage_error(fmt::format("--max is '{}'; wanted seq_length or micro_batch_size", key),
                       did_you_mean(key, std::vector<std::string>{"seq_length", "micro_batch_size"}));
  LargestValue answer;
  answer.key = key;
  answer.longest = key == "seq_length" ? plan::longest_sequence(question, options, words_to(progress))
                                       : largest_micro_batch(question, options, progress);
  answer.interrupted = interrupted();
  if (answer.interrupted) return answer;
  answer.decided = true;
  if (answer.longest.tokens == 0) return answer;
  PLIMSOLL_TRY(found, plan::plan_for(with_value(question, key, answer.longest.tokens), options));
  answer.interrupted = found.interrupted;
  if (!found.interrupted) answer.plan = std::move(found);
  return answer;
}

std::string to_json(const LargestValue& answer) {
  if (answer.plan) return to_json(*answer.plan);
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("interrupted", answer.interrupted).member("key", answer.key);
  return json.member("fits_at", answer.longest.tokens).end_object().take();
}

Result<GpuHours> gpu_hours(const Question& question, const std::string& tokens, const plan::SearchOptions& options,
                           const Progress& progress) {
  GpuHours answer;
  answer.asked = tokens;
  const auto count = token_count(tokens);
  if (!count) return usage_error(fmt::format("--tokens is '{}'; wanted a number such as 300B or 15T", tokens));
  answer.tokens = *count;
  if (!question.request.options().gpus)
    return usage_error("--objective gpu-hours wants --gpus, the most GPUs that there are");
  answer.most = *question.request.options().gpus;
  for (std::int64_t gpus = 1; gpus <= answer.most;
       gpus = gpus < answer.most && 2 * gpus > answer.most ? answer.most : 2 * gpus) {
    if (interrupted()) break;
    if (auto found = plan_on(question, options, gpus, progress)) {
      const double rate = found->best.front().time.tokens_per_second_per_gpu;  // of one GPU
      const double hours = answer.tokens / rate / 3600;
      answer.rows.push_back({gpus, *std::move(found), hours, hours / static_cast<double>(gpus) / 24});
    }
  }
  answer.interrupted = interrupted();
  std::stable_sort(answer.rows.begin(), answer.rows.end(),
                   [](const GpuHours::Row& a, const GpuHours::Row& b) { return a.gpu_hours < b.gpu_hours; });
  return answer;
}

std::string to_json(const GpuHours& answer) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema);
  if (answer.interrupted) json.member("interrupted", true);
  json.member("tokens", answer.tokens).key("counts_of_gpus").begin_array();
  for (const GpuHours::Row& row : answer.rows) {
    json.begin_object().member("gpus", row.gpus).member("gpu_hours", row.gpu_hours).member("days", row.days);
    json.member("step_seconds", row.plan.best.front().time.seconds);
    write_settings(json, row.plan.best.front().settings);
    json.end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::answer
