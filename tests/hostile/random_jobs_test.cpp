// SPDX-License-Identifier: Apache-2.0
// Random jobs, and relations that hold whatever the numbers are: books balance, the verdict does not depend on what is
// shown, more work never needs less memory, what is written reads back as the same job, text and JSON say the same.
// PLIMSOLL_JOBS sets how many; with PLIMSOLL_LONG, which ./test --long sets, it is ten times the usual number.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "answer/fit.h"
#include "answer/lint.h"
#include "asked.h"
#include "base/bytes.h"
#include "base/crew.h"
#include "cli/fit_report.h"
#include "document/node.h"
#include "emit/emit.h"
#include "job/read.h"
#include "job/request.h"
#include "memory/answer.h"
#include "rules/rules.h"
#include "timing/step_time.h"

namespace plimsoll {
namespace {

using testing::Asked;
using testing::some_job;

std::int64_t tensors(const memory::Answer& answer) {
  std::int64_t most = 0;
  for (const std::int64_t peak : answer.peak_by_stage) most = std::max(most, peak);
  return most;
}

// The relations; each returns what is wrong, or nothing.

std::string books_balance(const memory::Answer& answer) {
  for (const memory::RankAnswer& rank : answer.ranks) {
    std::int64_t sum = 0;
    for (const memory::Row& row : rank.table) sum += row.bytes;
    if (sum != rank.capacity) return fmt::format("rows sum to {}, not to {}", sum, rank.capacity);
    if (rank.device_used < rank.low || rank.device_used > rank.high) return "the figure is outside of its interval";
  }
  return {};
}

std::string verdict_is_one(const job::Job& job, const memory::Answer& worst) {
  for (const memory::AskedRanks& asked :
       {memory::AskedRanks{true, {}}, memory::AskedRanks{false, job.parallel.pipeline - 1},
        memory::AskedRanks{false, {}, true}}) {
    const auto other = memory::answer(job, asked);
    if (!other) return "other ranks are refused: " + to_string(other.error());
    if (other->fits != worst.fits) return "the verdict depends on the ranks that are shown";
    if (const std::string wrong = books_balance(*other); !wrong.empty()) return wrong;
  }
  return {};
}

// The same job with one key larger never needs less.
std::string grows_with(const Asked& asked, const std::string& key, const memory::Answer& before) {
  Asked larger = asked;
  larger.set(key, std::to_string(2 * std::stoll(asked.get(key, "1"))));
  const auto job = job::read_job({}, larger.options);
  if (!job) return {};  // may not divide, or exceed what the model has positions for
  const auto after = memory::answer(*job, {});
  if (!after) return {};
  if (tensors(*after) >= tensors(before)) return {};
  return fmt::format("twice the {} needs {} instead of {} of tensors", key, tensors(*after), tensors(before));
}

// Twice the data-parallel ranks with the same work each never need more, but for padding.
std::string shrinks_with_ranks(const Asked& asked, const job::Job& job, const memory::Answer& before) {
  // FSDP2 pads few experts to many ranks (fit says so), and a rank's share of small weights is rounded up.
  if (job.model.has_moe()) return {};
  Asked more = asked;
  more.options.gpus = 2 * *asked.options.gpus;
  const auto doubled = job::read_job({}, more.options);
  if (!doubled) return {};
  const auto after = memory::answer(*doubled, {});
  if (!after) return {};
  // One GPU alone needs no buffers for messages and no copies for sharding.
  if (job.data_parallel == 1) return {};
  const std::int64_t most = tensors(before) + tensors(before) / 100 + 64 * kMiB;
  if (tensors(*after) <= most) return {};
  return fmt::format("twice the GPUs need {} instead of {} of tensors on each", tensors(*after), tensors(before));
}

std::string text_equals_json(const job::Job& job, const memory::Answer& answer) {
  const auto time = timing::predict(job);
  if (!time) return "no time: " + to_string(time.error());
  answer::Fit fit{job, answer, {}, {}, *time};
  const auto json = document::parse_json(answer::to_json(fit));
  if (!json) return "fit --json is not JSON: " + to_string(json.error());
  cli::Console console;
  const std::string text = cli::fit_report(fit, console);
  const memory::RankAnswer& worst = answer.ranks[answer.worst];
  const document::Node* fits = json->find("fits");
  if (fits == nullptr || fits->boolean != answer.fits) return "JSON has another verdict";
  if (text.find(answer.fits ? "fits: " : "does not fit: ") == std::string::npos) return "the text has another verdict";
  const document::Node* ranks = json->find("ranks");
  const document::Node* used = ranks == nullptr ? nullptr : ranks->items.front().find("device_used_bytes");
  if (used == nullptr || used->integer != worst.device_used) return "JSON has another figure";
  if (text.find(with_commas(worst.capacity)) == std::string::npos) return "the text lacks the capacity";
  return {};
}

std::string reads_back(const job::Job& job, const memory::Answer& before) {
  const auto files = emit::emit(job, emit::Target::kJob, {});
  if (!files) return files.error().message.empty() ? "emit refuses without words" : "";
  const auto again = job::read_job({{files->front().name, files->front().text}}, {});
  if (!again) return "what was written is refused: " + to_string(again.error());
  const auto after = memory::answer(*again, {});
  if (!after) return "what was written is not answered: " + to_string(after.error());
  if (after->ranks[after->worst].device_used != before.ranks[before.worst].device_used)
    return "what was written needs other memory";
  return {};
}

// Rules that call a setting idle, and the value that says the same: with it the job must need the same memory and time.
struct Idle {
  const char* rule;
  const char* key;
  const char* value;
};
constexpr Idle kIdle[] = {
    {"R104", "recompute_granularity", "none"},  // norms are fused; the random jobs name one module at a time
    {"R105", "recompute_granularity", "none"},  // no dense MLP
    {"S011", "offload_optimizer_device", "none"},
    {"S013", "cpu_offloading", "false"},
    {"S022", "fp8", "none"},
    {"R019", "tp_comm_overlap", "false"},
    {"R275", "offload_param_device", "none"},
    {"R301", "use_cache", "false"},
};

std::array<std::atomic<int>, std::size(kIdle)> met = {};  // how often each was met: one that never is proves nothing

// What the framework would refuse is no yes in fit; what it would ignore costs nothing in fit.
std::string lint_agrees_with_fit(const Asked& asked, const job::Job& job, const memory::Answer& answer) {
  const auto request = job::read_request({}, asked.options);
  if (!request) return "a request is refused and its job is not";
  const auto lint = answer::lint(*request);
  const auto fit = answer::fit(*request, {}, {}, answer::Changes::kNone);
  if (!lint || !fit) return "lint or fit refuse a job that reads";
  if (fit->holds() != (answer.fits && !answer::has_error(lint->violations))) return "fit says yes to what lint refuses";
  if (fit->violations.size() != lint->violations.size()) return "fit and lint see different violations";
  for (const rules::Violation& violation : lint->violations)
    for (const Idle& idle : kIdle) {
      if (violation.rule->id != idle.rule) continue;
      ++met[static_cast<std::size_t>(&idle - kIdle)];
      const auto other = job::resolve(request->with(idle.key, idle.value));
      if (!other) return fmt::format("{} = {} is refused: {}", idle.key, idle.value, to_string(other.error()));
      const auto without = memory::answer(*other, {});
      const auto time = timing::predict(job);
      const auto time_without = timing::predict(*other);
      if (!without || !time || !time_without) return fmt::format("no answer with {} = {}", idle.key, idle.value);
      if (without->ranks[without->worst].device_used != answer.ranks[answer.worst].device_used)
        return fmt::format("{} says that {} does nothing, and it moves {} bytes", idle.rule, idle.key,
                           answer.ranks[answer.worst].device_used - without->ranks[without->worst].device_used);
      if (time->seconds != time_without->seconds)
        return fmt::format("{} says that {} does nothing, and it moves seconds from {} to {}", idle.rule, idle.key,
                           time_without->seconds, time->seconds);
    }
  return {};
}

struct Tally {
  std::atomic<std::size_t> answered{0};
  std::atomic<std::size_t> refused{0};
  std::mutex guard;
  std::vector<std::string> wrong;
};

void examine(std::uint64_t seed, Tally& tally) {
  const Asked asked = some_job(seed);
  const auto job = job::read_job({}, asked.options);
  const auto report = [&](const std::string& what) {
    if (what.empty()) return;
    const std::lock_guard lock(tally.guard);
    tally.wrong.push_back(fmt::format("{}: {}", asked.text(), what));
  };
  if (!job) {
    ++tally.refused;
    if (job.error().message.empty()) report("refused without words");
    return;
  }
  const auto answer = memory::answer(*job, {});
  if (!answer) {
    ++tally.refused;
    if (answer.error().message.empty()) report("refused without words");
    return;
  }
  ++tally.answered;
  report(lint_agrees_with_fit(asked, *job, *answer));
  report(books_balance(*answer));
  report(verdict_is_one(*job, *answer));
  report(text_equals_json(*job, *answer));
  // The dearer relations, each on its share of the jobs.
  switch (seed % 4) {
    case 0:
      report(grows_with(asked, "micro_batch_size", *answer));
      break;
    case 1:
      report(grows_with(asked, "seq_length", *answer));
      break;
    case 2:
      report(shrinks_with_ranks(asked, *job, *answer));
      break;
    default:
      report(reads_back(*job, *answer));
  }
}

std::size_t wanted_jobs() {
  const char* text = std::getenv("PLIMSOLL_JOBS");
  if (text == nullptr) return std::getenv("PLIMSOLL_LONG") == nullptr ? 2000 : 20'000;
  return static_cast<std::size_t>(std::max(1L, std::strtol(text, nullptr, 10)));
}

TEST(RandomJobs, relations_hold) {
  const char* first = std::getenv("PLIMSOLL_FIRST_JOB");
  const std::uint64_t begin = first == nullptr ? 0 : std::strtoull(first, nullptr, 10);
  const std::size_t wanted = wanted_jobs();
  Tally tally;
  std::atomic<std::uint64_t> next{begin};
  share_work(0, [&](unsigned) {
    while (tally.answered < wanted && next < begin + 20 * wanted) examine(next++, tally);
  });
  EXPECT_GE(tally.answered, wanted) << tally.refused << " were refused";
  for (std::size_t i = 0; wanted >= 2000 && i < met.size(); ++i) EXPECT_GT(met[i], 0) << kIdle[i].rule;
  std::sort(tally.wrong.begin(), tally.wrong.end());
  const std::size_t shown = std::min<std::size_t>(20, tally.wrong.size());
  EXPECT_TRUE(tally.wrong.empty()) << tally.wrong.size() << " relations broken:\n"
                                   << fmt::format(
                                          "{}",
                                          fmt::join(tally.wrong.begin(),
                                                    tally.wrong.begin() + static_cast<std::ptrdiff_t>(shown), "\n"));
}

}  // namespace
}  // namespace plimsoll
