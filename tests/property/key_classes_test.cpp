// SPDX-License-Identifier: Apache-2.0
// Every key is turned and held to the class in its row: it moves bytes, seconds, both or neither. The jobs are small,
// one for each mechanism that some key belongs to, so that every key has a job in which it can act.
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "job/keys.h"
#include "job/request.h"
#include "lever/price.h"

namespace plimsoll {
namespace {

using job::KeyInfo;
using job::Moves;
using job::Settings;

constexpr const char* kDense =
    "num_layers=8 hidden_size=1024 ffn_hidden_size=3072 num_attention_heads=16 num_query_groups=4 "
    "group_query_attention=true vocab_size=32000 position_embedding_type=rope max_position_embeddings=8192 "
    "normalization=RMSNorm swiglu=true add_bias_linear=false hidden_dropout=0 attention_dropout=0 seq_length=2048 ";
constexpr const char* kExperts = "num_moe_experts=8 moe_router_topk=2 moe_ffn_hidden_size=1024 ";
constexpr const char* kLatent =
    "multi_latent_attention=true q_lora_rank=256 kv_lora_rank=128 qk_head_dim=64 qk_pos_emb_head_dim=32 v_head_dim=64 ";

// What a job starts from; a later word replaces an earlier one.
struct Base {
  const char* name;
  std::string words;
};

std::vector<Base> bases() {
  const std::string dense = kDense;
  const std::string experts = dense + kExperts;
  const std::string lm = dense + "framework=megatron-lm gpu=h100 bf16=true micro_batch_size=2 global_batch_size=32 ";
  const std::string moe = lm + kExperts;
  const std::string plain = lm +
                            "gpus=2 swiglu=false add_bias_linear=true hidden_dropout=0.1 attention_dropout=0.1 "
                            "transformer_impl=local attention_backend=unfused "
                            "position_embedding_type=learned_absolute";
  const std::string bridge = dense + "framework=megatron-bridge gpu=h100 micro_batch_size=2 global_batch_size=32 ";
  const std::string hf = "model=llama3.2-1b num_layers=2 gpu=h100 bf16=true micro_batch_size=2 seq_length=1024 gpus=2 ";
  return {
      {"megatron",
       lm + "gpus=16 tensor_model_parallel_size=2 pipeline_model_parallel_size=2 sequence_parallel=true "
            "use_distributed_optimizer=true overlap_grad_reduce=true overlap_param_gather=true tp_comm_overlap=true"},
      {"plain", plain},
      {"one kernel's softmax", plain + " attention_softmax_in_fp32=true"},
      {"PyTorch's softmax", plain + " masked_softmax_fusion=false"},
      {"interleaved",
       lm + "gpus=32 pipeline_model_parallel_size=4 virtual_pipeline_model_parallel_size=2 context_parallel_size=2 "
            "micro_batch_size=1 use_distributed_optimizer=true defer_embedding_wgrad_compute=true"},
      {"all in the warm-up", lm + "gpus=4 pipeline_model_parallel_size=4 virtual_pipeline_model_parallel_size=2 "
                                  "micro_batch_size=1 global_batch_size=4 overlap_p2p_comm=true"},
      {"experts", moe + "gpus=16 tensor_model_parallel_size=2 expert_model_parallel_size=4 moe_grouped_gemm=true "
                        "expert_tensor_parallel_size=1 use_distributed_optimizer=true sequence_parallel=true "
                        "moe_shared_expert_intermediate_size=1024"},
      {"capacity", moe + "gpus=8 expert_model_parallel_size=4 moe_grouped_gemm=true moe_expert_capacity_factor=1.5"},
      {"uneven experts", moe + "gpus=8 num_layers=9 expert_model_parallel_size=2"},
      {"latent", moe + kLatent +
                     "gpus=8 expert_model_parallel_size=8 mtp_num_layers=1 moe_grouped_gemm=true "
                     "recompute_granularity=selective recompute_modules=[mla_up_proj,moe_act]"},
      {"overlapped experts",
       moe + "gpus=16 pipeline_model_parallel_size=2 virtual_pipeline_model_parallel_size=2 micro_batch_size=1 "
             "expert_model_parallel_size=4 moe_grouped_gemm=true overlap_moe_expert_parallel_comm=true"},
      {"hybrid", moe + "gpus=8 hybrid_layer_pattern=M-M*EM-/*E/*E expert_model_parallel_size=2 moe_grouped_gemm=true "
                       "squared_relu=true moe_latent_size=512 position_embedding_type=none micro_batch_size=1"},
      {"hybrid by ratios", lm + "gpus=8 num_layers=8 hybrid_attention_ratio=0.25 hybrid_mlp_ratio=0.25 "
                                "mtp_num_layers=1 mtp_hybrid_override_pattern=*-"},
      {"whole layers again",
       lm + "gpus=8 tensor_model_parallel_size=2 recompute_granularity=full recompute_method=block "
            "recompute_num_layers=2 use_precision_aware_optimizer=true use_distributed_optimizer=true"},
      {"graphs", lm + "gpus=8 tensor_model_parallel_size=2 cuda_graph_impl=transformer_engine "
                      "cuda_graph_modules=[attn,mlp] use_distributed_optimizer=true"},
      {"fp8", bridge + "gpus=16 tensor_model_parallel_size=2 pipeline_model_parallel_size=2 fp8=hybrid "
                       "fp8_recipe=tensorwise"},
      {"fp8, GPU-bound", bridge + "gpus=8 fp8=hybrid fp8_recipe=tensorwise seq_length=32768"},
      {"first and last in bf16", bridge + "gpus=8 fp8=hybrid fp8_recipe=tensorwise first_last_layers_bf16=true"},
      {"mxfp8", bridge + "gpus=8 gpu=b200 fp8=e4m3 fp8_recipe=mxfp8 fp8_param_gather=true"},
      {"fp4", bridge + "gpus=8 gpu=b200 fp4=e2m1"},
      {"Megatron-FSDP", bridge + "gpus=8 use_megatron_fsdp=true data_parallel_sharding_strategy=optim_grads_params "
                                 "tensor_model_parallel_size=1"},
      {"FSDP in groups", bridge + "gpus=8 use_megatron_fsdp=true num_distributed_optimizer_instances=2 "
                                  "data_parallel_sharding_strategy=optim_grads_params"},
      {"fine offload", bridge + "gpus=8 tensor_model_parallel_size=2 fine_grained_activation_offloading=true "
                                "offload_modules=[core_attn,attn_proj] optimizer_cpu_offload=true "
                                "optimizer_offload_fraction=0.5 use_precision_aware_optimizer=true"},
      {"layer offload", bridge + "gpus=8 tensor_model_parallel_size=2 cpu_offloading=true cpu_offloading_num_layers=4"},
      {"Bridge LoRA", bridge + "gpus=8 tensor_model_parallel_size=2 peft=lora lora_rank=16"},
      {"padded vocabulary", bridge + "gpus=4 tensor_model_parallel_size=4 vocab_size=32004"},
      {"SGD", lm + "gpus=4 optimizer=sgd sgd_momentum=0.9"},
      {"T5", lm + "gpus=2 model_class=t5 hidden_size=4096 ffn_hidden_size=16384 num_attention_heads=32 "
                  "micro_batch_size=16 decoder_seq_length=512 swiglu=false add_bias_linear=true "
                  "position_embedding_type=learned_absolute"},
      {"BERT", lm + "gpus=2 model_class=bert swiglu=false add_bias_linear=true "
                    "position_embedding_type=learned_absolute"},
      {"images", std::string("model=") + PLIMSOLL_SOURCE_DIR +
                     "/tests/data/models/tiny-qwen2-vl/config.json framework=transformers gpu=h100 bf16=true gpus=1 "
                     "micro_batch_size=128 seq_length=4096 "},
      {"tower", hf + "framework=transformers vision_tower=openai/clip-vit-large-patch14-336 "
                     "mm_projector_type=mlp2x_gelu micro_batch_size=16 gpus=1 "},
      {"rewards", hf + "framework=transformers num_labels=1 value_head=true micro_batch_size=16 gpus=1 "},
      {"chosen layers", hf + "framework=transformers trainable_layers=1 teacher_model=llama3.2-3b "},
      {"Trainer", hf + "framework=transformers gradient_accumulation_steps=2 "},
      {"writes", hf + "framework=transformers eval_micro_batch_size=64 eval_generated_tokens=4096 "},
      {"Trainer saves whole", hf + "framework=fsdp2 gpus=8 state_dict_type=full "},
      {"Trainer in fp32", hf + "framework=transformers bf16=false load_dtype=fp32 "},
      {"8B",
       "model=llama3-8b num_layers=4 framework=megatron-lm gpu=h100 bf16=true seq_length=4096 micro_batch_size=2 "
       "global_batch_size=64 gpus=16 tensor_model_parallel_size=2 pipeline_model_parallel_size=2 "
       "use_distributed_optimizer=true sequence_parallel=true "},
      {"Trainer, 8-bit Adam", hf + "framework=transformers optimizer=adamw_8bit "},
      {"Trainer LoRA", hf + "framework=transformers peft=lora lora_rank=16 optimizer=adamw_8bit "},
      {"Trainer LoRA, ends saved",
       hf + "framework=transformers peft=lora lora_rank=16 modules_to_save=[embed_tokens,lm_head] "},
      {"Trainer LoRA, biases", hf + "model=gpt2 num_layers=4 framework=transformers peft=lora lora_rank=16 "},
      {"GaLore", hf + "framework=transformers gpus=1 optimizer_implementation=loop projection_rank=64 "
                      "optim_target_modules=[attn] "},
      {"APOLLO", hf + "framework=transformers gpus=1 optimizer_implementation=loop projection_rank=64 "
                      "random_projection=true optim_target_modules=[attn] "},
      // An output of its own: one that is tied to the embedding is no linear that a filter could name.
      {"float8", hf + "model=llama3-8b num_layers=2 framework=torchtitan gpus=8 fp8=hybrid fp8_recipe=tensorwise "
                      "recompute_granularity=none "},
      {"preferences", hf + "framework=transformers gpus=1 preference_loss=true reference_model=true "},
      {"Bridge LoRA, sequence parallel", bridge +
                                             "gpus=8 tensor_model_parallel_size=2 sequence_parallel=true peft=lora "
                                             "lora_rank=16 lora_target_modules=[linear_qkv,linear_fc1]"},
      {"windowed", lm + "gpus=4 window_size=(255,0)"},
      // Enough tokens that the GPU, not the host, sets the pace: what only kernels or messages feel shows here.
      {"windowed, busy", lm + "gpus=4 window_size=(255,0) seq_length=32768 max_position_embeddings=32768"},
      {"experts, busy",
       moe +
           "gpus=16 expert_model_parallel_size=8 moe_grouped_gemm=true seq_length=32768 max_position_embeddings=32768"},
      {"dropout", lm + "gpus=4 swiglu=false add_bias_linear=true hidden_dropout=0.1 attention_dropout=0.1"},
      {"ends counted",
       lm + "num_layers=7 gpus=4 pipeline_model_parallel_size=2 account_for_loss_in_pipeline_split=true"},
      {"DeepEP", moe + "gpus=8 expert_model_parallel_size=8 moe_grouped_gemm=true moe_token_dispatcher_type=flex "
                       "moe_flex_dispatcher_backend=deepep"},
      {"chunked loss", hf + "framework=torchtitan gpus=8 loss=chunked "},
      {"FSDP2 keeps", hf + "framework=fsdp2 gpus=8 num_layers=4 reshard_after_forward=false "},
      {"wide ZeRO-3",
       "model=llama3-8b num_layers=4 gpu=h100 bf16=true micro_batch_size=1 seq_length=1024 gpus=8 "
       "framework=deepspeed zero_stage=3 gradient_checkpointing=true "},
      {"checkpointed LoRA", hf + "framework=transformers peft=lora lora_rank=16 gradient_checkpointing=true "
                                 "offload_checkpointed_inputs=true "},
      {"Trainer evaluates",
       hf + "framework=transformers eval_micro_batch_size=4 eval_seq_length=1024 eval_batches_kept=8 "},
      {"Trainer, 4 bit", hf + "framework=transformers peft=lora lora_rank=16 load_in_4bit=true "
                              "gradient_checkpointing=true paged_optimizer=false optimizer=adamw_8bit "},
      {"FSDP2", hf + "framework=fsdp2 gpus=8 gradient_accumulation_steps=2 "},
      {"ZeRO-1", hf + "framework=deepspeed gpus=8 zero_stage=1 "},
      {"ZeRO-2 and host", hf + "framework=deepspeed gpus=8 zero_stage=2 offload_optimizer_device=cpu "},
      {"ZeRO-3", hf + "framework=deepspeed gpus=16 zero_stage=3 gradient_accumulation_steps=2 "},
      {"ZeRO-3 and host", hf + "framework=deepspeed gpus=8 zero_stage=3 offload_optimizer_device=cpu "
                               "offload_param_device=cpu "},
      {"ZeRO-3 and NVMe", hf + "framework=deepspeed gpus=8 zero_stage=3 offload_optimizer_device=nvme "
                               "offload_param_device=nvme "},
      {"torchtitan", hf + "framework=torchtitan gpus=16 tensor_model_parallel_size=2 num_layers=8 "
                          "pipeline_model_parallel_size=2 "},
      {"torchtitan, by operation", hf + "framework=torchtitan gpus=8 recompute_granularity=selective-ops "},
  };
}

Settings settings_of(const std::string& words) {
  std::map<std::string, std::string> found;
  std::vector<std::string> order;
  for (const std::string_view word : split(words, ' ')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string key(word.substr(0, equals));
    if (!found.contains(key)) order.push_back(key);
    found[key] = std::string(word.substr(equals + 1));
  }
  Settings settings;
  for (const std::string& key : order) settings.emplace_back(key, found[key]);
  return settings;
}

// What a price depends on: the bytes of every rank and of the host, and the seconds.
struct Outcome {
  std::string bytes;
  std::string seconds;
};

std::optional<Outcome> outcome_of(const job::Request& request) {
  const auto job = job::resolve(request);
  if (!job) return std::nullopt;
  memory::AskedRanks every;
  every.all = true;
  const auto price = lever::price(*job, {}, every);
  if (!price) return std::nullopt;
  Outcome outcome;
  for (const memory::RankAnswer& rank : price->memory.ranks) {
    for (const memory::Row& row : rank.table) outcome.bytes += fmt::format("{}={} ", row.name, row.bytes);
    for (const memory::PhasePeak& phase : rank.phases)
      outcome.bytes += fmt::format("{}/{} ", phase.peak_allocated, phase.allocated_after);
    outcome.bytes +=
        fmt::format("requested {} host {} nvme {};", rank.peak_requested, rank.host_bytes, rank.nvme_bytes);
  }
  const memory::Host& host = price->memory.host;
  outcome.bytes += fmt::format("host {} of {}, {}", host.bytes_per_node, host.capacity, host.fits);
  outcome.seconds = fmt::format("{:.9g} {:.9g}", price->time.seconds, price->time.tokens_per_second_per_gpu);
  return outcome;
}

// Values to try: all names of a choice, both truths, numbers that differ in kind.
std::vector<std::string> values_of(const KeyInfo& key) {
  static const std::map<std::string, std::vector<std::string>> kOwn = {
      {"recompute_modules", {"[core_attn]", "[layernorm,mlp]", "[moe_act]"}},
      {"offload_modules", {"[core_attn]", "[attn_norm]"}},
      {"cuda_graph_modules", {"[attn]"}},
      {"lora_target_modules", {"[linear_qkv]", "[q_proj]", "all-linear"}},
      {"modules_to_save", {"[embed_tokens]", "[lm_head]"}},
      {"exclude_modules", {"[v_proj]"}},
      {"rank_pattern", {"q_proj=64"}},
      {"optim_target_modules", {"[mlp]"}},
      {"float8_filter", {"[output]"}},
      {"pipeline_model_parallel_layout", {"Et*3|t*5L"}},
      {"hybrid_layer_pattern", {"MM-*E"}},
      {"mtp_hybrid_override_pattern", {"M"}},
      {"moe_layer_freq", {"2", "([0]*1+[1]*7)"}},
      {"window_size", {"(255,0)"}},
      {"cp_comm_type", {"a2a", "all_gather"}},
      {"gpu", {"h200", "a100"}},
      {"fp8", {"hybrid", "none"}},
      {"optimizer", {"sgd", "adamw_8bit", "adafactor"}},
      {"account_for_embedding_in_pipeline_split", {"true account_for_loss_in_pipeline_split=false"}},
      {"account_for_loss_in_pipeline_split", {"false account_for_embedding_in_pipeline_split=true"}},
      {"moe_imbalance", {"2", "1.5"}},
      {"moe_token_dispatcher_type", {"allgather", "alltoall"}},
      {"moe_flex_dispatcher_backend", {"hybridep", "deepep"}},
      {"eval_accumulation_steps", {"1", "4"}},
      {"resume_from_checkpoint", {"true", "out/checkpoint-500"}},
      {"sample_lengths", {"[100,200]"}},
      {"reshard_after_forward", {"true", "false", "2"}},
      {"tokenizer_type", {"NullTokenizer"}},
      {"image_height", {"672"}},
      {"vision_tower", {"google/siglip-so400m-patch14-384"}},
      {"mm_projector_type", {"linear", "mlp_downsample"}},
      {"teacher_model", {"llama3-8b"}},
      {"trainable_parameters", {"model.layers.1.mlp", "model.embed_tokens"}},
      {"image_width", {"672"}},
      {"gpu_memory", {"40GiB"}},
      {"host_memory", {"1GiB", "2TiB"}},
      {"nvme", {"1GiB", "100TiB"}},
      {"moe_enable_deepep", {"true moe_token_dispatcher_type=flex moe_flex_dispatcher_backend=hybridep", "true"}},
  };
  if (const auto own = kOwn.find(key.name); own != kOwn.end()) return own->second;
  if (key.type == "boolean") return {"true", "false"};
  if (key.type.starts_with("integer")) return {"2", "1", "4", "0", "16", "4096", "1000000"};
  if (key.type.starts_with("number")) return {"0", "0.25", "1", "0.1", "2"};
  std::vector<std::string> choices;
  for (const std::string_view choice : split(key.type, ',')) choices.emplace_back(trim(choice));
  return choices;
}

struct Turned {
  std::string bytes;    // a job and value that moved them
  std::string seconds;  // the same for seconds
  bool ran = false;
};

Turned turn(const KeyInfo& key, const std::vector<std::pair<std::string, job::Request>>& requests,
            const std::vector<Outcome>& before) {
  Turned turned;
  for (std::size_t i = 0; i < requests.size(); ++i)
    for (const std::string& value : values_of(key)) {
      // "true other_key=false": what has to change with it.
      const auto after = outcome_of(requests[i].second.with(settings_of(key.name + "=" + value)));
      if (!after) continue;
      turned.ran = true;
      const std::string where = fmt::format("{} = {} in '{}'", key.name, value, requests[i].first);
      if (turned.bytes.empty() && after->bytes != before[i].bytes) turned.bytes = where;
      if (turned.seconds.empty() && after->seconds != before[i].seconds) turned.seconds = where;
      if (!turned.bytes.empty() && !turned.seconds.empty()) return turned;
    }
  return turned;
}

TEST(KeyClasses, every_key_moves_what_its_row_says) {
  std::vector<std::pair<std::string, job::Request>> requests;
  std::vector<Outcome> before;
  for (const Base& base : bases()) {
    const auto request = job::read_request({}, {});
    ASSERT_TRUE(request) << to_string(request.error());
    job::Request made = request->with(settings_of(base.words));
    const auto job = job::resolve(made);
    ASSERT_TRUE(job) << base.name << ": " << to_string(job.error());
    auto outcome = outcome_of(made);
    ASSERT_TRUE(outcome) << base.name;
    requests.emplace_back(base.name, std::move(made));
    before.push_back(*std::move(outcome));
  }
  for (const KeyInfo& key : job::key_table()) {
    const Turned turned = turn(key, requests, before);
    const Moves found = !turned.bytes.empty() ? (!turned.seconds.empty() ? Moves::kBoth : Moves::kBytes)
                                              : (!turned.seconds.empty() ? Moves::kSeconds : Moves::kNeither);
    EXPECT_TRUE(turned.ran) << key.name << ": no job takes any value of it";
    EXPECT_EQ(job::name_of(found), job::name_of(key.moves))
        << key.name << ": bytes by " << turned.bytes << ", seconds by " << turned.seconds;
  }
}

}  // namespace
}  // namespace plimsoll
