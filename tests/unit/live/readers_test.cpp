// SPDX-License-Identifier: Apache-2.0
// What is read from /proc, memory groups and rank files, on recorded and on damaged ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/bytes.h"
#include "live/cgroup.h"
#include "live/groups.h"
#include "live/growth.h"
#include "live/host.h"
#include "live/rank_file.h"
#include "live/secrets.h"

namespace plimsoll::live {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

// A folder that stands for "/".
class Root {
 public:
  Root() {
    std::string name = (fs::temp_directory_path() / "plimsoll-live-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Root() { fs::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((fs::path(path_) / name).parent_path());
    std::ofstream(fs::path(path_) / name) << text;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Tree, counts_a_process_and_what_descends_from_it) {
  const Root root;
  root.write("proc/10/status", "Name:\tpython\nVmRSS:\t 300 kB\nRssAnon:\t 200 kB\nRssShmem:\t 100 kB\n");
  root.write("proc/10/task/10/children", "11 ");
  root.write("proc/11/status", "Name:\tworker\nVmRSS:\t 150 kB\nRssAnon:\t 50 kB\nRssShmem:\t 100 kB\n");
  root.write("proc/11/task/11/children", "");
  root.write("proc/12/status", "Name:\tother\nVmRSS:\t 900 kB\nRssAnon:\t 900 kB\n");

  const TreeUse tree = read_tree(10, root.path());

  ASSERT_EQ(tree.processes.size(), 2U);
  EXPECT_EQ(tree.processes[0].name, "python");
  EXPECT_EQ(tree.bytes(), (200 + 50 + 100) * kKiB) << "the shared pages are the same ones";
}

TEST(Tree, scans_where_the_kernel_lists_no_children) {
  const Root root;
  root.write("proc/10/status", "Name:\ta\nRssAnon:\t 1 kB\n");
  root.write("proc/10/stat", "10 (a) S 1 10 10 0");
  root.write("proc/11/status", "Name:\tb) S 99\nRssAnon:\t 2 kB\n");
  root.write("proc/11/stat", "11 (b) S 99) S 10 10 10 0");

  EXPECT_EQ(read_tree(10, root.path()).bytes(), 3 * kKiB);
}

TEST(Tree, a_process_that_is_gone_is_nothing) { EXPECT_TRUE(read_tree(1, "/nonexistent").processes.empty()); }

TEST(Cgroup, version_2_takes_the_tightest_limit_above) {
  const Root root;
  root.write("proc/7/cgroup", "0::/job/step\n");
  root.write("sys/fs/cgroup/job/memory.max", "1000\n");
  root.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  root.write("sys/fs/cgroup/job/step/memory.current", "800\n");
  root.write("sys/fs/cgroup/job/step/memory.peak", "900\n");
  root.write("sys/fs/cgroup/job/step/memory.stat", "anon 5\nfile 300\nfile_mapped 7\n");
  root.write("sys/fs/cgroup/job/step/memory.events", "low 0\nmax 12\noom 3\noom_kill 2\n");

  const CgroupUse use = read_cgroup(7, root.path());

  EXPECT_EQ(use.version, 2);
  EXPECT_EQ(use.limit, 1000);
  EXPECT_EQ(use.current, 800);
  EXPECT_EQ(use.peak, 900);
  EXPECT_EQ(use.files, 300);
  EXPECT_EQ(use.failures, 12);
  EXPECT_EQ(use.oom_kills, 2);
}

TEST(Cgroup, version_1_reads_its_own_names_and_no_limit) {
  const Root root;
  root.write("proc/7/cgroup", "4:cpu,memory:/a\n0::/\n");
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  root.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "77\n");
  root.write("sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");

  const CgroupUse use = read_cgroup(7, root.path());

  EXPECT_EQ(use.version, 1);
  EXPECT_EQ(use.limit, 0);
  EXPECT_EQ(use.current, 77);
  EXPECT_EQ(use.oom_kills, 5);
}

TEST(Cgroup, a_container_sees_its_group_as_the_mount) {
  const Root root;
  root.write("proc/7/cgroup", "0::/kubepods/pod-of-the-host\n");
  root.write("sys/fs/cgroup/memory.max", "500\n");
  root.write("sys/fs/cgroup/memory.current", "100\n");

  EXPECT_EQ(read_cgroup(7, root.path()).limit, 500);
}

TEST(RankFile, reads_up_to_where_a_killed_process_left_off) {
  const std::string text =
      R"({"event":"begin","rank":3,"world":8,"device":0,"total":1000,"settings":{"A":"b"}})"
      "\n"
      R"({"event":"step","n":1,"count":1,"seconds":null,"allocated":5,"reserved":9,"peak_allocated":7,"peak_reserved":9})"
      "\n"
      R"({"event":"step","n":2,"count":1,"seconds":0.5,"allocated":5,"reserved":9,"peak_allocated":8,"peak_reserved":10,"used":15,"outside":6})"
      "\n"
      R"({"event":"step","n":3,"cou)";

  const auto run = read_rank("rank-3.jsonl", text);

