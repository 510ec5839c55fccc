// SPDX-License-Identifier: Apache-2.0
// What a config.json says about each layer: which keys a family reads, what it assumes where they are
// absent, and which layers differ.
#include "model/hf_config.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/parameters.h"
#include "model/vision.h"

namespace plimsoll::model {
namespace {

using testing::HasSubstr;

Result<Architecture> read(const std::string& json) {
  const Result<document::Node> node = document::parse_json(json);
  if (!node) return tl::make_unexpected(node.error());
  return read_hf_config(*node);
}

// A small config of llama-like names with further keys, as `"key": value, ...`.
std::string small(const std::string& model_type, const std::string& more = {}) {
  return fmt::format(R"({{"model_type": "{}", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000{}{}}})",
                     model_type, more.empty() ? "" : ", ", more);
}

std::vector<std::int64_t> windows(const Architecture& model) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < model.depth(); ++i) result.push_back(model.layer(i).attention.sliding_window);
  return result;
}

// One letter per layer: M for a mixture, d for a dense one.
std::string mixtures(const Architecture& model) {
  std::string result;
  for (std::int64_t i = 0; i < model.depth(); ++i) result += model.layer(i).ffn.is_moe() ? 'M' : 'd';
  return result;
}

using Windows = std::vector<std::int64_t>;

TEST(HfConfig, a_table_with_a_model_type_or_class_looks_like_a_config) {
  EXPECT_TRUE(looks_like_hf_config(*document::parse_json(R"({"model_type": "llama"})")));
  EXPECT_TRUE(looks_like_hf_config(*document::parse_json(R"({"architectures": ["LlamaForCausalLM"]})")));
  EXPECT_FALSE(looks_like_hf_config(*document::parse_json(R"({"model": "llama"})")));
  EXPECT_FALSE(looks_like_hf_config(*document::parse_json("[1]")));
}

