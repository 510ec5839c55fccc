// SPDX-License-Identifier: Apache-2.0
// torchtitan's TOML (facts other-frameworks-memory.md 6.4). Its models are families with flavours, so only
// models of the catalogue that it has can be named.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "emit/host.h"
#include "emit/model_source.h"
#include "emit/targets.h"
#include "emit/text.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::emit {

using document::Node;
using job::bool_node;
using job::integer_node;
using job::Job;
using job::text_node;

namespace {

struct Flavor {
  std::string_view catalogue, family, size;
};
constexpr Flavor kFlavors[] = {
    {"llama3.2-1b", "llama3", "1B"},
    {"llama3.2-3b", "llama3", "3B"},
    {"llama3-8b", "llama3", "8B"},
    {"llama3-70b", "llama3", "70B"},
    {"llama3.1-405b", "llama3", "405B"},
    {"llama4-scout", "llama4", "17bx16e"},
    {"llama4-maverick", "llama4", "17bx128e"},
    {"deepseek-v2-lite", "deepseek_v3", "16B"},
    {"deepseek-v2", "deepseek_v3", "236B"},
    {"deepseek-v3", "deepseek_v3", "671B"},
    {"qwen3-0.6b", "qwen3", "0.6B"},
    {"qwen3-1.7b", "qwen3", "1.7B"},
    {"qwen3-4b", "qwen3", "4B"},
    {"qwen3-8b", "qwen3", "8B"},
    {"qwen3-14b", "qwen3", "14B"},
    {"qwen3-32b", "qwen3", "32B"},
    {"qwen3-30b-a3b", "qwen3", "30B-A3B"},
    {"qwen3-235b-a22b", "qwen3", "235B-A22B"},
};

bool carries_all(std::string_view) { return true; }

struct Table {
  std::string_view name;
  std::vector<Line> lines = {};
};

class Writer {
 public:
  explicit Writer(const std::vector<Reason>& reasons) : reasons_(reasons) {}

  // `key` is the canonical key whose reason the line has.
  void say(std::string_view section, std::string_view field, const Node& value, std::string_view key) {
    auto table = std::find_if(tables_.begin(), tables_.end(), [&](const Table& t) { return t.name == section; });
    if (table == tables_.end()) table = tables_.insert(tables_.end(), Table{section});
    table->lines.push_back({fmt::format("{} = {}", field, value_text(value, " = ")), why_value(key, value, reasons_)});
  }
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const Table& table : tables_) all += fmt::format("\n[{}]\n{}", table.name, with_comments(table.lines));
    return all;
  }

 private:
  const std::vector<Reason>& reasons_;
  std::vector<Table> tables_;
};

std::string long_name(job::DType type) {
  return type == job::DType::kFp32 ? "float32" : type == job::DType::kFp16 ? "float16" : "bfloat16";
}

void say_parallelism(const Job& job, Writer& out) {
  const job::Parallel& p = job.parallel;
  constexpr std::string_view kSection = "parallelism";
  const std::int64_t replicas =
      job.sharding.kind == job::ShardingKind::kDdp ? job.data_parallel : job.sharding.replicas;
  out.say(kSection, "data_parallel_replicate_degree", integer_node(replicas), "dp_replicate");
  out.say(kSection, "data_parallel_shard_degree", integer_node(std::max<std::int64_t>(1, job.data_parallel / replicas)),
          "sharding");
  out.say(kSection, "tensor_parallel_degree", integer_node(p.tensor), "tensor_model_parallel_size");
  out.say(kSection, "pipeline_parallel_degree", integer_node(p.pipeline), "pipeline_model_parallel_size");
  out.say(kSection, "context_parallel_degree", integer_node(p.context), "context_parallel_size");
  if (p.expert > 1) {
    out.say(kSection, "expert_parallel_degree", integer_node(p.expert), "expert_model_parallel_size");
    out.say(kSection, "expert_tensor_parallel_degree", integer_node(job.expert_tensor()),
            "expert_tensor_parallel_size");
  }
  if (p.tensor > 1 && !p.sequence_parallel)
    out.say(kSection, "enable_sequence_parallel", bool_node(false), "sequence_parallel");
  if (p.context > 1)
    out.say(kSection, "context_parallel_rotate_method",
            text_node(p.cp_comm_type.front() == job::CpCommType::kP2p ? "alltoall" : "allgather"), "cp_comm_type");
  if (p.pipeline > 1) {
    const bool gpipe = p.schedule == job::PipelineSchedule::kGpipe;
    out.say(kSection, "pipeline_parallel_schedule",
            text_node(gpipe                    ? "GPipe"
                      : p.virtual_pipeline > 1 ? "Interleaved1F1B"
                                               : "1F1B"),
            "pipeline_schedule");
    if (p.layers_per_virtual_stage)
      out.say(kSection, "pipeline_parallel_layers_per_stage", integer_node(*p.layers_per_virtual_stage),
              "num_layers_per_virtual_pipeline_stage");
    out.say(kSection, "pipeline_parallel_microbatch_size", integer_node(job.batch.micro_batch), "micro_batch_size");
  }
  // "always" reshards norm and head as well, which "default" keeps gathered for their backward.
  const bool by_default = job.sharding.reshard_after_forward == (p.pipeline == 1) && !job.sharding.reshard_head;
  out.say(kSection, "fsdp_reshard_after_forward",
          text_node(by_default                           ? "default"
                    : job.sharding.reshard_after_forward ? "always"
                                                         : "never"),
          "reshard_after_forward");
}

