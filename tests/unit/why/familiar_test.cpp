// SPDX-License-Identifier: Apache-2.0
// Lines that are known by their words are passed over in long logs, and nothing that matters is lost by it.
#include "why/familiar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "why/support.h"

namespace plimsoll::why {
namespace {

TEST(Familiar, digits_are_no_words) {
  EXPECT_EQ(words_hash("step 17 loss 2.31"), words_hash("step 9 loss 10.4"));
  EXPECT_NE(words_hash("step 17 loss 2.31"), words_hash("step 17 lost 2.31"));
  EXPECT_NE(words_hash("ab"), words_hash("ba"));
}

TEST(Familiar, one_in_some_hundreds_of_what_told_nothing_is_read) {
  FamiliarLines lines;
  int read = 0;
  for (int i = 0; i < 100000; ++i) {
    if (lines.worth_of(7) == FamiliarLines::Worth::kNothing) continue;
    lines.was_read(7, false);
    ++read;
  }
  EXPECT_GT(read, 1200);
  EXPECT_LT(read, 2000);
}

TEST(Familiar, what_told_something_once_is_always_read) {
  FamiliarLines lines;
  for (int i = 0; i < 5000; ++i) lines.was_read(7, i == 900);
  EXPECT_EQ(lines.worth_of(7), FamiliarLines::Worth::kNew);
}

// Step lines of the kinds in which a word stands that failures use too ("memory usage", "checkpoint").
std::string step_lines(std::string_view form, int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format(fmt::runtime(form), first + i, 40 + i % 7);
  return text;
}

constexpr std::string_view kForms[] = {
    "[rank3]: step {} loss=2.31 lr=2.9e-05 tok/s=15000 memory usage {}.1 GiB\n",
    "step:{} - actor/loss:0.4 - timing_s/save_checkpoint:0.0 - timing_s/rollout:12.1 - perf/max_memory_gb:{}.2\n",
    " iteration {}/ 500000 | lm loss: 2.3 | number of skipped iterations: 0 | exceeded: 0 | memory usage (MB): {}000 "
    "|\n",
};

TEST(Familiar, of_a_log_of_steps_a_small_part_is_read) {
  ReadLimits sparse;
  sparse.dense_bytes = 0;
  for (const std::string_view form : kForms) {
    Collector collector;
    read_text("run.log", step_lines(form, 0, 60000), collector, sparse);
    const Findings findings = collector.take();
    EXPECT_GT(findings.steps, 1000) << form;
    EXPECT_LT(findings.steps, 6000) << form;  // a tenth of the lines
    EXPECT_GT(findings.last_step, 59000) << form;
    ASSERT_FALSE(findings.series.empty()) << form;
    EXPECT_GT(findings.series.front().points.size(), 100U) << form;
  }
}

TEST(Familiar, the_failure_between_them_and_the_step_before_it_are_found) {
  ReadLimits sparse;
  sparse.dense_bytes = 0;
  for (const std::string_view form : kForms) {
    const std::string text = step_lines(form, 0, 40000) +
                             "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total "
                             "capacity; 76.20 GiB already allocated; 1.10 GiB free; 77.00 GiB reserved in total by "
                             "PyTorch)\n" +
                             step_lines(form, 0, 20000);
    const Answer answer = answer_for(text, sparse);
    ASSERT_EQ(answer.findings->events.size(), 1U) << form;
    const Event& event = answer.findings->events.front();
    EXPECT_EQ(event.place.line, 40001) << form;
    ASSERT_TRUE(event.step) << form;
    EXPECT_EQ(*event.step, 39999) << form;
  }
}

}  // namespace
}  // namespace plimsoll::why
