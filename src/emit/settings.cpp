// SPDX-License-Identifier: Apache-2.0
#include "emit/settings.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "cluster/cluster.h"
#include "job/hybrid_model.h"
#include "job/keys.h"
#include "job/pipeline_layout.h"
#include "job/read.h"
#include "job/value.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::integer_node;
using job::Job;
using job::real_node;
using job::text_node;

namespace {

using Getter = Node (*)(const Job&);

template <class Enum>
Node name_node(Enum value) {
  return text_node(std::string(job::name_of(value)));
}

Node list_node(const std::vector<std::string>& words) {
  Node list;
  list.kind = Node::Kind::kArray;
  for (const std::string& word : words) list.items.push_back(text_node(word));
  return list;
}

Node recompute_modules(const Job& job) {
  const job::RecomputeModules& m = job.recompute.modules;
  std::vector<std::string> names;
  for (const auto& [on, name] :
       std::initializer_list<std::pair<bool, const char*>>{{m.core_attn, "core_attn"},
                                                           {m.layernorm, "layernorm"},
                                                           {m.mla_up_proj, "mla_up_proj"},
                                                           {m.mlp, "mlp"},
                                                           {m.moe, "moe"},
                                                           {m.moe_act, "moe_act"},
                                                           {m.shared_experts, "shared_experts"}})
    if (on) names.emplace_back(name);
  return list_node(names);
}

Node offload_modules(const Job& job) {
  const job::OffloadModules& m = job.offload.modules;
  std::vector<std::string> names;
  for (const auto& [on, name] : std::initializer_list<std::pair<bool, const char*>>{{m.attn_norm, "attn_norm"},
                                                                                    {m.qkv_linear, "qkv_linear"},
                                                                                    {m.core_attn, "core_attn"},
                                                                                    {m.attn_proj, "attn_proj"},
                                                                                    {m.mlp_norm, "mlp_norm"},
                                                                                    {m.expert_fc1, "expert_fc1"},
                                                                                    {m.moe_act, "moe_act"}})
    if (on) names.emplace_back(name);
  return list_node(names);
}

Node cp_comm_type(const Job& job) {
  std::vector<std::string> names;
  for (const job::CpCommType type : job.parallel.cp_comm_type) names.emplace_back(job::name_of(type));
  return list_node(names);
}

// What a user wrote for the key, where it is one of `words`: e4m3 and hybrid are one switch here, two in a run.
std::optional<std::string> stated(const Job& job, std::string_view key, std::initializer_list<std::string_view> words) {
  const auto found = job.stated.find(key);
  if (found == job.stated.end()) return std::nullopt;
  for (const std::string_view word : words)
    if (equals_ignoring_case(found->second, word)) return std::string(word);
  return std::nullopt;
}

Node reshard(const Job& job) {
  return job.sharding.reshard_to > 0 ? integer_node(job.sharding.reshard_to)
                                     : bool_node(job.sharding.reshard_after_forward);
}

Node dispatcher(const Job& job) {
  return job.asked.flex_dispatcher ? text_node("flex") : name_node(job.moe.dispatcher);
}

Node clip(const Job& job) {
  const auto found = job.stated.find("clip_grad");
  if (found != job.stated.end()) {
    const Node value = document::parse_scalar(found->second);
    if (value.is_number() && (value.as_real() > 0) == job.clip_grad) return value;
  }
  return real_node(job.clip_grad ? 1.0 : 0.0);
}

// [] is a list, too: what a file that says nothing has.
Node adapted_layers(const Job& job) {
  Node list;
  list.kind = Node::Kind::kArray;
  for (const std::int64_t layer : job.adapter.layers) list.items.push_back(integer_node(layer));
  return list;
}

Node ranks_by_name(const Job& job) {
  std::vector<std::string> words;
  for (const auto& [name, rank] : job.adapter.ranks) words.push_back(fmt::format("{}={}", name, rank));
  return list_node(words);
}

// Custom rows of the key table, which value_of() does not read.
const std::map<std::string_view, Getter>& custom_getters() {
  static const std::map<std::string_view, Getter> getters = {
      {"recompute_modules", recompute_modules},
      {"offload_modules", offload_modules},
      {"lora_target_modules", [](const Job& job) { return list_node(lora_targets(job)); }},
      {"layers_to_transform", adapted_layers},
      {"lora_bias", [](const Job& job) { return bool_node(job.adapter.own_bias); }},
      {"rank_pattern", ranks_by_name},
      {"trainable_token_indices", [](const Job& job) { return integer_node(job.adapter.trained_tokens); }},
      {"cp_comm_type", cp_comm_type},
      {"pipeline_model_parallel_layout",
       [](const Job& job) {
         // A hybrid model's pattern has it.
         const bool is_said = job.parallel.layout.empty() || job::is_hybrid(job.model);
         return is_said ? Node{} : text_node(job.parallel.layout);
       }},
      {"activation_memory_budget",
       [](const Job& job) {
         return job.recompute.memory_budget < 0 ? Node{} : real_node(job.recompute.memory_budget);
       }},
      {"moe_token_dispatcher_type", dispatcher},
      {"moe_router_dtype",
       [](const Job& job) {
         return job.moe.router_fp32 ? text_node(stated(job, "moe_router_dtype", {"fp64"}).value_or("fp32")) : Node{};
       }},
      {"attention_backend", [](const Job& job) { return name_node(job.kernels.attention); }},
      {"gpu", [](const Job& job) { return job.cluster.gpu.id.empty() ? Node{} : text_node(job.cluster.gpu.id); }},
      {"gpu_memory", [](const Job& job) { return integer_node(job.cluster.gpu.capacity); }},
      {"host_memory", [](const Job& job) { return integer_node(job.cluster.host_memory); }},
      {"nvme", [](const Job& job) { return integer_node(job.cluster.nvme); }},
      {"fp8",
       [](const Job& job) {
         return job.asked.fp8 || job.precision.fp8 != job::Fp8Recipe::kNone
                    ? text_node(stated(job, "fp8", {"e4m3"}).value_or("hybrid"))
                    : Node{};
       }},
      {"fp4", [](const Job& job) { return job.precision.fp4 ? text_node("e2m1") : Node{}; }},
      {"disable_parameter_transpose_cache",
       [](const Job& job) { return bool_node(!job.precision.fp8_transpose_cache); }},
      {"main_grads_dtype", [](const Job& job) { return name_node(job.optimizer.main_grads); }},
      {"sgd_momentum", [](const Job& job) { return real_node(job.optimizer.momentum ? 0.9 : 0.0); }},
      {"clip_grad", clip},
      {"reshard_after_forward", reshard},
      {"mics_shard_size", [](const Job& job) { return integer_node(job.sharding.mics_shard); }},
      {"outer_dp_sharding_strategy",
       [](const Job& job) { return text_node(job.sharding.outer_optim ? "optim" : "no_shard"); }},
  };
  return getters;
}

bool is_fsdp(const Job& job) {
  return job.sharding.kind == job::ShardingKind::kFsdp1 || job.sharding.kind == job::ShardingKind::kFsdp2;
}
bool is_zero(const Job& job) { return job.sharding.kind == job::ShardingKind::kZero; }
bool offloads_to_nvme(const Job& job) {
  return job.sharding.offload_optimizer == job::OffloadTarget::kNvme ||
         job.sharding.offload_param == job::OffloadTarget::kNvme;
}

// Whether a key of this job changes anything, as far as a switch beside it decides.
bool has_effect(const Job& job, std::string_view key) {
  const auto is = [key](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  const bool full = job.recompute.granularity == job::RecomputeGranularity::kFull;
  const bool by_ops = job.recompute.granularity == job::RecomputeGranularity::kSelectiveOps;
  if (is({"recompute_method", "recompute_num_layers", "distribute_saved_activations"})) return full;
  if (key == "recompute_every_nth_layer") return full || by_ops;
  if (key == "recompute_modules") return job.recompute.granularity == job::RecomputeGranularity::kSelective;
  if (is({"cpu_offloading_num_layers", "cpu_offloading_weights", "cpu_offloading_double_buffering"}))
    return job.offload.activations;
  if (is({"offload_modules", "activation_offload_fraction", "min_offloaded_tensor_size"}))
    return job.offload.fine_grained;
  if (key == "cp_comm_type") return job.parallel.context > 1;
  if (is({"overlap_p2p_comm", "deallocate_pipeline_outputs", "pipeline_schedule"})) return job.parallel.pipeline > 1;
  if (is({"overlap_p2p_comm_warmup_flush", "microbatch_group_size_per_vp_stage"}))
    return job.parallel.virtual_pipeline > 1;
  if (key == "wgrad_deferral_limit") return job.parallel.defer_embedding_wgrad;
  if (key == "tp_comm_overlap") return job.parallel.tensor > 1;
  if (is({"moe_imbalance", "moe_grouped_gemm", "moe_token_dispatcher_type", "moe_permute_fusion",
          "moe_expert_capacity_factor", "moe_pad_expert_input_to_capacity", "moe_router_dtype",
          "expert_model_parallel_size", "expert_tensor_parallel_size", "overlap_moe_expert_parallel_comm"}))
    return job.model.has_moe();
  if (is({"lora_rank", "lora_dropout", "lora_target_modules", "adapter_dtype", "load_in_4bit", "load_in_8bit",
          "modules_to_save", "ensure_weight_tying", "exclude_modules", "layers_to_transform", "rank_pattern",
          "trainable_token_indices", "adapter_bias", "lora_bias", "bnb_4bit_use_double_quant",
          "prepare_model_for_kbit_training", "enable_input_require_grads", "sequence_parallel_input_regather"}))
    return job.adapter.kind != job::AdapterKind::kNone;
  if (is({"fp8_recipe", "fp8_param_gather", "disable_parameter_transpose_cache", "reuse_grad_buf_for_mxfp8_param_ag",
          "first_last_layers_bf16"}))
    return job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4;
  if (is({"num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"})) return job.precision.first_last_layers_bf16;
  if (key == "main_grads_dtype" || key == "main_params_dtype" || key == "store_param_remainders")
    return job.optimizer.precision_aware;
  if (key == "sgd_momentum") return job.optimizer.kind == job::OptimizerKind::kSgd;
  if (key == "loss_chunks") return job.kernels.loss == job::LossKind::kChunked;
  if (key == "cuda_graph_modules") return job.kernels.cuda_graphs == job::CudaGraphs::kPerLayer;
  if (is({"eval_seq_length", "eval_batches_kept", "eval_logits_fp32"})) return job.batch.eval_micro_batch > 0;
  if (is({"reshard_after_forward", "reduce_dtype", "stored_dtype", "fsdp_cpu_offload", "sync_each_micro_batch",
          "fsdp_units"}))
    return is_fsdp(job);
  if (key == "reshard_head") return is_fsdp(job) && job.sharding.reshard_head;
  if (is({"data_parallel_sharding_strategy", "outer_dp_sharding_strategy", "fsdp_double_buffer",
          "init_model_with_meta_device", "megatron_fsdp_main_grads_dtype", "megatron_fsdp_main_params_dtype"}))
    return job.sharding.kind == job::ShardingKind::kMegatronFsdp;
  if (key == "gradient_as_bucket_view") return job.sharding.kind == job::ShardingKind::kDdp;
  if (key == "offload_optimizer_ratio") return job.sharding.offload_optimizer != job::OffloadTarget::kNone;
  if (is({"offload_optimizer_buffer_count", "offload_param_buffer_count", "offload_param_buffer_size",
          "offload_param_max_in_cpu"}))
    return is_zero(job) && offloads_to_nvme(job);
  if (is({"zero_stage", "offload_optimizer_device", "offload_param_device", "reduce_bucket_size",
          "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold", "stage3_max_live_parameters",
          "stage3_max_reuse_distance", "sub_group_size", "overlap_comm", "contiguous_gradients", "grad_accum_dtype",
          "zero_hpz_partition_size", "mics_shard_size"}))
    return is_zero(job);
  return true;
}

// Keys whose meaning another key holds: bundles, the frameworks' own switches, ways to pad.
bool is_said_by_others(std::string_view key) {
  constexpr std::string_view kOthers[] = {"recipe",
                                          "bf16",
                                          "fp16",
                                          "load_dtype",
                                          "recompute_activations",
                                          "gradient_checkpointing",
                                          "use_flash_attn",
                                          "bias_gelu_fusion",
                                          "bias_swiglu_fusion",
                                          "cross_entropy_loss_fusion",
                                          "cross_entropy_fusion_impl",
                                          "moe_flex_dispatcher_backend",
                                          "moe_enable_deepep",
                                          "use_megatron_fsdp",
                                          "use_torch_fsdp2",
                                          "gradient_accumulation_steps",
                                          "make_vocab_size_divisible_by",
                                          "should_pad_vocab",
                                          "shard_within_node",
                                          "num_layers_per_virtual_pipeline_stage",
                                          "optimizer_offload_fraction"};
  return std::find(std::begin(kOthers), std::end(kOthers), key) != std::end(kOthers);
}

const std::string& section_of(std::string_view key) {
  static const std::map<std::string, std::string, std::less<>> sections = [] {
    std::map<std::string, std::string, std::less<>> all;
    for (const job::KeyInfo& info : job::key_table()) all.emplace(info.name, info.section);
    return all;
  }();
  static const std::string none;
  const auto found = sections.find(key);
  return found == sections.end() ? none : found->second;
}

std::string text_of(const std::optional<Node>& value) { return value ? document::to_text(*value) : std::string("-"); }

// The job that these settings give, or nothing where they contradict each other.
std::optional<Job> tried(const Job& job, const Choice& choice, const std::vector<Setting>& settings) {
  Job trial = job::defaults_for(choice.framework);
  trial.derives = true;
  trial.environment = job.environment;
  trial.base_model = choice.base;
  for (const Setting& setting : choice.model)
    if (!job::set_key(trial, setting.key, setting.value)) return std::nullopt;
  for (const Setting& setting : settings)
    if (setting.key == "gpu" && !job::set_key(trial, setting.key, setting.value)) return std::nullopt;
  for (const Setting& setting : settings)
    if (setting.key != "gpu" && !job::set_key(trial, setting.key, setting.value)) return std::nullopt;
  if (!job::complete(trial)) return std::nullopt;
  return trial;
}

bool has(const std::vector<Setting>& settings, std::string_view key) {
  return std::any_of(settings.begin(), settings.end(), [key](const Setting& s) { return s.key == key; });
}

}  // namespace

std::vector<std::string> lora_targets(const Job& job) {
  if (!job.adapter.targets.empty()) return job.adapter.targets;
  if (job.is_megatron()) return {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"};
  // Facts other-frameworks-memory.md 3.1; dbrx and internlm2 have no row there and are counted by their one projection.
  constexpr std::pair<std::string_view, std::string_view> kFused[] = {
      {"gpt2", "c_attn"},
      {"gpt_neox", "query_key_value"},
      {"bloom", "query_key_value"},
      {"falcon", "query_key_value"},
      {"phi3", "qkv_proj"},
      {"internlm2", "wqkv"},
      {"dbrx", "Wqkv"},
  };
  for (const auto& [type, name] : kFused)
    if (job.model.model_type == type) return {std::string(name)};
  if (job.model.model_type == "phi") return {"q_proj", "v_proj", "fc1", "fc2"};
  return {"q_proj", "v_proj"};
}

std::optional<Node> held_value(const Job& job, std::string_view key) {
  const auto custom = custom_getters().find(key);
  if (custom != custom_getters().end()) return custom->second(job);
  return job::value_of(job, key);
}

std::optional<Node> meant_value(const Job& job, std::string_view key) {
  if (is_said_by_others(key)) return std::nullopt;
  if (key == "padded_vocab_size") return integer_node(job.vocab_rows);
  if (section_of(key) == "model") return std::nullopt;
  if (!has_effect(job, key)) return Node{};
  if (key == "sequence_parallel") return bool_node(job.parallel.sequence_parallel);
  if (key == "expert_tensor_parallel_size") return integer_node(job.expert_tensor());
  if (key == "global_batch_size") return integer_node(job.micro_batches * job.batch.micro_batch * job.data_parallel);
  if (key == "moe_token_dispatcher_type") return name_node(job.moe.dispatcher);
  if (key == "fp8_recipe") return name_node(job.precision.fp8);
  if (key == "fp8") return bool_node(job.precision.fp8 != job::Fp8Recipe::kNone);
  if (key == "optimizer_cpu_offload") return real_node(job.optimizer.cpu_offload_fraction);
  if (key == "microbatch_group_size_per_vp_stage")
    return integer_node(job.parallel.microbatch_group_size.value_or(job.parallel.pipeline));
  if (key == "clip_grad") return bool_node(job.clip_grad);
  if (key == "moe_router_dtype") return bool_node(job.moe.router_fp32);
  return held_value(job, key);
}

std::vector<std::string> differing_keys(const Job& wanted, const Job& found) {
  std::vector<std::string> keys;
  const bool by_hub_modules = wanted.kernels.implementation == job::Implementation::kTransformers;
  if (std::string key =
          model_difference(wanted.model, found.model, by_hub_modules, by_hub_modules ? 0 : wanted.batch.seq_length);
      !key.empty())
    keys.push_back(std::move(key));
  for (const std::string& key : job::key_names())
    if (text_of(meant_value(wanted, key)) != text_of(meant_value(found, key))) keys.push_back(key);
  return keys;
}

std::vector<Setting> chosen_settings(const Job& job, const Choice& choice) {
  const Job defaults = job::defaults_for(choice.framework);
  const auto is_always = [&choice](std::string_view key) {
    return std::find(choice.always.begin(), choice.always.end(), key) != choice.always.end();
  };
  const job::Parallel& parallel = job.parallel;
  std::vector<Setting> settings;
  for (const std::string& key : job::key_names()) {
    const bool is_model = section_of(key) == "model";
    const auto instead = std::find_if(choice.instead.begin(), choice.instead.end(),
                                      [&key](const Setting& setting) { return setting.key == key; });
    if (instead != choice.instead.end()) {
      settings.push_back(*instead);
      continue;
    }
    if (is_model || !choice.carries(key)) continue;
    const auto held = held_value(job, key);
    if (!held || held->is_null()) continue;
    const bool other_way = key == "virtual_pipeline_model_parallel_size" &&
                           (!parallel.layout.empty() || parallel.layers_per_virtual_stage.has_value());
    if (other_way) continue;
    const auto meant = meant_value(job, key);
    const bool is_given = job.has(key) || is_always(key);
    const bool differs = meant && !meant->is_null() && text_of(meant) != text_of(meant_value(defaults, key));
    if (!is_given && !differs) continue;
    if (meant && meant->is_null() && (is_always(key) || !choice.keeps_idle)) continue;
    // One of the two is on at most, and only Bridge has to be told that bf16 is not.
    const bool is_half = key == "bf16" || key == "fp16";
    if (is_half && !held->boolean && (key == "fp16" || !defaults.asked.bf16)) continue;
    // Fields that the framework derives hold what was given before; what they mean is the derived value.
    const bool derived = key == "sequence_parallel" || key == "expert_tensor_parallel_size" ||
                         (key == "global_batch_size" && !job.has("gradient_accumulation_steps")) ||
                         key == "fp8_recipe" || key == "microbatch_group_size_per_vp_stage";
    const bool meaningful = meant && !meant->is_null();
    settings.push_back({key, derived && meaningful ? *meant : *held});
  }
  if (job.optimizer.cpu_offload_fraction > 0 && choice.carries("optimizer_cpu_offload")) {
    std::erase_if(settings, [](const Setting& s) {
      return s.key == "optimizer_cpu_offload" || s.key == "optimizer_offload_fraction";
    });
    settings.push_back({"optimizer_cpu_offload", bool_node(true)});
    settings.push_back({"optimizer_offload_fraction", real_node(job.optimizer.cpu_offload_fraction)});
  }
  // What equals the default but would be derived otherwise (p2p overlap under virtual stages) is said, too.
  for (int round = 0; round < 3; ++round) {
    const auto trial = tried(job, choice, settings);
    if (!trial) break;
    bool added = false;
    for (const std::string& key : differing_keys(job, *trial)) {
      const auto held = held_value(job, key);
      if (!held || held->is_null() || has(settings, key) || section_of(key) == "model" || !choice.carries(key))
        continue;
      settings.push_back({key, *held});
      added = true;
    }
    if (!added) break;
  }
  for (std::size_t i = settings.size(); i-- > 0;) {
    const Setting setting = settings[i];
    if (job.has(setting.key) || is_always(setting.key) || setting.key == "gpu") continue;
    const auto before = tried(job, choice, settings);
    if (!before) break;
    std::vector<Setting> fewer = settings;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const auto after = tried(job, choice, fewer);
    if (after && differing_keys(*before, *after).empty()) settings = std::move(fewer);
  }
  return settings;
}

}  // namespace plimsoll::emit
