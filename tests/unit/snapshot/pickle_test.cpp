// SPDX-License-Identifier: Apache-2.0
// The stack machine alone, against a sink that writes down what it is told.
#include "snapshot/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support.h"

namespace plimsoll::snapshot {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

struct Log final : PickleSink {
  std::vector<std::string> strings;
  std::vector<Value> appended;
  std::vector<Value> pairs;
  std::vector<Value> tuple;

  Status on_string(std::uint32_t id, std::string_view text) override {
    EXPECT_EQ(id, strings.size());
    strings.emplace_back(text);
    return {};
  }
  [[nodiscard]] std::string_view text(std::uint32_t id) const override { return strings[id]; }
  Result<std::uint32_t> on_tuple(std::span<const Value> items) override {
    tuple.assign(items.begin(), items.end());
    return 5;
  }
  Status on_append(std::uint32_t /*list*/, std::span<const Value> items) override {
    appended.insert(appended.end(), items.begin(), items.end());
    return {};
  }
  Status on_set_items(std::uint32_t /*dict*/, std::span<const Value> items) override {
    pairs.insert(pairs.end(), items.begin(), items.end());
    return {};
  }
};

std::string error_of_pickle(const std::string& bytes) {
  Log log;
  const auto root = read_pickle(bytes, log);
  return root ? "" : root.error().message;
}

Value number_of(const std::string& opcodes) {
  Log log;
  const auto root = read_pickle("\x80\x04" + opcodes + ".", log);
  EXPECT_TRUE(root) << root.error().message;
  return root ? *root : Value{};
}

TEST(Pickle, integers_of_every_width_are_read) {
  EXPECT_EQ(number_of("K\xff").bits, 255);
  EXPECT_EQ(number_of("M\xff\xff").bits, 65535);
  EXPECT_EQ(number_of("J\xff\xff\xff\xff").bits, -1);
  EXPECT_EQ(number_of("\x8a\0"s).bits, 0);
  EXPECT_EQ(number_of("\x8a\x01\xff").bits, -1);
  EXPECT_EQ(number_of("\x8a\x02\xff\0"s).bits, 255);
  EXPECT_EQ(number_of("\x8a\x06" + little(140192360955904, 6)).bits, 140192360955904);
  EXPECT_EQ(number_of("\x8b\x02\0\0\0\x01\x01"s).bits, 257);
  EXPECT_EQ(number_of("\x8a\x08" + little(1ULL << 63, 8)).bits, INT64_MIN);
  const Value large = number_of("\x8a\x09" + little(UINT64_MAX, 8) + "\0"s);
  EXPECT_EQ(large.kind, Kind::kUint);
  EXPECT_EQ(large.unsigned_bits(), UINT64_MAX);
  EXPECT_EQ(number_of("\x8a\x09" + little(7, 8) + "\0"s).kind, Kind::kInt);
}

TEST(Pickle, floats_are_big_endian_and_bools_and_none_are_kept_apart) {
  EXPECT_DOUBLE_EQ(number_of("G\x3f\xe0\0\0\0\0\0\0"s).real(), 0.5);
  EXPECT_EQ(number_of("\x88").bits, 1);
  EXPECT_EQ(number_of("\x89").kind, Kind::kBool);
  EXPECT_EQ(number_of("N").kind, Kind::kNone);
}

TEST(Pickle, equal_strings_are_one_whether_shared_or_written_anew) {
  Log log;
  const auto root = read_pickle("\x80\x04](\x8c\x02hi\x94h\0X\x02\0\0\0hi\x8d\x02\0\0\0\0\0\0\0hie."s, log);
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(log.strings, std::vector<std::string>{"hi"});
  ASSERT_EQ(log.appended.size(), 4U);
  for (const Value& value : log.appended) EXPECT_EQ(value.id, 0U);
}

TEST(Pickle, memo_numbers_count_what_was_stored) {
  Log log;
  // MEMOIZE after BINPUT 0 takes slot 1.
  const auto root = read_pickle(
      "\x80\x04](\x8c\x01"
      "aq\0\x8c\x01"
      "b\x94h\x01h\0e."s,
      log);
  ASSERT_TRUE(root) << root.error().message;
  ASSERT_EQ(log.appended.size(), 4U);
  EXPECT_EQ(log.appended[2].id, log.appended[1].id);
  EXPECT_EQ(log.appended[3].id, log.appended[0].id);
}

TEST(Pickle, tuples_dicts_and_single_items_reach_the_sink) {
  Log log;
  const auto root = read_pickle("\x80\x02}\x8c\x01kK\x01K\x02\x86s."s, log);
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(root->kind, Kind::kDict);
  EXPECT_EQ(log.tuple.size(), 2U);
  ASSERT_EQ(log.pairs.size(), 2U);
  EXPECT_EQ(log.pairs[1].kind, Kind::kTuple);
  EXPECT_EQ(log.pairs[1].id, 5U);
}

TEST(Pickle, opcodes_that_carry_code_are_refused_by_name) {
  const std::pair<char, const char*> kRefused[] = {{'c', "GLOBAL"},
                                                   {'\x93', "STACK_GLOBAL"},
                                                   {'R', "REDUCE"},
                                                   {'b', "BUILD"},
                                                   {'i', "INST"},
                                                   {'o', "OBJ"},
                                                   {'\x81', "NEWOBJ"},
                                                   {'\x92', "NEWOBJ_EX"},
                                                   {'\x82', "EXT1"},
                                                   {'\x83', "EXT2"},
                                                   {'\x84', "EXT4"},
                                                   {'P', "PERSID"},
                                                   {'Q', "BINPERSID"},
                                                   {'\x97', "NEXT_BUFFER"},
                                                   {'\x98', "READONLY_BUFFER"}};
  for (const auto& [opcode, name] : kRefused) {
    const std::string error = error_of_pickle("\x80\x04]"s + opcode + "os\nsystem\n.");
    EXPECT_THAT(error, HasSubstr("byte 3: "s + name + ": ")) << error;
    EXPECT_THAT(error, HasSubstr("carries code"));
  }
}

TEST(Pickle, other_opcodes_and_protocols_are_refused_with_their_place) {
  EXPECT_EQ(error_of_pickle("\x80\x04I1\n."),
            "byte 2: INT: snapshots hold no such value; wanted what PyTorch's writers use");
  EXPECT_THAT(error_of_pickle("\x80\x04\xfe."), HasSubstr("byte 2: opcode 0xfe: no such opcode"));
  EXPECT_THAT(error_of_pickle("\x80\x01N."), HasSubstr("protocol 1; wanted 2 to 5"));
  EXPECT_THAT(error_of_pickle("\x80\x06N."), HasSubstr("protocol 6; wanted 2 to 5"));
  EXPECT_THAT(error_of_pickle("(dp0\n."), HasSubstr("byte 0: no PROTO"));
  EXPECT_THAT(error_of_pickle("\x80\x04N.N"), HasSubstr("1 bytes follow the end"));
  EXPECT_THAT(error_of_pickle("\x80\x04N\x80\x04."), HasSubstr("PROTO inside"));
}

TEST(Pickle, stack_mistakes_are_errors) {
  EXPECT_THAT(error_of_pickle("\x80\x04."), HasSubstr("0 values and 0 open marks"));
  EXPECT_THAT(error_of_pickle("\x80\x04"
                              "0."),
              HasSubstr("POP: 0 entries"));
  EXPECT_THAT(error_of_pickle("\x80\x04"
                              "e."),
              HasSubstr("no MARK"));
  EXPECT_THAT(error_of_pickle("\x80\x04(e."), HasSubstr("nothing lies below"));
  EXPECT_THAT(error_of_pickle("\x80\x04N(e."), HasSubstr("None lies below the items; wanted a list"));
  EXPECT_THAT(error_of_pickle("\x80\x04}(Nu."), HasSubstr("a key has no value"));
  EXPECT_THAT(error_of_pickle("\x80\x04](Na."), HasSubstr("1 entries are on the stack; wanted 2"));
  EXPECT_THAT(error_of_pickle("\x80\x04h\x07."), HasSubstr("BINGET: memo slot 7 is empty"));
}

TEST(Pickle, huge_lengths_are_errors_before_any_memory_is_taken) {
  EXPECT_THAT(error_of_pickle("\x80\x04X\xff\xff\xff\xff"
                              "a"),
              HasSubstr("BINUNICODE: 1 bytes are left; wanted 4294967295"));
  EXPECT_THAT(error_of_pickle("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                              "a"),
              HasSubstr("BINUNICODE8: 1 bytes are left"));
  EXPECT_THAT(error_of_pickle("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff"
                              "N."),
              HasSubstr("FRAME"));
  EXPECT_THAT(error_of_pickle("\x80\x04\x8b\xff\xff\xff\x7f"), HasSubstr("LONG4"));
  EXPECT_THAT(error_of_pickle("\x80\x04\x8b\xff\xff\xff\xff"), HasSubstr("LONG4: a length of -1"));
  EXPECT_THAT(error_of_pickle("\x80\x04\x8a\x0a" + std::string(10, '\1') + "."), HasSubstr("an integer of 10 bytes"));
  EXPECT_THAT(error_of_pickle("\x80\x04\x8a\x09" + std::string(9, '\1') + "."), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(error_of_pickle("\x80\x04Nr\xff\xff\xff\xff."), HasSubstr("LONG_BINPUT: memo slot 4294967295"));
  const std::string text(17U << 20, 'x');
  EXPECT_THAT(error_of_pickle("\x80\x04X" + little(text.size(), 4) + text), HasSubstr("a string of 17825792 bytes"));
}

TEST(Pickle, bombs_of_nesting_memo_and_containers_are_cut_off) {
  EXPECT_THAT(error_of_pickle("\x80\x04" + std::string(2000, '(')), HasSubstr("byte 1002: MARK: nesting"));
  EXPECT_THAT(error_of_pickle("\x80\x04" + std::string(4U << 20, ']')), HasSubstr("EMPTY_LIST: the stack is full"));
  EXPECT_THAT(error_of_pickle("\x80\x04N" + std::string(4U << 20, '2')), HasSubstr("DUP: the stack is full"));
  EXPECT_THAT(error_of_pickle("\x80\x04]" + std::string(4U << 20, '\x94')), HasSubstr("MEMOIZE: memo slot"));
  EXPECT_THAT(error_of_pickle("\x80\x04N" + std::string(4U << 20, '\x94')), HasSubstr("MEMOIZE"));
  std::string lists = "\x80\x04";
  for (int i = 0; i < (2 << 20); ++i) lists += "]0";
  EXPECT_THAT(error_of_pickle(lists), HasSubstr("too many lists and dicts"));
}

}  // namespace
}  // namespace plimsoll::snapshot
