// SPDX-License-Identifier: Apache-2.0
// For every cause: the first fix works for it, and what cannot help is not listed.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "why/rungs.h"
#include "why/support.h"
#include "why/words.h"

namespace plimsoll::why {
namespace {

struct Expectation {
  std::set<std::string> first;  // any of these works for the cause
  std::set<std::string> never;  // cannot help
};

const std::map<std::string, Expectation>& expectations() {
  static const std::set<std::string> kDevice = {"micro-batch",     "recompute-layers", "expandable-segments",
                                                "flash-attention", "adam-8bit",        "shard-everything"};
  static const std::map<std::string, Expectation> kAll = {
      {"activation-bound",
       {{"micro-batch", "flash-attention", "smaller-batch", "chunked-loss"},
        {"expandable-segments", "adam-8bit", "more-shm", "host-memory", "free-disk"}}},
      {"checkpoint-spike",
       {{"state-dict-on-host", "load-on-host"}, {"micro-batch", "recompute-layers", "expandable-segments"}}},
      {"config-conflict", {{"change-option"}, kDevice}},
      {"cublas-cudnn-alloc", {{"micro-batch", "cache-limit"}, {"expandable-segments", "host-memory"}}},
      {"cuda-graph-memory", {{"fewer-graphs", "graph-margin"}, {"micro-batch", "adam-8bit", "host-memory"}}},
      {"disk-full", {{"free-disk"}, kDevice}},
      {"eval-accumulation",
       {{"eval-on-host"}, {"recompute-layers", "adam-8bit", "micro-batch", "expandable-segments"}}},
      {"expandable-segments-interop", {{"unset-expandable"}, kDevice}},
      {"first-backward", {{"micro-batch", "recompute-layers"}, {"expandable-segments", "host-memory"}}},
      {"fragmentation",
       {{"expandable-segments", "max-split-size", "fixed-shapes", "headroom"}, {"adam-8bit", "host-memory"}}},
      {"genuine-capacity",
       {{"raise-limit", "micro-batch", "lower-precision-weights", "shard-everything", "offload-weights"},
        {"expandable-segments", "host-memory", "free-the-device"}}},
      {"host-ram-kill",
       {{"host-memory", "more-shm", "fewer-workers", "less-offload", "host-references", "eval-in-chunks", "load-lean"},
        kDevice}},
      {"kv-cache-too-small", {{"shorter-context", "engine-share"}, {"micro-batch", "recompute-layers", "adam-8bit"}}},
      {"longest-batch", {{"token-budget"}, {"adam-8bit", "host-memory"}}},
      {"memory-leak", {{"drop-references"}, kDevice}},
      {"model-load-spike",
       {{"sharded-load", "load-lean", "engine-shard"}, {"micro-batch", "recompute-layers", "expandable-segments"}}},
      {"nccl-memory",
       {{"cache-limit", "no-user-buffers", "nccl-lean"}, {"expandable-segments", "adam-8bit", "host-memory"}}},
      {"not-memory", {{"", "find-the-index", "find-the-straggler", "more-time"}, kDevice}},
      {"optimizer-state-bound",
       {{"adam-8bit", "no-foreach"}, {"micro-batch", "recompute-layers", "flash-attention", "expandable-segments"}}},
      {"other-process",
       {{"free-the-device", "one-device-per-rank"},
        {"micro-batch", "recompute-layers", "expandable-segments", "adam-8bit"}}},
      {"rl-colocation", {{"release-before-wake"}, {"micro-batch", "recompute-layers", "adam-8bit"}}},
      {"rocm-hip", {{"rocm-update"}, {"micro-batch", "recompute-layers", "adam-8bit"}}},
      {"allocator-cap", {{"raise-limit"}, {"expandable-segments", "host-memory", "free-the-device"}}},
      {"conv-workspace", {{"micro-batch", "no-benchmark"}, {"expandable-segments", "host-memory"}}},
      {"driver-allocation-limit", {{"split-block"}, {"adam-8bit", "host-memory", "free-the-device"}}},
      {"fd-limit", {{"file-limit"}, kDevice}},
      {"managed-memory", {{"unpaged-optimizer"}, {"micro-batch", "expandable-segments"}}},
      {"masked-oom", {{"micro-batch", "lower-precision-weights", "smaller-batch"}, {"host-memory", "free-disk"}}},
      {"object-store", {{"object-store-size"}, kDevice}},
      {"pinned-host-memory", {{"no-pinning"}, kDevice}},
      {"serving-headroom", {{"engine-headroom"}, {"micro-batch", "recompute-layers", "adam-8bit"}}},
      {"unified-memory-limit", {{"unified-watermark"}, {"expandable-segments", "host-memory", "free-the-device"}}},
      {"xla-padding", {{"tile-shapes"}, {"adam-8bit", "host-memory", "expandable-segments"}}},
      {"unknown", {{""}, kDevice}},
  };
  return kAll;
}

// tests/data/why/wild/fixes.csv: per thread what cured it, or what is sensible where nobody says; judged by hand.
TEST(Fixes, the_first_one_is_what_the_thread_found_or_a_sensible_one) {
  std::map<std::string, std::string> texts;
  for (const Labelled& one : wild()) texts[one.name] = one.text;
  int found = 0;
  int sensible = 0;
  int rows = 0;
  const std::vector<std::string> lines = lines_of(read_data(data_folder() / "wild/fixes.csv"));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    std::vector<std::string> fields;
    std::istringstream row(lines[i]);
    for (std::string field; std::getline(row, field, ',');) fields.push_back(field);
    ASSERT_GE(fields.size(), 3U) << lines[i];
    const std::string first = answer_for(texts.at(fields[0])).first_fix();
    const auto names = [&](const std::string& list) { return (" " + list + " ").find(" " + first + " ") != kNone; };
    ++rows;
    if (names(fields[1]))
      ++found;
    else if (fields.size() > 3 && names(fields[3]))
      ++sensible;
    else
      std::printf("%s: first %s, the thread found: %s\n", fields[0].c_str(), first.c_str(), fields[2].c_str());
  }
  std::printf("%d threads: %d found, %d sensible\n", rows, found, sensible);
  EXPECT_EQ(rows, 57);
  EXPECT_GE((found + sensible) * 100, rows * 80);
}

class FixesOfCause : public testing::TestWithParam<std::string> {};

TEST_P(FixesOfCause, first_one_works_and_useless_ones_are_absent) {
  const Expectation& expected = expectations().at(GetParam());
  std::size_t seen = 0;
  for (const Labelled& one : everything()) {
    const Answer answer = answer_for(one.text);
    if (answer.cause() != GetParam() || !answer.diagnosis.failure) continue;
    ++seen;
    EXPECT_TRUE(expected.first.contains(answer.first_fix())) << one.name << ": " << answer.first_fix();
    for (const std::string& id : expected.never) EXPECT_FALSE(answer.lists(id)) << one.name << ": " << id;
    for (const Fix& fix : answer.fixes) {
      EXPECT_FALSE(fix.change.empty()) << fix.id;
      EXPECT_FALSE(fix.source.empty()) << fix.id;
      EXPECT_FALSE(fix.verify.empty()) << fix.id;
      EXPECT_LE(fix.slowdown.low, fix.slowdown.high) << fix.id;
      if (fix.saves) {
        EXPECT_LE(fix.saves->low, fix.saves->high) << fix.id;
      }
    }
  }
  EXPECT_GE(seen, 1U);
}

std::vector<std::string> cause_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kCauses; ++i) names.emplace_back(cause_name(static_cast<Cause>(i)));
  return names;
}

