// SPDX-License-Identifier: Apache-2.0
#include "answer/check.h"

#include <unistd.h>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "document/node.h"

namespace plimsoll::answer {
namespace {

using ::testing::HasSubstr;

constexpr const char* kList = R"([limits]
headroom = "2GiB"
memory_growth = "2%"
[[job]]
name = "pre|training <b>"
model = "llama3-8b"
framework = "fsdp2"
gpu = "h200-sxm-141gb"
gpus = 8
time_growth = "3%"
set = { seq_length = 4096, micro_batch_size = 1, bf16 = true }
)";

class CheckFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("check-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, std::string_view text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  std::filesystem::path folder_;
};

TEST_F(CheckFolder, reads_limits_of_all_jobs_and_of_one) {
  const auto list = read_check_list(write("plimsoll.toml", kList));

  ASSERT_TRUE(list.has_value());
  ASSERT_EQ(list->entries.size(), 1U);
  const CheckLimits& limits = list->entries[0].limits;
  EXPECT_EQ(limits.headroom, 2 * kGiB);
  EXPECT_DOUBLE_EQ(limits.memory->share, 0.02);
  EXPECT_DOUBLE_EQ(*limits.time, 0.03);
  EXPECT_TRUE(limits.surely);
}

TEST_F(CheckFolder, a_list_cut_anywhere_is_read_or_refused_with_its_name) {
  const std::string_view whole = kList;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto list = read_check_list(write("plimsoll.toml", whole.substr(0, length)));
    if (list) continue;
    EXPECT_THAT(to_string(list.error()), HasSubstr("plimsoll.toml")) << length;
  }
}

TEST_F(CheckFolder, every_format_parses_and_holds_names_as_text) {
  const auto list = read_check_list(write("plimsoll.toml", std::string(kList) + "max_step_seconds = 0.001\n"));
  ASSERT_TRUE(list.has_value());
  const auto checked = check(*list, "", "");
  ASSERT_TRUE(checked.has_value());

  EXPECT_FALSE(checked->passes());
  EXPECT_TRUE(document::parse_json(to_json(*checked)).has_value());
  const auto sarif = document::parse_json(to_sarif(*checked, "1.0"));
  ASSERT_TRUE(sarif.has_value());
  const document::Node& result = sarif->find("runs")->items[0].find("results")->items[0];
  EXPECT_EQ(result.find("ruleId")->text, "too-slow");
  EXPECT_THAT(to_junit(*checked), HasSubstr("name=\"pre|training &lt;b&gt;\""));
  EXPECT_THAT(to_markdown(*checked), HasSubstr("| pre\\|training \\<b> |"));
}

TEST_F(CheckFolder, a_comment_is_never_larger_than_a_comment_may_be) {
  Check many;
  for (int i = 0; i < 3000; ++i) {
    many.jobs.push_back(
        {.name = "job " + std::to_string(i), .files = {}, .fit = {}, .difference = {}, .complaints = {}});
    if (i % 2 == 0) many.jobs.back().complaints.push_back({"unreadable", std::string(5000, 'x'), ""});
  }

  const std::string text = to_markdown(many);

  EXPECT_LT(text.size(), 65'536U);
  EXPECT_THAT(text, HasSubstr("1500 of 3000 jobs do not hold"));
  EXPECT_THAT(text, HasSubstr("1500 further jobs hold and are not listed"));
  EXPECT_THAT(text, HasSubstr("further jobs found no room here"));
}

TEST_F(CheckFolder, growth_is_measured_against_the_base) {
  const std::string_view list_text = "[limits]\nmemory_growth = \"1%\"\n[[job]]\nfiles = [\"job.toml\"]\n";
  const auto job = [](int micro_batch) {
    return "framework = \"fsdp2\"\nmodel = \"llama3-8b\"\n[cluster]\ngpu = \"h200-sxm-141gb\"\ngpus = 8\n[batch]\n"
           "seq_length = 4096\nmicro_batch_size = " +
           std::to_string(micro_batch) + "\n[precision]\nbf16 = true\n";
  };
  const auto list = read_check_list(write("plimsoll.toml", list_text));
  write("job.toml", job(2));
  write("base/job.toml", job(1));
  const std::string base = (folder_ / "base").string();

  const auto grown = check(*list, base, "base");
  ASSERT_TRUE(grown.has_value());
  ASSERT_EQ(grown->jobs[0].complaints.size(), 1U);
  EXPECT_EQ(grown->jobs[0].complaints[0].id, "memory-grew");

  write("job.toml", job(1));
  EXPECT_TRUE(check(*list, base, "base")->passes());
}

TEST_F(CheckFolder, a_job_that_the_base_does_not_have_is_new_not_wrong) {
  const auto list = read_check_list(write("plimsoll.toml", kList));
  std::filesystem::create_directories(folder_ / "empty");
  EXPECT_TRUE(check(*list, (folder_ / "empty").string(), "empty")->passes());
}

}  // namespace
}  // namespace plimsoll::answer