  ASSERT_TRUE(run);
  EXPECT_EQ(run->rank, 3);
  EXPECT_EQ(run->steps_done, 2);
  EXPECT_EQ(run->peak_allocated, 8);
  EXPECT_EQ(run->outside, 6);
  EXPECT_EQ(run->step_seconds(), 0.5);
  EXPECT_EQ(run->bad_lines, 1);
  EXPECT_FALSE(run->ended);
  for (std::size_t cut = 0; cut < text.size(); ++cut) static_cast<void>(read_rank("x", text.substr(0, cut)));
}

TEST(RankFile, a_file_of_something_else_is_refused) {
  EXPECT_FALSE(read_rank("x", "hello\nworld\n"));
  EXPECT_FALSE(read_rank("x", ""));
  EXPECT_FALSE(read_rank("x", "[1, 2]\n{\"a\": 1}\n"));
}

TEST(RankFile, a_snapshot_is_a_name_never_a_path) {
  const auto run = read_rank("x", R"({"event":"snapshot","file":"../../etc/passwd"})");
  ASSERT_TRUE(run);
  EXPECT_EQ(run->snapshot, "");
}

RankRun with_allocated(const std::vector<std::int64_t>& bytes) {
  RankRun run;
  run.total = 80 * kGiB;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    StepReading step;
    step.step = static_cast<std::int64_t>(i) + 1;
    step.at = static_cast<double>(i);
    step.allocated = bytes[i];
    run.steps.push_back(step);
  }
  return run;
}

TEST(Trend, a_leak_has_a_pace_and_an_end) {
  std::vector<std::int64_t> bytes;
  for (std::int64_t i = 0; i < 20; ++i) bytes.push_back(10 * kGiB + i * kGiB);

  const Trend trend = trend_of(with_allocated(bytes));

  EXPECT_TRUE(trend.rising);
  EXPECT_EQ(trend.bytes_per_step, kGiB);
  ASSERT_TRUE(trend.seconds_left);
  EXPECT_NEAR(*trend.seconds_left, 51, 0.5);
}

TEST(Trend, neither_noise_nor_a_step_up_is_a_leak) {
  std::vector<std::int64_t> noise;
  for (std::int64_t i = 0; i < 40; ++i) noise.push_back(10 * kGiB + (i % 2) * kGiB);
  EXPECT_FALSE(trend_of(with_allocated(noise)).rising);

  std::vector<std::int64_t> once(40, 10 * kGiB);
  for (std::size_t i = 30; i < once.size(); ++i) once[i] = 11 * kGiB;
  EXPECT_FALSE(trend_of(with_allocated(once)).rising);

  EXPECT_FALSE(trend_of(with_allocated({kGiB, 2 * kGiB, 2 * kGiB, 2 * kGiB})).rising);
}

TEST(Groups, thousands_of_ranks_become_a_few_rows_and_the_outlier_its_own) {
  std::vector<RankComparison> rows;
  for (std::int64_t rank = 0; rank < 4096; ++rank) {
    RankComparison row;
    row.rank = rank;
    row.pp_rank = rank / 1024;
    row.allocated.measured = static_cast<double>((20 + row.pp_rank.value() * 5) * kGiB + rank % 7 * kMiB);
    row.reserved.measured = row.allocated.measured;
    if (rank == 1500) row.allocated.measured = row.reserved.measured = static_cast<double>(60 * kGiB);
    rows.push_back(row);
  }

  const std::vector<RankGroup> groups = group_rows(rows);

  ASSERT_EQ(groups.size(), 5U);
  EXPECT_EQ(groups[0].label, "0-1023 (stage 0)");
  EXPECT_EQ(groups[2].label, "1500 (stage 1)");
  EXPECT_TRUE(groups[2].is_outlier);
  EXPECT_THAT(outliers(rows), ElementsAre(1500));
}

TEST(Groups, ranges_of_ranks_read_as_people_write_them) {
  EXPECT_EQ(ranges({3, 1, 2, 7}), "1-3, 7");
  EXPECT_EQ(ranges({1, 3, 5, 7}, 2), "1, 3 and 2 more");
}

TEST(Secrets, values_that_look_like_secrets_are_left_out) {
  EXPECT_THAT(without_secrets({"x", "--hub_token", "abc", "--api-key=def", "HF_TOKEN=1", "--lr", "3"}),
              ElementsAre("x", "--hub_token", "***", "--api-key=***", "HF_TOKEN=***", "--lr", "3"));
  EXPECT_THAT(without_secrets({"x", "--tokenizer", "gpt2", "--max-tokens", "5", "hf_abcdefghijklmnop"}),
              ElementsAre("x", "--tokenizer", "gpt2", "--max-tokens", "5", "***"));
  EXPECT_THAT(without_secrets({"x", "https://me:pw@host/a"}), ElementsAre("x", "https://***@host/a"));
  EXPECT_THAT(without_secrets({"--password=a b;c", "--lr=3"}), ElementsAre("--password=***", "--lr=3"));
}

TEST(Secrets, values_inside_of_scripts_headers_and_json_are_left_out) {
  const auto shown = [](const std::string& word) { return without_secrets({"bash", "-c", word}).back(); };
  EXPECT_EQ(shown("export WANDB_API_KEY=abc; python train.py --lr 3"),
            "export WANDB_API_KEY=***; python train.py --lr 3");
  EXPECT_EQ(shown("export A_TOKEN='a b' B=2"), "export A_TOKEN='***' B=2");
  EXPECT_EQ(shown("curl -H \"Authorization: Bearer abc\" https://me:pw@host/a"),
            "curl -H \"Authorization: Bearer ***\" https://***@host/a");
  EXPECT_EQ(shown("x-api-key: abc"), "x-api-key: ***");
  EXPECT_EQ(shown("echo hi && login --token \"a b\" --max-tokens 5"),
            "echo hi && login --token \"***\" --max-tokens 5");
  EXPECT_EQ(shown("{\"api_key\": \"abc\", \"key\":\"d e\", \"lr\": 1}"),
            "{\"api_key\": \"***\", \"key\":\"***\", \"lr\": 1}");
  EXPECT_EQ(shown("cd a b && (hf_abcdefghijklmnop)"), "cd a b && (***)");
  EXPECT_EQ(shown("an open 'quote --token 'x"), "an open 'quote --token '***");
}

}  // namespace
}  // namespace plimsoll::live
