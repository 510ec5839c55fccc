// SPDX-License-Identifier: Apache-2.0
// A config.json that cannot be used is an error that names the key; none crashes, whatever is in it.
#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/text.h"
#include "model/hf_config.h"
#include "model/limits.h"
#include "model/parameters.h"

namespace plimsoll::model {
namespace {

using document::Node;
using testing::HasSubstr;

Result<Architecture> read(const std::string& json) {
  const Result<Node> node = document::parse_json(json);
  if (!node) return tl::make_unexpected(node.error());
  return read_hf_config(*node);
}

std::string message(const std::string& json) {
  const Result<Architecture> model = read(json);
  return model ? "no error" : to_string(model.error());
}

std::string llama(const std::string& key, const std::string& value) {
  std::map<std::string, std::string> keys = {{"model_type", "\"llama\""},  {"hidden_size", "64"},
                                             {"intermediate_size", "128"}, {"num_hidden_layers", "2"},
                                             {"num_attention_heads", "4"}, {"vocab_size", "1000"}};
  keys[key] = value;
  std::vector<std::string> members;
  for (const auto& [name, text] : keys)
    if (!text.empty()) members.push_back(fmt::format("\"{}\": {}", name, text));
  return "{" + join(members, ", ") + "}";
}

// The text of the hf table of the first catalogue model of each model_type.
std::map<std::string, std::string> config_of_each_family() {
  std::map<std::string, std::string> configs;
  const Result<std::string> text = read_file(std::string(PLIMSOLL_SOURCE_DIR) + "/catalog/models.json");
  for (const std::string_view line : split(*text, '\n')) {
    const std::size_t begin = line.find("\"hf\": {");
    const std::size_t end = line.find(", \"parameters\":");
    if (begin == std::string_view::npos || end == std::string_view::npos) continue;
    const std::string config{line.substr(begin + 6, end - begin - 6)};
    configs.emplace(document::parse_json(config)->find("model_type")->text, config);
  }
  return configs;
}

// As in Transformers: the default of the family's class, and the answer says so.
TEST(HfConfigErrors, a_missing_key_takes_the_default_of_its_family_and_is_named) {
  struct Default {
    const char* key;
    const char* value;
  };
  for (const Default& expected :
       {Default{"hidden_size", "4096"}, Default{"intermediate_size", "11008"}, Default{"num_hidden_layers", "32"},
        Default{"num_attention_heads", "32"}, Default{"vocab_size", "32000"}}) {
    const auto model = read_hf_config(document::parse_json(llama(expected.key, "")).value());
    ASSERT_TRUE(model) << expected.key;
    ASSERT_EQ(model->warnings.size(), 1U);
    EXPECT_THAT(model->warnings[0], HasSubstr(fmt::format("{} {}", expected.key, expected.value)));
  }
}

TEST(HfConfigErrors, a_missing_key_without_a_default_is_named) {
  const std::string config = R"({"model_type": "internlm2", "hidden_size": 64})";
  EXPECT_THAT(message(config), HasSubstr("the key num_hidden_layers"));
  EXPECT_THAT(message(llama("model_type", "")), HasSubstr("the key model_type is missing"));
}

TEST(HfConfigErrors, a_wrong_type_is_named_with_what_was_wanted) {
  EXPECT_THAT(message(llama("hidden_size", "\"64\"")), HasSubstr("is '64'; wanted an integer from 1 to 1048576"));
  EXPECT_THAT(message(llama("hidden_size", "64.5")), HasSubstr("is 64.5; wanted an integer"));
  EXPECT_THAT(message(llama("hidden_size", "[64]")), HasSubstr("is a list of 1; wanted an integer"));
  EXPECT_THAT(message(llama("attention_bias", "1")), HasSubstr("attention_bias is 1; wanted true or false"));
  EXPECT_THAT(message(llama("attention_dropout", "1.5")), HasSubstr("attention_dropout is 1.5; wanted a probability"));
  EXPECT_THAT(message(llama("model_type", "7")), HasSubstr("model_type is an integer; wanted a string"));
  EXPECT_THAT(message("[1, 2]"), HasSubstr("holds a list; wanted a table"));
}

TEST(HfConfigErrors, sizes_that_are_zero_negative_or_huge_are_refused) {
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                          "num_key_value_heads", "head_dim"})
    for (const char* value : {"0", "-1", "-9223372036854775808", "9223372036854775807", "9223372036854775808", "1e300",
                              "4611686018427387904"})
      EXPECT_THAT(message(llama(key, value)), HasSubstr(key)) << value;
}

