// SPDX-License-Identifier: Apache-2.0
// Trainer under DeepSpeed, with ds_config.json.
#include <fmt/format.h>

#include "emit/text.h"
#include "framework/transformers/trainer.h"
#include "job/value.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::DType;
using job::integer_node;
using job::Job;
using job::text_node;

namespace {

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

}  // namespace

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

}  // namespace plimsoll::emit
