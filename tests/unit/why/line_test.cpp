// SPDX-License-Identifier: Apache-2.0
#include "why/line.h"

#include <gtest/gtest.h>

#include "why/literals.h"
#include "why/progress.h"
#include "why/words.h"

namespace plimsoll::why {
namespace {

struct Cleaned {
  Line line;
  std::string text;
};

Cleaned cleaned(std::string_view raw) {
  std::string scratch;
  Cleaned result;
  clean_line(raw, scratch, result.line);
  result.text = std::string{result.line.text};
  return result;
}

TEST(Line, prefixes_of_launchers_and_loggers_are_taken_off) {
  const std::pair<const char*, const char*> rows[] = {
      {"[rank3]: Traceback (most recent call last):", "Traceback (most recent call last):"},
      {"[default7]:  File \"/x.py\", line 1, in f", "File \"/x.py\", line 1, in f"},
      {" 0: [rank0]: RuntimeError: x", "RuntimeError: x"},
      {"[1,3]<stderr>:RuntimeError: x", "RuntimeError: x"},
      {"(EngineCore_DP0 pid=22) ERROR 10-25 [core.py:708] ValueError: x", "ValueError: x"},
      {"vllm-1  | ERROR engine.py:366] ValueError: x", "ValueError: x"},
      {"[2023-03-25 18:07:54,730] [INFO] saving", "saving"},
      {"2025-11-05 02:50:09 | INFO | step 388 loss=2.1957", "step 388 loss=2.1957"},
      {"I 17:16:34 tokenizer ready", "tokenizer ready"},
      {"24/02/21 18:23:30 INFO yarn.Container:   File \"/x.py\", line 1, in f", "File \"/x.py\", line 1, in f"},
      {"24/02/21 18:23:30 ERROR torch.cuda.OutOfMemoryError: x", "torch.cuda.OutOfMemoryError: x"},
      {"W1115 02:54:06.058000 1694 torch/distributed/run.py:851] text", "text"},
      {"[  422.304335] oom-kill:constraint=CONSTRAINT_MEMCG", "oom-kill:constraint=CONSTRAINT_MEMCG"},
      {"Nov 15 02:33:11 host kernel: Out of memory: Killed process 1", "Out of memory: Killed process 1"},
      {"\x1b[31mRuntimeError: x\x1b[0m", "RuntimeError: x"},
      {"| step 35 | loss 4.028 |", "step 35 | loss 4.028 |"},
      {"plain text", "plain text"},
      {"10: loss", "loss"},
  };
  for (const auto& [raw, wanted] : rows) EXPECT_EQ(cleaned(raw).text, wanted) << raw;
}

TEST(Line, the_rank_comes_from_the_prefix) {
  EXPECT_EQ(cleaned("[rank3]: x").line.rank, 3);
  EXPECT_EQ(cleaned("[default7]:x").line.rank, 7);
  EXPECT_EQ(cleaned("12: x").line.rank, 12);
  EXPECT_EQ(cleaned("[1,5]<stdout>: x").line.rank, 5);
  EXPECT_FALSE(cleaned("x").line.rank);
  EXPECT_NE(cleaned("[rank3]: x").line.stream, cleaned("[rank4]: x").line.stream);
  EXPECT_EQ(cleaned("[rank3]: x").line.stream, cleaned("[rank3]: y").line.stream);
}

TEST(Line, the_rank_comes_from_the_file_name) {
  EXPECT_EQ(rank_of_file("logs/rank3.log"), 3);
  EXPECT_EQ(rank_of_file("logs/rank_012/stderr.txt"), 12);
  EXPECT_EQ(rank_of_file("run/attempt_0/5/stderr.log"), 5);
  EXPECT_EQ(rank_of_file("log.7"), 7);
  EXPECT_FALSE(rank_of_file("ranking.log"));
  EXPECT_FALSE(rank_of_file("slurm-123.out"));
}

TEST(Literals, the_scanner_finds_what_a_plain_search_finds) {
  for (const Literal& literal : log_literals()) {
    for (std::size_t shift = 0; shift < 9; ++shift) {
      const std::string text = std::string(shift, 'x') + std::string{literal.text} + std::string(5, 'y');
      EXPECT_NE(log_scanner().topics(text) & bit(literal.topic), 0U) << literal.text << " at " << shift;
      Topic topic{};
      EXPECT_NE(log_scanner().find(text, 0, &topic), std::string_view::npos) << literal.text;
    }
    EXPECT_GE(literal.text.size(), kShortest) << literal.text;
  }
  EXPECT_EQ(log_scanner().topics("step 17 loss=3.0376 time=3.35s img=768x480"), 0U);
}

TEST(Words, sizes_are_read_with_their_units) {
  EXPECT_EQ(leading_size("1.50 GiB"), 1610612736);
  EXPECT_EQ(leading_size("0 bytes"), 0);
  EXPECT_EQ(leading_size("14.42G"), 15483357102);
  EXPECT_EQ(leading_size("31451456kB,"), 31451456LL * 1024);
  EXPECT_FALSE(leading_size("12"));
  EXPECT_FALSE(leading_size("12 apples"));
  EXPECT_EQ(size_before("844.62 MiB free; 50.24", "free;"), 885648261);
}

TEST(Progress, bars_and_steps_are_read) {
  const auto bar = parse_bar("Loading checkpoint shards:  57%|#####     | 4/7 [00:00<00:00,  7.98it/s]");
  ASSERT_TRUE(bar);
  EXPECT_EQ(bar->at, 4);
  EXPECT_EQ(bar->of, 7);
  EXPECT_EQ(phase_of_bar(*bar), Phase::kLoad);
  for (const char* text :
       {"step 17 loss=3.0376", "{'step': 17, 'loss': 2.1}", "iteration       17/   100 | lm loss: 1.0",
        "epoch 1 step 17/72115 | loss 1.919 |", "[Rank 0] step=17, skipped=0, lr=[1e-05]"}) {
    const auto step = parse_step(text);
    ASSERT_TRUE(step) << text;
    EXPECT_EQ(step->step, 17) << text;
  }
  EXPECT_FALSE(parse_step("checkpoint interval: 500 steps"));
  EXPECT_FALSE(parse_step("tokenizer ready, vocabulary cached"));
}

TEST(Progress, a_bar_shows_memory_beside_its_count) {
  const auto of = [](std::string_view text) { return step_of_bar(parse_bar(text).value(), text); };
  const StepLine last = of("Epoch 0:   2%|2 | 40/2000 [01:00<50:00,  0.6it/s, loss=2.1, gpu_mem_gb=31.50]");
  EXPECT_EQ(last.step, 40);
  ASSERT_EQ(last.memory.size(), 1U);
  EXPECT_EQ(last.memory.front().bytes, 33822867456);
  // A column before the bar, whose first figure counts epochs.
  const StepLine column = of("  17/300   11.5G   0.041   0.031   112   640: 100%|####| 92/92 [00:31<00:00,  2.9it/s]");
  EXPECT_EQ(column.step, 17 * 92 + 92);
  ASSERT_EQ(column.memory.size(), 1U);
  EXPECT_EQ(column.memory.front().bytes, 12348030976);
  EXPECT_TRUE(of("train:   2%|2 | 40/2000 [01:00<50:00,  0.6it/s, loss=2.1]").memory.empty());
}

TEST(Progress, memory_figures_name_their_gauge) {
  const auto first = [](const char* text) {
    std::vector<MemoryFigure> figures;
    read_memory_figures(text, figures);
    return figures.empty() ? MemoryFigure{} : figures.front();
  };
  EXPECT_EQ(first("step 0 allocated 1.50 GiB reserved 1.96 GiB").bytes, 1610612736);
  EXPECT_EQ(first("step 0 allocated 1.50 GiB reserved 1.96 GiB").gauge, Gauge::kAllocated);
  EXPECT_EQ(first("max_mem: 4521M").gauge, Gauge::kPeak);
  EXPECT_EQ(first("host_rss=36.0G").gauge, Gauge::kHost);
  EXPECT_EQ(first("memory: 47.27GiB(59.76%)").gauge, Gauge::kUsed);
  EXPECT_EQ(first("memory (MB) | allocated: 41230.13 | max allocated: 60120.77").bytes, 43232924794);
  EXPECT_EQ(first("loss=3.0 time=2.1s").bytes, 0);
}

}  // namespace
}  // namespace plimsoll::why