TEST(HfConfigErrors, products_of_allowed_sizes_are_bounded_too) {
  EXPECT_THAT(message(llama("num_hidden_layers", "10000")), HasSubstr("no error"));
  EXPECT_THAT(message(R"({"model_type": "llama", "hidden_size": 1048576, "intermediate_size": 4194304,
      "num_hidden_layers": 10000, "num_attention_heads": 64, "vocab_size": 134217728})"),
              HasSubstr("more than 2^50 parameters"));
  EXPECT_THAT(message(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 65536, "head_dim": 65536, "vocab_size": 1000})"),
              HasSubstr("heads x head dimension is 4294967296; wanted 1 to 4194304"));
}

TEST(HfConfigErrors, contradictions_are_named) {
  EXPECT_THAT(message(llama("num_attention_heads", "5")), HasSubstr("64 is not a multiple of 5 attention heads"));
  EXPECT_THAT(message(llama("num_key_value_heads", "3")), HasSubstr("4 is not a multiple of num_key_value_heads 3"));
  EXPECT_THAT(message(llama("n_layer", "3")), HasSubstr("num_hidden_layers is 2 but n_layer is 3; both mean the same"));
  EXPECT_THAT(message(R"({"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
      "num_attention_heads": 8, "vocab_size": 1000, "num_local_experts": 4, "num_experts_per_tok": 5})"),
              HasSubstr("a token visits 5 experts but there are only 4"));
}

TEST(HfConfigErrors, an_unknown_family_lists_the_known_and_suggests_the_nearest) {
  const Result<Architecture> model = read(llama("model_type", "\"lama\""));

  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("model_type 'lama' is not a known family; known are llama, "));
  EXPECT_THAT(model.error().message, HasSubstr("deepseek_v3"));
  EXPECT_EQ(model.error().hint, "did you mean llama?");
  EXPECT_EQ(read(llama("model_type", "\"mamba_hybrid_thing\"")).error().hint, "");
}

TEST(HfConfigErrors, every_family_has_a_config_in_the_catalogue) {
  EXPECT_EQ(config_of_each_family().size(), 58U);
  for (const auto& [family, config] : config_of_each_family()) EXPECT_EQ(message(config), "no error") << family;
}

TEST(HfConfigErrors, every_config_cut_at_every_byte_is_an_error) {
  for (const auto& [family, config] : config_of_each_family())
    for (std::size_t cut = 0; cut < config.size(); ++cut)
      ASSERT_FALSE(read(config.substr(0, cut))) << family << " at " << cut;
}

TEST(HfConfigErrors, every_key_replaced_by_anything_is_an_error_or_a_bounded_model) {
  const char* kValues[] = {"0",
                           "-1",
                           "1",
                           "2147483648",
                           "4611686018427387904",
                           "9223372036854775808",
                           "1e300",
                           "0.5",
                           "\"x\"",
                           "[]",
                           "[1]",
                           "[\"x\"]",
                           "{}",
                           "{\"a\": 1}",
                           "true",
                           "null"};
  for (const auto& [family, config] : config_of_each_family()) {
    const Node whole = *document::parse_json(config);
    for (std::size_t key = 0; key < whole.members.size(); ++key) {
      for (const char* value : kValues) {
        Node edited = whole;
        edited.members[key].second = document::parse_json(fmt::format("[{}]", value))->items[0];

        const Result<Architecture> model = read_hf_config(edited);

        if (!model) continue;
        ASSERT_TRUE(validate(*model));
        const Parameters count = count_parameters(*model);
        ASSERT_GT(count.total, 0) << family << " " << whole.members[key].first << " = " << value;
        ASSERT_GE(count.total, count.active);
        ASSERT_LE(count.total, 2 * limits::kParameters);
      }
    }
  }
}

TEST(HfConfigErrors, every_key_removed_is_an_error_or_a_default) {
  for (const auto& [family, config] : config_of_each_family()) {
    const Node whole = *document::parse_json(config);
    for (std::size_t key = 0; key < whole.members.size(); ++key) {
      Node edited = whole;
      edited.members.erase(edited.members.begin() + static_cast<std::ptrdiff_t>(key));
      if (const Result<Architecture> model = read_hf_config(edited)) {
        EXPECT_TRUE(validate(*model)) << family << " without " << whole.members[key].first;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::model
