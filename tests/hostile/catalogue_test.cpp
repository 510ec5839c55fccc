// SPDX-License-Identifier: Apache-2.0
// Every model of the catalogue under every framework, trained whole and with adapters, at small, odd and extreme sizes,
// answers or is refused with words. A division by a size that a model does not have ends the program here.
#include <gtest/gtest.h>

#include <atomic>
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

struct Question {
  std::string model;
  job::Framework framework;
  bool adapted;
  const Size* size;

  [[nodiscard]] std::string text() const {
    return fmt::format("{} {} {}, {}", model, job::name_of(framework), adapted ? "LoRA" : "whole", size->name);
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
  if (question.adapted) options.overrides.emplace_back("peft", "lora");
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
      for (const bool adapted : {false, true})
        for (const Size& size : sizes()) questions.push_back({entry.name, framework, adapted, &size});
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> answered{0};
  std::mutex guard;
  std::vector<std::string> wrong;
  share_work(0, [&](unsigned) {
    for (std::size_t i = next++; i < questions.size(); i = next++) {
      // Walks through the allocator are what takes time: one in five, the rest in closed form.
      const Outcome outcome = ask(questions[i], i % 5 == 0);
      if (outcome == Outcome::kAnswered) ++answered;
      if (outcome == Outcome::kAnswered || outcome == Outcome::kRefused) continue;
      const std::lock_guard lock(guard);
      wrong.push_back(questions[i].text());
    }
  });
  EXPECT_TRUE(wrong.empty()) << fmt::format("{}", fmt::join(wrong, "\n"));
  EXPECT_GT(answered, questions.size() / 3) << "of " << questions.size();
  RecordProperty("answered", static_cast<int>(answered));
}

}  // namespace
}  // namespace plimsoll
