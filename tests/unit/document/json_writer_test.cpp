// SPDX-License-Identifier: Apache-2.0
#include "document/json_writer.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "document/node.h"

namespace plimsoll::document {
namespace {

TEST(JsonWriter, keeps_the_order_of_the_calls) {
  JsonWriter json;
  json.begin_object().member("schema", 1).member("b", "x").member("a", true).end_object();

  EXPECT_EQ(json.take(), "{\n  \"schema\": 1,\n  \"b\": \"x\",\n  \"a\": true\n}\n");
}

TEST(JsonWriter, writes_inline_containers_on_one_line) {
  JsonWriter json;
  json.begin_object().key("rows").begin_array();
  json.begin_object(Layout::kInline).member("id", 1).key("at").begin_array().value(2).value(3).end_array().end_object();
  json.end_array().end_object();

  EXPECT_EQ(json.take(), "{\n  \"rows\": [\n    {\"id\": 1, \"at\": [2, 3]}\n  ]\n}\n");
}

TEST(JsonWriter, writes_empty_containers_without_a_break) {
  JsonWriter json;
  json.begin_object().key("a").begin_array().end_array().key("b").begin_object().end_object().end_object();

  EXPECT_EQ(json.take(), "{\n  \"a\": [],\n  \"b\": {}\n}\n");
}

TEST(JsonWriter, escapes_what_json_forbids_in_strings) {
  EXPECT_EQ(json_quoted("a\"b\\c\n\t\r\x01"), R"("a\"b\\c\n\t\r\u0001")");
}

TEST(JsonWriter, keeps_good_utf8_and_replaces_bad_bytes) {
  const std::string replaced = "\xEF\xBF\xBD";

  EXPECT_EQ(json_quoted("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x9A\xA2"), "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x9A\xA2\"");
  EXPECT_EQ(json_quoted("\xFFx"), "\"" + replaced + "x\"");
  EXPECT_EQ(json_quoted("\xC3"), "\"" + replaced + "\"") << "cut sequence";
  EXPECT_EQ(json_quoted("\xC0\x80"), "\"" + replaced + replaced + "\"") << "overlong form";
  EXPECT_EQ(json_quoted("\xED\xA0\x80"), "\"" + replaced + replaced + replaced + "\"") << "surrogate";
}

TEST(JsonWriter, writes_numbers_that_read_back_the_same) {
  JsonWriter json;
  json.begin_array(Layout::kInline)
      .value(std::numeric_limits<std::int64_t>::min())
      .value(0.1)
      .value(1e300)
      .value(-2.5)
      .end_array();

  EXPECT_EQ(json.take(), "[-9223372036854775808, 0.1, 1e+300, -2.5]\n");
}

TEST(JsonWriter, writes_null_for_what_json_has_no_number_for) {
  JsonWriter json;
  json.begin_array(Layout::kInline)
      .value(std::numeric_limits<double>::infinity())
      .value(std::numeric_limits<double>::quiet_NaN())
      .value(std::optional<int>{})
      .end_array();

  EXPECT_EQ(json.take(), "[null, null, null]\n");
}

TEST(JsonWriter, leaves_out_an_absent_member) {
  JsonWriter json;
  json.begin_object(Layout::kInline)
      .member_if("there", std::optional<int>{1})
      .member_if("absent", std::optional<int>{})
      .end_object();

  EXPECT_EQ(json.take(), "{\"there\": 1}\n");
}

TEST(JsonWriter, writes_what_our_own_parser_reads) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  JsonWriter json;
  json.begin_object().member(every_byte, every_byte).end_object();

  EXPECT_TRUE(document::parse_json(json.take()).has_value());
}

}  // namespace
}  // namespace plimsoll::document
