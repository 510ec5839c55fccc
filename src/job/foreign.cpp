// SPDX-License-Identifier: Apache-2.0
#include "job/foreign.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/text.h"
#include "document/node.h"
#include "job/keys/table.h"

namespace plimsoll::job {

namespace {

enum class Owner : std::uint8_t { kMegatron, kPipelines, kSplitters, kFsdp, kZero };

bool has(const FrameworkFacts& facts, Owner owner) {
  switch (owner) {
    case Owner::kMegatron:
      return facts.is_megatron;
    case Owner::kPipelines:
      return facts.has_pipeline;
    case Owner::kSplitters:
      return facts.splits_model;
    case Owner::kFsdp:
      return !facts.is_megatron && (facts.shardings & bit(ShardingKind::kFsdp2)) != 0;
    case Owner::kZero:
      return (facts.shardings & bit(ShardingKind::kZero)) != 0;
  }
  return true;
}

// Keys that only some frameworks have.
struct Group {
  Owner owner;
  std::vector<std::string_view> keys;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> kGroups = {
      {Owner::kPipelines, {"pipeline_model_parallel_size"}},
      {Owner::kSplitters,
       {"virtual_pipeline_model_parallel_size", "num_layers_per_virtual_pipeline_stage", "pipeline_schedule",
        "sequence_parallel", "expert_tensor_parallel_size"}},
      {Owner::kMegatron,
       {"num_layers_in_first_pipeline_stage",
        "num_layers_in_last_pipeline_stage",
        "account_for_embedding_in_pipeline_split",
        "account_for_loss_in_pipeline_split",
        "pipeline_model_parallel_layout",
        "microbatch_group_size_per_vp_stage",
        "use_tp_pp_dp_mapping",
        "overlap_p2p_comm",
        "overlap_p2p_comm_warmup_flush",
        "defer_embedding_wgrad_compute",
        "wgrad_deferral_limit",
        "overlap_moe_expert_parallel_comm",
        "delay_wgrad_compute",
        "tp_comm_overlap",
        "use_distributed_optimizer",
        "num_distributed_optimizer_instances",
        "use_precision_aware_optimizer",
        "store_param_remainders",
        "main_grads_dtype",
        "main_params_dtype",
        "optimizer_cpu_offload",
        "optimizer_offload_fraction",
        "overlap_grad_reduce",
        "overlap_param_gather",
        "pad_buckets_for_high_nccl_busbw",
        "nccl_ub",
        "reduce_scatter_with_fp32_accumulation",
        "use_megatron_fsdp",
        "use_torch_fsdp2",
        "data_parallel_sharding_strategy",
        "outer_dp_sharding_strategy",
        "fsdp_double_buffer",
        "init_model_with_meta_device",
        "megatron_fsdp_main_grads_dtype",
        "megatron_fsdp_main_params_dtype",
        "distribute_saved_activations",
        "fine_grained_activation_offloading"}},
      {Owner::kFsdp,
       {"reshard_after_forward", "reshard_head", "dp_replicate", "shard_within_node", "fsdp_cpu_offload",
        "fsdp_units"}},
      {Owner::kZero,
       {"zero_stage", "offload_optimizer_device", "offload_param_device", "offload_optimizer_ratio",
        "reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
        "stage3_max_live_parameters", "stage3_max_reuse_distance", "sub_group_size", "overlap_comm",
        "contiguous_gradients", "zero_hpz_partition_size", "mics_shard_size", "offload_optimizer_buffer_count",
        "offload_param_buffer_count", "offload_param_buffer_size", "offload_param_max_in_cpu"}},
  };
  return kGroups;
}

bool knows(const FrameworkFacts& facts, ShardingKind kind) {
  return kind == ShardingKind::kNone || kind == ShardingKind::kDdp || (facts.shardings & bit(kind)) != 0;
}

const Group* group_of(std::string_view key) {
  for (const Group& group : groups())
    if (std::find(group.keys.begin(), group.keys.end(), key) != group.keys.end()) return &group;
  return nullptr;
}

// Trainer shards through FSDP or DeepSpeed where it is told to: the settings of the one it does not use say nothing.
Status check_unused_sharding(const Job& job, const std::string& key) {
  const Group* group = group_of(key);
  if (!job.facts().drives_others || group == nullptr) return {};
  const ShardingKind kind = job.sharding.kind;
  const bool is_zero = group->owner == Owner::kZero;
  const bool used =
      is_zero ? kind == ShardingKind::kZero : kind == ShardingKind::kFsdp1 || kind == ShardingKind::kFsdp2;
  if (used) return {};
  return bad_input(fmt::format("{}: Trainer does not use {} in this job", key, is_zero ? "DeepSpeed" : "FSDP"),
                   is_zero ? "give --sharding zero, or --framework deepspeed with its JSON"
                           : "give --sharding fsdp2, or --framework fsdp2");
}

}  // namespace

std::vector<Framework> frameworks_with(std::string_view key) {
  std::vector<Framework> have;
  const Group* group = group_of(key);
  for (const Framework framework : all_frameworks())
    if (group != nullptr && has(facts_of(framework), group->owner)) have.push_back(framework);
  return have;
}

Status refuse_foreign_keys(const Job& job) {
  const Job defaults = defaults_for(job.framework);
  for (const std::string& key : job.given) {
    const std::vector<Framework> have = frameworks_with(key);
    const bool is_known = have.empty() || std::find(have.begin(), have.end(), job.framework) != have.end();
    const FoundKey found = find_key(key);
    if (found.key == nullptr) continue;
    const auto value = get_field(job, found.key->field);
    const auto otherwise = get_field(defaults, found.key->field);
    const std::string text = value ? document::to_text(*value) : std::string{};
    if (value && otherwise && text == document::to_text(*otherwise)) continue;  // says what happens anyway
    if (is_known) {
      PLIMSOLL_TRY_STATUS(check_unused_sharding(job, key));
      continue;
    }
    std::vector<std::string> names;
    for (const Framework framework : have) names.emplace_back(name_of(framework));
    return bad_input(
        fmt::format("{}{}: {} has no such setting", key, text.empty() ? "" : " = " + text, name_of(job.framework)),
        fmt::format("{} {}; drop it, or name another framework", join(names, ", "),
                    names.size() == 1 ? "has" : "have"));
  }
  if (job.has("sharding") && !knows(job.facts(), job.sharding.kind))
    return bad_input(
        fmt::format("sharding = {}: {} does not shard that way", name_of(job.sharding.kind), name_of(job.framework)));
  return {};
}

}  // namespace plimsoll::job
