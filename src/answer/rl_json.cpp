// SPDX-License-Identifier: Apache-2.0
#include "answer/describe.h"
#include "answer/rl.h"

namespace plimsoll::answer {

namespace {

void write_lengths(JsonWriter& json, const char* name, const rl::Lengths& lengths) {
  json.key(name)
      .begin_object(Layout::kInline)
      .member("mean", lengths.mean)
      .member("cv", lengths.cv)
      .member("maximum", lengths.maximum)
      .end_object();
}

void write_run(JsonWriter& json, const rl::Run& run) {
  json.key("run")
      .begin_object()
      .member("name", run.name)
      .member("framework", rl::name_of(run.framework))
      .member("model", run.model.name)
      .member("gpu", run.cluster.gpu.id)
      .member("gpus", run.cluster.gpus)
      .member("placement", rl::name_of(run.placement))
      .member("mode", rl::name_of(run.staleness.mode))
      .member("max_async_rollout", run.staleness.limit)
      .member("trainer_gpus", run.trainer_gpus)
      .member("trainer", describe_trainer(run))
      .member("inference_gpus", run.inference_gpus)
      .member("servers", run.servers())
      .member("inference_tensor_parallel_size", run.server.tensor)
      .member("group_size", run.algorithm.group_size)
      .member("prompts_per_step", run.algorithm.prompts_per_step)
      .member("seq_len", run.packing.seq_len);
  write_lengths(json, "prompt", run.prompt);
  write_lengths(json, "completion", run.completion);
  json.end_object();
}

void write_trainer(JsonWriter& json, const rl::Evaluation& evaluation) {
  const rl::TrainerMemory& memory = evaluation.memory;
  json.key("trainer_memory")
      .begin_object()
      .member("fits", memory.fits)
      .member("capacity_bytes", memory.capacity)
      .member("parameter_bytes", memory.parameters)
      .member("gradient_bytes", memory.gradients)
      .member("optimizer_bytes", memory.optimizer)
      .member("gathered_copy_bytes", memory.copy)
      .member("bucket_bytes", memory.bucket);
  json.key("peaks").begin_array();
  for (const rl::Peak& peak : memory.peaks)
    json.begin_object(Layout::kInline).member("name", peak.name).member("bytes", peak.bytes).end_object();
  json.end_array();
  describe(json, memory.rank.table);
  json.key("shared_phases").begin_array();
  for (const rl::SharedPhase& phase : evaluation.phases)
    json.begin_object(Layout::kInline)
        .member("name", phase.name)
        .member("bytes", phase.bytes)
        .member("fits", phase.fits)
        .end_object();
  json.end_array().end_object();
}

void write_server(JsonWriter& json, const inference::ServerMemory& server) {
  json.key("server_memory")
      .begin_object()
      .member("capacity_bytes", server.server.gpu.capacity)
      .member("requested_bytes", server.requested)
      .member("kv_bytes", server.kv_bytes)
      .member("blocks", server.blocks)
      .member("kv_tokens", server.kv_tokens)
      .member("max_concurrency", server.max_concurrency)
      .member("start_up_error", server.start_up_error)
      .member("capture_risk", server.capture_risk);
  json.key("table").begin_array();
  for (const inference::MemoryRow& row : server.table)
    json.begin_object(Layout::kInline)
        .member("name", row.name)
        .member("bytes", row.bytes)
        .member("estimated", row.estimated)
        .end_object();
  json.end_array().end_object();
}

void write_time(JsonWriter& json, const rl::Run& run, const rl::Evaluation& evaluation) {
  const rl::TrainerTime& time = evaluation.time;
  const rl::SyncTime& sync = evaluation.sync;
  json.key("trainer_seconds")
      .begin_object()
      .member("forward_backward", time.forward_backward)
      .member("log_probabilities", time.extra_passes)
      .member("critic", time.critic)
      .member("optimizer", time.optimizer)
      .member("overhead", time.overhead)
      .member("batch", time.seconds)
      .member("attention_share", time.attention_share)
      .end_object();
  json.key("weight_sync_seconds")
      .begin_object(Layout::kInline)
      .member("gather", sync.gather)
      .member("staging", sync.staging)
      .member("switching", sync.switching)
      .member("transfer", sync.transfer)
      .member("load", sync.load)
      .member("total", sync.seconds())
      .end_object();
  const rl::Packed& packed = time.packed;
  json.key("packing")
      .begin_object(Layout::kInline)
      .member("samples", packed.samples)
      .member("bins", packed.bins)
      .member("bins_per_rank", packed.per_rank)
      .member("truncated", packed.truncated)
      .member("lost_tokens", packed.lost_tokens)
      .member("efficiency", packed.efficiency(run.trainer.data_parallel))
      .end_object();
}

void write_loop(JsonWriter& json, const rl::Evaluation& evaluation) {
  const rl::Balance& balance = evaluation.balance;
  json.key("closed_form")
      .begin_object()
      .member("period_seconds", balance.period)
      .member("tokens_per_second", balance.tokens_per_second)
      .member("generate_seconds", balance.generate)
      .member("train_seconds", balance.train)
      .member("requests_per_server", balance.concurrency)
      .member("requests_that_the_cache_holds", balance.kv_concurrency)
      .member("decode_step_seconds", balance.decode_step)
      .member("mean_context", balance.mean_context)
      .end_object();
  const rl::Simulation& simulation = evaluation.simulation;
  json.key("simulation")
      .begin_object()
      .member("period_seconds", simulation.period)
      .member("tokens_per_second", simulation.tokens_per_second)
      .member("generated_tokens_per_second", simulation.generated_per_second)
      .member("trainer_idle", simulation.trainer_idle)
      .member("trainer_sync", simulation.trainer_sync)
      .member("server_idle", simulation.server_idle)
      .member("server_paused", simulation.server_paused)
      .member("dispatch_paused", simulation.dispatch_paused)
      .member("requests_per_server", simulation.mean_running)
      .member("kv_usage", simulation.kv_usage)
      .member("kv_peak", simulation.kv_peak)
      .member("preemptions_per_step", simulation.preemptions_per_step)
      .member("recomputed_share", simulation.recomputed_share)
      .member("late_share", simulation.late_share)
      .member("cancelled_share", simulation.cancelled_share)
      .member("zero_advantage_share", simulation.zero_share)
      .member("group_seconds", simulation.mean_latency)
      .member("mean_staleness", simulation.mean_staleness);
  json.key("staleness").begin_array(Layout::kInline);
  for (const double share : simulation.staleness) json.value(share);
  json.end_array().end_object();
}

}  // namespace

std::string to_json(const RlAnswer& answer) {
  const rl::Run& run = answer.run;
  const rl::Evaluation& evaluation = answer.evaluation;
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("fits", evaluation.fits());
  write_run(json, run);
  json.member("tokens_per_second", evaluation.tokens_per_second())
      .member("period_seconds", evaluation.period())
      .member("bound_by", rl::text_of(evaluation.limit));
  write_texts(json, "evidence", evaluation.evidence);
  write_texts(json, "problems", evaluation.problems);
  write_texts(json, "warnings", evaluation.warnings);
  write_trainer(json, evaluation);
  write_server(json, evaluation.server);
  write_time(json, run, evaluation);
  if (evaluation.loop != nullptr) write_loop(json, evaluation);
  return json.end_object().take();
}

std::string rl_keys_json() {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).key("keys").begin_array();
  for (const rl::Key& key : rl::key_table())
    json.begin_object(Layout::kInline)
        .member("key", key.name)
        .member("section", key.section)
        .member("value", rl::type_name(key))
        .member("meaning", key.doc)
        .member("also", key.aliases)
        .end_object();
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::answer
