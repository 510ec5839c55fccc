// SPDX-License-Identifier: Apache-2.0
// Trainer under FSDP, with accelerate.yaml.
#include <fmt/format.h>

#include "emit/text.h"
#include "framework/transformers/trainer.h"
#include "job/value.h"

namespace plimsoll::emit {

using job::DType;
using job::Job;

namespace {

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
      job.checkpoint.saved == job::StateDict::kFull
          ? Line{"fsdp_state_dict_type: FULL_STATE_DICT", reason("state_dict_type")}
          : Line{"fsdp_state_dict_type: SHARDED_STATE_DICT", "every rank saves its own shard"},
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
