// SPDX-License-Identifier: Apache-2.0
#include "answer/describe.h"

#include "base/text.h"
#include "emit/settings.h"

namespace plimsoll::answer {

namespace {

using job::name_of;

// A list of words that the job's fields hold under this key.
void write_list(JsonWriter& json, const job::Job& job, const char* key) {
  json.key(key).begin_array(Layout::kInline);
  if (const auto value = emit::held_value(job, key))
    for (const document::Node& item : value->items) json.value(document::to_text(item));
  json.end_array();
}

void write_precision(JsonWriter& json, const job::Job& job) {
  const job::Precision& p = job.precision;
  json.key("precision")
      .begin_object(Layout::kInline)
      .member("params", name_of(p.params))
      .member("compute", name_of(p.compute))
      .member("autocast", p.autocast)
      .member("fp8", name_of(p.fp8))
      .member("fp8_param_gather", p.fp8_param_gather)
      .member("fp4", p.fp4)
      .end_object();
}

void write_state(JsonWriter& json, const job::Job& job) {
  const job::Optimizer& o = job.optimizer;
  json.key("optimizer")
      .begin_object(Layout::kInline)
      .member("kind", name_of(o.kind))
      .member("distributed", o.distributed)
      .member("precision_aware", o.precision_aware)
      .member("gradients_in_fp32", o.grad_reduce_in_fp32)
      .member("on_host", o.cpu_offload_fraction)
      .end_object();
  const job::Sharding& s = job.sharding;
  json.key("sharding").begin_object(Layout::kInline).member("kind", name_of(s.kind));
  if (s.kind == job::ShardingKind::kZero)
    json.member("zero_stage", static_cast<std::int64_t>(s.zero_stage))
        .member("optimizer_on", name_of(s.offload_optimizer))
        .member("weights_on", name_of(s.offload_param));
  if (s.kind == job::ShardingKind::kFsdp2 || s.kind == job::ShardingKind::kFsdp1)
    json.member("reshard_after_forward", s.reshard_after_forward)
        .member("replicas", s.replicas)
        .member("on_host", s.cpu_offload);
  if (s.kind == job::ShardingKind::kMegatronFsdp) json.member("strategy", name_of(s.megatron_strategy));
  json.end_object();
}

void write_activations(JsonWriter& json, const job::Job& job) {
  json.key("recompute").begin_object(Layout::kInline).member("granularity", name_of(job.recompute.granularity));
  if (job.recompute.granularity == job::RecomputeGranularity::kSelective) write_list(json, job, "recompute_modules");
  if (job.recompute.granularity == job::RecomputeGranularity::kFull && job.is_megatron())
    json.member("method", name_of(job.recompute.method)).member("num_layers", job.recompute.num_layers);
  json.end_object();
  const job::Offload& o = job.offload;
  json.key("offload").begin_object(Layout::kInline).member("layers", o.activations ? o.activation_layers : 0);
  if (o.fine_grained) write_list(json, job, "offload_modules");
  json.member("checkpointed_inputs", o.checkpointed_inputs).end_object();
}

void write_adapter(JsonWriter& json, const job::Job& job) {
  json.key("adapter").begin_object(Layout::kInline).member("kind", name_of(job.adapter.kind));
  if (job.adapter.kind != job::AdapterKind::kNone) {
    json.member("rank", job.adapter.rank).member("quantized_base", job.adapter.has_quantized_base());
    json.key("targets").begin_array(Layout::kInline);
    for (const std::string& target : emit::lora_targets(job)) json.value(target);
    json.end_array();
  }
  json.end_object();
}

}  // namespace

void describe(JsonWriter& json, const job::Job& job) {
  json.key("job")
      .begin_object()
      .member("name", job.name)
      .member("framework", name_of(job.framework))
      .member("model", job.model.name)
      .member("gpu", job.cluster.gpu.id)
      .member("gpus", job.cluster.gpus)
      .member("tensor_model_parallel_size", job.parallel.tensor)
      .member("pipeline_model_parallel_size", job.parallel.pipeline)
      .member("virtual_pipeline_model_parallel_size", job.parallel.virtual_pipeline)
      .member("context_parallel_size", job.parallel.context)
      .member("expert_model_parallel_size", job.parallel.expert)
      .member("expert_tensor_parallel_size", job.expert_tensor())
      .member("data_parallel_size", job.data_parallel)
      .member("sequence_parallel", job.parallel.sequence_parallel)
      .member("seq_length", job.batch.seq_length)
      .member("micro_batch_size", job.batch.micro_batch)
      .member("micro_batches", job.micro_batches)
      .member("global_batch_size", job.batch.micro_batch * job.micro_batches * job.data_parallel)
      .member("packed", job.batch.packed)
      .member("eval_micro_batch_size", job.batch.eval_micro_batch);
  write_precision(json, job);
  write_state(json, job);
  write_activations(json, job);
  write_adapter(json, job);
  json.key("kernels")
      .begin_object(Layout::kInline)
      .member("implementation", name_of(job.kernels.implementation))
      .member("attention", name_of(job.kernels.attention))
      .member("loss", name_of(job.kernels.loss))
      .member("cuda_graphs", name_of(job.kernels.cuda_graphs))
      .member("torch_compile", job.kernels.torch_compile)
      .end_object();
  json.key("environment").begin_object();
  for (const auto& [name, value] : job.environment) json.member(name, value);
  json.end_object().end_object();
}

}  // namespace plimsoll::answer
