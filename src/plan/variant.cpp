// SPDX-License-Identifier: Apache-2.0
#include "plan/variant.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "document/node.h"
#include "job/keys.h"
#include "job/read.h"
#include "lever/lever.h"

namespace plimsoll::plan {

namespace {

std::int64_t experts_of(const job::Job& job) {
  std::int64_t experts = 0;
  for (const auto& kind : job.model.kinds) experts = std::max(experts, kind.ffn.experts);
  return experts;
}

bool has_latents(const job::Job& job) {
  return std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                     [](const auto& kind) { return kind.attention.kind == model::AttentionKind::kMla; });
}

// Nothing where the job would not take one of the keys.
std::optional<Variant> variant_of(const job::Job& job, std::string label, KeyValues settings) {
  job::Job with = job;
  for (const auto& [key, value] : settings)
    if (!job::set_key(with, key, document::parse_scalar(value))) return std::nullopt;
  return Variant{std::move(label), std::move(settings), with.recompute, with.offload,
                 with.optimizer,   with.sharding,       with.precision, with.asked};
}

class List {
 public:
  // `keys`: what variants of this kind may set.
  List(const job::Job& job, const Pins& pinned, std::vector<std::string> keys)
      : job_(job), pinned_(pinned), keys_(std::move(keys)) {}

  // A variant that changes a pinned key, or leaves one without effect, is left out.
  void add(const std::string& label, KeyValues settings) {
    for (const auto& [key, value] : settings)
      if (pinned_.contains(key) && !is_own(key, value)) return;
    for (const std::string& key : keys_) {
      const bool sets = std::any_of(settings.begin(), settings.end(), [&key](const auto& s) { return s.first == key; });
      if (pinned_.contains(key) && !sets && !is_off(key)) return;
    }
    const auto is_known = [&label](const Variant& variant) { return variant.label == label; };
    if (std::any_of(variants_.begin(), variants_.end(), is_known)) return;
    if (auto variant = variant_of(job_, label, std::move(settings))) variants_.push_back(*std::move(variant));
  }
  std::vector<Variant> take(const char* otherwise = "as given") {
    if (variants_.empty())
      if (auto variant = variant_of(job_, otherwise, {})) variants_.push_back(*std::move(variant));
    return std::move(variants_);
  }

 private:
  [[nodiscard]] bool is_own(const std::string& key, const std::string& value) const {
    job::Job with = job_;
    if (!job::set_key(with, key, document::parse_scalar(value))) return false;
    const auto own = job::value_of(job_, key);
    const auto other = job::value_of(with, key);
    if (own && other) return document::to_text(*own) == document::to_text(*other);
    // Lists of modules have no plain field.
    return with.recompute.modules == job_.recompute.modules && with.offload.modules == job_.offload.modules;
  }
  // A key that nobody gave has nothing to enforce: no variant may change it, and that is all.
  [[nodiscard]] bool is_off(const std::string& key) const {
    if (!job_.has(key)) return true;
    const auto own = job::value_of(job_, key);
    return own && job::is_off(*own);
  }

