// SPDX-License-Identifier: Apache-2.0
#include "why/ranks.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "why/support.h"

namespace plimsoll::why {
namespace {

// One log per rank, as a folder of them is read.
struct Folder {
  std::unique_ptr<Findings> findings;
  Diagnosis diagnosis;
  RankStory story;
};
Folder read_folder(const std::vector<std::string>& logs) {
  Collector collector(answer::catalogue_texts);
  for (std::size_t i = 0; i < logs.size(); ++i) read_text(fmt::format("rank_{}.log", i), logs[i], collector, {});
  Folder folder;
  folder.findings = std::make_unique<Findings>(collector.take());
  folder.diagnosis = diagnose(*folder.findings);
  folder.story = ranks_of(*folder.findings, folder.diagnosis);
  return folder;
}

constexpr const char* kEcho = "step 7 loss=2.0\nRuntimeError: Connection closed by peer [127.0.0.1]:1921\n";
constexpr const char* kOom =
    "step 7 loss=2.0\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of which 1.00 GiB is free. Of the allocated memory 76.00 GiB is allocated by PyTorch, and "
    "100.00 MiB is reserved by PyTorch but unallocated.\n";

TEST(Ranks, who_failed_first_and_who_only_echoes_it) {
  const Folder folder = read_folder({kEcho, kEcho, kOom, kEcho});
  EXPECT_EQ(folder.story.first, 2);
  EXPECT_EQ(folder.story.echoes, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(folder.story.heard, 4);
}

TEST(Ranks, the_one_that_holds_more_than_the_others) {
  std::vector<std::string> logs;
  for (int rank = 0; rank < 8; ++rank)
    logs.push_back(
        fmt::format("step 1 loss=2.0 max_memory_allocated={}GiB\nstep 2 loss=2.0 max_memory_allocated={}GiB\n",
                    rank == 5 ? 71 : 52, rank == 5 ? 72 : 53));
  logs[5] += kOom;
  const Folder folder = read_folder(logs);
  ASSERT_EQ(folder.story.unlike.size(), 1U);
  EXPECT_EQ(folder.story.unlike.front().rank, 5);
  EXPECT_NE(folder.story.unlike.front().says.find("72.00 GiB at most, the others 53.00 GiB"), std::string::npos);
}

TEST(Ranks, stages_of_a_pipeline_differ_by_design) {
  std::vector<std::string> logs;
  for (int rank = 0; rank < 8; ++rank)
    logs.push_back(fmt::format("step 1 loss=2.0 max_memory_allocated={}GiB\n", rank < 4 ? 70 : 50));
  EXPECT_TRUE(read_folder(logs).story.unlike.empty());
}

TEST(Ranks, the_one_that_the_others_waited_for) {
  std::vector<std::string> logs;
  for (int rank = 0; rank < 6; ++rank)
    logs.push_back(rank == 4 ? "step 118 loss=2.0\n"
                             : fmt::format("step 120 loss=2.0\n[Rank {}] Watchdog caught collective operation timeout: "
                                           "WorkNCCL(SeqNum=77, OpType=ALLREDUCE)\n",
                                           rank));
  const Folder folder = read_folder(logs);
  ASSERT_EQ(folder.story.unlike.size(), 1U);
  EXPECT_EQ(folder.story.unlike.front().rank, 4);
  EXPECT_TRUE(folder.story.echoes.empty());  // nobody is known that they would echo
}

TEST(Ranks, a_log_of_one_rank_tells_no_story) { EXPECT_FALSE(read_folder({kOom}).story.is_told()); }

TEST(Ranks, lists_are_short) {
  EXPECT_EQ(rank_list({3}), "3");
  EXPECT_EQ(rank_list({0, 3}), "0 and 3");
  EXPECT_EQ(rank_list({0, 1, 2, 3, 7}), "0 to 3 and 7");
  EXPECT_EQ(rank_list({0, 2, 4, 6, 8}, 3), "0, 2, 4 and 2 more");
}

}  // namespace
}  // namespace plimsoll::why
