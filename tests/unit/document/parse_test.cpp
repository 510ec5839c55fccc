// SPDX-License-Identifier: Apache-2.0
// One tree for three formats: the same values, duplicate keys refused, messages with a line where the
// format gives one.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "document/node.h"
#include "document/relaxed_json.h"
#include "document/repeated_keys.h"

namespace plimsoll::document {
namespace {

using testing::HasSubstr;

void expect_sample(const Node& root) {
  ASSERT_TRUE(root.is_object());
  EXPECT_EQ(root.find("count")->integer, 12);
  EXPECT_DOUBLE_EQ(root.find("rate")->real, 0.25);
  EXPECT_TRUE(root.find("on")->boolean);
  EXPECT_EQ(root.find("name")->text, "a b");
  ASSERT_EQ(root.find("list")->items.size(), 2U);
  EXPECT_EQ(root.find("list")->items[1].integer, 2);
  EXPECT_EQ(root.find("table")->find("inner")->text, "x");
  EXPECT_EQ(root.find("absent"), nullptr);
}

TEST(Parse, three_formats_give_the_same_tree) {
  expect_sample(*parse_json(
      R"({"count": 12, "rate": 0.25, "on": true, "name": "a b", "list": [1, 2], "table": {"inner": "x"}})"));
  expect_sample(
      *parse_toml("count = 12\nrate = 0.25\non = true\nname = \"a b\"\nlist = [1, 2]\n[table]\ninner = 'x'\n"));
  expect_sample(*parse_yaml("count: 12\nrate: 0.25\non: true\nname: a b\nlist: [1, 2]\ntable:\n  inner: x\n"));
}

TEST(Parse, members_keep_the_order_of_the_file) {
  EXPECT_EQ(parse_toml("z = 1\na = 2\n")->members[0].first, "z");
  EXPECT_EQ(parse_json(R"({"z": 1, "a": 2})")->members[0].first, "z");
  EXPECT_EQ(parse_yaml("z: 1\na: 2\n")->members[0].first, "z");
}

TEST(Parse, a_duplicate_key_is_an_error_that_names_it) {
  EXPECT_THAT(parse_json(R"({"a": {"hidden_size": 1, "x": 2, "hidden_size": 1}})").error().message,
              HasSubstr("the key 'hidden_size' appears twice"));
  EXPECT_THAT(parse_toml("hidden_size = 1\nhidden_size = 2\n").error().message, HasSubstr("hidden_size"));
}

TEST(Parse, of_a_repeated_key_in_yaml_the_last_counts_and_is_named) {
  constexpr std::string_view kText = "a: {x: 1}\nhidden_size: 1\nb: 3\nhidden_size: 2\n";
  const auto root = parse_yaml(kText);
  ASSERT_TRUE(root);
  EXPECT_EQ(root->find("hidden_size")->integer, 2);
  EXPECT_EQ(root->members.size(), 3U);
  const auto repeated = repeated_yaml_keys(kText);
  ASSERT_EQ(repeated.size(), 1U);
  EXPECT_EQ(repeated.front().key, "hidden_size");
  EXPECT_EQ(repeated.front().line, 4);
  EXPECT_TRUE(repeated_yaml_keys("a: {x: 1}\nb: {x: 1}\n").empty());
}

TEST(Parse, a_long_yaml_with_a_repeated_key_is_an_error) {
  std::string text = "hidden_size: 1\nhidden_size: 2\n#";
  text += std::string(kLongestWithRepeats, 'x');
  EXPECT_THAT(parse_yaml(text).error().message, HasSubstr("line 2: the key 'hidden_size' appears twice"));
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "a: 1\n";
  EXPECT_THAT(parse_yaml(many).error().message, HasSubstr("the key 'a' appears twice"));
}

TEST(Parse, the_same_key_in_two_tables_is_no_duplicate) {
  EXPECT_TRUE(parse_json(R"({"a": {"x": 1}, "b": {"x": 1}})"));
  EXPECT_TRUE(parse_yaml("a: {x: 1}\nb: {x: 1}\n"));
}

TEST(Parse, broken_text_says_what_is_broken) {
  EXPECT_THAT(parse_json("").error().message, HasSubstr("empty"));
  EXPECT_THAT(parse_json(R"({"a": )").error().message, HasSubstr("ends early"));
  EXPECT_THAT(parse_json(R"({"a)").error().message, HasSubstr("not closed"));
  EXPECT_THAT(parse_json("{\"a\": 99999999999999999999999}").error().message, HasSubstr("number"));
  EXPECT_THAT(parse_json("{\"a\": NaN}").error().message, HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_json("{\"a\": \"\xFF\xFE\"}").error().message, HasSubstr("UTF-8"));
  EXPECT_THAT(parse_toml("a = 1\nb = \n").error().message, HasSubstr("line 2: not valid TOML"));
  EXPECT_THAT(parse_yaml("a: 1\nb: [1\n").error().message, HasSubstr("not valid YAML"));
}

TEST(Parse, a_byte_order_mark_is_skipped) {
  EXPECT_TRUE(parse_json("\xEF\xBB\xBF{\"a\": 1}")->has("a"));
  EXPECT_TRUE(parse_toml("\xEF\xBB\xBF"
                         "a = 1")
                  ->has("a"));
  EXPECT_TRUE(parse_yaml("\xEF\xBB\xBF"
                         "a: 1")
                  ->has("a"));
}

TEST(Parse, integers_beyond_63_bits_become_reals_and_never_wrap) {
  const Result<Node> node = parse_json(R"({"a": 9223372036854775807, "b": 9223372036854775808})");
  ASSERT_TRUE(node);
  EXPECT_EQ(node->find("a")->integer, 9223372036854775807LL);
  EXPECT_FALSE(node->find("b")->is_integer());
  EXPECT_TRUE(node->find("b")->is_number());
}

TEST(Yaml, quoted_scalars_stay_strings) {
  const Result<Node> node = parse_yaml("a: '12'\nb: \"true\"\nc: !!str 3\nd: yes\ne: ~\nf: off\n");
  ASSERT_TRUE(node);
  EXPECT_EQ(node->find("a")->text, "12");
  EXPECT_EQ(node->find("b")->text, "true");
  EXPECT_EQ(node->find("c")->text, "3");
  EXPECT_TRUE(node->find("d")->boolean);
  EXPECT_TRUE(node->find("e")->is_null());
  EXPECT_TRUE(node->find("f")->is_bool());
}

TEST(Yaml, merge_keys_take_over_what_the_table_does_not_say_itself) {
  const Result<Node> node = parse_yaml(
      "base: &base {a: 1, b: 2}\nmore: &more {b: 8, c: 9}\none:\n  <<: *base\n  b: 3\ntwo:\n  <<: [*base, *more]\n");
  ASSERT_TRUE(node);
  EXPECT_EQ(node->find("one")->find("a")->integer, 1);
  EXPECT_EQ(node->find("one")->find("b")->integer, 3);
  EXPECT_EQ(node->find("two")->find("b")->integer, 2);
  EXPECT_EQ(node->find("two")->find("c")->integer, 9);
}

TEST(Yaml, a_second_document_is_an_error_and_a_closing_marker_is_not) {
  EXPECT_THAT(parse_yaml("a: 1\n---\nb: 2\n").error().message, HasSubstr("a second YAML document"));
  EXPECT_TRUE(parse_yaml("---\na: 1\n...\n"));
}

TEST(Scalar, values_are_read_as_on_a_command_line) {
  EXPECT_TRUE(parse_scalar("True").boolean);
  EXPECT_TRUE(parse_scalar("None").is_null());
  EXPECT_EQ(parse_scalar(" -12 ").integer, -12);
  EXPECT_DOUBLE_EQ(parse_scalar("1e-4").real, 1e-4);
  EXPECT_EQ(parse_scalar("'12'").text, "12");
  EXPECT_EQ(parse_scalar("").text, "");
  EXPECT_TRUE(parse_scalar("nan").is_string());
  EXPECT_TRUE(parse_scalar("inf").is_string());
  EXPECT_TRUE(parse_scalar("9223372036854775808").is_number());
  EXPECT_FALSE(parse_scalar("9223372036854775808").is_integer());
}

TEST(Scalar, lists_nest_and_quotes_hold_commas) {
  const Node node = parse_scalar("[[embedding, decoder], ['a, b'], [], 3]");
  ASSERT_EQ(node.items.size(), 4U);
  EXPECT_EQ(node.items[0].items[1].text, "decoder");
  EXPECT_EQ(node.items[1].items[0].text, "a, b");
  EXPECT_TRUE(node.items[2].items.empty());
  EXPECT_EQ(node.items[3].integer, 3);
  EXPECT_EQ(to_text(node), "[[embedding, decoder], [a, b], [], 3]");
}

TEST(Text, values_print_as_they_are_written) {
  EXPECT_EQ(to_text(parse_scalar("0.5")), "0.5");
  EXPECT_EQ(to_text(parse_scalar("true")), "true");
  EXPECT_EQ(to_text(*parse_json(R"({"a": 1, "b": 2})")), "a table of 2 keys");
  EXPECT_EQ(kind_name(Node::Kind::kArray), "a list");
}

TEST(RelaxedJson, comments_trailing_commas_and_infinity_are_taken) {
  const auto node =
      parse_relaxed_json("{ // one\n \"a\": [1, 2,], # two\n /* three */ \"b\": Infinity, \"c\": -Infinity,}");

  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(node->find("a")->items.size(), 2U);
  EXPECT_EQ(node->find("b")->text, "Infinity");
  for (const char* text : {"{\"a\": 1,,}", "{,}", "[1 2]", "{\"a\" 1}", "/*", "{\"a\": /* 1}"})
    EXPECT_FALSE(parse_relaxed_json(text)) << text;
  EXPECT_FALSE(parse_json("{\"a\": 1,}"));
}

TEST(Json, escapes_and_numbers_are_those_of_the_standard) {
  EXPECT_EQ(parse_json(R"("\u00e9\ud83d\ude00\n")")->text, "\xC3\xA9\xF0\x9F\x98\x80\n");
  EXPECT_EQ(parse_json("-0.5e1")->real, -5);
  EXPECT_EQ(parse_json("1e-400")->real, 0);
  for (const char* text : {"01", "1.", ".5", "+1", "1e", "1e400", "-", R"("\ud83d")", R"("\x")", "tru", "nul", "'a'"})
    EXPECT_FALSE(parse_json(text)) << text;
}

}  // namespace
}  // namespace plimsoll::document