TEST(HfConfig, positions_and_epsilon_are_read_from_old_and_new_files) {
  const Result<Architecture> old = read(small(
      "llama", R"("rope_theta": 5e5, "rms_norm_eps": 1e-6, "rope_scaling": {"rope_type": "llama3", "factor": 8.0})"));
  ASSERT_TRUE(old) << to_string(old.error());
  EXPECT_EQ(old->rope_base, 500'000);
  EXPECT_EQ(old->rope_scaling, "llama3");
  EXPECT_EQ(old->rope_factor, 8);
  EXPECT_EQ(old->norm_epsilon, 1e-6);
  const Result<Architecture> now = read(
      small("nemotron", R"("rope_theta": 10000, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"})"));
  ASSERT_TRUE(now) << to_string(now.error());
  EXPECT_EQ(now->rope_base, 10'000);
  EXPECT_EQ(now->rope_scaling, "");
  EXPECT_EQ(now->rope_share, 0.5);
  const Result<Architecture> silent = read(small("llama", R"("rope_theta": null, "rope_scaling": null)"));
  ASSERT_TRUE(silent) << to_string(silent.error());
  EXPECT_EQ(silent->rope_base, 0);
  EXPECT_EQ(silent->norm_epsilon, 0);
}

TEST(HfConfig, positions_that_are_no_numbers_or_contradict_are_errors) {
  for (const char* bad : {R"("rope_theta": "10000")", R"("rope_theta": -1)", R"("rope_theta": 1e300)",
                          R"("rope_theta": 10000, "rope_parameters": {"rope_theta": 500000})"}) {
    const Result<Architecture> model = read(small("llama", bad));
    ASSERT_FALSE(model) << bad;
    EXPECT_THAT(model.error().message, HasSubstr("rope_theta")) << bad;
  }
}

TEST(HfConfig, llama_reads_its_shape_and_ignores_the_rest) {
  const Result<Architecture> model =
      read(small("llama", R"("rope_theta": 5e5, "rms_norm_eps": 1e-5, "eos_token_id": [1, 2], "use_cache": true,
      "rope_scaling": {"factor": 8.0}, "attention_dropout": 0.1, "max_position_embeddings": 8192)"));

  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->model_type, "llama");
  EXPECT_EQ(model->hidden, 64);
  EXPECT_EQ(model->depth(), 6);
  EXPECT_EQ(model->kinds.size(), 1U);
  EXPECT_EQ(model->layer(0).attention.head_dim, 16);
  EXPECT_EQ(model->layer(0).attention.kv_heads, 2);
  EXPECT_EQ(model->max_positions, 8192);
  EXPECT_DOUBLE_EQ(model->attention_dropout, 0.1);
  EXPECT_FALSE(model->tied_embeddings);
  EXPECT_TRUE(model->warnings.empty());
}

TEST(HfConfig, a_class_name_stands_in_for_a_missing_model_type) {
  const std::string shape = R"("hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                               "num_attention_heads": 4, "vocab_size": 1000, "num_key_value_heads": 4)";
  EXPECT_EQ(read(R"({"architectures": ["Qwen2ForCausalLM"], )" + shape + "}")->model_type, "qwen2");
  EXPECT_THAT(read(R"({"architectures": ["WhisperModel"], )" + shape + "}").error().message,
              HasSubstr("architectures 'WhisperModel' is not a known family"));
}

TEST(HfConfig, head_dim_is_taken_when_stated_and_divided_only_when_absent) {
  EXPECT_EQ(read(small("mistral", R"("head_dim": 128)"))->layer(0).attention.head_dim, 128);
  EXPECT_EQ(read(small("llama", R"("head_dim": null)"))->layer(0).attention.head_dim, 16);
  EXPECT_EQ(read(small("qwen3"))->layer(0).attention.head_dim, 128);
  EXPECT_EQ(read(small("gemma2"))->layer(0).attention.head_dim, 256);
}

TEST(HfConfig, absent_key_value_heads_follow_the_family) {
  const auto kv_heads = [](const std::string& model_type, const std::string& more) {
    const Result<Architecture> model = read(fmt::format(
        R"({{"model_type": "{}", "hidden_size": 256, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 32, "vocab_size": 1000{}}})",
        model_type, more));
    return model ? model->layer(0).attention.kv_heads : -1;
  };
  EXPECT_EQ(kv_heads("llama", ""), 32);
  EXPECT_EQ(kv_heads("mistral", ""), 8);
  EXPECT_EQ(kv_heads("qwen2", ""), 32);
  EXPECT_EQ(kv_heads("qwen2", R"(, "num_key_value_heads": null)"), 32);
  EXPECT_EQ(kv_heads("glm", ""), 2);
  EXPECT_EQ(kv_heads("gemma2", ""), 4);
  EXPECT_EQ(kv_heads("starcoder2", ""), 2);
}

TEST(HfConfig, absent_tie_flags_follow_the_family) {
  EXPECT_FALSE(read(small("llama"))->tied_embeddings);
  EXPECT_TRUE(read(small("gemma"))->tied_embeddings);
  EXPECT_TRUE(read(small("starcoder2"))->tied_embeddings);
  EXPECT_TRUE(read(small("cohere"))->tied_embeddings);
  EXPECT_FALSE(read(small("starcoder2", R"("tie_word_embeddings": false)"))->tied_embeddings);
}

TEST(HfConfig, biases_follow_the_family) {
  EXPECT_TRUE(read(small("qwen2"))->layer(0).attention.qkv_bias);
  EXPECT_FALSE(read(small("qwen2"))->layer(0).attention.out_bias);
  EXPECT_TRUE(read(small("llama", R"("attention_bias": true)"))->layer(0).attention.out_bias);
  EXPECT_TRUE(read(small("glm"))->layer(0).attention.qkv_bias);
  EXPECT_FALSE(read(small("glm"))->layer(0).attention.out_bias);
  EXPECT_TRUE(read(small("llama", R"("mlp_bias": true)"))->layer(0).ffn.bias);
  EXPECT_TRUE(read(small("phi"))->head_bias);
}

TEST(HfConfig, sliding_windows_lie_on_the_layers_that_use_them) {
  EXPECT_EQ(windows(*read(small("mistral", R"("sliding_window": 32)"))), (Windows{32, 32, 32, 32, 32, 32}));
  EXPECT_EQ(windows(*read(small("mistral", R"("sliding_window": null)"))), (Windows{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(windows(*read(small("mistral"))), (Windows{4096, 4096, 4096, 4096, 4096, 4096}));
  EXPECT_EQ(windows(*read(small("gemma2", R"("sliding_window": 32)"))), (Windows{32, 0, 32, 0, 32, 0}));
  EXPECT_EQ(windows(*read(small("gemma3_text", R"("sliding_window": 32)"))), (Windows{32, 32, 32, 32, 32, 0}));
  EXPECT_EQ(windows(*read(small("gemma3_text", R"("sliding_window": 32, "sliding_window_pattern": 3)"))),
            (Windows{32, 32, 0, 32, 32, 0}));
  EXPECT_EQ(windows(*read(small("gpt_oss", R"("num_local_experts": 4, "num_experts_per_tok": 2)"))),
            (Windows{128, 0, 128, 0, 128, 0}));
}

TEST(HfConfig, qwen_uses_its_window_only_when_told_and_from_the_layer_told) {
  const std::string window = R"("sliding_window": 32, "max_window_layers": 4, "use_sliding_window": )";
  EXPECT_EQ(windows(*read(small("qwen2", window + "false"))), (Windows{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(windows(*read(small("qwen2", window + "true"))), (Windows{0, 0, 0, 0, 32, 32}));
}

TEST(HfConfig, a_list_of_layer_types_overrules_the_pattern) {
  const std::string types = R"("sliding_window": 32, "layer_types": ["full_attention", "full_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention"])";
  EXPECT_EQ(windows(*read(small("gemma2", types))), (Windows{0, 0, 32, 32, 0, 32}));

  EXPECT_THAT(read(small("gemma2", R"("layer_types": ["full_attention"])")).error().message,
              HasSubstr("layer_types has 1 entries; wanted one for each of the 6 layers"));
  EXPECT_THAT(read(small("gemma2", R"("layer_types": ["a", "b", "c", "d", "e", "f"])")).error().message,
              HasSubstr("layer_types holds 'a'"));
}

TEST(HfConfig, deepseek_starts_dense_and_then_mixes) {
  const std::string latent = R"("q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
      "v_head_dim": 8, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 2,
      "moe_intermediate_size": 16, "first_k_dense_replace": 2)";
  EXPECT_EQ(mixtures(*read(small("deepseek_v3", latent))), "ddMMMM");
  EXPECT_EQ(read(small("deepseek_v3", latent))->layer(5).ffn.shared_width, 32);
  EXPECT_EQ(read(small("deepseek_v3", latent))->layer(5).ffn.width, 0);
  EXPECT_EQ(mixtures(*read(small("deepseek_v3", latent + R"(, "moe_layer_freq": 2)"))), "ddMdMd");
  EXPECT_EQ(mixtures(*read(small("deepseek_v3", latent + R"(, "moe_layer_freq": [0, 0, 0, 1, 0, 1])"))), "dddMdM");
  EXPECT_EQ(mixtures(*read(small("deepseek_v3", latent + R"(, "mlp_layer_types": ["dense", "sparse", "sparse", "dense",
      "sparse", "sparse"])"))),
            "dMMdMM");
  EXPECT_THAT(read(small("deepseek_v3", latent + R"(, "moe_layer_freq": [0, 1])")).error().message,
              HasSubstr("moe_layer_freq has 2 entries"));
  EXPECT_THAT(read(small("deepseek_v3", latent + R"(, "moe_layer_freq": [0, 2, 1, 1, 1, 1])")).error().message,
              HasSubstr("moe_layer_freq is 2; wanted an integer from 0 to 1"));
}

TEST(HfConfig, the_query_rank_of_latent_attention_is_absent_null_or_stated) {
  const std::string latent = R"("kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
      "num_experts_per_tok": 2)";
  EXPECT_EQ(read(small("deepseek_v2", latent))->layer(0).attention.q_lora_rank, 1536);
  EXPECT_EQ(read(small("deepseek_v2", latent + R"(, "q_lora_rank": null)"))->layer(0).attention.q_lora_rank, 0);
  EXPECT_EQ(read(small("deepseek_v2", latent + R"(, "q_lora_rank": 7)"))->layer(0).attention.q_lora_rank, 7);
}

TEST(HfConfig, qwen_mixtures_skip_layers_by_step_and_by_list) {
  const std::string experts = R"("num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
      "shared_expert_intermediate_size": 24)";
  EXPECT_EQ(mixtures(*read(small("qwen2_moe", experts))), "MMMMMM");
  EXPECT_EQ(mixtures(*read(small("qwen2_moe", experts + R"(, "decoder_sparse_step": 2)"))), "dMdMdM");
  EXPECT_EQ(mixtures(*read(small("qwen2_moe", experts + R"(, "mlp_only_layers": [0, 5])"))), "dMMMMd");
  EXPECT_TRUE(read(small("qwen2_moe", experts))->layer(0).ffn.shared_gate);
  EXPECT_EQ(read(small("qwen3_moe", experts))->layer(0).ffn.shared_width, 0);
}

TEST(HfConfig, llama4_mixes_every_nth_layer_and_chunks_three_of_four) {
  const std::string shape = R"("intermediate_size_mlp": 256, "num_local_experts": 4, "num_experts_per_tok": 1,
      "attention_chunk_size": 512)";
  const Result<Architecture> model = read(small("llama4_text", shape + R"(, "interleave_moe_layer_step": 2)"));

  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(mixtures(*model), "dMdMdM");
  EXPECT_EQ(model->layer(0).ffn.width, 256);
  EXPECT_EQ(model->layer(1).ffn.shared_width, 128);
  EXPECT_EQ(windows(*model), (Windows{512, 512, 512, 0, 512, 512}));
  EXPECT_EQ(mixtures(*read(small("llama4_text", shape + R"(, "moe_layers": [2])"))), "ddMddd");
}

TEST(HfConfig, qwen3_next_has_full_attention_at_its_interval) {
  const Result<Architecture> model = read(small("qwen3_next", R"("num_experts": 8, "num_experts_per_tok": 2,
      "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "full_attention_interval": 3,
      "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_num_value_heads": 4, "linear_value_head_dim": 8,
      "linear_conv_kernel_dim": 4)"));

  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->layer(1).attention.kind, AttentionKind::kLinear);
  EXPECT_EQ(model->layer(2).attention.kind, AttentionKind::kGqa);
  EXPECT_TRUE(model->layer(2).attention.output_gate);
  EXPECT_EQ(model->layer(5).attention.kind, AttentionKind::kGqa);
}

TEST(HfConfig, multimodal_files_keep_the_language_model_under_text_config) {
  const std::string text = R"("text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
      "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024})";
  const Result<Architecture> model =
      read(R"({"model_type": "gemma3", "vision_config": {"hidden_size": 1152, "intermediate_size": 4304,
      "num_hidden_layers": 27, "num_attention_heads": 16, "image_size": 896, "patch_size": 14}, )" +
           text + "}");

  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->model_type, "gemma3_text");
  EXPECT_EQ(count_parameters(*model).total, 3'880'263'168);  // gemma3-4b: heads and rows are class defaults
  ASSERT_NE(model->vision, nullptr);
  EXPECT_EQ(model->vision->tokens(896, 896), 256);
}

TEST(HfConfig, a_text_config_takes_its_name_and_tie_flag_from_the_file_around_it) {
  const std::string shape = R"("hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
      "num_attention_heads": 4, "vocab_size": 1000)";
  const Result<Architecture> model =
      read(R"({"model_type": "llama", "tie_word_embeddings": true, "text_config": {)" + shape + "}}");

  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_TRUE(model->tied_embeddings);
  EXPECT_FALSE(read(R"({"model_type": "llama", "tie_word_embeddings": true, "text_config": {"tie_word_embeddings":
      false, )" + shape +
                    "}}")
                   ->tied_embeddings);
  EXPECT_THAT(read(R"({"model_type": "llama", "text_config": 3})").error().message,
              HasSubstr("text_config is an integer"));
}

