// SPDX-License-Identifier: Apache-2.0
// The counters as JSON, flat and nested, and as the printed table, from one made-up run.
#include "snapshot/memory_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "snapshot/memory_summary.h"
#include "support.h"

namespace plimsoll::snapshot {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

MemoryStats flat() { return read_memory_stats("flat", recording("memory-stats.json")).value(); }

template <class T>
std::string message(const Result<T>& result) {
  return result ? "" : to_string(result.error());
}

TEST(MemoryStats, flat_and_nested_keys_read_alike) {
  const auto nested = read_memory_stats("nested", recording("memory-stats-nested.json"));
  ASSERT_TRUE(nested) << message(nested);
  EXPECT_EQ(*nested, flat());
  EXPECT_EQ(flat().of(Stat::kAllocatedBytes).all.current, (Figure{3221225984, 1}));
  EXPECT_EQ(flat().of(Stat::kReservedBytes).all.freed, (Figure{4294967296, 1}));
  EXPECT_EQ(flat().of(Stat::kAllocation).small_pool.peak, (Figure{1, 1}));
  EXPECT_EQ(flat().num_device_alloc, 352);
  EXPECT_EQ(flat().num_oom_rejections, std::nullopt);
  EXPECT_EQ(flat().max_split_size, -1);
  EXPECT_EQ(flat().device, std::nullopt);
}

TEST(MemoryStats, an_unsigned_maximum_is_no_limit) {
  std::string json = recording("memory-stats.json");
  json.replace(json.find("\"max_split_size\": -1"), 20, "\"max_split_size\": 18446744073709551615");
  const auto stats = read_memory_stats("s", json);
  ASSERT_TRUE(stats) << message(stats);
  EXPECT_EQ(stats->max_split_size, -1);
}

TEST(MemoryStats, mistakes_name_the_key) {
  const auto error = [](const std::string& json) { return message(read_memory_stats("s.json", json)); };
  EXPECT_THAT(error("[]"), HasSubstr("s.json: found a list; wanted the object of torch.cuda.memory_stats()"));
  EXPECT_THAT(error("{}"), HasSubstr("allocated_bytes.all: current or peak is missing"));
  EXPECT_THAT(error(R"({"allocated_bytes.all.current": "1"})"),
              HasSubstr("allocated_bytes.all.current: found a string; wanted an integer"));
  EXPECT_THAT(error(R"({"num_ooms": -1})"), HasSubstr("num_ooms: found -1"));
  EXPECT_THAT(error(R"({"allocated_bytes": {"all": {"current": 5, "peak": 4}},
                        "reserved_bytes": {"all": {"current": 5, "peak": 9}}})"),
              HasSubstr("allocated_bytes.all: current 5 is above peak 4"));
}

TEST(MemoryStats, every_cut_of_the_json_is_an_error) {
  for (const char* file : {"memory-stats.json", "memory-stats-nested.json"}) {
    const std::string whole = recording(file);
    for (std::size_t length = 0; length < whole.size(); ++length)
      ASSERT_FALSE(read_memory_stats("cut", whole.substr(0, length))) << file << length;
  }
}

TEST(MemorySummary, figures_are_those_of_the_run_within_their_precision) {
  const std::string text = recording("memory-summary.txt");
  EXPECT_TRUE(looks_like_memory_summary(text));
  const auto tables = read_memory_summaries("s", text);
  ASSERT_TRUE(tables) << message(tables);
  ASSERT_EQ(tables->size(), 1U);
  const MemoryStats& table = tables->front();
  const MemoryStats exact = flat();
  EXPECT_EQ(table.device, 0);
  EXPECT_EQ(table.num_ooms, 1);
  EXPECT_EQ(table.num_alloc_retries, 3);
  EXPECT_EQ(table.of(Stat::kAllocatedBytes).all.current, (Figure{3072 * kMiB, kMiB}));
  EXPECT_EQ(table.of(Stat::kAllocatedBytes).all.allocated, (Figure{850 * kGiB, kGiB}));
  EXPECT_EQ(table.of(Stat::kAllocation).all.freed, (Figure{2763000, 1000}));
  EXPECT_EQ(table.oversize_segments.peak, (Figure{0, 1}));
  const auto expect_close = [](const Usage& rounded, const Usage& known) {
    for (const auto metric : {&Usage::current, &Usage::peak, &Usage::allocated, &Usage::freed}) {
      ASSERT_TRUE(rounded.*metric && known.*metric);
      EXPECT_LE((rounded.*metric)->value, (known.*metric)->value);
      EXPECT_GT((rounded.*metric)->value + (rounded.*metric)->precision, (known.*metric)->value);
    }
  };
  for (std::size_t i = 0; i < kStatCount; ++i) {
    expect_close(table.stats[i].all, exact.stats[i].all);
    expect_close(table.stats[i].large_pool, exact.stats[i].large_pool);
    expect_close(table.stats[i].small_pool, exact.stats[i].small_pool);
  }
}

TEST(MemorySummary, prefixes_with_bars_and_carriage_returns_do_no_harm) {
  const std::string text = recording("memory-summary-abbreviated.txt");
  const auto full = read_memory_summaries("s", recording("memory-summary.txt"));
  const auto tables = read_memory_summaries("s", text + text + recording("memory-summary.txt"));
  ASSERT_TRUE(tables) << message(tables);
  ASSERT_EQ(tables->size(), 3U);
  EXPECT_EQ(tables->at(0).device, 1);
  EXPECT_EQ(tables->at(0), tables->at(1));
  for (std::size_t i = 0; i < kStatCount; ++i) {
    EXPECT_EQ(tables->at(0).stats[i].all, full->front().stats[i].all);
    EXPECT_FALSE(tables->at(0).stats[i].small_pool.current);
  }
}

TEST(MemorySummary, every_cut_before_the_last_rule_is_an_error) {
  for (const char* file : {"memory-summary.txt", "memory-summary-abbreviated.txt"}) {
    const std::string whole = recording(file);
    const auto expected = read_memory_summaries("whole", whole);
    const std::size_t rule = whole.rfind("|==========");
    ASSERT_TRUE(expected && rule != std::string::npos);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const auto cut = read_memory_summaries("cut", whole.substr(0, length));
      if (length <= rule) {
        ASSERT_FALSE(cut) << file << length;
      } else if (cut) {
        ASSERT_EQ(*cut, *expected) << file << length;
      }
    }
  }
}

TEST(MemorySummary, mistakes_name_the_line) {
  const std::string whole = recording("memory-summary.txt");
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return message(read_memory_summaries("s.txt", text));
  };
  EXPECT_THAT(message(read_memory_summaries("s.txt", "hello\n")), HasSubstr("s.txt: no line has"));
  EXPECT_THAT(error("device ID 0", "device ID x"), HasSubstr("line 2: no device number"));
  EXPECT_THAT(error("3072 MiB", "3072 MB "), HasSubstr("line 8: Allocated memory: found \"3072 MB\""));
  EXPECT_THAT(error("3072 MiB", "  -1 MiB"), HasSubstr("Allocated memory: found \"-1 MiB\""));
  EXPECT_THAT(error("Active memory", "Allocated memory"), HasSubstr("stands twice"));
  EXPECT_THAT(error("CUDA OOMs: 1", "CUDA OOMs: ?"), HasSubstr("line 4: CUDA OOMs"));
  EXPECT_THAT(error("GPU reserved memory", "something of 3.0"),
              HasSubstr("reserved_bytes.all: current or peak is missing"));
}

}  // namespace
}  // namespace plimsoll::snapshot