  const job::Job& job_;
  const Pins& pinned_;
  std::vector<std::string> keys_;
  std::vector<Variant> variants_;
};

bool any_pinned(const Pins& pinned, std::initializer_list<const char*> keys) {
  return std::any_of(keys.begin(), keys.end(), [&pinned](const char* key) { return pinned.contains(key); });
}

// Modules worth recomputing together (facts megatron-memory.md 5). With fused attention core_attn frees nothing.
std::vector<std::string> module_lists(const job::Job& job) {
  std::vector<std::string> lists;
  const bool unfused = job.kernels.attention == job::AttentionBackend::kUnfused;
  const std::string prefix = unfused ? "core_attn," : "";
  if (unfused) lists.emplace_back("core_attn");
  const auto add = [&](const char* modules) { lists.push_back(prefix + modules); };
  if (experts_of(job) > 0) {
    add("moe_act");
    if (has_latents(job)) {
      add("mla_up_proj");
      add("mla_up_proj,moe_act");
      add("mla_up_proj,mlp,moe_act");
      add("layernorm,mla_up_proj,moe_act");
    }
    add("layernorm,moe_act");
    add("moe");
    add("layernorm,moe");
  } else {
    add("layernorm");
    add("mlp");
    add("layernorm,mlp");
  }
  return lists;
}

std::string names_of(const job::RecomputeModules& m) {
  std::vector<std::string> names;
  for (const auto& [on, name] :
       {std::pair{m.core_attn, "core_attn"}, std::pair{m.layernorm, "layernorm"},
        std::pair{m.mla_up_proj, "mla_up_proj"}, std::pair{m.mlp, "mlp"}, std::pair{m.moe, "moe"},
        std::pair{m.moe_act, "moe_act"}, std::pair{m.shared_experts, "shared_experts"}})
    if (on) names.emplace_back(name);
  return join(names, ",");
}

std::string names_of(const job::OffloadModules& m) {
  std::vector<std::string> names;
  for (const auto& [on, name] :
       {std::pair{m.attn_norm, "attn_norm"}, std::pair{m.qkv_linear, "qkv_linear"}, std::pair{m.core_attn, "core_attn"},
        std::pair{m.attn_proj, "attn_proj"}, std::pair{m.mlp_norm, "mlp_norm"}, std::pair{m.expert_fc1, "expert_fc1"},
        std::pair{m.moe_act, "moe_act"}})
    if (on) names.emplace_back(name);
  return join(names, ",");
}

void add_megatron_recompute(const job::Job& job, const Pins& pinned, List& list) {
  list.add("none", {{"recompute_granularity", "none"}});
  for (const std::string& modules : module_lists(job))
    list.add(modules, {{"recompute_granularity", "selective"}, {"recompute_modules", modules}});
  if (pinned.contains("recompute_modules")) {
    const std::string own = names_of(job.recompute.modules);
    list.add(own, {{"recompute_granularity", "selective"}, {"recompute_modules", own}});
  }
  std::vector<std::int64_t> counts = {1, 2, 4, 8, 16};
  if (pinned.contains("recompute_num_layers")) counts = {job.recompute.num_layers};
  for (const std::int64_t layers : counts)
    if (layers < job.model.depth())
      list.add("block " + std::to_string(layers), {{"recompute_granularity", "full"},
                                                   {"recompute_method", "block"},
                                                   {"recompute_num_layers", std::to_string(layers)}});
  const std::int64_t uniform = pinned.contains("recompute_num_layers") ? job.recompute.num_layers : 1;
  list.add("full", {{"recompute_granularity", "full"},
                    {"recompute_method", "uniform"},
                    {"recompute_num_layers", std::to_string(uniform)}});
}

// Activations on the host: whole layers (without pipeline and recomputation), or the inputs of modules.
void add_megatron_offload(const job::Job& job, const Pins& pinned, List& list) {
  std::vector<std::int64_t> counts = {job.model.depth() / 4, job.model.depth() / 2, job.model.depth() - 1};
  if (pinned.contains("cpu_offloading_num_layers")) counts = {job.offload.activation_layers};
  for (const std::int64_t layers : counts) {
    if (layers > 0)
      list.add("offload " + std::to_string(layers) + " layers",
               {{"recompute_granularity", "none"},
                {"cpu_offloading", "true"},
                {"cpu_offloading_num_layers", std::to_string(layers)}});
  }
  std::vector<std::string> modules = {"core_attn", "core_attn,attn_proj"};
  if (experts_of(job) > 0) modules = {"moe_act", "expert_fc1,moe_act", "core_attn,expert_fc1,moe_act"};
  if (pinned.contains("offload_modules")) modules = {names_of(job.offload.modules)};
  for (const std::string& which : modules)
    list.add("offload " + which, {{"recompute_granularity", "none"},
                                  {"fine_grained_activation_offloading", "true"},
                                  {"offload_modules", which}});
}

// Shards of the optimizer that are copied between groups of nodes, so that its messages stay near.
std::vector<std::int64_t> instance_counts(const job::Job& job) {
  const std::int64_t nodes = job.cluster.gpus / std::max<std::int64_t>(1, job.cluster.nvlink_domain());
  std::vector<std::int64_t> counts = {1};
  for (const std::int64_t count : {2, 4, 8})
    if (count <= nodes && nodes % count == 0) counts.push_back(count);
  return counts;
}

// What the levers of the same names ask (lever/state.cpp).
bool has_lever(const job::Job& job, std::string_view id) {
  const lever::Lever& lever = *lever::find_lever(id);
  lever::Proposals proposals;
  proposals.of(lever);
  lever.propose(job, proposals);
  return !proposals.take().empty();
}
bool saves_by_precision(const job::Job& job) { return has_lever(job, "precision-aware-optimizer"); }
// Every split has data-parallel ranks but the one that uses all GPUs; the evaluator refuses that.
bool shards_everything(job::Job job) {
  job.data_parallel = std::max<std::int64_t>(2, job.data_parallel);
  job.parallel.pipeline = 1;
  return has_lever(job, "shard-everything");
}

constexpr const char* kPrecisionAware = "precision-aware optimizer";

void add_megatron_states(const job::Job& job, const Pins& pinned, bool changes_numbers, List& list) {
  const bool plain = job.optimizer.distributed && job.sharding.kind != job::ShardingKind::kMegatronFsdp;
  if (!plain) {
    list.add("", {});
    return;
  }
  std::vector<std::pair<std::string, KeyValues>> offloads;
  if (!pinned.contains("optimizer_cpu_offload") || !job.asked.optimizer_cpu_offload)
    offloads.push_back(
        {"", job.asked.optimizer_cpu_offload ? KeyValues{{"optimizer_cpu_offload", "false"}} : KeyValues{}});
  if (!pinned.contains("optimizer_cpu_offload") || job.asked.optimizer_cpu_offload) {
    std::vector<std::string> fractions = {"0.5", "1"};
    if (pinned.contains("optimizer_offload_fraction"))
      fractions = {fmt::format("{:g}", job.asked.optimizer_offload_fraction)};
    for (const std::string& fraction : fractions) {
      KeyValues keys = {{"optimizer_cpu_offload", "true"}, {"optimizer_offload_fraction", fraction}};
      if (job.facts().moves_precision_aware_only && !job.optimizer.precision_aware)
        keys.emplace_back("use_precision_aware_optimizer", "true");
      offloads.emplace_back(
          std::string(fraction) == "1" ? "optimizer on the host" : "half of the optimizer on the host",
          std::move(keys));
    }
  }
  std::vector<std::int64_t> instances = {job.optimizer.instances};
  if (!pinned.contains("num_distributed_optimizer_instances") && job.optimizer.instances == 1)
    instances = instance_counts(job);
  // Main weights as the 16 bits that bf16 lacks: the same numbers in less memory.
  std::vector<std::pair<std::string, KeyValues>> numbers = {{"", {}}};
  const bool is_precision_aware = saves_by_precision(job) && !pinned.contains("use_precision_aware_optimizer");
  if (is_precision_aware) numbers.push_back({kPrecisionAware, {{"use_precision_aware_optimizer", "true"}}});
  if (changes_numbers) {
    if (job.optimizer.grad_reduce_in_fp32 && job.precision.params == job::DType::kBf16)
      numbers.push_back({"gradients in bf16", {{"grad_reduce_in_fp32", "false"}}});
    if (job.precision.fp8 != job::Fp8Recipe::kNone && !job.precision.fp8_param_gather)
      numbers.push_back({"weights gathered in FP8", {{"fp8_param_gather", "true"}}});
  }
  std::vector<std::pair<std::string, KeyValues>> overlaps = {{"", {}}};
  const bool overlaps_all = job.optimizer.overlap_grad_reduce && job.optimizer.overlap_param_gather;
  if (!overlaps_all && !any_pinned(pinned, {"overlap_grad_reduce", "overlap_param_gather"}))
    overlaps.push_back({"DP overlap", {{"overlap_grad_reduce", "true"}, {"overlap_param_gather", "true"}}});
  for (const auto& [number_label, number_keys] : numbers)
    for (const auto& [offload_label, offload_keys] : offloads)
      for (const std::int64_t count : instances)
        for (const auto& [overlap_label, overlap_keys] : overlaps) {
          // Partial sharding keeps more on the GPU; with the optimizer on the host it has nothing to win.
          if (count > 1 && !offload_label.empty()) continue;
          // So do main weights that are not on the GPU; where moving needs them, the offload's own keys say so. On the
          // GPU they are as fast and smaller than plain ones, which need not be looked at then.
          if (number_label == kPrecisionAware && !offload_label.empty()) continue;
          if (is_precision_aware && number_label.empty() && offload_label.empty()) continue;
          KeyValues keys = number_keys;
          keys.insert(keys.end(), offload_keys.begin(), offload_keys.end());
          keys.insert(keys.end(), overlap_keys.begin(), overlap_keys.end());
          std::vector<std::string> labels;
          for (const std::string& label : {number_label, offload_label, overlap_label})
            if (!label.empty()) labels.push_back(label);
          if (count != job.optimizer.instances) {
            keys.emplace_back("num_distributed_optimizer_instances", std::to_string(count));
            labels.push_back(std::to_string(count) + " optimizer instances");
          }
          list.add(join(labels, ", "), std::move(keys));
        }
  if (!any_pinned(pinned, {"use_megatron_fsdp", "sharding", "use_distributed_optimizer", "use_torch_fsdp2",
                           "optimizer_cpu_offload", "num_distributed_optimizer_instances"}) &&
      shards_everything(job))
    list.add("Megatron-FSDP", {{"use_megatron_fsdp", "true"},
                               {"data_parallel_sharding_strategy", "optim_grads_params"},
                               {"ckpt_format", "fsdp_dtensor"}});
}

void add_zero_states(const job::Job& job, const Pins& pinned, List& list) {
  const bool moves = !any_pinned(pinned, {"offload_optimizer_device", "offload_param_device"}) &&
                     job.sharding.offload_optimizer == job::OffloadTarget::kNone &&
                     job.sharding.offload_param == job::OffloadTarget::kNone;
  std::vector<int> stages = {1, 2, 3};
  if (pinned.contains("zero_stage")) stages = {job.sharding.zero_stage};
  for (const int stage : stages) {
    const std::string name = "ZeRO " + std::to_string(stage);
    KeyValues keys;
    if (!pinned.contains("zero_stage")) keys.emplace_back("zero_stage", std::to_string(stage));
    list.add(name, keys);
    if (!moves || stage == 0) continue;
    keys.emplace_back("offload_optimizer_device", "cpu");
    list.add(name + ", optimizer on the host", keys);
    if (stage < 3) continue;
    keys.emplace_back("offload_param_device", "cpu");
    list.add(name + ", optimizer and weights on the host", keys);
  }
}

// FSDP: weights kept between forward and backward or not; whole copies per group of nodes (HSDP).
void add_fsdp_states(const job::Job& job, const Pins& pinned, List& list) {
  std::vector<std::int64_t> replicas = {job.sharding.replicas};
  const std::int64_t nodes = job.cluster.gpus / std::max<std::int64_t>(1, job.cluster.nvlink_domain());
  const bool hybrid = !any_pinned(pinned, {"dp_replicate", "shard_within_node"}) && !job.sharding.within_node;
  if (hybrid && job.sharding.replicas == 1)
    for (std::int64_t count = 2; count <= nodes; count *= 2)
      if (nodes % count == 0) replicas.push_back(count);
  for (const std::int64_t count : replicas)
    for (const bool reshards : {true, false}) {
      if (pinned.contains("reshard_after_forward") && reshards != job.sharding.reshard_after_forward) continue;
      KeyValues keys;
      std::vector<std::string> labels;
      if (!pinned.contains("reshard_after_forward"))
        keys.emplace_back("reshard_after_forward", reshards ? "true" : "false");
      if (!reshards) labels.emplace_back("weights kept gathered");
      if (count != job.sharding.replicas) {
        keys.emplace_back("dp_replicate", std::to_string(count));
        labels.push_back(std::to_string(count) + " replicas");
      }
      list.add(labels.empty() ? "fully sharded" : join(labels, ", "), std::move(keys));
    }
}

}  // namespace

