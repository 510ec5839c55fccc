// SPDX-License-Identifier: Apache-2.0
// NeMo-RL's YAML for what is no reinforcement learning: SFT and DPO over its two trainers, DTensor (FSDP2 of PyTorch)
// and Megatron core. Read in the repository at 7ea279a: examples/configs/sft.yaml, dpo.yaml, models/policy.
#include "framework/tools/nemo_rl.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "framework/tools/sections.h"
#include "framework/transformers/include.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

// Keys of policy.megatron_cfg that are Megatron's and have no row in its table.
const Alias kMegatronRows[] = {
    {"activation_checkpointing", kNoEffect},  // becomes recompute_granularity
    {"moe_enable_deepep", kNotModelled, "DeepEP's buffers are not counted"},
    {"defer_fp32_logits", kNoEffect},  // logits in fp32 in smaller pieces; they are counted whole
    {"mtp_num_layers", kKey, "mtp_num_layers"},
    {"freeze_moe_router", kNoEffect},
    {"use_fused_linear_logprobs", kNotModelled, "logits are counted whole"},
    {"use_linear_ce_fusion_loss", kNotModelled, "logits are counted whole"},
    {"linear_ce_fusion_chunk_size", kNoEffect},
    {"fused_linear_logprobs_chunk_size", kNoEffect},
    {"empty_unused_memory_level", kNoEffect},
    {"converter_type", kNoEffect},
    {"cp_normalize", kNoEffect},
    {"lora_dtype", kNoEffect},
    {"fp8_param", kKey, "fp8_param_gather"},
    {"use_custom_fsdp", kRefused, "Megatron-FSDP of NeMo-RL is not modelled"},
    {"data_parallel_sharding_strategy", kNoEffect},  // acts with use_custom_fsdp alone
    {"bf16", kNoEffect},                             // of the optimizer; policy.precision decides
    {"fp16", kNoEffect},
    {"params_dtype", kNoEffect},
};
constexpr std::string_view kMegatronNames = R"(
    enabled env_vars force_overwrite_initial_ckpt force_reconvert_from_hf moe_per_layer_logging use_gloo_process_groups
    track_moe_metrics moe_router_bias_update_rate moe_shared_expert_overlap pipeline_dtype cuda_graph_warmup_steps
    use_fused_weighted_squared_relu seq_aux_loss* sgd_momentum overlap_cpu_optimizer_d2h_h2d
    use_torch_optimizer_for_cpu_offload average_in_collective
)";

const std::vector<Alias>& megatron_names() {
  static const std::vector<Alias> table = with_names_without_effect(kMegatronRows, kMegatronNames);
  return table;
}

