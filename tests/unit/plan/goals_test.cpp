// SPDX-License-Identifier: Apache-2.0
#include "plan/goals.h"

#include <gtest/gtest.h>

namespace plimsoll::plan {
namespace {

Question question_of(const std::string& model, std::int64_t gpus, const job::Settings& settings) {
  job::ReadOptions options;
  options.framework = job::Framework::kMegatronBridge;
  options.model = model;
  options.gpu = "h100-sxm-80gb";
  options.gpus = gpus;
  options.overrides = settings;
  Question question{job::read_request({}, options).value(), {}, {}, {}};
  for (const auto& [key, value] : settings) question.pinned.insert(key);
  return question;
}

bool fits(const Question& question) {
  const auto job = first_job(question);
  return job && anything_fits(*job, make_space(*job, question.pinned, question.space), {});
}

// The search of lengths shares its bounds between splits; a search of each length for itself must agree.
TEST(Goals, the_longest_sequence_fits_and_the_next_does_not) {
  const job::Settings batch = {{"micro_batch_size", "1"}, {"global_batch_size", "8"}, {"seq_length", "4096"}};
  for (const job::Settings& more :
       {job::Settings{}, job::Settings{{"tensor_model_parallel_size", "8"}},
        job::Settings{{"recompute_granularity", "none"}}, job::Settings{{"context_parallel_size", "2"}}}) {
    job::Settings settings = batch;
    settings.insert(settings.end(), more.begin(), more.end());
    const Question question = question_of("llama3-8b", 8, settings);
    const Longest longest = longest_sequence(question, {});
    ASSERT_GT(longest.tokens, 0);
    ASSERT_FALSE(longest.is_endless);
    EXPECT_TRUE(fits(with_length(question, longest.tokens))) << longest.tokens;
    EXPECT_FALSE(fits(with_length(question, longest.tokens + longest.step))) << longest.tokens + longest.step;
    EXPECT_LE(longest.step, std::max<std::int64_t>(1024, longest.tokens / 100));
  }
}

TEST(ThoroughGoals, the_answer_does_not_depend_on_the_number_of_threads) {
  const Question question =
      question_of("llama3-8b", 16, {{"micro_batch_size", "1"}, {"global_batch_size", "16"}, {"seq_length", "4096"}});
  SearchOptions one;
  one.threads = 1;
  SearchOptions four;
  four.threads = 4;
  EXPECT_EQ(longest_sequence(question, one).tokens, longest_sequence(question, four).tokens);
}

TEST(Goals, nothing_is_longest_where_nothing_fits) {
  const Question question =
      question_of("llama3-70b", 1, {{"micro_batch_size", "1"}, {"global_batch_size", "8"}, {"seq_length", "4096"}});
  EXPECT_EQ(longest_sequence(question, {}).tokens, 0);
}

TEST(Goals, something_fits_on_the_fewest_gpus_and_nothing_on_half_of_them) {
  const Question question = question_of("llama3-8b", 64, {{"global_batch_size", "64"}, {"seq_length", "4096"}});
  std::int64_t without = 0;
  const auto fewest = fewest_gpus(question, {}, 1, 64, &without);
  ASSERT_TRUE(fewest.has_value());
  EXPECT_TRUE(fits(with_gpus(question, fewest->gpus)));
  EXPECT_LT(without, fewest->gpus);
  if (without > 0) {
    EXPECT_FALSE(fits(with_gpus(question, without)));
  }
}

}  // namespace
}  // namespace plimsoll::plan
