// SPDX-License-Identifier: Apache-2.0
// Cut, mistyped and absurd record files: an error or a reason to skip, never a crash, and what is accepted can
// be answered.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "base/file.h"
#include "document/node.h"
#include "memory/answer.h"
#include "support.h"

namespace plimsoll::truth {
namespace {

using document::Node;

// Reads and, where a small job came out, answers it.
void must_survive(const std::string& text, const std::string& what) {
  const auto file = read_records("hostile.json", text);
  if (!file) {
    EXPECT_FALSE(file.error().message.empty()) << what;
    return;
  }
  for (const Record& record : file->records) {
    EXPECT_FALSE(record.id.empty()) << what;
    if (!record.skip.empty() || record.job.model.depth() > 8 || record.job.micro_batches > 64) continue;
    memory::AskedRanks asked;
    asked.pp = record.pp_rank;
    const auto answer = memory::answer(record.job, asked);
    if (!answer) continue;
    std::int64_t sum = 0;
    for (const memory::Row& row : answer->ranks.front().table) sum += row.bytes;
    EXPECT_EQ(sum, answer->ranks.front().capacity) << what;
  }
}

TEST(Hostile, a_small_file_of_each_format_can_be_cut_at_every_byte) {
  for (const auto& [name, record] : test::formats()) {
    const std::string text = test::file_of(record);
    for (std::size_t length = 0; length < text.size(); ++length) {
      const auto file = read_records("cut.json", std::string_view(text).substr(0, length));
      ASSERT_FALSE(file) << name << " cut at " << length;
      ASSERT_FALSE(file.error().message.empty());
    }
    EXPECT_TRUE(read_records("whole.json", text)) << name;
  }
}

TEST(Hostile, every_recorded_file_can_be_cut_at_many_places) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/truth")) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const auto text = read_file(entry.path().string());
    ASSERT_TRUE(text);
    EXPECT_TRUE(read_records(entry.path().string(), *text)) << entry.path();
    constexpr std::size_t kCuts = 60;
    for (std::size_t i = 0; i < kCuts; ++i) {
      const std::size_t length = text->size() * i / kCuts;
      ASSERT_FALSE(read_records("cut.json", std::string_view(*text).substr(0, length)))
          << entry.path() << " " << length;
    }
  }
  EXPECT_GE(files, 6);
}

// Applies `change` to every value of the tree in turn.
void for_each_value(const Node& root, const std::function<void(Node&)>& change,
                    const std::function<void(const Node&)>& use) {
  std::function<std::size_t(Node&, std::size_t, std::size_t)> visit = [&](Node& node, std::size_t at,
                                                                          std::size_t wanted) -> std::size_t {
    if (at == wanted) change(node);
    ++at;
    for (Node& item : node.items) at = visit(item, at, wanted);
    for (auto& [key, value] : node.members) at = visit(value, at, wanted);
    return at;
  };
  Node copy = root;
  const std::size_t values = visit(copy, 0, static_cast<std::size_t>(-1));
  for (std::size_t i = 0; i < values; ++i) {
    Node changed = root;
    visit(changed, 0, i);
    use(changed);
  }
}

TEST(Hostile, any_value_may_be_of_any_other_type) {
  for (const auto& [name, record] : test::formats()) {
    const Node root = document::parse_json(test::file_of(record)).value();
    for (const char* value :
         {"null", "true", "false", "0", "-1", "1", "3", "4096", "9223372036854775807", "-9223372036854775808", "1e300",
          "-1e300", "0.5", "\"\"", "\"text\"", "[]", "{}", "[1]", "{\"a\": 1}"}) {
      const Node replacement = document::parse_json(value).value();
      for_each_value(
          root, [&](Node& node) { node = replacement; },
          [&, what = name](const Node& changed) {
            must_survive(document::to_json(changed), std::string(what) + " " + value);
          });
    }
  }
}

TEST(Hostile, any_field_may_be_missing) {
  for (const auto& [name, record] : test::formats()) {
    const Node root = document::parse_json(test::file_of(record)).value();
    for (std::size_t drop = 0; drop < 12; ++drop)
      for_each_value(
          root,
          [&](Node& node) {
            if (drop < node.members.size())
              node.members.erase(node.members.begin() + static_cast<std::ptrdiff_t>(drop));
          },
          [&, what = name](const Node& changed) { must_survive(document::to_json(changed), what); });
  }
}

}  // namespace
}  // namespace plimsoll::truth
