// SPDX-License-Identifier: Apache-2.0
// Recordings of PyTorch 2.11 on an H200; the numbers were taken with Python's own pickle module.
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::snapshot {
namespace {

struct Expected {
  const char* file;
  std::size_t events;
  std::size_t segments;
  std::size_t blocks;
  std::size_t ooms;
  std::size_t frames;              // over all events
  std::uint64_t sum_of_addresses;  // modulo 2^64, of events and blocks
  std::int64_t sum_of_sizes;
  Action first;
  std::uint64_t first_address;
  std::int64_t first_time;
  Action last;
  std::uint64_t last_address;
  std::int64_t last_size;
};

const Expected kExpected[] = {
    {"unit-default.pickle.gz", 8136, 95, 306, 1, 23354, 1183207786129362432ULL, 1137031495309, Action::kSegmentAlloc,
     140192360955904ULL, 1794709435246174, Action::kFreeCompleted, 140191490568192ULL, 2048},
    {"oom-varlen--expandable.pickle.gz", 4733, 2, 300, 1, 0, 604481196186624ULL, 64740757925, Action::kSegmentMap,
     12918456320ULL, 1794710250846676, Action::kFreeCompleted, 191308496896ULL, 1244659712},
    {"gc-varlen--gc80.pickle.gz", 4810, 423, 718, 1, 0, 776881807714892800ULL, 78764610005, Action::kSegmentAlloc,
     140568338366464ULL, 1794710262545488, Action::kFreeCompleted, 140552569880576ULL, 1244659712},
};

TEST(Recordings, read_as_python_reads_them) {
  for (const Expected& expected : kExpected) {
    SCOPED_TRACE(expected.file);
    const auto snapshot = read_snapshot(expected.file, recording(expected.file));
    ASSERT_TRUE(snapshot) << error_of(snapshot);
    const Events& events = snapshot->events;
    ASSERT_EQ(events.count(), expected.events);
    ASSERT_EQ(snapshot->devices.size(), 1U);
    EXPECT_EQ(snapshot->devices[0].events.count, expected.events);
    EXPECT_EQ(snapshot->segments.size(), expected.segments);
    EXPECT_EQ(snapshot->device_segments.count, expected.segments);
    EXPECT_EQ(snapshot->blocks.size(), expected.blocks);
    std::size_t ooms = 0;
    std::size_t frames = 0;
    std::uint64_t addresses = 0;
    std::int64_t sizes = 0;
    for (std::size_t i = 0; i < events.count(); ++i) {
      if (events.action[i] == Action::kOom) ++ooms;
      if (events.stack[i] != kNoStack) frames += snapshot->stacks[events.stack[i]].count;
      addresses += events.address[i];
      sizes += events.size[i];
    }
    for (const Block& block : snapshot->blocks) {
      addresses += block.address;
      sizes += block.size;
    }
    EXPECT_EQ(ooms, expected.ooms);
    EXPECT_EQ(frames, expected.frames);
    EXPECT_EQ(addresses, expected.sum_of_addresses);
    EXPECT_EQ(sizes, expected.sum_of_sizes);
    EXPECT_EQ(events.action.front(), expected.first);
    EXPECT_EQ(events.address.front(), expected.first_address);
    EXPECT_EQ(events.time_us.front(), expected.first_time);
    EXPECT_EQ(events.action.back(), expected.last);
    EXPECT_EQ(events.address.back(), expected.last_address);
    EXPECT_EQ(events.size.back(), expected.last_size);
    EXPECT_EQ(snapshot->notes.size(), ooms) << "only an oom has something to note";
    EXPECT_EQ(frees_without_alloc(*snapshot, snapshot->devices[0]), 0U);
    ASSERT_TRUE(snapshot->settings);
    EXPECT_EQ(snapshot->settings->max_split_size, -1);
    EXPECT_EQ(snapshot->settings->roundup_power2_divisions.size(), 16U);
  }
}

TEST(Recordings, whole_records_and_single_opcodes_give_the_same) {
  ReadLimits slow;
  slow.pickle.allows_bulk = false;
  for (const Expected& expected : kExpected) {
    const auto fast = read_snapshot(expected.file, recording(expected.file));
    const auto general = read_snapshot(expected.file, recording(expected.file), slow);
    ASSERT_TRUE(fast && general);
    EXPECT_EQ(fast->events.action, general->events.action);
    EXPECT_EQ(fast->events.address, general->events.address);
    EXPECT_EQ(fast->events.size, general->events.size);
    EXPECT_EQ(fast->events.stream, general->events.stream);
    EXPECT_EQ(fast->events.time_us, general->events.time_us);
    EXPECT_EQ(fast->events.stack, general->events.stack);
    EXPECT_EQ(fast->notes.size(), general->notes.size());
    EXPECT_EQ(fast->stack_frames, general->stack_frames);
  }
}

TEST(Recordings, settings_are_those_of_the_run) {
  const auto gc = read_snapshot("gc", recording("gc-varlen--gc80.pickle.gz"));
  const auto expandable = read_snapshot("expandable", recording("oom-varlen--expandable.pickle.gz"));
  ASSERT_TRUE(gc && expandable);
  EXPECT_DOUBLE_EQ(gc->settings->garbage_collection_threshold.value_or(0), 0.8);
  EXPECT_EQ(gc->settings->expandable_segments, false);
  EXPECT_EQ(expandable->settings->expandable_segments, true);
  EXPECT_EQ(expandable->settings->conf, "expandable_segments:True");
  EXPECT_TRUE(expandable->segments.front().is_expandable);
}

TEST(Recordings, equal_stacks_and_frames_are_kept_once) {
  const auto snapshot = read_snapshot("unit", recording("unit-default.pickle.gz"));
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->frames.size(), 57U);
  EXPECT_EQ(snapshot->stacks.size(), 39U);
}

}  // namespace
}  // namespace plimsoll::snapshot
