// SPDX-License-Identifier: Apache-2.0
// The three launchers of Trainer: plain or DDP, DeepSpeed with ds_config.json, FSDP with accelerate.yaml.
#include <fmt/format.h>

#include "emit/text.h"
#include "emit/trainer.h"
#include "job/value.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::DType;
using job::integer_node;
using job::Job;
using job::text_node;

namespace {

// dtype is what Transformers loads; bf16 and fp16 switch autocast or mixed precision on.
void say_precision(const Job& job, DType loaded, std::optional<DType> mixed, Reasoned& out) {
  out.say("dtype",
          text_node(loaded == DType::kFp32   ? "float32"
                    : loaded == DType::kFp16 ? "float16"
                                             : "bfloat16"),
          "load_dtype");
  out.say("bf16", bool_node(mixed == DType::kBf16), "bf16");
  out.say("fp16", bool_node(mixed == DType::kFp16), "fp16");
  if (job.precision.tf32) out.say("tf32", bool_node(true), "tf32");
}

// The 16-bit dtype that the job computes in; none where it is fp32.
std::optional<DType> half_of(DType type) { return type == DType::kFp32 ? std::nullopt : std::optional<DType>(type); }

void say_zero(const Job& job, Reasoned& out) {
  const job::Sharding& sharding = job.sharding;
  const auto say = [&out](const char* name, Node value, const char* key) {
    out.say(fmt::format("zero_optimization.{}", name), std::move(value), key);
  };
  const auto say_host = [&out](job::OffloadTarget device, const char* table) {
    if (device == job::OffloadTarget::kNvme)
      out.say(fmt::format("zero_optimization.{}.nvme_path", table), text_node("/local_nvme"),
              "a folder on the node's NVMe; put yours here");
    out.say(fmt::format("zero_optimization.{}.pin_memory", table), bool_node(true), "copies overlap with compute");
  };
  say("stage", integer_node(sharding.zero_stage), "zero_stage");
  if (sharding.overlap_comm) say("overlap_comm", bool_node(*sharding.overlap_comm), "overlap_comm");
  say("contiguous_gradients", bool_node(sharding.contiguous_gradients), "contiguous_gradients");
  say("reduce_bucket_size", integer_node(sharding.reduce_bucket), "reduce_bucket_size");
  say("sub_group_size", integer_node(sharding.sub_group_size), "sub_group_size");
  say("stage3_prefetch_bucket_size", integer_node(sharding.prefetch_bucket), "stage3_prefetch_bucket_size");
  say("stage3_param_persistence_threshold", integer_node(sharding.param_persistence),
      "stage3_param_persistence_threshold");
  say("stage3_max_live_parameters", integer_node(sharding.max_live_parameters), "stage3_max_live_parameters");
  say("stage3_max_reuse_distance", integer_node(sharding.max_reuse_distance), "stage3_max_reuse_distance");
  if (sharding.hpz_partition > 1)
    say("zero_hpz_partition_size", integer_node(sharding.hpz_partition), "zero_hpz_partition_size");
  if (sharding.mics_shard > 0) say("mics_shard_size", integer_node(sharding.mics_shard), "mics_shard_size");
  if (sharding.offload_optimizer != job::OffloadTarget::kNone) {
    say("offload_optimizer.device", text_node(std::string(job::name_of(sharding.offload_optimizer))),
        "offload_optimizer_device");
    if (sharding.offload_ratio < 1)
      say("offload_optimizer.ratio", job::real_node(sharding.offload_ratio), "offload_optimizer_ratio");
    say_host(sharding.offload_optimizer, "offload_optimizer");
    say("offload_optimizer.buffer_count", integer_node(sharding.offload_buffer_count),
        "offload_optimizer_buffer_count");
  }
  if (sharding.offload_param != job::OffloadTarget::kNone) {
    say("offload_param.device", text_node(std::string(job::name_of(sharding.offload_param))), "offload_param_device");
    say_host(sharding.offload_param, "offload_param");
    say("offload_param.buffer_count", integer_node(sharding.offload_param_buffer_count), "offload_param_buffer_count");
    say("offload_param.buffer_size", integer_node(sharding.offload_param_buffer_size), "offload_param_buffer_size");
    say("offload_param.max_in_cpu", integer_node(sharding.offload_param_max_in_cpu), "offload_param_max_in_cpu");
  }
}

File accelerate_file(const Order& order, std::optional<DType> mixed) {
  const Job& job = order.job;
  const job::Sharding& sharding = job.sharding;
  const auto reason = [&order](const char* key) { return why(key, order.reasons); };
  const bool version_1 = sharding.kind == job::ShardingKind::kFsdp1;
  std::vector<Line> top = {
      {"compute_environment: LOCAL_MACHINE", "launch.sh runs on every node"},
      {"distributed_type: FSDP", reason("sharding")},
      {fmt::format("mixed_precision: {}", quoted(mixed ? job::name_of(*mixed) : "no")), reason("bf16")},
      {fmt::format("num_machines: {}", order.nodes.nodes), "nodes of the job"},
      {fmt::format("num_processes: {}", job.cluster.gpus), reason("gpus")},
  };
  const bool wraps = sharding.units == job::FsdpUnits::kAccelerate;
  std::vector<Line> fsdp = {
      {fmt::format("fsdp_version: {}", version_1 ? 1 : 2), reason("sharding")},
      {fmt::format("fsdp_auto_wrap_policy: {}", wraps ? "TRANSFORMER_BASED_WRAP" : "NO_WRAP"), reason("fsdp_units")},
      version_1 ? Line{fmt::format("fsdp_sharding_strategy: {}",
                                   sharding.reshard_after_forward ? "FULL_SHARD" : "SHARD_GRAD_OP"),
                       reason("reshard_after_forward")}
                : Line{fmt::format("fsdp_reshard_after_forward: {}", sharding.reshard_after_forward),
                       reason("reshard_after_forward")},
      {fmt::format("fsdp_offload_params: {}", sharding.cpu_offload), reason("fsdp_cpu_offload")},
      {"fsdp_activation_checkpointing: false", "gradient_checkpointing of training_args.json decides"},
      {"fsdp_state_dict_type: SHARDED_STATE_DICT", "every rank saves its own shard"},
  };
  std::string text = "# accelerate: read by accelerate launch --config_file\n" + with_comments(top);
  text += "fsdp_config:\n" + with_comments(fsdp, "  ");
  const job::Parallel& parallel = job.parallel;
  if (sharding.replicas > 1 || parallel.tensor > 1 || parallel.context > 1) {
    const std::int64_t shards = job.data_parallel / std::max<std::int64_t>(1, sharding.replicas);
    const std::vector<Line> sizes = {
        {fmt::format("parallelism_config_dp_replicate_size: {}", sharding.replicas), reason("dp_replicate")},
        {fmt::format("parallelism_config_dp_shard_size: {}", shards), "ranks that share one copy of the model"},
        {fmt::format("parallelism_config_tp_size: {}", parallel.tensor), reason("tensor_model_parallel_size")},
        {fmt::format("parallelism_config_cp_size: {}", parallel.context), reason("context_parallel_size")}};
    text += "parallelism_config:\n" + with_comments(sizes, "  ");
  }
  return File{"accelerate.yaml", std::move(text), false};
}

}  // namespace