TEST(HfConfig, gpt2_reads_its_own_names_and_dropouts) {
  const std::string shape = R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 1000,
      "n_positions": 128, "n_ctx": 128, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5)";
  const Result<Architecture> model = read(shape + R"(, "resid_pdrop": 0.2, "embd_pdrop": 0.3, "attn_pdrop": 0.0})");

  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->layer(0).ffn.width, 256);
  EXPECT_EQ(model->layer(0).ffn.activation, Activation::kGeluNew);
  EXPECT_FALSE(model->layer(0).ffn.gated);
  EXPECT_TRUE(model->layer(0).attention.fused_qkv);
  EXPECT_EQ(model->position_rows, 128);
  EXPECT_FALSE(model->rope);
  EXPECT_TRUE(model->tied_embeddings);
  EXPECT_DOUBLE_EQ(model->hidden_dropout, 0.2);
  EXPECT_DOUBLE_EQ(model->embedding_dropout, 0.3);
  EXPECT_DOUBLE_EQ(model->attention_dropout, 0.0);
  EXPECT_DOUBLE_EQ(read(shape + "}")->hidden_dropout, 0.1);
}

TEST(HfConfig, activations_are_known_by_name) {
  const auto of = [](const std::string& key, const std::string& name) {
    return read(small("llama", fmt::format(R"("{}": "{}")", key, name)))->layer(0).ffn.activation;
  };
  EXPECT_EQ(of("hidden_act", "silu"), Activation::kSilu);
  EXPECT_EQ(of("hidden_act", "gelu"), Activation::kGelu);
  EXPECT_EQ(of("hidden_activation", "gelu_pytorch_tanh"), Activation::kGelu);
  EXPECT_EQ(of("hidden_act", "relu"), Activation::kRelu);
  EXPECT_EQ(read(small("nemotron"))->layer(0).ffn.activation, Activation::kSquaredRelu);
  EXPECT_THAT(read(small("llama", R"("hidden_act": "snake")")).error().message,
              HasSubstr("hidden_act is 'snake'; wanted"));
}

