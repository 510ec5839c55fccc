// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "capture/accumulate.h"
#include "capture/answer.h"
#include "capture/capture_samples.h"

namespace plimsoll::capture {
namespace {

Capture recorded(const std::string& name) {
  Result<Capture> capture = read_capture(data_file(name));
  EXPECT_TRUE(capture) << to_string(capture.error());
  return *std::move(capture);
}

memory::RankAnswer fitted(const Capture& capture) { return answer(capture, *cluster::find_gpu("h200"), {}).rank; }

// The same model and batch, captured as one micro-batch and as two.
TEST(Accumulation, a_second_micro_batch_that_is_derived_is_the_one_that_would_have_been_captured) {
  for (const std::string name : {"late-llama-w32-ga2", "late-gpt2-w16-ga4"}) {
    const Capture one = recorded(name + ".capture");
    const Capture two = recorded(name + "-x2.capture");
    EXPECT_FALSE(has_accumulation(one));
    EXPECT_TRUE(has_accumulation(two));
    const memory::RankAnswer derived = fitted(with_accumulation(one));
    EXPECT_EQ(derived.peak_allocated, fitted(two).peak_allocated) << name;
    EXPECT_EQ(derived.parameters, one.parameter_elements);
    // Gradients of every weight are there while the second one runs forward.
    EXPECT_GT(derived.peak_allocated, fitted(one).peak_allocated + one.parameter_elements) << name;
  }
}

TEST(Accumulation, a_capture_of_two_micro_batches_is_left_as_it_is) {
  const Capture two = recorded("late-gpt2-w16-ga4-x2.capture");
  EXPECT_EQ(with_accumulation(two).events.size(), two.events.size());
}

TEST(Accumulation, every_storage_is_made_once_and_let_go_at_most_once) {
  const Capture derived = with_accumulation(recorded("late-llama-w32-ga2.capture"));
  std::set<std::uint32_t> made;
  std::set<std::uint32_t> gone;
  for (const Event& event : derived.events) {
    if (event.kind == Kind::kAllocate) {
      EXPECT_TRUE(made.insert(event.storage).second) << event.storage;
    }
    if (event.kind != Kind::kRelease) continue;
    EXPECT_TRUE(made.contains(event.storage)) << event.storage;
    EXPECT_TRUE(gone.insert(event.storage).second) << event.storage;
  }
}

// A backward alone has no forward to repeat.
TEST(Accumulation, a_capture_without_steps_is_left_as_it_is) {
  const Capture small = *read_text(small_capture());
  EXPECT_EQ(with_accumulation(small).events.size(), small.events.size());
}

}  // namespace
}  // namespace plimsoll::capture