const Node* at(const Node& table, std::string_view key) {
  const Node* value = table.is_object() ? table.find(key) : nullptr;
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool is_on(const Node& table, std::string_view key) {
  const Node* value = at(table, key);
  return value != nullptr && !is_off(*value);
}

class Reader {
 public:
  Reader(const Node& root, Draft& draft) : root_(root), draft_(draft) {}

  Status read() {
    const Node* policy = at(root_, "policy");
    if (policy == nullptr || !policy->is_object()) return bad_input("policy: wanted a table");
    for (const std::string_view section : {"grpo", "ppo", "distillation", "on_policy_distillation", "gdpo"})
      if (at(root_, section) != nullptr)
        return bad_input(fmt::format("{}: this is reinforcement learning or distillation", section),
                         "plimsoll rl reads GRPO, PPO and distillation of NeMo-RL: plimsoll rl FILE");
    if (at(root_, "rm") != nullptr) draft_.assign("num_labels", integer_node(1), "rm");
    const Node* name = at(*policy, "model_name");
    if (name == nullptr || !name->is_string()) return bad_input("policy.model_name is not given");
    PLIMSOLL_TRY_STATUS(name_model(name->text, draft_));
    PLIMSOLL_TRY_STATUS(read_batch(*policy));
    PLIMSOLL_TRY_STATUS(read_cluster());
    const Node* megatron = at(*policy, "megatron_cfg");
    if (megatron != nullptr && is_on(*megatron, "enabled")) {
      read_megatron(*megatron);
      return read_precision(*policy, true);
    }
    draft_.framework = Framework::kFsdp2;
    draft_.vocabulary = Framework::kFsdp2;
    PLIMSOLL_TRY_STATUS(read_dtensor(at(*policy, "dtensor_cfg")));
    return read_precision(*policy, false);
  }

 private:
  void take(const Node& table, std::string_view section, std::string_view key, std::string_view canonical) {
    if (const Node* value = at(table, key))
      draft_.assign(std::string(canonical), *value, fmt::format("{}.{}", section, key));
  }

  // A preference pair is two sequences of the batch (nemo_rl/algorithms/dpo.py).
  Status read_batch(const Node& policy) {
    const bool is_pairs = at(root_, "dpo") != nullptr || at(root_, "rm") != nullptr;
    for (const auto& [key, canonical] : {std::pair{"train_global_batch_size", "global_batch_size"},
                                         std::pair{"train_micro_batch_size", "micro_batch_size"}}) {
      const Node* value = at(policy, key);
      if (value == nullptr) continue;
      auto number = to_integer(*value, Range{1, 1 << 24});
      if (!number) return bad_input(fmt::format("policy.{}: {}", key, number.error().message));
      draft_.assign(canonical, integer_node(*number * (is_pairs ? 2 : 1)), fmt::format("policy.{}", key));
    }
    take(policy, "policy", "max_total_sequence_length", "seq_length");
    if (at(root_, "rm") != nullptr) {
      draft_.notes.push_back(
          fmt::format("{}: rm: chosen and rejected answers are two sequences of a micro-batch; one score in place of "
                      "the vocabulary",
                      draft_.path));
    } else if (is_pairs)
      draft_.notes.push_back(fmt::format(
          "{}: DPO: chosen and rejected answers are two sequences of a micro-batch; the reference waits on the host",
          draft_.path));
    const Node* packing = at(policy, "sequence_packing");
    const Node* dynamic = at(policy, "dynamic_batching");
    for (const auto& [table, section] :
         {std::pair{packing, "sequence_packing"}, std::pair{dynamic, "dynamic_batching"}}) {
      if (table == nullptr || !is_on(*table, "enabled")) continue;
      // A micro-batch is then as many sequences as fill train_mb_tokens: one row of so many tokens.
      const Node* tokens = at(*table, "train_mb_tokens");
      if (tokens == nullptr || !tokens->is_integer()) continue;
      draft_.assign("seq_length", *tokens, fmt::format("policy.{}.train_mb_tokens", section));
      draft_.assign("micro_batch_size", integer_node(1), fmt::format("policy.{}", section));
      draft_.assign("packed_sequences", bool_node(true), fmt::format("policy.{}", section));
      std::erase_if(draft_.assignments, [](const Assignment& given) { return given.key == "global_batch_size"; });
      draft_.notes.push_back(
          fmt::format("{}: {}: a micro-batch is one row of {} tokens", draft_.path, section, tokens->integer));
    }
    return {};
  }

  Status read_cluster() {
    const Node* cluster = at(root_, "cluster");
    if (cluster == nullptr) return {};
    const Node* per_node = at(*cluster, "gpus_per_node");
    const Node* nodes = at(*cluster, "num_nodes");
    if (per_node == nullptr) return {};
    auto gpus = to_integer(*per_node, Range{1, 1 << 12});
    if (!gpus) return bad_input("cluster.gpus_per_node: " + gpus.error().message);
    draft_.assign("gpus_per_node", integer_node(*gpus), "cluster.gpus_per_node", true);
    if (nodes != nullptr) {
      auto count = to_integer(*nodes, Range{1, 1 << 12});
      if (!count) return bad_input("cluster.num_nodes: " + count.error().message);
      *gpus *= *count;
    }
    draft_.assign("gpus", integer_node(*gpus), "cluster");
    return {};
  }

  void read_megatron(const Node& table) {
    draft_.framework = Framework::kMegatronLm;
    draft_.vocabulary = Framework::kMegatronLm;
    draft_.names = megatron_names();
    for (const auto& [key, value] : table.members) {
      if (value.is_null() || value.is_object()) continue;
      if (key == "recompute_granularity" || key == "recompute_modules" || key == "recompute_method" ||
          key == "recompute_num_layers")
        continue;
      draft_.assign(key, value, "policy.megatron_cfg." + key);
    }
    for (const std::string_view section : {"optimizer", "distributed_data_parallel_config"}) {
      const Node* inner = at(table, section);
      if (inner == nullptr || !inner->is_object()) continue;
      for (const auto& [key, value] : inner->members)
        if (!value.is_null() && !value.is_object())
          draft_.assign(key, value, fmt::format("policy.megatron_cfg.{}.{}", section, key));
    }
    read_recomputation(table);
    if (const Node* fp8 = at(table, "fp8_cfg"); fp8 != nullptr && is_on(*fp8, "enabled")) {
      take(*fp8, "policy.megatron_cfg.fp8_cfg", "fp8", "fp8_format");
      take(*fp8, "policy.megatron_cfg.fp8_cfg", "fp8_recipe", "fp8_recipe");
      take(*fp8, "policy.megatron_cfg.fp8_cfg", "fp8_param", "fp8_param");
    }
    if (const Node* peft = at(table, "peft"); peft != nullptr && is_on(*peft, "enabled"))
      read_adapter(*peft, "policy.megatron_cfg.peft", {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"});
  }

  // One switch over Megatron's own: whole layers unless the file says how.
  void read_recomputation(const Node& table) {
    constexpr std::string_view kSwitch = "policy.megatron_cfg.activation_checkpointing";
    if (!is_on(table, "activation_checkpointing")) return;
    const Node* granularity = at(table, "recompute_granularity");
    const bool is_full = granularity == nullptr || !granularity->is_string() || granularity->text == "full";
    draft_.assign("recompute_granularity", text_node(is_full ? "full" : granularity->text), kSwitch);
    if (!is_full) {
      take(table, "policy.megatron_cfg", "recompute_modules", "recompute_modules");
      return;
    }
    const Node* method = at(table, "recompute_method");
    const Node* layers = at(table, "recompute_num_layers");
    draft_.assign("recompute_method", method == nullptr ? text_node("uniform") : *method, kSwitch);
    draft_.assign("recompute_num_layers", layers == nullptr ? integer_node(1) : *layers, kSwitch);
  }

  Status read_dtensor(const Node* table) {
    if (table == nullptr) return {};
    constexpr std::string_view kSection = "policy.dtensor_cfg";
    take(*table, kSection, "tensor_parallel_size", "tensor_model_parallel_size");
    take(*table, kSection, "context_parallel_size", "context_parallel_size");
    take(*table, kSection, "expert_parallel_size", "expert_model_parallel_size");
    take(*table, kSection, "activation_checkpointing", "gradient_checkpointing");
    take(*table, kSection, "cpu_offload", "fsdp_cpu_offload");
    if (const Node* replicas = at(*table, "dp_replicate_size"); replicas != nullptr)
      draft_.assign("dp_replicate", *replicas, "policy.dtensor_cfg.dp_replicate_size");
    if (const Node* lora = at(*table, "lora_cfg"); lora != nullptr && is_on(*lora, "enabled"))
      read_adapter(*lora, "policy.dtensor_cfg.lora_cfg", {"all-linear"});
    return {};
  }

  void read_adapter(const Node& table, const std::string& section, const std::vector<std::string>& otherwise) {
    draft_.assign("peft", text_node("lora"), section + ".enabled");
    take(table, section, "dim", "lora_rank");
    take(table, section, "dropout", "lora_dropout");
    const Node* targets = at(table, "target_modules");
    const bool all = is_on(table, "match_all_linear");
    if (!all && targets != nullptr && targets->is_array() && !targets->items.empty()) {
      draft_.assign("lora_target_modules", *targets, section + ".target_modules");
      return;
    }
    Node list;
    list.kind = Node::Kind::kArray;
    for (const std::string& name : otherwise) list.items.push_back(text_node(name));
    draft_.assign("lora_target_modules", std::move(list), section + ".target_modules", true);
  }

  Status read_precision(const Node& policy, bool is_megatron) {
    const Node* value = at(policy, "precision");
    const std::string word = value != nullptr && value->is_string() ? lower(value->text) : "bfloat16";
    if (is_megatron) {
      if (word == "bfloat16") draft_.assign("bf16", bool_node(true), "policy.precision");
      if (word == "float16") draft_.assign("fp16", bool_node(true), "policy.precision");
      return {};
    }
    draft_.assign("compute_dtype", text_node(word), "policy.precision");
    return {};
  }

  const Node& root_;
  Draft& draft_;
};

}  // namespace

Status read_nemo_rl_tree(const Node& root, Draft& draft) {
  draft.kind = FileKind::kNemoRl;
  draft.read_as = "NeMo-RL";
  return Reader(root, draft).read();
}

bool is_nemo_rl(const Node& root) {
  const Node* policy = root.find("policy");
  if (policy == nullptr || !policy->is_object()) return false;
  for (const std::string_view key : {"model_name", "dtensor_cfg", "megatron_cfg", "train_global_batch_size",
                                     "train_micro_batch_size", "max_total_sequence_length"})
    if (policy->has(key)) return true;
  return false;
}

Result<Draft> read_nemo_rl_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  PLIMSOLL_TRY(root, parse_omega(file.text, file.path));
  if (!root.is_object()) return bad_input("wanted a table of sections");
  PLIMSOLL_TRY_STATUS(read_nemo_rl_tree(root, draft));
  const Node* policy = root.find("policy");
  if (is_table(policy))
    keep_unread(*policy,
                "max_total_sequence_length train_global_batch_size train_micro_batch_size tensor_model_parallel_size "
                "tensor_parallel_size pipeline_model_parallel_size expert_parallel_size context_parallel_size "
                "expert_tensor_parallel_size expert_model_parallel_size sequence_parallel activation_checkpointing "
                "recompute_granularity recompute_modules recompute_method recompute_num_layers precision "
                "moe_router_dtype params_dtype pipeline_dtype bf16 fp16 use_precision_aware_optimizer fp8 fp8_recipe "
                "fp8_format fp8_param fp8_param_gather grad_reduce_in_fp32 data_parallel_sharding_strategy cpu_offload "
                "fsdp_cpu_offload target_modules exclude_modules lora_dtype lora_A_init lora_B_init freeze_moe_router "
                "make_sequence_length_divisible_by logprob_batch_size generation_batch_size defer_fp32_logits "
                "offload_optimizer_for_logprob num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage "
                "optimizer_cpu_offload optimizer_offload_fraction cp_normalize",
                "generation dynamic_batching sequence_packing tokenizer scheduler optimizer automodel_kwargs backend "
                "checkpoint env_vars hf_config_overrides",
                draft);
  return draft;
}

}  // namespace plimsoll::job