TEST(HfConfig, keys_that_public_files_state_differently_do_not_contradict) {
  const Result<Architecture> gemma =
      read(small("gemma", R"("hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh")"));
  ASSERT_TRUE(gemma) << to_string(gemma.error());
  EXPECT_EQ(gemma->layer(0).ffn.activation, Activation::kGelu);

  EXPECT_EQ(read(small("llama", R"("max_position_embeddings": 512, "seq_length": 128)"))->max_positions, 512);
}

TEST(HfConfig, mtp_layers_have_many_names) {
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules"})
    EXPECT_EQ(read(small("llama", fmt::format(R"("{}": 2)", key)))->mtp_layers, 2) << key;
  EXPECT_EQ(read(small("llama", R"("num_mtp_modules": 2, "use_mtp": false)"))->mtp_layers, 0);
}

TEST(HfConfig, opt_350m_has_a_narrow_embedding_and_no_final_norm) {
  const Result<Architecture> model = read(R"({"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096,
      "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 50272, "max_position_embeddings": 2048,
      "word_embed_proj_dim": 512, "do_layer_norm_before": false})");

  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(count_parameters(*model).total, 331'196'416);
}

const std::string kGraniteHybrid =
    R"({"model_type": "granitemoehybrid", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 8192, "mamba_n_heads": 16, "mamba_d_head": 64,
        "mamba_d_state": 64, "shared_intermediate_size": 512, )";