void say_checkpointing(const Job& job, Writer& out) {
  constexpr std::string_view kSection = "activation_checkpoint";
  const job::Recompute& recompute = job.recompute;
  const auto mode = [&](const char* name) { out.say(kSection, "mode", text_node(name), "recompute_granularity"); };
  if (recompute.memory_budget >= 0) {
    mode("memory_budget");
    out.say(kSection, "memory_budget", job::real_node(recompute.memory_budget), "activation_memory_budget");
  } else if (recompute.granularity == job::RecomputeGranularity::kSelectiveOps) {
    mode("selective");
    out.say(kSection, "selective_ac_option", text_node("op"), "recompute_granularity");
  } else if (recompute.granularity == job::RecomputeGranularity::kFull && recompute.every_nth_layer > 0) {
    mode("selective");
    out.say(kSection, "selective_ac_option", text_node(std::to_string(recompute.every_nth_layer)),
            "recompute_every_nth_layer");
  } else {
    mode(recompute.granularity == job::RecomputeGranularity::kFull ? "full" : "none");
  }
}

void say_optimizer(const Job& job, Writer& out) {
  const bool adam = job.optimizer.kind == job::OptimizerKind::kAdam;
  out.say("optimizer", "name", text_node(adam ? "AdamW" : std::string(job::name_of(job.optimizer.kind))), "optimizer");
  const bool half = job.optimizer.exp_avg == job::DType::kBf16 && job.optimizer.exp_avg_sq == job::DType::kBf16;
  const char* loops = job.optimizer.impl == job::OptimizerImpl::kLoop      ? "for-loop"
                      : job.optimizer.impl == job::OptimizerImpl::kForeach ? "foreach"
                                                                           : "fused";
  out.say("optimizer", "implementation", text_node(half ? "fused_opt_states_bf16" : loops), "optimizer_implementation");
}

}  // namespace

Result<std::vector<File>> write_torchtitan(const Order& order) {
  const Job& job = order.job;
  const ModelSource source = model_source(job);
  const auto* const flavor = std::find_if(std::begin(kFlavors), std::end(kFlavors),
                                          [&](const Flavor& f) { return f.catalogue == source.name; });
  if (flavor == std::end(kFlavors) || !source.changes.empty())
    return bad_input(fmt::format("torchtitan cannot express the model {}{}", job.model.name,
                                 source.changes.empty() ? "" : fmt::format(" with another {}", source.changes[0].key)),
                     "it has Llama 3, Llama 4, DeepSeek V3 and Qwen 3");
  Writer out(order.reasons);
  out.say("model", "name", text_node(std::string(flavor->family)), "family of the model");
  out.say("model", "flavor", text_node(std::string(flavor->size)), "its size");
  const bool pipelined = job.parallel.pipeline > 1;
  out.say("training", "seq_len", integer_node(job.batch.seq_length), "seq_length");
  out.say("training", "local_batch_size", integer_node(job.batch.micro_batch * (pipelined ? job.micro_batches : 1)),
          "micro_batch_size");
  if (!pipelined && job.micro_batches > 1)
    out.say("training", "global_batch_size",
            integer_node(job.micro_batches * job.batch.micro_batch * job.data_parallel), "global_batch_size");
  out.say("training", "mixed_precision_param", text_node(long_name(job.precision.compute)), "compute_dtype");
  out.say("training", "mixed_precision_reduce", text_node(long_name(job.sharding.reduce)), "reduce_dtype");
  if (job.sharding.stored != job::DType::kFp32)
    out.say("training", "dtype", text_node(long_name(job.sharding.stored)), "stored_dtype");
  if (job.sharding.cpu_offload) out.say("training", "enable_cpu_offload", bool_node(true), "fsdp_cpu_offload");
  out.say("training", "max_norm", job::real_node(job.clip_grad ? 1.0 : 0.0), "clip_grad");
  say_parallelism(job, out);
  say_checkpointing(job, out);
  say_optimizer(job, out);
  out.say("compile", "enable", bool_node(job.kernels.torch_compile), "torch_compile");

  Choice choice{job::Framework::kTorchtitan, carries_all, {"gpus", "gpus_per_node"}, {}, source.base, {}};
  std::vector<Setting> facts = chosen_settings(job, choice);
  std::erase_if(facts, [](const Setting& setting) { return !is_fact(setting.key); });
  constexpr std::string_view kRead = "plimsoll fit train.toml plimsoll.toml";
  std::string script =
      script_head(job, fmt::format("Trains with torchtitan. Read it again: {}", kRead), order.environment);
  script += "\ncd \"$(dirname \"${BASH_SOURCE[0]}\")\"\nEXTRA=()\n";
  script += profiler_switch({"EXTRA",
                             {"--profiling.enable_profiling", "--profiling.profile_freq 12"},
                             {"--profiling.enable_memory_snapshot"},
                             false});
  script +=
      fmt::format("\n{}  -m torchtitan.train --job.config_file train.toml \"${{EXTRA[@]}}\"\n", torchrun(order.nodes));
  return std::vector<File>{{"train.toml", fmt::format("# torchtitan: {}\n{}", kRead, out.text()), false},
                           {"launch.sh", std::move(script), true},
                           facts_file(facts, order.environment, order.reasons, kRead),
                           slurm_script(job, order.nodes),
                           numa_script(job, order.nodes)};
}

}  // namespace plimsoll::emit
