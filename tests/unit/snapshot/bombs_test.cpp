// SPDX-License-Identifier: Apache-2.0
// Files made to fill memory or time: refused, and never more than 200 MB over the input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "support.h"

namespace plimsoll::snapshot {
namespace {

using testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMeasures = false;  // the sanitizer's own memory would be counted
#elif defined(__has_feature)
constexpr bool kMeasures = !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kMeasures = true;
#endif

std::int64_t status_kib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size(), nullptr, 10);
  return 0;
}

// The most memory that the call had beyond what was there before it.
template <class Call>
std::int64_t growth_mib(Call&& call) {
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const std::int64_t before = status_kib("VmRSS:");
  call();
  return (status_kib("VmHWM:") - before) / 1024;
}

constexpr std::size_t kBytes = kMeasures ? 16U << 20 : 1U << 20;

std::string repeated(const std::string& head, const std::string& piece, const std::string& tail = {}) {
  std::string bytes = head;
  bytes.reserve(kBytes + piece.size() + tail.size());
  while (bytes.size() < kBytes) bytes += piece;
  return bytes + tail;
}

// The same with a number of four bytes in every piece, so that no two are equal.
std::string counted(const std::string& head, const std::string& before, const std::string& after) {
  std::string bytes = head;
  bytes.reserve(kBytes + 64);
  for (std::uint32_t i = 1; bytes.size() < kBytes; ++i) bytes += before + little(i, 4) + after;
  return bytes;
}

void expect_bounded(const std::string& name, const std::string& bytes) {
  SCOPED_TRACE(name);
  for (const bool bulk : {true, false}) {
    ReadLimits limits;
    limits.pickle.allows_bulk = bulk;
    bool is_good = true;
    const std::int64_t grown = growth_mib([&] { is_good = read_snapshot(name, bytes, limits).has_value(); });
    EXPECT_FALSE(is_good);
    if (kMeasures) {
      EXPECT_LE(grown, 200) << "the input is held by the test";
    }
  }
}

TEST(ThoroughBombs, memory_stays_within_200_mb_over_the_input) {
  const Writer w;
  const std::string start = "\x80\x04";
  // Strings take memo slots 0 to 7.
  const std::string keys = start + w.text("action") + w.text("alloc") + w.text("addr") + w.text("size") +
                           w.text("stream") + w.text("new") + w.text("filename") + w.text("state") + "](";
  const auto get = [](int slot) { return std::string("h") + static_cast<char>(slot); };
  const std::string rest = get(2) + "K\x01" + get(3) + "K\x01" + get(4) + std::string("K\0", 2) + "u";
  expect_bounded("events", repeated(keys, "}(" + get(0) + get(1) + rest));
  expect_bounded("events in batches", repeated(keys, "}(" + get(0) + get(1) + rest + "e("));
  expect_bounded("events of an unknown action", repeated(keys, "}(" + get(0) + get(5) + "u"));
  expect_bounded("streams", counted(keys, "}(" + get(0) + get(5) + get(4) + "J", "u"));
  expect_bounded("frames", counted(keys, "}(" + get(6) + get(1) + w.text("line") + "J", "u"));
  expect_bounded("blocks", repeated(keys, "}(" + get(7) + w.text("inactive") + get(3) + "K\x01u"));
  expect_bounded("strings", counted(start + "](", "\x8c\x04", "\x94"));
  expect_bounded("pairs", counted(start + "](", "J", std::string("K\0\x86\x94", 4)));
  expect_bounded("memo", repeated(start + "]", "\x94"));
  expect_bounded("memo, slowly", repeated(start + "]", "\x94N0"));
  expect_bounded("a far memo slot", start + "Nr" + little(11U << 20, 4) + repeated("", "N0"));
  expect_bounded("memoised numbers", repeated(start + "K\x01", "\x94N0"));
  expect_bounded("lists", repeated(start, "]"));
  expect_bounded("lists in the memo", repeated(start + "(", "]\x94"));
  expect_bounded("lists of lists", repeated(start + "](", "]]]]]]]]e("));
  expect_bounded("numbers", repeated(start + "](",
                                     "K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01"
                                     "e("));
  expect_bounded("lists of numbers", repeated(start + "(",
                                              "]K\x01"
                                              "a"));
  expect_bounded("marks", repeated(start, "("));
  expect_bounded("copies", repeated(start + "N", "2"));
  expect_bounded("dicts", repeated(start + "(", "}K\x01K\x01s"));
  expect_bounded("lists of strings", repeated(keys, "]" + get(0) + "a"));
}

TEST(Bombs, random_changes_of_a_recording_are_read_or_refused) {
  std::string plain;
  {
    const std::string packed = recording("oom-varlen--expandable.pickle.gz");
    auto source = gzip_source(memory_source(packed), {});
    char piece[4096];
    while (const std::size_t got = source->read(piece, sizeof piece).value_or(0)) plain.append(piece, got);
  }
  plain.resize(std::min<std::size_t>(plain.size(), 100000));
  std::uint64_t state = 1;
  const auto random = [&state](std::size_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::size_t>(state >> 33) % below;
  };
  ReadLimits opcodes;
  opcodes.pickle.allows_bulk = false;
  for (int round = 0; round < 300; ++round) {
    std::string bytes = plain;
    for (std::size_t i = 0; i < 1 + random(8); ++i) {
      const std::size_t at = random(bytes.size());
      if (random(3) == 0)
        bytes.erase(at, random(16));
      else if (random(2) == 0)
        bytes.insert(at, bytes.substr(random(bytes.size()), random(64)));
      else
        bytes[at] = static_cast<char>(random(256));
    }
    const auto whole = read_snapshot("changed", bytes);
    const auto single = read_snapshot("changed", bytes, opcodes);
    ASSERT_EQ(error_of(whole), error_of(single)) << round;
  }
}

TEST(Bombs, a_pickle_with_code_is_refused_by_name) {
  const std::string bytes = "\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.";
  EXPECT_THAT(error_of(read_snapshot("evil.pickle", bytes)),
              HasSubstr("evil.pickle: byte 14: STACK_GLOBAL: this opcode carries code"));
  EXPECT_THAT(error_of(read_snapshot("evil.pickle",
                                     "\x80\x02"
                                     "cos\nsystem\nX\x04")),
              HasSubstr("byte 2: GLOBAL: "));
}

}  // namespace
}  // namespace plimsoll::snapshot