TEST(HfConfig, GraniteHybridMixesAndAttendsInTheOrderOfItsLayerTypes) {
  const auto model = read_hf_config(*document::parse_json(
      kGraniteHybrid + R"("num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": ["mamba", "attention"]})"));
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->layer(0).attention.kind, AttentionKind::kMamba2);
  EXPECT_EQ(model->layer(1).attention.kind, AttentionKind::kGqa);
  EXPECT_EQ(model->layer(0).ffn.experts, 4);
  EXPECT_EQ(model->layer(0).ffn.shared_width, 512);
  EXPECT_FALSE(model->rope);
}

TEST(HfConfig, GraniteHybridWithoutExpertsIsItsSharedMlp) {
  const auto model = read_hf_config(
      *document::parse_json(kGraniteHybrid + R"("num_local_experts": 0, "position_embedding_type": "rope"})"));
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->layer(0).ffn.width, 512);
  EXPECT_FALSE(model->layer(0).ffn.is_moe());
  EXPECT_TRUE(model->rope);
  EXPECT_EQ(model->layer(1).attention.kind, AttentionKind::kMamba2);
}

TEST(HfConfig, GraniteHybridWantsOneKnownTypePerLayer) {
  for (const char* types : {R"(["mamba"])", R"(["mamba", "convolution"])", R"(["mamba", "attention", "mamba"])"}) {
    const auto model = read_hf_config(*document::parse_json(kGraniteHybrid + "\"layer_types\": " + types + "}"));
    ASSERT_FALSE(model) << types;
    EXPECT_NE(to_string(model.error()).find("layer_types"), std::string::npos);
  }
}

}  // namespace
}  // namespace plimsoll::model
