// SPDX-License-Identifier: Apache-2.0
// Keys of the optimizer and of sharding over data-parallel ranks.
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "job/keys/table.h"

namespace plimsoll::job {

namespace {

using enum Moves;

using document::Node;

// Precision-aware: the gradient buffer has the dtype of the main gradients.
Status set_main_grads(Job& job, const Node& value) {
  PLIMSOLL_TRY(word, to_word(value));
  const auto type = from_name<DType>(word);
  if (!type || (*type != DType::kFp32 && *type != DType::kBf16))
    return bad_input(fmt::format("found {}, wanted fp32 or bf16", shown(value)));
  job.optimizer.main_grads = *type;
  return {};
}

Status set_momentum(Job& job, const Node& value) {
  PLIMSOLL_TRY(momentum, to_real(value, kFraction));
  job.optimizer.momentum = momentum > 0;
  return {};
}

Status set_clip(Job& job, const Node& value) {
  if (value.is_bool()) {
    job.clip_grad = value.boolean;
    return {};
  }
  PLIMSOLL_TRY(norm, to_real(value, Range{0, 1e30}));
  job.clip_grad = norm > 0;
  return {};
}

// true, false, or the number of ranks to reshard to.
Status set_reshard(Job& job, const Node& value) {
  if (auto flag = to_bool(value); flag && !value.is_integer()) {
    job.sharding.reshard_after_forward = *flag;
    job.sharding.reshard_to = 0;
    return {};
  }
  PLIMSOLL_TRY(ranks, to_integer(value, kRanks));
  job.sharding.reshard_after_forward = true;
  job.sharding.reshard_to = ranks;
  return {};
}

// -1 is DeepSpeed's "off".
Status set_mics(Job& job, const Node& value) {
  PLIMSOLL_TRY(ranks, to_integer(value, Range{-1, 1 << 24}));
  job.sharding.mics_shard = ranks < 0 ? 0 : ranks;
  return {};
}

Status use_sharding(Job& job, const Node& value, ShardingKind kind) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (on) {
    job.sharding.kind = kind;
    job.given.insert("sharding");
  } else if (job.sharding.kind == kind) {
    job.sharding.kind = ShardingKind::kNone;
  }
  return {};
}
Status set_megatron_fsdp(Job& job, const Node& value) { return use_sharding(job, value, ShardingKind::kMegatronFsdp); }
Status set_torch_fsdp2(Job& job, const Node& value) { return use_sharding(job, value, ShardingKind::kFsdp2); }

Status set_outer(Job& job, const Node& value) {
  PLIMSOLL_TRY(word, to_word(value));
  if (word != "optim" && word != "no_shard" && word != "none")
    return bad_input(fmt::format("found {}, wanted no_shard or optim", shown(value)));
  job.sharding.outer_optim = word == "optim";
  return {};
}

// True, or the path of a checkpoint.
Status set_resume(Job& job, const Node& value) {
  const auto flag = to_bool(value);
  const bool is_path = value.is_string() && !value.text.empty() && lower(value.text) != "none";
  if (!flag && !value.is_null() && !value.is_string())
    return bad_input(fmt::format("found {}, wanted true, false or the path of a checkpoint", shown(value)));
  job.checkpoint.resumes = flag ? *flag : is_path;
  return {};
}
std::string tell_resume(const Job& job) { return job.checkpoint.resumes ? "true" : "false"; }

const Key kOptimizerKeys[] = {
    {"optimizer", kBoth, PLIMSOLL_FIELD(optimizer.kind), "the optimizer; adam is AdamW too"},
    {"optimizer_implementation", kBoth, PLIMSOLL_FIELD(optimizer.impl), "torch's implementation"},
    {"use_distributed_optimizer", kBoth, PLIMSOLL_FIELD(optimizer.distributed),
     "Megatron shards optimizer states over DP"},
    {"num_distributed_optimizer_instances", kBoth, PLIMSOLL_FIELD(optimizer.instances),
     "replicas of the sharded states", kRanks},
    {"grad_reduce_in_fp32", kBoth, PLIMSOLL_FIELD(optimizer.grad_reduce_in_fp32),
     "gradients are kept and reduced in fp32"},
    {"use_precision_aware_optimizer", kBytes, PLIMSOLL_FIELD(optimizer.precision_aware), "states in the dtypes below"},
    {"store_param_remainders", kBytes, PLIMSOLL_FIELD(optimizer.store_param_remainders),
     "fp32 main weights keep only the 16 bits that bf16 lacks"},
    {"main_grads_dtype", kBoth, Custom{set_main_grads, "fp32, bf16"}, "precision-aware: dtype of the gradient buffer"},
    {"main_params_dtype", kBytes, PLIMSOLL_FIELD(optimizer.main_params), "dtype of the main weights"},
    {"exp_avg_dtype", kBytes, PLIMSOLL_FIELD(optimizer.exp_avg), "dtype of the first moment"},
    {"exp_avg_sq_dtype", kBytes, PLIMSOLL_FIELD(optimizer.exp_avg_sq), "dtype of the second moment"},
    {"paged_optimizer", kBytes, PLIMSOLL_FIELD(optimizer.paged), "bitsandbytes: states in managed memory"},
    {"sgd_momentum", kBoth, Custom{set_momentum, "number"}, "SGD keeps a momentum unless it is 0"},
    {"optimizer_cpu_offload", kBoth, PLIMSOLL_FIELD(asked.optimizer_cpu_offload), "optimizer states live on the host"},
    {"optimizer_offload_fraction", kBoth, PLIMSOLL_FIELD(asked.optimizer_offload_fraction), "the share of them",
     kFraction},
    {"overlap_grad_reduce", kBoth, PLIMSOLL_FIELD(optimizer.overlap_grad_reduce),
     "gradients are reduced during backward"},
    {"overlap_param_gather", kSeconds, PLIMSOLL_FIELD(optimizer.overlap_param_gather),
     "weights are gathered during forward"},
    {"ddp_bucket_size", kBytes, PLIMSOLL_FIELD(optimizer.bucket_size), "elements of one gradient bucket"},
    {"pad_buckets_for_high_nccl_busbw", kBytes, PLIMSOLL_FIELD(optimizer.pad_buckets_for_busbw),
     "buckets are padded to 2^16"},
    {"nccl_ub", kNeither, PLIMSOLL_FIELD(optimizer.nccl_ub),
     "buffers come from an NCCL pool; not modelled: a warning; the pool's rounding is small"},
    {"reduce_scatter_with_fp32_accumulation", kBytes, PLIMSOLL_FIELD(optimizer.reduce_scatter_fp32_accumulation),
     "reduce-scatter accumulates in fp32 through a scratch bucket"},
    {"clip_grad", kSeconds, Custom{set_clip, "number"}, "gradients are clipped unless it is 0"},
    {"projection_rank", kBytes, PLIMSOLL_FIELD(optimizer.projection_rank),
     "GaLore, APOLLO: the optimizer works on gradients of this rank; 0: on the gradients themselves",
     Range{0, 1 << 20}},
    {"random_projection", kBytes, PLIMSOLL_FIELD(optimizer.random_projection),
     "APOLLO: random numbers bring gradients to projection_rank, and the states scale the gradient itself"},
    {"optim_target_modules", kBytes, PLIMSOLL_FIELD(optimizer.projected),
     "GaLore, APOLLO: whose matrices, by names or patterns, or all-linear"},
    {"optimizer_in_backward", kBytes, PLIMSOLL_FIELD(optimizer.in_backward),
     "a weight is updated as soon as its gradient is there, which goes at once: torchtitan's early_step_in_backward, "
     "layer-wise GaLore and APOLLO"},
    {"reference_model", kBoth, PLIMSOLL_FIELD(reference_model),
     "a frozen model answers beside the trained one (DPO, KTO): a copy of the weights, or the model without its "
     "adapters"},
    {"reference_passes", kSeconds, PLIMSOLL_FIELD(reference_passes),
     "forward passes without gradients that a micro-batch takes beside a reference_model: KTO's are three, with those "
     "of the model and the reference for mismatched answers",
     Range{1, 16}},
    {"preference_loss", kBoth, PLIMSOLL_FIELD(preference_loss),
     "the loss is made of the log-probabilities of every token, outside the model: DPO, KTO, ORPO"},
    {"chosen_loss", kBoth, PLIMSOLL_FIELD(chosen_loss),
     "cross-entropy of the chosen answers, half of a micro-batch, stands beside preference_loss: ORPO, CPO"},
    {"teacher_model", kBoth, PLIMSOLL_FIELD(teacher_model),
     "distillation: a frozen model, by its name, whose logits for the same tokens the loss compares with"},
    {"resume_from_checkpoint", kBytes, Custom{set_resume, "path or boolean", tell_resume},
     "Trainer: the optimizer's states are loaded before the first step; read in sources, not recorded: a wider "
     "interval"},
    {"trainable_layers", kBoth, PLIMSOLL_FIELD(trainable_layers),
     "only the last so many layers are trained, the first so many where it is negative; 0: everything",
     Range{-100'000, 100'000}},
    {"trainable_parameters", kBoth, PLIMSOLL_FIELD(trainable_parameters),
     "only parameters whose names begin with a match of one of these regular expressions are trained, as "
     "model.layers.3[01].mlp or lm_head"},
};

const Key kShardingKeys[] = {
    {"sharding", kBoth, PLIMSOLL_FIELD(sharding.kind), "how model state is sharded over data-parallel ranks"},
    {"reshard_after_forward", kBoth, Custom{set_reshard, "boolean or integer"},
     "FSDP frees gathered weights after forward"},
    {"reshard_head", kBytes, PLIMSOLL_FIELD(sharding.reshard_head),
     "FSDP: those of a last norm and head that are gathered together, too; torchtitan's policy always"},
    {"dp_replicate", kBoth, PLIMSOLL_FIELD(sharding.replicas), "HSDP: replicas of the sharded model", kRanks},
    {"shard_within_node", kBoth, PLIMSOLL_FIELD(sharding.within_node), "HSDP: every node holds one replica"},
    {"reduce_dtype", kBoth, PLIMSOLL_FIELD(sharding.reduce), "FSDP: dtype in which gradients are reduced"},
    {"stored_dtype", kBytes, PLIMSOLL_FIELD(sharding.stored), "FSDP: dtype of the sharded weights"},
    {"state_dict_type", kBytes, PLIMSOLL_FIELD(checkpoint.saved),
     "FSDP: full brings weights, then the optimizer together on rank 0 to save them; sharded does not"},
    {"fsdp_cpu_offload", kBoth, PLIMSOLL_FIELD(sharding.cpu_offload), "FSDP: shards live on the host"},
    {"sync_each_micro_batch", kBoth, PLIMSOLL_FIELD(sharding.sync_each_micro_batch),
     "FSDP: gradients are reduced after every micro-batch, not only the last"},
    {"fsdp_units", kBoth, PLIMSOLL_FIELD(sharding.units), "FSDP: which modules are gathered together"},
    {"zero_stage", kBoth, PLIMSOLL_FIELD(sharding.zero_stage), "DeepSpeed ZeRO stage", Range{0, 3}},
    {"offload_optimizer_device", kBoth, PLIMSOLL_FIELD(sharding.offload_optimizer),
     "DeepSpeed: where optimizer states live"},
    {"offload_param_device", kBoth, PLIMSOLL_FIELD(sharding.offload_param), "DeepSpeed: where weights live (stage 3)"},
    {"offload_optimizer_ratio", kBoth, PLIMSOLL_FIELD(sharding.offload_ratio), "share of the states that is offloaded",
     kFraction},
    {"reduce_bucket_size", kBytes, PLIMSOLL_FIELD(sharding.reduce_bucket), "elements of DeepSpeed's reduce bucket"},
    {"stage3_prefetch_bucket_size", kBytes, PLIMSOLL_FIELD(sharding.prefetch_bucket), "elements gathered ahead",
     kSizeOrZero},
    {"stage3_param_persistence_threshold", kBytes, PLIMSOLL_FIELD(sharding.param_persistence),
     "weights up to this many elements are never partitioned", kSizeOrZero},
    {"stage3_max_live_parameters", kBytes, PLIMSOLL_FIELD(sharding.max_live_parameters), "gathered elements at most",
     kSizeOrZero},
    {"stage3_max_reuse_distance", kBytes, PLIMSOLL_FIELD(sharding.max_reuse_distance),
     "weights used again within this many elements stay gathered", kSizeOrZero},
    {"sub_group_size", kBytes, PLIMSOLL_FIELD(sharding.sub_group_size), "elements of one optimizer sub-step"},
    {"overlap_comm", kBytes, PLIMSOLL_FIELD(sharding.overlap_comm), "DeepSpeed: buckets are doubled to overlap"},
    {"contiguous_gradients", kBytes, PLIMSOLL_FIELD(sharding.contiguous_gradients),
     "DeepSpeed: gradients pass through a bucket"},
    {"grad_accum_dtype", kBytes, PLIMSOLL_FIELD(sharding.grad_accum), "DeepSpeed: dtype of accumulated gradients"},
    {"zero_hpz_partition_size", kBytes, PLIMSOLL_FIELD(sharding.hpz_partition), "ZeRO++: ranks of the secondary shard",
     kRanks},
    {"mics_shard_size", kBytes, Custom{set_mics, "integer"}, "MiCS: ranks of a shard group; -1 is off"},
    {"offload_optimizer_buffer_count", kBytes, PLIMSOLL_FIELD(sharding.offload_buffer_count), "NVMe: pinned buffers",
     Range{1, 1024}},
    {"offload_param_buffer_count", kBytes, PLIMSOLL_FIELD(sharding.offload_param_buffer_count), "NVMe: pinned buffers",
     Range{1, 1024}},
    {"offload_param_buffer_size", kBytes, PLIMSOLL_FIELD(sharding.offload_param_buffer_size), "NVMe: elements of one"},
    {"offload_param_max_in_cpu", kBytes, PLIMSOLL_FIELD(sharding.offload_param_max_in_cpu),
     "NVMe: elements kept on the host", kSizeOrZero},
    {"use_megatron_fsdp", kBoth, Custom{set_megatron_fsdp, "boolean"}, "the same as sharding megatron-fsdp"},
    {"use_torch_fsdp2", kBoth, Custom{set_torch_fsdp2, "boolean"}, "the same as sharding fsdp2"},
    {"data_parallel_sharding_strategy", kBoth, PLIMSOLL_FIELD(sharding.megatron_strategy),
     "Megatron-FSDP: what is sharded"},
    {"outer_dp_sharding_strategy", kBytes, Custom{set_outer, "no_shard, optim"},
     "Megatron-FSDP: sharding over replicas"},
    {"fsdp_double_buffer", kBytes, PLIMSOLL_FIELD(sharding.double_buffer),
     "Megatron-FSDP: two permanent gather buffers"},
    {"init_model_with_meta_device", kBytes, PLIMSOLL_FIELD(sharding.meta_init),
     "Megatron-FSDP: weights are made shard by shard, never whole"},
    {"megatron_fsdp_main_grads_dtype", kBoth, PLIMSOLL_FIELD(sharding.megatron_main_grads),
     "dtype of sharded gradients"},
    {"megatron_fsdp_main_params_dtype", kNeither, PLIMSOLL_FIELD(sharding.megatron_main_params),
     "dtype of sharded main weights; not modelled: a warning, counted as fp32"},
    {"gradient_as_bucket_view", kBytes, PLIMSOLL_FIELD(sharding.gradient_as_bucket_view),
     "DDP: gradients are views of buckets"},
};

}  // namespace

std::span<const Key> optimizer_key_rows() { return kOptimizerKeys; }
std::span<const Key> sharding_key_rows() { return kShardingKeys; }

}  // namespace plimsoll::job
