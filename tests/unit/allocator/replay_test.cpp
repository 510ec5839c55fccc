// SPDX-License-Identifier: Apache-2.0
// Recorded histories of a real device, event by event: every driver call must be the recorded one, and the
// reserved bytes after every event must be the recorded sum. Segment addresses come from the recording,
// because ties in size go to the lowest address (facts pytorch-allocator.md 4, 15).
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <deque>

#include "base/file.h"
#include "base/text.h"
#include "support.h"

namespace plimsoll::allocator {
namespace {

struct Line {
  std::string_view verb;
  std::int64_t number = 0;
  Address address = 0;
};

std::int64_t parse_number(std::string_view text, int base = 10) {
  std::int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

Line parse_line(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  Line line{words[0]};
  if (words.size() > 1) line.number = parse_number(words[1]);
  if (words.size() > 2) line.address = static_cast<Address>(parse_number(words[2], 16)) << 20;
  return line;
}

// Serves what the recording served and refuses the rest.
class ScriptedDriver final : public Driver {
 public:
  std::optional<Address> allocate(std::int64_t bytes) override {
    if (!next_is("take", bytes)) return std::nullopt;
    const Address address = script.front().address;
    script.pop_front();
    return address;
  }
  bool map(Address, std::int64_t bytes) override {
    if (!next_is("take", bytes)) return false;
    script.pop_front();
    return true;
  }
  void release(Address, std::int64_t bytes) override { give(bytes); }
  void unmap(Address, std::int64_t bytes) override { give(bytes); }
  void drop_range(Address, std::int64_t) override {}
  Address reserve_range(std::int64_t bytes) override {
    next_range_ += static_cast<Address>(bytes);
    return next_range_ - static_cast<Address>(bytes);
  }
  [[nodiscard]] std::int64_t total() const override { return 150'109'880'320; }  // the recording device's

  std::deque<Line> script;  // driver lines of the event under way
  std::int64_t unexpected_gives = 0;

 private:
  [[nodiscard]] bool next_is(std::string_view verb, std::int64_t bytes) const {
    return !script.empty() && script.front().verb == verb && script.front().number == bytes;
  }
  void give(std::int64_t bytes) {
    if (next_is("give", bytes))
      script.pop_front();
    else
      ++unexpected_gives;
  }
  Address next_range_ = Address{1} << 33;
};

class Replay : public ::testing::TestWithParam<const char*> {};

TEST_P(Replay, asks_the_driver_for_what_the_recorded_allocator_asked) {
  const auto text = read_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/allocator/" + GetParam());
  ASSERT_TRUE(text) << to_string(text.error());
  std::vector<std::string_view> lines = split(*text, '\n');
  ASSERT_GT(lines.size(), 5000U);
  ASSERT_EQ(lines[0].substr(0, 9), "settings ");
  ScriptedDriver driver;
  CachingAllocator allocator(test::settings(lines[0].substr(9)), driver);
  std::vector<CachingAllocator::BlockId> blocks;
  std::int64_t reserved = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    // Driver lines stand before a request and after an empty_cache.
    const auto gather = [&](std::string_view verb) {
      for (; i < lines.size() && lines[i].substr(0, 4) == verb; ++i) {
        driver.script.push_back(parse_line(lines[i]));
        reserved += (verb == "take" ? 1 : -1) * driver.script.back().number;
      }
    };
    gather("take");
    const Line event = parse_line(lines[i]);
    const std::string where = std::string(GetParam()) + ":" + std::to_string(i + 1) + " " + std::string(lines[i]);
    if (event.verb == "alloc") {
      const auto block = allocator.allocate(event.number);
      ASSERT_TRUE(block) << where << ": the driver refused a call that was not recorded";
      blocks.push_back(*block);
    } else if (event.verb == "free") {
      allocator.free(blocks.at(static_cast<std::size_t>(event.number)));
    } else if (event.verb == "oom") {
      EXPECT_FALSE(allocator.allocate(event.number)) << where;
    } else {
      ASSERT_EQ(event.verb, "empty_cache") << where;
      ++i;
      gather("give");
      --i;
      allocator.release_cached();
    }
    ASSERT_TRUE(driver.script.empty()) << where << ": recorded driver call of " << driver.script.front().number
                                       << " bytes was not made";
    ASSERT_EQ(driver.unexpected_gives, 0) << where;
    ASSERT_EQ(allocator.stats().reserved, reserved) << where;
  }
  EXPECT_GT(blocks.size(), 2800U);
}

INSTANTIATE_TEST_SUITE_P(Recordings, Replay,
                         ::testing::Values("unit-default.txt", "unit-expandable.txt", "unit-pow2-4.txt",
                                           "unit-split64.txt"),
                         [](const auto& test) {
                           std::string name = std::string(test.param).substr(0, std::string_view(test.param).find('.'));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plimsoll::allocator