Result<std::vector<File>> write_transformers(const Order& order) {
  const job::Precision& precision = order.job.precision;
  PLIMSOLL_TRY(trainer, start_trainer(order, job::Framework::kTransformers));
  const bool mixed = precision.autocast || precision.bf16 || precision.fp16;
  say_precision(order.job, precision.params, mixed ? half_of(precision.compute) : std::nullopt, trainer.arguments);
  return finish_trainer(order, std::move(trainer), {}, "", torchrun(order.nodes), "");
}

Result<std::vector<File>> write_deepspeed(const Order& order) {
  const Job& job = order.job;
  PLIMSOLL_TRY(trainer, start_trainer(order, job::Framework::kDeepSpeed));
  const std::optional<DType> half = half_of(job.precision.params);
  say_precision(job, job.precision.params, half, trainer.arguments);
  Reasoned config("ds_config.json", order.reasons);
  config.say("train_micro_batch_size_per_gpu", integer_node(job.batch.micro_batch), "micro_batch_size");
  config.say("gradient_accumulation_steps", integer_node(job.micro_batches), "gradient_accumulation_steps");
  config.say("gradient_clipping", job::real_node(job.clip_grad ? 1.0 : 0.0), "clip_grad");
  config.say("bf16.enabled", bool_node(half == DType::kBf16), "bf16");
  if (half == DType::kFp16) config.say("fp16.enabled", bool_node(true), "fp16");
  if (job.sharding.grad_accum)
    config.say("data_types.grad_accum_dtype", text_node(std::string(job::name_of(*job.sharding.grad_accum))),
               "grad_accum_dtype");
  say_zero(job, config);
  return finish_trainer(order, std::move(trainer), {config.file()}, config.rows(), torchrun(order.nodes),
                        " --deepspeed ds_config.json");
}

Result<std::vector<File>> write_fsdp2(const Order& order) {
  const Job& job = order.job;
  const job::FsdpUnits units = job.sharding.units;
  if (units != job::FsdpUnits::kAccelerate && units != job::FsdpUnits::kWholeModel)
    return bad_input(fmt::format("fsdp2 cannot express fsdp_units = {}: accelerate wraps each layer, the embedding and "
                                 "the head, or the whole model",
                                 job::name_of(units)),
                     "set fsdp_units accelerate and sync_each_micro_batch false");
  PLIMSOLL_TRY(trainer, start_trainer(order, job::Framework::kFsdp2));
  const bool is_mixed = job.sharding.stored == DType::kFp32;
  const std::optional<DType> mixed = is_mixed ? half_of(job.precision.compute) : std::nullopt;
  say_precision(job, is_mixed ? DType::kFp32 : job.precision.compute, mixed, trainer.arguments);
  const std::string launcher =
      "# RUN='plimsoll run --job FILE --' measures it and compares; RUN='nsys profile -c cudaProfilerApi' traces it.\n"
      "${RUN:-} accelerate launch --config_file accelerate.yaml --machine_rank \"${NODE_RANK:-${SLURM_NODEID:-0}}\" "
      "\\\n"
      "  --main_process_ip \"${MASTER_ADDR:-localhost}\" --main_process_port \"${MASTER_PORT:-29500}\" \\\n";
  return finish_trainer(order, std::move(trainer), {accelerate_file(order, mixed)}, "", launcher, "");
}

}  // namespace plimsoll::emit
