// SPDX-License-Identifier: Apache-2.0
// The index of a checkpoint agrees with the config beside it, or the difference is said in numbers.
#include "model/safetensors_index.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "model/catalog.h"
#include "model/hf_config.h"
#include "model/parameters.h"

namespace plimsoll::model {
namespace {

using document::Node;
using document::parse_json;
using testing::HasSubstr;

Node file(const std::string& name) {
  return *parse_json(*read_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/models/" + name));
}

SafetensorsIndex index_of(std::int64_t bytes, std::vector<std::string> tensors = {"w"}) {
  return {.total_size = bytes, .tensors = std::move(tensors), .files = 1};
}

std::string verdict(const SafetensorsIndex& index, const Architecture& model, const std::string& config) {
  const Result<std::string> note = check_safetensors_index(index, model, *parse_json(config));
  if (!note) return note.error().message;
  return note->empty() ? "agrees" : *note;
}

constexpr const char* kBf16 = R"({"torch_dtype": "bfloat16"})";

TEST(SafetensorsIndex, of_a_real_layout_agrees_with_its_config) {
  const Node root = file("tiny-llama/model.safetensors.index.json");
  const Node config = file("tiny-llama/config.json");

  ASSERT_TRUE(looks_like_safetensors_index(root));
  const Result<SafetensorsIndex> index = read_safetensors_index(root);
  ASSERT_TRUE(index) << to_string(index.error());
  EXPECT_EQ(index->tensors.size(), 21U);
  EXPECT_EQ(index->files, 2);
  EXPECT_EQ(index->total_size, 2 * count_parameters(*read_hf_config(config)).total);
  EXPECT_EQ(*check_safetensors_index(*index, *read_hf_config(config), config), "");
}

TEST(SafetensorsIndex, a_disagreement_says_both_numbers) {
  const Architecture model = *find_model("llama3-8b");
  const std::string text = verdict(index_of(13'476'835'328), model, kBf16);

  EXPECT_THAT(text, HasSubstr("13,476,835,328 bytes"));
  EXPECT_THAT(text, HasSubstr("8,030,261,248 parameters of 2 bytes each"));
  EXPECT_THAT(verdict(index_of(8'030'261'248 * 2 + 1), model, kBf16), HasSubstr("total_size"));
}

TEST(SafetensorsIndex, the_stored_type_decides_the_size) {
  const Architecture model = *find_model("llama3-8b");
  const std::int64_t count = 8'030'261'248;

  EXPECT_EQ(verdict(index_of(2 * count), model, R"({"dtype": "float16"})"), "agrees");
  EXPECT_EQ(verdict(index_of(4 * count), model, R"({"torch_dtype": "torch.float32"})"), "agrees");
  EXPECT_EQ(verdict(index_of(2 * count), model, "{}"), "agrees");
  EXPECT_EQ(verdict(index_of(4 * count), model, "{}"), "agrees");
  EXPECT_THAT(verdict(index_of(4 * count), model, kBf16), HasSubstr("of 2 bytes each"));
  EXPECT_THAT(verdict(index_of(2 * count), model, R"({"torch_dtype": "int7"})"), HasSubstr("torch_dtype is 'int7'"));
  EXPECT_THAT(verdict(index_of(2 * count), model, R"({"torch_dtype": 16})"), HasSubstr("wanted a string"));
}

TEST(SafetensorsIndex, a_quantized_checkpoint_is_not_compared_and_says_so) {
  EXPECT_THAT(verdict(index_of(7), *find_model("deepseek-v3"),
                      R"({"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}})"),
              HasSubstr("quantized"));
}

TEST(SafetensorsIndex, a_stored_copy_of_a_tied_embedding_is_accepted) {
  const Architecture model = *find_model("falcon-40b");
  const std::int64_t count = count_parameters(model).total;

  EXPECT_EQ(verdict(index_of(2 * count), model, kBf16), "agrees");
  EXPECT_EQ(verdict(index_of(2 * (count + embedding_parameters(model))), model, kBf16), "agrees");
  EXPECT_THAT(verdict(index_of(2 * (count + 2 * embedding_parameters(model))), model, kBf16), HasSubstr("total_size"));
}

TEST(SafetensorsIndex, mtp_layers_and_their_copies_are_accepted) {
  const Architecture model = *find_model("glm-4.5");
  const Parameters count = count_parameters(model);

  EXPECT_EQ(verdict(index_of(2 * count.total), model, kBf16), "agrees");
  EXPECT_EQ(verdict(index_of(2 * (count.total + count.mtp)), model, kBf16), "agrees");
  EXPECT_EQ(verdict(index_of(2 * (count.total + count.mtp + 2 * embedding_parameters(model))), model, kBf16), "agrees");
  EXPECT_THAT(verdict(index_of(2 * (count.total + 2 * count.mtp)), model, kBf16), HasSubstr("total_size"));
}

TEST(SafetensorsIndex, an_mtp_layer_that_only_the_tensor_names_announce_is_accepted) {
  const Architecture model = *find_model("qwen3-next-80b-a3b");
  Architecture with_mtp = model;
  with_mtp.mtp_layers = 1;
  const std::int64_t bytes = 2 * (count_parameters(model).total + count_parameters(with_mtp).mtp);

  EXPECT_EQ(verdict(index_of(bytes, {"mtp.fc.weight"}), model, kBf16), "agrees");
  EXPECT_THAT(verdict(index_of(bytes), model, kBf16), HasSubstr("total_size"));
}

TEST(SafetensorsIndex, stored_buffers_are_accepted_by_name) {
  const Architecture model = *find_model("llama2-7b");
  const std::int64_t bytes = 2 * count_parameters(model).total;
  const std::string buffer = "model.layers.0.self_attn.rotary_emb.inv_freq";

  EXPECT_EQ(verdict(index_of(bytes + 64 * 4, {buffer}), model, kBf16), "agrees");
  EXPECT_THAT(verdict(index_of(bytes + 64 * 4), model, kBf16), HasSubstr("total_size"));
}

TEST(SafetensorsIndex, a_vision_part_leaves_only_the_lower_bound) {
  const Architecture model = *find_model("gemma3-4b");
  const std::string config = R"({"vision_config": {}, "text_config": {"torch_dtype": "bfloat16"}})";
  const std::int64_t bytes = 2 * count_parameters(model).total;

  EXPECT_THAT(verdict(index_of(bytes + 3'000'000'000), model, config), HasSubstr("vision_config"));
  EXPECT_THAT(verdict(index_of(bytes - 2), model, config), HasSubstr("total_size"));
}

TEST(SafetensorsIndex, broken_files_are_errors_that_name_the_key) {
  const auto message = [](const std::string& json) {
    const Result<SafetensorsIndex> index = read_safetensors_index(*parse_json(json));
    return index ? "no error" : index.error().message;
  };
  EXPECT_THAT(message("{}"), HasSubstr("metadata is missing"));
  EXPECT_THAT(message("[]"), HasSubstr("metadata is missing"));
  EXPECT_THAT(message(R"({"metadata": {}, "weight_map": 3})"), HasSubstr("weight_map is missing"));
  EXPECT_THAT(message(R"({"metadata": {}, "weight_map": {"w": "f"}})"), HasSubstr("metadata.total_size is missing"));
  for (const char* size : {"-1", "0", "\"x\"", "1.5", "1e30", "9223372036854775808", "null", "[]"})
    EXPECT_THAT(message(fmt::format(R"({{"metadata": {{"total_size": {}}}, "weight_map": {{"w": "f"}}}})", size)),
                HasSubstr("metadata.total_size is"));
  EXPECT_THAT(message(R"({"metadata": {"total_size": 8}, "weight_map": {}})"), HasSubstr("weight_map is empty"));
  EXPECT_THAT(message(R"({"metadata": {"total_size": 8}, "weight_map": {"w": 1}})"),
              HasSubstr("weight_map.w is an integer"));
  EXPECT_EQ(message(R"({"metadata": {"total_size": 8.0}, "weight_map": {"w": "f"}})"), "no error");
}

}  // namespace
}  // namespace plimsoll::model