INSTANTIATE_TEST_SUITE_P(Causes, FixesOfCause, testing::ValuesIn(cause_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Fixes, expandable_segments_are_named_only_where_defragmenting_could_serve) {
  std::vector<Case> cases = corpus();
  for (Case& one : failures()) cases.push_back(std::move(one));
  for (const Case& one : cases) {
    const Answer answer = answer_for(one.text);
    const Arithmetic& sum = answer.diagnosis.sum;
    if (answer.lists("expandable-segments")) {
      EXPECT_TRUE(sum.defragmenting_could_serve || sum.fits_in_free) << one.name;
    }
    for (const Candidate& candidate : answer.diagnosis.candidates)
      if (candidate.cause == Cause::kFragmentation) {
        EXPECT_TRUE(sum.defragmenting_could_serve || sum.fits_in_free || !answer.diagnosis.root) << one.name;
      }
  }
}

constexpr std::string_view kFragmented =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 79.18 GiB "
    "of which 500.00 MiB is "
    "free. Including non-PyTorch memory, this process has 78.60 GiB memory in use. Of the allocated memory 60.00 GiB "
    "is allocated by PyTorch, "
    "and 18.00 GiB is reserved by PyTorch but unallocated.\n";

TEST(Fixes, a_setting_that_is_on_is_not_proposed_again) {
  const std::string text = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n" + std::string{kFragmented};
  EXPECT_FALSE(answer_for(text).lists("expandable-segments"));
  EXPECT_EQ(answer_for(kFragmented).first_fix(), "expandable-segments");
}

TEST(Fixes, a_setting_that_this_version_lacks_is_not_proposed) {
  const Answer old = answer_for("torch 1.9.1, python 3.8\n" + std::string{kFragmented});
  EXPECT_FALSE(old.lists("expandable-segments"));
  EXPECT_FALSE(old.lists("max-split-size"));
  const Answer middle = answer_for("torch 2.0.1, python 3.8\n" + std::string{kFragmented});
  EXPECT_EQ(middle.first_fix(), "max-split-size");
}

TEST(Fixes, every_rung_has_a_line_for_somebody) {
  for (const Rung& one : all_rungs()) {
    bool any = false;
    for (int i = 0; i < 12; ++i) any = any || !line_for(one.id, static_cast<Framework>(i)).empty();
    EXPECT_TRUE(any) << one.id;
  }
}

TEST(Fixes, workers_that_hold_most_of_the_host_come_first) {
  const Answer answer = answer_for(read_data(data_folder() / "stories/host-ram-kill/task_list.log"));
  EXPECT_EQ(answer.first_fix(), "fewer-workers");
  ASSERT_TRUE(answer.findings->host_tasks.contains("pt_data_worker"));
  EXPECT_EQ(answer.findings->host_tasks.at("pt_data_worker").count, 2);
  EXPECT_EQ(answer.findings->host_tasks.at("pt_data_worker").bytes, 2 * std::int64_t{1500000} * 4096);
  const auto tells = [&](std::string_view text) {
    return std::any_of(answer.diagnosis.notes.begin(), answer.diagnosis.notes.end(),
                       [&](const std::string& note) { return note.find(text) != std::string::npos; });
  };
  EXPECT_TRUE(tells("11.44 GiB in 2 pt_data_worker"));
  EXPECT_TRUE(tells("limit of the cgroup was 64.00 GiB"));
}

TEST(Fixes, a_cause_names_only_rungs_that_exist) {
  const auto exists = [](std::string_view id) {
    return std::any_of(all_rungs().begin(), all_rungs().end(), [id](const Rung& rung) { return rung.id == id; });
  };
  for (std::size_t i = 0; i < kCauses; ++i) {
    std::istringstream ids{std::string{cause_fixes(static_cast<Cause>(i))}};
    for (std::string id; ids >> id;) EXPECT_TRUE(exists(id)) << id;
  }
}

TEST(Fixes, lines_take_the_values_that_the_log_shows) {
  const Answer answer =
      answer_for("  micro_batch_size .......... 4\nFile \"/w/megatron/training/training.py\", line 1, in f\n" +
                 std::string{kFragmented});
  for (const Fix& fix : answer.fixes)
    if (fix.id == "micro-batch") {
      EXPECT_NE(fix.change.find("--micro-batch-size 2 "), std::string::npos) << fix.change;
    }
}

TEST(Fixes, lines_speak_the_framework_of_the_log) {
  const Answer megatron = answer_for(
      "  micro_batch_size .......... 4\n[rank0]:   File \"/w/megatron/training/training.py\", line 1, in train_step\n" +
      std::string{kFragmented});
  ASSERT_TRUE(megatron.lists("micro-batch"));
  for (const Fix& fix : megatron.fixes)
    if (fix.id == "micro-batch") {
      EXPECT_NE(fix.change.find("--micro-batch-size"), std::string::npos);
    }
}

constexpr std::string_view kFull =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 23.65 GiB "
    "of "
    "which 61.00 MiB is free. Including non-PyTorch memory, this process has 23.58 GiB memory in use. Of the allocated "
    "memory 23.10 GiB is allocated by PyTorch, and 1.00 MiB is reserved by PyTorch but unallocated.\n";

TEST(Fixes, on_one_gpu_nothing_is_split_over_ranks) {
  const std::string load =
      "  File \"/w/chat.py\", line 14, in <module>\n    model = model.cuda()\n" + std::string{kFull};
  const Answer alone = answer_for(load);
  for (const char* id : {"shard-everything", "sharded-load", "shard-optimizer"}) EXPECT_FALSE(alone.lists(id)) << id;
  EXPECT_EQ(alone.first_fix(), "lower-precision-weights");
  EXPECT_TRUE(answer_for("world size 8\n" + load).lists("shard-everything"));
}

TEST(Fixes, moments_that_do_not_exist_yet_win_nothing) {
  const std::string backward = "  File \"/w/train.py\", line 9, in train\n    loss.backward()\n" + std::string{kFull};
  for (const Fix& fix : answer_for(backward).fixes)
    if (fix.id == "adam-8bit") {
      EXPECT_EQ(fix.saves->high, 0);
    }
  const Answer later = answer_for("step 1 loss 2.0\nstep 2 loss 1.9\n" + backward);
  for (const Fix& fix : later.fixes)
    if (fix.id == "adam-8bit") {
      EXPECT_GT(fix.saves->high, 0);
    }
}

TEST(Fixes, ranks_on_one_device_are_siblings_not_strangers) {
  const std::string listed =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 508.00 MiB. GPU 0 has a total capacity of 23.64 "
      "GiB of "
      "which 190.00 MiB is free. Process 901 has 7.80 GiB memory in use. Process 902 has 7.80 GiB memory in use. "
      "Process "
      "903 has 7.80 GiB memory in use. Of the allocated memory 20.00 MiB is allocated by PyTorch, and 0 bytes is "
      "reserved "
      "by PyTorch but unallocated.\n";
  EXPECT_EQ(answer_for("torchrun --nproc-per-node 4\n" + listed).first_fix(), "one-device-per-rank");
  const Answer strangers = answer_for(listed);
  EXPECT_EQ(strangers.first_fix(), "free-the-device");
  EXPECT_NE(strangers.fixes.front().change.find("901,902,903"), std::string::npos);
}

// "Please try to raise your shared memory limit" is no batch system that speaks of the job's memory.
TEST(Fixes, a_loader_that_ran_out_of_shared_memory_gets_more_of_it) {
  for (const char* words :
       {"Bus error.", "Bus error. Please try to raise your shared memory limit.",
        "Bus error. It is possible that dataloader's workers are out of shared memory. Please try to "
        "raise your shared memory limit."}) {
    const Answer answer =
        answer_for(std::string{"RuntimeError: DataLoader worker (pid 77) is killed by signal: "} + words);
    EXPECT_EQ(answer.first_fix(), "more-shm") << words;
    EXPECT_FALSE(answer.lists("host-memory")) << words;
  }
}

TEST(Fixes, each_says_how_to_see_that_it_worked) {
  for (const Labelled& one : everything())
    for (const Fix& fix : answer_for(one.text).fixes) EXPECT_FALSE(fix.verify.empty()) << one.name << " " << fix.id;
}

}  // namespace
}  // namespace plimsoll::why
