// SPDX-License-Identifier: Apache-2.0
// One price: whatever way a lever is asked for, the program answers with the same bytes and seconds. The row "with" of
// `fit` equals `fit` with those flags, a sweep over them, and the step that the ladder takes, with and without a
// calibration of the user's own. Asked through the command line, so that no verb can keep a price of its own.
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ask.h"
#include "base/text.h"
#include "random_job.h"

namespace plimsoll {
namespace {

using document::Node;
using testing::add_flags;
using testing::ask;
using testing::chance;
using testing::command;
using testing::one_of;
using testing::rate_of;
using testing::Words;
using testing::worst_of;

// A job as a user would type it: large and small, every framework, dense and with experts.
Words random_command(std::mt19937_64& random) {
  const auto framework = one_of<const char*>(
      random, {"megatron-lm", "megatron-bridge", "transformers", "fsdp2", "deepspeed", "torchtitan"});
  const auto model = one_of<const char*>(random, {"llama3-8b", "qwen2.5-7b", "mixtral-8x7b", "llama3.2-1b"});
  Words words = {"fit",
                 "--model",
                 model,
                 "--framework",
                 framework,
                 "--gpu",
                 one_of<const char*>(random, {"h100-sxm-80gb", "h200", "a100-sxm-80gb", "b200"}),
                 "--gpus",
                 one_of<const char*>(random, {"8", "16", "32"}),
                 "--seq-length",
                 one_of<const char*>(random, {"2048", "4096", "8192"}),
                 "--micro-batch-size",
                 one_of<const char*>(random, {"1", "2", "4"})};
  const bool megatron = std::string_view(framework).starts_with("megatron");
  if (megatron) {
    words.insert(words.end(), {"--bf16", "true", "--global-batch-size", "128"});
    if (chance(random, 60))
      words.insert(words.end(), {"--tensor-model-parallel-size", "2", "--sequence-parallel", "true"});
    if (chance(random, 40)) words.insert(words.end(), {"--pipeline-model-parallel-size", "2"});
    if (chance(random, 50)) words.insert(words.end(), {"--use-distributed-optimizer", "true"});
  } else if (chance(random, 60)) {
    words.insert(words.end(), {"--bf16", "true"});
  }
  return words;
}

std::int64_t device_of(const Node& fit) { return worst_of(fit).find("device_used_bytes")->integer; }

// A calibration that makes messages dear: prices that forget it come out far off.
std::string slow_links() {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("plimsoll-one-price-{}.json", getpid());
  std::ofstream(path) << R"({"nvlink": 0.1, "nic": 0.2})";
  return path.string();
}

int jobs_to_try() { return testing::questions(60, 2000); }

TEST(OnePrice, of_a_lever_is_the_same_however_it_is_asked_for) {
  std::mt19937_64 random(11);
  const std::string calibration = slow_links();
  int compared = 0;
  for (int i = 0; i < jobs_to_try(); ++i) {
    Words words = random_command(random);
    if (chance(random, 50)) words.insert(words.end(), {"--calibration", calibration});
    const auto base = ask(words);
    if (!base) continue;
    for (const Node& row : base->json.find("changes")->items) {
      Words with = words;
      add_flags(*row.find("settings"), with);
      SCOPED_TRACE(command(with));
      const auto direct = ask(with);
      ASSERT_TRUE(direct) << "the row '" << row.find("label")->text << "' of " << command(words);
      EXPECT_EQ(device_of(direct->json), row.find("device_used_bytes")->integer);
      EXPECT_EQ(direct->json.find("fits")->boolean, row.find("fits")->boolean);
      if (const Node* share = row.find("time_share"); share != nullptr && share->is_number()) {
        EXPECT_NEAR(rate_of(base->json) / rate_of(direct->json) - 1, share->as_real(), 1e-9);
      }
      ++compared;
    }
    // Two of them as sweeps.
    const auto& rows = base->json.find("changes")->items;
    for (std::size_t k = 0; k < std::min<std::size_t>(2, rows.size()); ++k) {
      const Node& row = rows[random() % rows.size()];
      if (row.find("settings")->members.size() != 1) continue;
      const auto& [key, value] = row.find("settings")->members.front();
      Words sweep = words;
      const std::string flag = "--" + replace(key, '_', '-');
      for (std::size_t j = 0; j + 1 < sweep.size(); ++j)
        if (sweep[j] == flag)
          sweep.erase(sweep.begin() + static_cast<std::ptrdiff_t>(j),
                      sweep.begin() + static_cast<std::ptrdiff_t>(j) + 2);
      sweep.insert(sweep.end(), {"--sweep", key + "=" + value.text});
      const auto swept = ask(sweep);
      ASSERT_TRUE(swept) << command(sweep);
      EXPECT_EQ(swept->json.find("sweep")->items.front().find("device_used_bytes")->integer,
                row.find("device_used_bytes")->integer)
          << command(sweep);
    }
  }
  std::filesystem::remove(calibration);
  EXPECT_GT(compared, jobs_to_try());
}

// What the ladder takes has the price of `fit` with its settings, in the same world.
TEST(OnePrice, of_a_ladder_is_the_price_of_the_job_that_it_ends_with) {
  std::mt19937_64 random(12);
  const std::string calibration = slow_links();
  int compared = 0;
  for (int i = 0; i < jobs_to_try() / 4; ++i) {
    Words words = random_command(random);
    words.insert(words.end(), {"--gpu-memory", "30GiB"});
    const bool calibrated = chance(random, 50);
    if (calibrated) words.insert(words.end(), {"--calibration", calibration});
    const auto base = ask(words);
    if (!base || base->json.find("fits")->boolean) continue;
    // The job of flags alone, as a file.
    const auto path = std::filesystem::temp_directory_path() / fmt::format("plimsoll-one-price-{}.toml", getpid());
    std::string text = fmt::format("framework = \"{}\"\nmodel = \"{}\"\n", words[4], words[2]);
    std::string keys;
    for (std::size_t j = 5; j + 1 < words.size(); j += 2)
      if (words[j] != "--calibration")
        keys += fmt::format("{} = \"{}\"\n", replace(words[j].substr(2), '-', '_'), words[j + 1]);
    std::ofstream(path) << text + keys;
    Words from = {"plan", "--from", path.string()};
    if (calibrated) from.insert(from.end(), {"--calibration", calibration});
    const auto ladder = ask(from);
    if (!ladder) continue;
    if (ladder->json.find("steps")->items.empty()) continue;
    Words direct = {"fit", path.string()};
    if (calibrated) direct.insert(direct.end(), {"--calibration", calibration});
    add_flags(*ladder->json.find("settings"), direct);
    const auto priced = ask(direct);
    ASSERT_TRUE(priced) << command(direct);
    EXPECT_EQ(worst_of(priced->json).find("headroom_bytes")->integer, ladder->json.find("headroom_after")->integer)
        << command(direct);
    EXPECT_NEAR(rate_of(base->json) / rate_of(priced->json) - 1, ladder->json.find("time_share")->as_real(), 1e-9)
        << command(direct);
    ++compared;
  }
  std::filesystem::remove(calibration);
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace plimsoll
