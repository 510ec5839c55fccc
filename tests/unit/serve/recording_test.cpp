// SPDX-License-Identifier: Apache-2.0
// Pictures of recordings against the replay itself, on every recording of tests/data.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "replay/course.h"
#include "replay/flame.h"
#include "replay/space.h"
#include "serve/recording_picture.h"

namespace plimsoll::serve {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> recordings() {
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/snapshots"))
    if (entry.path().string().ends_with(".pickle.gz")) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Every level of the replay, operation by operation.
class AllLevels final : public replay::Watcher {
 public:
  void begin(const replay::History& history, const allocator::Stats& stats) override {
    levels_.begin(history, stats);
    allocated.clear();
    reserved.clear();
  }
  void after(const replay::Op& op, const allocator::Stats& stats) override {
    levels_.after(op, stats);
    events.resize(allocated.size());
    events.push_back(op.event);
    allocated.push_back(stats.allocated);
    reserved.push_back(stats.reserved);
  }
  [[nodiscard]] const replay::Levels& levels() const { return levels_; }

  std::vector<std::uint32_t> events;
  std::vector<std::int64_t> allocated;
  std::vector<std::int64_t> reserved;

 private:
  replay::Levels levels_;
};

class Recordings : public testing::TestWithParam<std::string> {};

TEST_P(Recordings, every_column_is_what_the_replay_saw) {
  auto file = answer::read_recording_file(GetParam());
  ASSERT_TRUE(file.has_value());
  AllLevels all;
  auto recording = answer::load_recording(GetParam(), std::move(file->snapshot), {}, &all);
  ASSERT_TRUE(recording.has_value());
  if (!recording->history) return;
  const replay::History& history = *recording->history;
  const replay::Course course(history, all.levels());
  const replay::Attribution attribution(history);
  const replay::Grouping groups = course.by_category(attribution);
  EXPECT_EQ(course.peak(), *std::max_element(all.allocated.begin(), all.allocated.end()));

  // One column per event: no level is lost, none is invented.
  std::vector<std::uint32_t> bounds(history.events.count + 1);
  std::iota(bounds.begin(), bounds.end(), 0U);
  const auto columns = course.columns(groups, bounds);
  ASSERT_EQ(columns.size(), history.events.count);
  for (std::size_t i = 0; i < all.events.size(); ++i) {
    const bool is_last_of_event = i + 1 == all.events.size() || all.events[i + 1] != all.events[i];
    if (!is_last_of_event) continue;
    const auto& column = columns[all.events[i] - history.events.first];
    ASSERT_EQ(column.lowest < column.allocated ? std::max(column.allocated, all.allocated[i]) : column.allocated,
              column.allocated)
        << "event " << all.events[i];
    ASSERT_TRUE(all.allocated[i] == column.allocated || all.allocated[i] == column.lowest) << "event " << all.events[i];
    ASSERT_GE(column.reserved, all.reserved[i]) << "event " << all.events[i];
    ASSERT_EQ(std::accumulate(column.groups.begin(), column.groups.end(), std::int64_t{0}), column.allocated);
    for (const std::int64_t bytes : column.groups) ASSERT_GE(bytes, 0) << "event " << all.events[i];
  }

  // Few columns: the highest of each is the highest of its events.
  for (const std::size_t count : {1U, 3U, 50U, 333U}) {
    std::vector<std::uint32_t> wide;
    for (std::size_t i = 0; i <= count; ++i)
      wide.push_back(static_cast<std::uint32_t>(std::uint64_t{history.events.count} * i / count));
    const auto coarse = course.columns(groups, wide);
    for (std::size_t c = 0; c < count; ++c) {
      std::int64_t highest = 0;
      for (std::uint32_t e = wide[c]; e < wide[c + 1]; ++e) highest = std::max(highest, columns[e].allocated);
      if (wide[c] < wide[c + 1]) {
        EXPECT_EQ(coarse[c].allocated, highest) << count << " columns, " << c;
      }
    }
  }
}

TEST_P(Recordings, segments_at_an_instant_are_those_of_the_replay) {
  auto file = answer::read_recording_file(GetParam());
  ASSERT_TRUE(file.has_value());
  replay::Levels levels;
  auto recording = answer::load_recording(GetParam(), std::move(file->snapshot), {}, &levels);
  ASSERT_TRUE(recording.has_value());
  if (!recording->history || !recording->exact.exact()) return;
  const replay::History& history = *recording->history;
  const replay::Course course(history, levels);
  const replay::Space space(course);
  const std::uint32_t op = recording->run.peak_allocated_op;
  std::int64_t in_use = 0;
  std::int64_t reserved = 0;
  for (const allocator::SegmentView& segment : recording->state_after(op)) {
    reserved += segment.size;
    for (const allocator::BlockView& block : segment.blocks)
      if (block.state == allocator::BlockState::kAllocated) in_use += block.size;
  }
  std::int64_t drawn_in_use = 0;
  std::int64_t drawn_reserved = 0;
  for (const allocator::SegmentView& segment : space.segments_after(course.peak_event())) {
    drawn_reserved += segment.size;
    std::int64_t sum = 0;
    for (const allocator::BlockView& block : segment.blocks) {
      sum += block.size;
      if (block.state == allocator::BlockState::kAllocated) drawn_in_use += block.size;
    }
    EXPECT_EQ(sum, segment.size);
  }
  EXPECT_EQ(drawn_in_use, in_use);
  EXPECT_EQ(drawn_reserved, reserved);
  EXPECT_EQ(replay::flame_after(course, course.peak_event(), 0).front().bytes, in_use);
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = fs::path(info.param).stem().stem().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Recordings, testing::ValuesIn(recordings()), name_of);

}  // namespace
}  // namespace plimsoll::serve
