// SPDX-License-Identifier: Apache-2.0
// Random jobs, and relations that hold whatever the numbers are: books balance, the verdict does not depend on what is
// shown, more work never needs less memory, what is written reads back as the same job, text and JSON say the same.
// PLIMSOLL_JOBS sets how many; with PLIMSOLL_LONG, which ./test --long sets, it is ten times the usual number.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "answer/fit.h"
#include "base/bytes.h"
#include "base/crew.h"
#include "cli/fit_report.h"
#include "document/node.h"
#include "emit/emit.h"
#include "job/read.h"
#include "memory/answer.h"
#include "model/catalog.h"
#include "rules/rules.h"
#include "timing/step_time.h"

namespace plimsoll {
namespace {

using Flags = std::vector<std::pair<std::string, std::string>>;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return *(values.begin() + below(static_cast<std::int64_t>(values.size())));
  }

 private:
  std::mt19937_64 random_;
};

struct Asked {
  job::ReadOptions options;
  std::int64_t micro_batches = 1;

  [[nodiscard]] std::string text() const {
    std::string all = fmt::format("--model {} --framework {} --gpu {} --gpus {}", options.model,
                                  job::name_of(*options.framework), options.gpu, *options.gpus);
    for (const auto& [key, value] : options.overrides) all += fmt::format(" --{} {}", key, value);
    return all;
  }
  void set(const std::string& key, std::string value) {
    for (auto& [name, old] : options.overrides)
      if (name == key) {
        old = std::move(value);
        return;
      }
    options.overrides.emplace_back(key, std::move(value));
  }
  [[nodiscard]] std::string get(const std::string& key, std::string otherwise) const {
    for (const auto& [name, value] : options.overrides)
      if (name == key) return value;
    return otherwise;
  }
};

// Of a size that a test can walk many of.
std::string some_model(Dice& dice) {
  const auto& all = model::catalog_entries();
  for (;;) {
    const model::CatalogEntry& entry = all[static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(all.size())))];
    if (entry.parameters < 150'000'000'000) return entry.name;
  }
}

void choose_parallel(Dice& dice, job::Framework framework, Flags& flags) {
  const bool megatron = framework == job::Framework::kMegatronLm || framework == job::Framework::kMegatronBridge;
  const bool torchtitan = framework == job::Framework::kTorchtitan;
  const auto add = [&flags](const char* key, std::int64_t value) { flags.emplace_back(key, std::to_string(value)); };
  if (megatron || torchtitan) {
    if (dice.one_in(2)) add("tensor_model_parallel_size", dice.of({2, 4, 8}));
    if (dice.one_in(2)) add("pipeline_model_parallel_size", dice.of({2, 4, 8}));
    if (dice.one_in(4)) add("context_parallel_size", 2);
    if (dice.one_in(3)) flags.emplace_back("sequence_parallel", "true");
  }
  if (megatron) {
    if (dice.one_in(4)) add("virtual_pipeline_model_parallel_size", dice.of({2, 4}));
    if (dice.one_in(3)) add("expert_model_parallel_size", dice.of({2, 4, 8}));
    if (dice.one_in(2)) flags.emplace_back("use_distributed_optimizer", "true");
    if (dice.one_in(3)) flags.emplace_back("overlap_grad_reduce", "true");
  }
  if (torchtitan && dice.one_in(4)) flags.emplace_back("pipeline_schedule", "gpipe");
  if (framework == job::Framework::kDeepSpeed) add("zero_stage", dice.of({0, 1, 2, 3}));
  if (framework == job::Framework::kDeepSpeed && dice.one_in(4)) flags.emplace_back("offload_optimizer_device", "cpu");
}

void choose_activations(Dice& dice, job::Framework framework, Flags& flags) {
  const bool megatron = framework == job::Framework::kMegatronLm || framework == job::Framework::kMegatronBridge;
  if (!megatron) {
    if (dice.one_in(3)) flags.emplace_back("gradient_checkpointing", "true");
    if (dice.one_in(5)) flags.emplace_back("use_liger_kernel", "true");
    return;
  }
  switch (dice.below(4)) {
    case 0:
      flags.insert(flags.end(), {{"recompute_granularity", "full"},
                                 {"recompute_method", dice.of<std::string>({"uniform", "block"})},
                                 {"recompute_num_layers", std::to_string(1 + dice.below(4))}});
      break;
    case 1:
      flags.insert(flags.end(), {{"recompute_granularity", "selective"},
                                 {"recompute_modules", dice.of<std::string>({"core_attn", "mlp", "layernorm"})}});
      break;
    default:
      break;
  }
}

Asked some_job(std::uint64_t seed) {
  Dice dice(seed * 0x9E3779B97F4A7C15ULL + 1);
  Asked asked;
  const auto framework =
      dice.of({job::Framework::kMegatronLm, job::Framework::kMegatronBridge, job::Framework::kTransformers,
               job::Framework::kFsdp2, job::Framework::kDeepSpeed, job::Framework::kTorchtitan});
  asked.options.framework = framework;
  asked.options.model = some_model(dice);
  asked.options.gpu = dice.of<std::string>({"h100", "a100", "h200", "b200"});
  asked.options.gpus = dice.of<std::int64_t>({1, 2, 4, 8, 16, 32, 64});
  Flags& flags = asked.options.overrides;
  flags.emplace_back("seq_length", std::to_string(dice.of({256, 512, 1024, 2048, 4096})));
  flags.emplace_back("micro_batch_size", std::to_string(dice.of({1, 2, 3, 4})));
  flags.emplace_back("gradient_accumulation_steps", std::to_string(dice.of({1, 2, 4, 8})));
  if (dice.one_in(2)) flags.emplace_back("bf16", "true");
  choose_parallel(dice, framework, flags);
  choose_activations(dice, framework, flags);
  if (dice.one_in(6)) flags.emplace_back("peft", "lora");
  return asked;
}

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
  (void)rules::check(*job);
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
