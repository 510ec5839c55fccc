// SPDX-License-Identifier: Apache-2.0
#include "document/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace plimsoll::document {

namespace {

using testing::HasSubstr;
using namespace std::string_literals;

const std::string kHead = "\x80\x02"s;

std::string text(const std::string& word) { return "X"s + static_cast<char>(word.size()) + "\0\0\0"s + word; }

TEST(Pickle, an_object_is_its_class_and_its_attributes) {
  // C() with batch = 4, kind = Word('steps'), on = [True, None]
  const std::string bytes = kHead + "cmodule\nC\n)\x81}("s + text("batch") + "K\x04" + text("kind") +
                            "cmodule\nWord\n" + text("steps") + "\x85R" + text("on") + "](\x88Neub.";
  const auto object = parse_pickle(bytes);
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_EQ(object->type, "module.C");
  EXPECT_EQ(to_json(object->state), R"({"batch":4,"kind":"steps","on":[true,null]})");
}

TEST(Pickle, what_python_would_call_is_only_named) {
  const auto object = parse_pickle(kHead + "cposix\nsystem\n" + text("touch ran") + "\x85R.");
  ASSERT_TRUE(object);
  EXPECT_EQ(object->type, "posix.system");
  EXPECT_EQ(object->state.text, "touch ran");
}

TEST(Pickle, a_device_and_a_path_are_their_words) {
  const auto device = parse_pickle(kHead + "ctorch\ndevice\n" + text("cuda") + "K\x01\x86R.");
  EXPECT_EQ(device->state.text, "cuda:1");
  const auto path = parse_pickle(kHead + "cpathlib\nPosixPath\n(" + text("/") + text("data") + text("x") + "tR.");
  EXPECT_EQ(path->state.text, "/data/x");
}

TEST(Pickle, what_holds_itself_is_an_error) {
  // a list that is its own only item
  EXPECT_THAT(parse_pickle(kHead + "]q\0h\0a."s).error().message, HasSubstr("nested deeper"));
}

TEST(Pickle, shared_parts_do_not_multiply_without_end) {
  std::string bytes = kHead + "]q\0"s;
  for (int i = 0; i < 40; ++i)
    bytes += "](h"s + static_cast<char>(i) + "h"s + static_cast<char>(i) + "eq"s + static_cast<char>(i + 1);
  bytes += "t.";
  EXPECT_FALSE(parse_pickle(bytes));
  bytes = kHead + "]q\0"s;
  for (int i = 0; i < 40; ++i)
    bytes += "h"s + static_cast<char>(i) + "h"s + static_cast<char>(i) + "\x86q"s + static_cast<char>(i + 1);
  std::string nested = kHead + ")q\0"s;
  for (int i = 0; i < 40; ++i) nested += "h"s + static_cast<char>(i) + "\x86q"s + static_cast<char>(i + 1);
  EXPECT_THAT(parse_pickle(nested + ".").error().message, HasSubstr("more than 100000 parts"));
}

TEST(Pickle, opcodes_without_their_values_are_errors) {
  for (const std::string& tail : {"."s, "t."s, "e."s, "u."s, "R."s, "b."s, "K"s, "X\xff\0\0\0"s,
                                  "}K\x01"
                                  "a."s,
                                  "h\x05."s, "\x8a\x20"s, "Z."s})
    EXPECT_FALSE(parse_pickle(kHead + tail)) << tail;
  EXPECT_THAT(parse_pickle("not a pickle").error().message, HasSubstr("no pickle"));
  EXPECT_THAT(parse_pickle("\x80\x09N.").error().message, HasSubstr("protocol 9"));
}

}  // namespace

}  // namespace plimsoll::document