Variant as_given(const job::Job& job) {
  return {"as given", {}, job.recompute, job.offload, job.optimizer, job.sharding, job.precision, job.asked};
}

const std::vector<std::string>& activation_keys() {
  static const std::vector<std::string> kKeys = {"recompute_granularity",
                                                 "recompute_method",
                                                 "recompute_num_layers",
                                                 "recompute_modules",
                                                 "recompute_every_nth_layer",
                                                 "cpu_offloading",
                                                 "cpu_offloading_num_layers",
                                                 "fine_grained_activation_offloading",
                                                 "offload_modules"};
  return kKeys;
}

std::vector<Variant> activation_variants(const job::Job& job, const Pins& pinned) {
  List list(job, pinned, activation_keys());
  if (any_pinned(pinned, {"recompute_activations", "gradient_checkpointing", "activation_memory_budget"}))
    return list.take();
  if (!job.is_megatron()) {
    const bool skips = job.facts().recomputes_every_nth;
    list.add("none", {{"recompute_granularity", "none"}});
    if (skips) list.add("every second layer", {{"recompute_granularity", "full"}, {"recompute_every_nth_layer", "2"}});
    list.add("full", skips ? KeyValues{{"recompute_granularity", "full"}, {"recompute_every_nth_layer", "0"}}
                           : KeyValues{{"recompute_granularity", "full"}});
    return list.take();
  }
  add_megatron_recompute(job, pinned, list);
  const bool moves = any_pinned(pinned, {"cpu_offloading", "fine_grained_activation_offloading"}) ||
                     (!job.offload.activations && !job.offload.fine_grained);
  if (moves && job.kernels.implementation == job::Implementation::kTransformerEngine)
    add_megatron_offload(job, pinned, list);
  return list.take();
}

std::vector<Variant> state_variants(const job::Job& job, const Pins& pinned, bool changes_numbers) {
  // A fraction acts only with the offload: one that differs from the default is meant to act.
  List list(job, pinned,
            job.asked.optimizer_offload_fraction != 1 ? std::vector<std::string>{"optimizer_offload_fraction"}
                                                      : std::vector<std::string>{});
  const bool fsdp = job.sharding.kind == job::ShardingKind::kFsdp2 || job.sharding.kind == job::ShardingKind::kFsdp1;
  if (job.is_megatron()) {
    add_megatron_states(job, pinned, changes_numbers, list);
  } else if (job.facts().own_sharding == job::ShardingKind::kZero || job.sharding.kind == job::ShardingKind::kZero) {
    add_zero_states(job, pinned, list);
  } else if (fsdp) {
    add_fsdp_states(job, pinned, list);
  } else {
    list.add(job.facts().replicates && job.data_parallel > 1 ? "DDP" : "", {});
  }
  return list.take("");
}

}  // namespace plimsoll::plan
