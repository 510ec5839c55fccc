// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/hf_config.h"
#include "model/unmodelled.h"

namespace plimsoll::model {
namespace {

std::int64_t of(const std::string& text, std::int64_t width = 2048) {
  return unmodelled_parameters(document::parse_json(text).value(), width);
}

// google/gemma-3n: about 300 and 680 million, as its cards say.
TEST(Unmodelled, towers_are_as_large_as_their_files_say) {
  EXPECT_NEAR(static_cast<double>(of(R"({"architecture": "mobilenetv5_300m_enc", "hidden_size": 2048,
    "vocab_size": 128, "vocab_offset": 262144})")),
              304e6, 1e6);
  EXPECT_NEAR(static_cast<double>(of(R"({"hidden_size": 1536, "conf_num_hidden_layers": 12, "conf_conv_kernel_size": 5,
    "vocab_size": 128, "vocab_offset": 262272})")),
              683e6, 2e6);
  // A SigLIP of 400 million.
  EXPECT_NEAR(
      static_cast<double>(of(R"({"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304})", 0)), 411e6,
      2e6);
}

TEST(Unmodelled, nothing_is_made_of_what_a_file_does_not_say) {
  for (const char* text : {"{}", "[]", "3", R"({"hidden_size": -4, "num_hidden_layers": 3})",
                           R"({"hidden_size": 99999999999, "num_hidden_layers": 3})", R"({"architecture": "300m"})",
                           R"({"architecture": "x_m_999999999m", "hidden_size": 8})"})
    EXPECT_LE(of(text), 300'000'000) << text;
  EXPECT_EQ(of("{}"), 0);
}

TEST(Unmodelled, a_part_without_sizes_is_named_all_the_same) {
  const auto model = read_hf_config(document::parse_json(R"({"model_type": "llama", "hidden_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
    "audio_config": {}})")
                                        .value());
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->unmodelled, 0);
  EXPECT_THAT(model->warnings, testing::Contains(testing::HasSubstr("audio_config")));
}

}  // namespace
}  // namespace plimsoll::model
