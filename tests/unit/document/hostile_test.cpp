// SPDX-License-Identifier: Apache-2.0
// Input that no person writes: noise, nesting, repetition and expansion. Each parser answers with an
// error, in time that grows with the input's length and not with its cunning.
#include <random>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "document/node.h"
#include "document/plain_yaml.h"

namespace plimsoll::document {
namespace {

using testing::HasSubstr;

using Parser = Result<Node> (*)(std::string_view);
struct Format {
  const char* name;
  Parser parse;
};
constexpr Format kFormats[] = {{"json", parse_json}, {"toml", parse_toml}, {"yaml", parse_yaml}};

std::string repeat(std::string_view text, std::size_t times) {
  std::string result;
  result.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

std::string noise(std::string_view alphabet, std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = alphabet.empty() ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
  return text;
}

TEST(Hostile, ten_megabytes_of_random_bytes_are_an_error) {
  const std::string bytes = noise("", 10 << 20, 1);
  for (const Format& format : kFormats) {
    const Result<Node> node = format.parse(bytes);
    ASSERT_FALSE(node) << format.name;
    EXPECT_LT(node.error().message.size(), 400U) << format.name;
  }
}

TEST(Hostile, ten_megabytes_of_random_punctuation_are_an_error) {
  const std::string marks = noise("[]{}:,-?=.#&*!|>'\"% \n\ta1", 10 << 20, 2);
  for (const Format& format : kFormats) EXPECT_FALSE(format.parse(marks)) << format.name;
}

TEST(Hostile, many_small_random_texts_never_crash) {
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    const std::string text = noise("[]{}:,-?=.#&*!<'\"\\% \n\ta1", 1 + seed % 60, seed);
    for (const Format& format : kFormats) static_cast<void>(format.parse(text));
    static_cast<void>(parse_scalar(text));
  }
}

TEST(Hostile, a_hundred_thousand_brackets_are_nested_too_deep) {
  for (const Format& format : kFormats)
    for (const std::string_view open : {"[", "{", "{a=", "a = [", "{\"a\":", "[{", "- ", "? ", "a: "})
      for (const std::string_view end : {"", "1", "\n"})
        EXPECT_FALSE(format.parse(repeat(open, 100'000) + std::string{end})) << format.name << " " << open;
  EXPECT_FALSE(parse_json(repeat("[", 100'000) + repeat("]", 100'000)));
  EXPECT_FALSE(parse_toml("a = " + repeat("[", 100'000) + repeat("]", 100'000)));
  EXPECT_FALSE(parse_yaml(repeat("[", 100'000) + repeat("]", 100'000)));
}

TEST(Hostile, nesting_is_allowed_to_the_limit_and_refused_beyond) {
  const auto nested = [](int levels) {
    return repeat("[", static_cast<std::size_t>(levels)) + repeat("]", static_cast<std::size_t>(levels));
  };

  EXPECT_TRUE(parse_json(nested(kMaxDepth)));
  EXPECT_TRUE(parse_yaml(nested(kMaxDepth)));
  EXPECT_TRUE(parse_toml("a = " + nested(kMaxDepth - 1)));

  EXPECT_THAT(parse_json(nested(kMaxDepth + 2)).error().message, HasSubstr("deeper than 64"));
  EXPECT_THAT(parse_yaml(nested(kMaxDepth + 2)).error().message, HasSubstr("deeper than 64"));
  EXPECT_FALSE(parse_toml("a = " + nested(kMaxDepth + 2)));
}

TEST(Hostile, yaml_nested_by_indentation_is_refused) {
  std::string text;
  for (std::size_t level = 0; level < 1000; ++level) text += std::string(level, ' ') + "a:\n";
  EXPECT_THAT(parse_yaml(text).error().message, HasSubstr("deeper than 64"));
}

TEST(Hostile, toml_keys_of_many_dots_are_refused) {
  const std::string dots = repeat("a.", 100'000) + "a";
  const std::string quoted = repeat("\"a,[=\" . ", 100'000) + "a";
  const std::string literal = repeat("'a]\"' . ", 100'000) + "a";
  for (const std::string& key : {dots, quoted, literal})
    for (const std::string& text : {key + " = 1", "[" + key + "]", "[[" + key + "]]", "x = {" + key + " = 1}", key})
      EXPECT_THAT(parse_toml(text).error().message, HasSubstr("a key of more than 64 parts"));
}

TEST(Hostile, toml_keys_nested_at_every_level_stay_within_the_stack) {
  const std::string key = repeat("a.", 60) + "a";
  std::string text = "[" + key + "]\n" + key;
  for (int level = 0; level < 30; ++level) text += " = [\n{" + key;
  EXPECT_FALSE(parse_toml(text));
}

TEST(Hostile, toml_floats_and_dotted_comments_are_not_taken_for_keys) {
  EXPECT_TRUE(
      parse_toml("# " + repeat(".", 500) + "\na = [" + repeat("0.5, ", 500) + "]\nb = \"" + repeat(".", 500) + "\""));
}

TEST(Hostile, toml_headers_without_a_key_are_an_error) {
  for (const char* text : {"[?", "[?]", "[[?]]", "[", "[ ", "[[", "[a.", "[a.?]", "[.a]", "[=]", "a.=1", "a.?=1"})
    EXPECT_FALSE(parse_toml(text)) << text;
}

TEST(Hostile, toml_letters_outside_strings_are_an_error_in_every_script) {
  for (char32_t c = 0x80; c < 0xFFFF; c += 7) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string letter;
    if (c < 0x800) {
      letter = {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    } else {
      letter = {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
                static_cast<char>(0x80 | (c & 0x3F))};
    }
    EXPECT_FALSE(parse_toml("a" + letter + "= 1"));
    EXPECT_TRUE(parse_toml("a = \"" + letter + "\"") || c < 0xA0);
  }
}

TEST(Hostile, a_yaml_alias_bomb_is_refused) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + repeat(last + ", ", 9) + last + "]\n";
  }
  EXPECT_THAT(parse_yaml(text).error().message, HasSubstr("larger than any configuration"));
}

TEST(Hostile, yaml_aliases_of_a_long_text_are_refused) {
  const std::string text = "a: &a " + std::string(1 << 20, 'x') + "\nb: [" + repeat("*a, ", 100'000) + "*a]\n";
  EXPECT_THAT(parse_yaml(text).error().message, HasSubstr("larger than any configuration"));
}

TEST(Hostile, yaml_anchors_inside_anchors_are_refused) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "&a" + std::to_string(i) + " [";
  text += repeat("x, ", 200'000) + repeat("]", 60);
  EXPECT_THAT(parse_yaml(text).error().message, HasSubstr("than any configuration"));
}

TEST(Hostile, a_chain_of_yaml_aliases_cannot_nest_deeper_than_brackets_can) {
  std::string text = "a0: &a0 [x]\n";
  for (int i = 1; i < 200; ++i) text += fmt::format("a{}: &a{} [*a{}]\n", i, i, i - 1);
  EXPECT_THAT(parse_yaml(text).error().message, HasSubstr("deeper than 64"));
}

TEST(Hostile, a_table_of_many_keys_takes_no_quadratic_time) {
  std::string json = "{";
  std::string yaml;
  std::string toml;
  for (int i = 0; i < 100'000; ++i) {
    json += fmt::format("{}\"k{}\": {}", i == 0 ? "" : ",", i, i);
    yaml += fmt::format("k{}: {}\n", i, i);
    toml += fmt::format("k{} = {}\n", i, i);
  }
  EXPECT_EQ(parse_json(json + "}")->members.size(), 100'000U);
  EXPECT_EQ(parse_yaml(yaml)->members.size(), 100'000U);
  EXPECT_EQ(parse_toml(toml)->members.size(), 100'000U);
}

TEST(Hostile, more_values_than_any_configuration_has_are_refused_before_they_fill_memory) {
  const std::string zeros = repeat("0,", 1'000'000);
  EXPECT_THAT(parse_json("[" + zeros + "0]").error().message, HasSubstr("more values than any configuration"));
  EXPECT_THAT(parse_toml("x = [" + zeros + "0]").error().message, HasSubstr("more values than any configuration"));
  // YAML lists of data are shortened while they are read; tables are not, nor lists that are more than plain.
  EXPECT_EQ(parse_yaml("x: [" + zeros + "0]")->find("x")->items.size(), kKeptItems);
  EXPECT_THAT(parse_yaml("x: &y [" + zeros + "0]").error().message, HasSubstr("than any configuration"));
  const std::string pairs = repeat("[0, 0], ", 300);
  EXPECT_THAT(parse_yaml("x:\n" + repeat("  - [" + pairs + "0]\n", 1'000)).error().message,
              HasSubstr("than any configuration"));
}

TEST(Hostile, every_prefix_of_a_document_is_an_error_or_a_smaller_document) {
  const std::string json = R"({"a": [1, 2.5, "x\u00e9", null], "b": {"c": true}})";
  for (std::size_t cut = 0; cut < json.size(); ++cut) EXPECT_FALSE(parse_json(json.substr(0, cut))) << cut;
  const std::string toml = "a = [1, 2.5, \"x\"]\n[b.c]\nd = 1979-05-27\ne = {f = \"\"\"\nx\"\"\", g = 'y'}\n";
  for (std::size_t cut = 0; cut < toml.size(); ++cut) static_cast<void>(parse_toml(toml.substr(0, cut)));
  const std::string yaml = "a: &x [1, 2.5, 'x']\nb:\n  <<: {c: d}\n  e: *x\n  f: |\n    text\n? g\n: !!str 1\n";
  for (std::size_t cut = 0; cut < yaml.size(); ++cut) static_cast<void>(parse_yaml(yaml.substr(0, cut)));
}

TEST(Hostile, a_list_on_the_command_line_nested_too_deep_is_a_string) {
  const Node node = parse_scalar(repeat("[", 60'000) + repeat("]", 60'000));
  EXPECT_TRUE(node.is_array());
}

}  // namespace
}  // namespace plimsoll::document
