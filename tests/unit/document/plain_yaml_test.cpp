// SPDX-License-Identifier: Apache-2.0
// The quick reader of YAML reads what the whole one reads, or nothing.
#include "document/plain_yaml.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/file.h"

namespace plimsoll::document {
namespace {

// Whether it was plain.
bool expect_same_or_nothing(const std::string& text) {
  const PlainYaml plain = parse_plain_yaml(text);
  if (!plain.root) return false;
  const auto whole = parse_whole_yaml(text);
  EXPECT_EQ(to_json(*plain.root), whole ? to_json(*whole) : whole.error().message) << text;
  return true;
}

TEST(PlainYaml, ReadsWhatConfigurationsAreWrittenIn) {
  for (const char* text : {
           "a: 1\n",
           "---\n# c\na: 1 # one\nb:\n  c: x y\n  d:\n    - 1\n    - e: 2\n      f: 3\n",
           "a:\n- x\n- y\nb: 'it # is'\nc: \"d\"\n",
           "a: [1, 2.5, x, 'y z', [a, b]]\nb: {c: 1, d: [2]}\ne: []\nf: {}\n",
           "a:\n  b:\n\n  c: ~\nd: null\ne:\n",
           "- a: 1\n  b: 2\n-\n  c: 3\n- - x\n  - y\n- 'z'\n",
           "lr: 1e-5\nyes: no\nn: 500_000\npath: /a/b:c#d\nflag: --x\nneg: -3\n",
           "a: ${b.c}\nurl: https://x.y/z\n",
       })
    EXPECT_TRUE(expect_same_or_nothing(text)) << text << parse_plain_yaml(text).stopped_at;
}

TEST(PlainYaml, LeavesTheRestToTheWholeReader) {
  for (const char* text : {
           "",
           "\n",
           "# only\n",
           "x\n",
           "a: &x 1\nb: *x\n",
           "a: !!str 1\n",
           "a: |\n  x\n",
           "a: x\n  y\n",
           "a: [1,\n 2]\n",
           "a: 1\na: 2\n",
           "a: \"b\\n\"\n",
           "a: 'b''c'\n",
           "<<: {a: 1}\n",
           "a: 1\n---\nb: 2\n",
           "a:\tb\n",
           "a: b: c\n",
           "? a\n: b\n",
           "a: 1\n  b: 2\n",
           "  a: 1\nb: 2\n",
           "a:\n   b: 1\n  c: 2\n",
           "a: b 'c # d\n",
           "null: 1\n",
           "a: \xc3\xa4\n",
           "a: 1\r\n",
           "%YAML 1.1\n---\na: 1\n",
           "a: {b: 1, b: 2}\n",
           "a: [1, 2,]\n",
           "a: @b\n",
       })
    EXPECT_FALSE(expect_same_or_nothing(text)) << text;
}

TEST(PlainYaml, IsTheWholeReaderOrNothingForAnyPieces) {
  const char* const kPieces[] = {
      "a",    "b",   "key",  ":",     ": ",  " ",    "  ", "\n", "\n", "\n  ", "\n    ", "- ",   "-",
      "1",    "x y", "'q'",  "\"r\"", "[",   "]",    "{",  "}",  ",",  ", ",   "#",      " # c", "~",
      "null", "---", "...",  "'",     "\"",  "${v}", "?",  "!",  "&",  "*",    "|",      ">",    "=",
      "a: ",  "b: ", "c:\n", "- d: ", "1.5", "yes",  "%",  "@",  "\\", "/",    "\t"};
  std::mt19937 random(7);
  std::size_t plain = 0;
  for (int round = 0; round < 60'000; ++round) {
    std::string text;
    const std::size_t pieces = 1 + random() % 14;
    for (std::size_t i = 0; i < pieces; ++i) text += kPieces[random() % std::size(kPieces)];
    plain += expect_same_or_nothing(text) ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(plain, 300U) << "the pieces hardly ever make plain YAML";
}

TEST(PlainYaml, CutsOfRealFilesAreReadAlike) {
  std::size_t plain = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PLIMSOLL_SOURCE_DIR "/tests/data/job")) {
    if (entry.path().extension() != ".yaml" && entry.path().extension() != ".yml") continue;
    const auto text = read_file(entry.path().string());
    ASSERT_TRUE(text);
    for (std::size_t size = 0; size <= text->size(); size += 7)
      plain += expect_same_or_nothing(text->substr(0, size)) ? 1 : 0;
  }
  EXPECT_GT(plain, 100U);
}

TEST(PlainYaml, LongListsOfDataAreReadAndShortened) {
  std::string text = "a: 1\ndata:\n";
  for (int i = 0; i < 20'000; ++i) text += "  - part-" + std::to_string(i) + ".npy\n";
  text += "b: 2\n";
  const auto node = parse_yaml(text);
  ASSERT_TRUE(node);
  EXPECT_EQ(node->find("data")->items.size(), kKeptItems);
  EXPECT_EQ(node->find("b")->integer, 2);
}

TEST(PlainYaml, MoreKeysThanAnyConfigurationIsAnError) {
  std::string text;
  for (int i = 0; i < 400'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  const auto node = parse_yaml(text);
  ASSERT_FALSE(node);
  EXPECT_NE(node.error().message.find("more values than any configuration"), std::string::npos) << node.error().message;
}

}  // namespace
}  // namespace plimsoll::document
