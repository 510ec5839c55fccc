// SPDX-License-Identifier: Apache-2.0
// Every model of the catalogue under every framework, trained whole, with adapters and with adapters over a base in
// 4 bits, in bf16 and in fp32, at small, odd and extreme sizes, answers or is refused with words. A division by a size
// that a model does not have ends the program here.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/crew.h"
#include "job/read.h"
#include "memory/answer.h"
#include "model/catalog.h"
#include "rules/rules.h"
#include "timing/step_time.h"

namespace plimsoll {
namespace {

using Flags = std::vector<std::pair<std::string, std::string>>;

struct Size {
  const char* name;
  std::int64_t gpus;
  Flags flags;
};

const std::vector<Size>& sizes() {
  static const std::vector<Size> all = {
      {"small", 8, {{"seq_length", "2048"}, {"micro_batch_size", "1"}, {"global_batch_size", "8"}}},
      {"odd", 1, {{"seq_length", "1"}, {"micro_batch_size", "3"}, {"global_batch_size", "3"}}},
      {"uneven",
       12,
       {{"seq_length", "768"},
        {"micro_batch_size", "5"},
        {"global_batch_size", "60"},
        {"tensor_model_parallel_size", "4"}}},
      {"extreme", 65536, {{"seq_length", "1048576"}, {"micro_batch_size", "1"}, {"global_batch_size", "65536"}}},
      {"tiny vocabulary",
       8,
       {{"seq_length", "512"},
        {"micro_batch_size", "1"},
        {"global_batch_size", "8"},
        {"vocab_size", "3"},
        {"tensor_model_parallel_size", "4"}}},
      {"pipelined",
       8,
       {{"seq_length", "1024"},
        {"micro_batch_size", "1"},
        {"global_batch_size", "8"},
        {"pipeline_model_parallel_size", "2"}}},
  };
  return all;
}

struct Way {
  const char* name;
  Flags flags;
  bool everywhere;  // at every size; else where layers and shards are cut in even and uneven ways
};

const std::vector<Way>& ways() {
  static const std::vector<Way> all = {
      {"whole", {{"bf16", "true"}}, true},
      {"LoRA", {{"peft", "lora"}, {"bf16", "true"}}, true},
      {"QLoRA", {{"peft", "lora"}, {"load_in_4bit", "true"}, {"bf16", "true"}}, false},
      {"whole in fp32", {{"bf16", "false"}}, false},
      {"LoRA in fp32", {{"peft", "lora"}, {"bf16", "false"}}, false},
      {"QLoRA in fp32", {{"peft", "lora"}, {"load_in_4bit", "true"}, {"bf16", "false"}}, false},
  };
  return all;
}

struct Question {
  std::string model;
  job::Framework framework;
  const Way* way;
  const Size* size;

  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} {}, {}", model, job::name_of(framework), way->name, size->name);
  }
};

enum class Outcome { kAnswered, kRefused, kWordless, kUnbalanced };

Outcome ask(const Question& question, bool walks) {
  job::ReadOptions options;
  options.framework = question.framework;
  options.model = question.model;
  options.gpu = "h200";
  options.gpus = question.size->gpus;
  options.overrides = question.size->flags;
  options.overrides.insert(options.overrides.end(), question.way->flags.begin(), question.way->flags.end());
  // Weights of Transformers are loaded in the type that the checkpoint has unless they are asked for in another.
  const bool is_fp32 = std::string_view(question.way->name).ends_with("fp32");
  const bool loads = question.framework == job::Framework::kTransformers ||
                     question.framework == job::Framework::kFsdp2 || question.framework == job::Framework::kDeepSpeed;
  if (is_fp32 && loads) options.overrides.emplace_back("load_dtype", "fp32");
  const auto job = job::read_job({}, options);
  if (!job) return job.error().message.empty() ? Outcome::kWordless : Outcome::kRefused;
  (void)rules::check(*job);
  const auto time = timing::predict(*job);
  if (!time || !(time->seconds >= 0)) return Outcome::kUnbalanced;
  if (!walks) {
    for (std::int64_t rank = 0; rank < job->parallel.pipeline; ++rank)
      if (const auto peak = memory::folded_peak(*job, rank); !peak || *peak <= 0) return Outcome::kUnbalanced;
    return Outcome::kAnswered;
  }
  const auto answer = memory::answer(*job, {});
  if (!answer) return answer.error().message.empty() ? Outcome::kWordless : Outcome::kRefused;
  for (const memory::RankAnswer& rank : answer->ranks) {
    std::int64_t sum = 0;
    for (const memory::Row& row : rank.table) sum += row.bytes;
    if (sum != rank.capacity) return Outcome::kUnbalanced;
  }
  return Outcome::kAnswered;
}

TEST(Catalogue, every_model_under_every_framework_answers_or_is_refused_with_words) {
  std::vector<Question> questions;
  for (const model::CatalogEntry& entry : model::catalog_entries())
    for (const job::Framework framework :
         {job::Framework::kMegatronLm, job::Framework::kMegatronBridge, job::Framework::kTransformers,
          job::Framework::kFsdp2, job::Framework::kDeepSpeed, job::Framework::kTorchtitan})
      for (const Way& way : ways())
        for (const Size& size : sizes())
          if (way.everywhere || &size == &sizes()[0] || &size == &sizes()[2])
            questions.push_back({entry.name, framework, &way, &size});
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> answered{0};
  std::map<std::string, std::size_t> by_way;
  std::mutex guard;
  std::vector<std::string> wrong;
  share_work(0, [&](unsigned) {
    for (std::size_t i = next++; i < questions.size(); i = next++) {
      // Walks through the allocator are what takes time: one in five, the rest in closed form.
      const Outcome outcome = ask(questions[i], i % 5 == 0);
      if (outcome == Outcome::kRefused) continue;
      const std::lock_guard lock(guard);
      if (outcome == Outcome::kAnswered) {
        ++answered;
        ++by_way[questions[i].way->name];
        continue;
      }
      wrong.push_back(questions[i].text());
    }
  });
  EXPECT_TRUE(wrong.empty()) << fmt::format("{}", fmt::join(wrong, "\n"));
  // A way that every framework refuses would be no test.
  for (const Way& way : ways()) EXPECT_GT(by_way[way.name], model::catalog_entries().size() / 2) << way.name;
  EXPECT_GT(answered, questions.size() / 3) << "of " << questions.size();
  RecordProperty("answered", static_cast<int>(answered));
}

}  // namespace
}  // namespace plimsoll
