// SPDX-License-Identifier: Apache-2.0
// The rows of key_table(). Names are Telescope's where it has the knob (facts rl-and-inference.md 1), else a
// plain word; the aliases are what verl, NeMo-RL, OpenRLHF, prime-rl, vLLM and SGLang call the same thing.
#include <fmt/format.h>

#include "base/bytes.h"
#include "rl/keys.h"

#define PLIMSOLL_RUN(member) (+[](::plimsoll::rl::Run& run) -> auto& { return run.member; })

namespace plimsoll::rl {

using document::Node;
using job::Range;

namespace {

constexpr Range kCount{1, 1 << 20};
constexpr Range kCountOrZero{0, 1 << 24};
constexpr Range kTokens{1, 1 << 30};
constexpr Range kTokensOrZero{0, 1 << 30};
constexpr Range kFraction{0, 1};
constexpr Range kSeconds{0, 1e7};
constexpr Range kRatio{0, 100};

Status set_gpu(Run& run, const Node& value) {
  PLIMSOLL_TRY(name, job::to_word(value));
  PLIMSOLL_TRY(gpu, cluster::find_gpu(name));
  run.cluster.gpu = gpu;
  cluster::use_typical_node(run.cluster);
  return {};
}

Status set_gpu_memory(Run& run, const Node& value) {
  PLIMSOLL_TRY(bytes, job::to_bytes(value));
  if (bytes < 1) return bad_input("wanted a positive size");
  run.cluster.gpu.capacity = bytes;
  return {};
}

Status set_host_memory(Run& run, const Node& value) {
  PLIMSOLL_TRY(bytes, job::to_bytes(value));
  run.cluster.host_memory = bytes;
  return {};
}

Status set_bucket_mb(Run& run, const Node& value) {
  PLIMSOLL_TRY(mib, job::to_integer(value, Range{1, 1 << 20}));
  run.sync.bucket_bytes = mib * kMiB;
  return {};
}

Status set_kv_cache_memory(Run& run, const Node& value) {
  PLIMSOLL_TRY(bytes, job::to_bytes(value));
  if (bytes < 1) return bad_input("wanted a positive size");
  run.server.kv_cache_bytes = bytes;
  return {};
}

Status set_version(Run& run, const Node& value) {
  if (!value.is_string())
    return bad_input(
        fmt::format("found {}, wanted text such as \"0.17.1\": a number would lose its zeros", job::shown(value)));
  PLIMSOLL_TRY(version, inference::parse_version(document::to_text(value)));
  run.server.version = version;
  return {};
}

// Telescope: `batch` recomputes the old log-probabilities with one forward over the batch.
Status set_ref_logprobs(Run& run, const Node& value) {
  PLIMSOLL_TRY(word, job::to_word(value));
  if (word != "rollout" && word != "batch")
    return bad_input(fmt::format("found {}, wanted rollout or batch", job::shown(value)));
  run.algorithm.logprob_pass = word == "batch";
  return {};
}

Status set_trainer_framework(Run& run, const Node& value) {
  PLIMSOLL_TRY(word, job::to_word(value));
  const auto found = job::from_name<job::Framework>(word);
  if (!found || job::facts_of(*found).drives_others)
    return bad_input(fmt::format("found {}, wanted one of fsdp2, megatron-lm, megatron-bridge, deepspeed, torchtitan",
                                 job::shown(value)));
  if (*found == run.trainer_framework) return {};
  run.trainer_framework = *found;
  run.trainer_keys = default_trainer_keys(run.framework, *found);
  return {};
}

void put(Run& run, const char* key, std::string value) {
  std::erase_if(run.trainer_keys, [key](const auto& given) { return given.first == key; });
  run.trainer_keys.emplace_back(key, std::move(value));
  run.given.insert(key);
}

template <const char* const& key>
std::string tell_plain(const Run& run) {
  return trainer_value(run, key);
}

std::string tell_bucket_mb(const Run& run) { return std::to_string(run.sync.bucket_bytes / kMiB); }
std::string tell_checkpointing(const Run& run) {
  return run.trainer.recompute.granularity == job::RecomputeGranularity::kNone ? "false" : "true";
}
std::string tell_fp8(const Run& run) { return run.trainer.asked.fp8 ? "true" : "false"; }
std::string tell_transformer_engine(const Run& run) {
  return run.trainer.kernels.implementation == job::Implementation::kTransformerEngine ? "true" : "false";
}

template <const char* const& key>
Status set_plain(Run& run, const Node& value) {
  put(run, key, document::to_text(value));
  return {};
}

constexpr const char* kTensor = "tensor_model_parallel_size";
constexpr const char* kPipeline = "pipeline_model_parallel_size";
constexpr const char* kContext = "context_parallel_size";
constexpr const char* kExpert = "expert_model_parallel_size";
constexpr const char* kGradFp32 = "grad_reduce_in_fp32";
constexpr const char* kDistributed = "use_distributed_optimizer";
constexpr const char* kOffload = "optimizer_cpu_offload";
constexpr const char* kOffloadFraction = "optimizer_offload_fraction";
constexpr const char* kStored = "stored_dtype";
constexpr const char* kCompute = "compute_dtype";

// Full, uniform, one layer at a time (facts rl-and-inference.md 1).
Status set_checkpointing(Run& run, const Node& value) {
  PLIMSOLL_TRY(on, job::to_bool(value));
  put(run, "recompute_granularity", on ? "full" : "none");
  if (on) {
    put(run, "recompute_method", "uniform");
    put(run, "recompute_num_layers", "1");
  }
  return {};
}

// Delayed scaling, e4m3.
Status set_fp8(Run& run, const Node& value) {
  PLIMSOLL_TRY(on, job::to_bool(value));
  put(run, "fp8", on ? "e4m3" : "none");
  if (on) put(run, "fp8_recipe", "delayed");
  return {};
}

Status set_transformer_engine(Run& run, const Node& value) {
  PLIMSOLL_TRY(on, job::to_bool(value));
  put(run, "transformer_impl", on ? "transformer_engine" : "local");
  return {};
}

const Key kKeys[] = {
    {"model", "", PLIMSOLL_RUN(model_name), "catalogue name, or path of a config.json"},
    {"gpu", "cluster", Custom{set_gpu, "catalogue name"}, "the GPU of both pools"},
    {"gpus", "cluster", PLIMSOLL_RUN(cluster.gpus), "GPUs of the whole run", kCount},
    {"gpus_per_node", "cluster", PLIMSOLL_RUN(cluster.gpus_per_node), "GPUs of one node", Range{1, 4096}},
    {"gpu_memory", "cluster", Custom{set_gpu_memory, "bytes"}, "capacity of one GPU, instead of the catalogue's"},
    {"host_memory", "cluster", Custom{set_host_memory, "bytes"}, "host memory of one node; 0 is unknown"},
    {"placement", "", PLIMSOLL_RUN(placement), "one pool of GPUs for both, or one each"},
    {"mode", "", PLIMSOLL_RUN(staleness.mode), "whether generation waits for training"},
    {"trainer_num_workers", "", PLIMSOLL_RUN(trainer_gpus), "GPUs of the trainer", kCount, "trainer_gpus"},
    {"inference_num_workers", "", PLIMSOLL_RUN(inference_gpus), "GPUs of the servers, not servers", kCount,
     "inference_gpus"},

    {"group_size", "algorithm", PLIMSOLL_RUN(algorithm.group_size), "samples per prompt", Range{1, 4096},
     "num_generations_per_prompt n_samples_per_prompt rollout_n"},
    {"prompts_batch_size_for_trainer", "algorithm", PLIMSOLL_RUN(algorithm.prompts_per_step), "groups per trainer step",
     Range{1, 1 << 20}, "prompts_per_step num_prompts_per_step"},
    {"number_of_minibatches", "algorithm", PLIMSOLL_RUN(algorithm.minibatches), "optimizer steps per batch",
     Range{1, 4096}},
    {"epochs", "algorithm", PLIMSOLL_RUN(algorithm.epochs), "passes over a batch", Range{1, 64},
     "ppo_epochs max_epochs"},
    {"reference_pass", "algorithm", PLIMSOLL_RUN(algorithm.reference_pass), "log-probabilities of a frozen model"},
    {"critic", "algorithm", PLIMSOLL_RUN(algorithm.critic), "a value model of the same size is trained too"},
    {"logprob_pass", "algorithm", PLIMSOLL_RUN(algorithm.logprob_pass),
     "the trainer recomputes the old log-probabilities"},
    {"ppo_clip_ref_logprobs", "algorithm", Custom{set_ref_logprobs, "rollout, batch"},
     "batch is the same as logprob_pass"},
    {"discard_group_zero_advantage", "algorithm", PLIMSOLL_RUN(algorithm.discard_zero_advantage),
     "groups whose rewards are all equal are dropped"},
    {"zero_advantage_share", "algorithm", PLIMSOLL_RUN(algorithm.zero_advantage_share), "share of such groups",
     Range{0, 0.99}},
    {"reward_seconds", "algorithm", PLIMSOLL_RUN(algorithm.reward_seconds), "from the last token to the reward",
     kSeconds},
    {"prompt_seconds", "algorithm", PLIMSOLL_RUN(algorithm.prompt_seconds), "to prepare one prompt", kSeconds},
    {"overhead_seconds", "algorithm", PLIMSOLL_RUN(algorithm.overhead_seconds),
     "of a trainer step, beside what is modelled", kSeconds},

    {"prompt_mean", "lengths", PLIMSOLL_RUN(prompt.mean), "tokens of a prompt", kTokens},
    {"prompt_cv", "lengths", PLIMSOLL_RUN(prompt.cv), "their standard deviation over their mean", kRatio},
    {"prompt_max", "lengths", PLIMSOLL_RUN(prompt.maximum), "the longest; 0 is no limit", kTokensOrZero,
     "max_prompt_length"},
    {"prompt_histogram", "lengths", PLIMSOLL_RUN(prompt.histogram), "file with lines: length, or length count"},
    {"completion_mean", "lengths", PLIMSOLL_RUN(completion.mean), "tokens of a completion, cut ones counted as cut",
     kTokens},
    {"completion_cv", "lengths", PLIMSOLL_RUN(completion.cv),
     "standard deviation over mean of the lognormal that is cut at max_tokens", kRatio},
    {"max_tokens", "lengths", PLIMSOLL_RUN(completion.maximum), "completions are cut here", kTokensOrZero,
     "max_response_length max_new_tokens"},
    {"completion_histogram", "lengths", PLIMSOLL_RUN(completion.histogram), "file with lines: length, or length count"},

    {"seq_len", "packing", PLIMSOLL_RUN(packing.seq_len), "tokens of a bin of the trainer", kTokens,
     "ppo_max_token_len_per_gpu max_total_sequence_length"},
    {"pad_to_multiple_of", "packing", PLIMSOLL_RUN(packing.pad_to_multiple_of), "bins are padded to this",
     Range{1, 1 << 20}, "make_sequence_length_divisible_by"},
    {"packing", "packing", PLIMSOLL_RUN(packing.enabled), "samples share bins; false pads each to seq_len", Range{0, 0},
     "sequence_packing use_remove_padding packing_samples"},
    {"loss_chunk", "packing", PLIMSOLL_RUN(loss_chunk), "tokens of a chunk of a fused head and loss; 0 is none",
     kTokensOrZero, "fused_lm_head_chunk_size"},

    {"max_async_rollout", "staleness", PLIMSOLL_RUN(staleness.limit),
     "batches that generation may be ahead of the trainer; 0 is synchronous", Range{0, 1024},
     "staleness_threshold max_trajectory_age_steps async_queue_size max_head_offpolicyness async_generation_ratio"},
    {"max_off_policy_steps", "staleness", PLIMSOLL_RUN(staleness.max_off_policy_steps),
     "weight updates that a sample may live through; -1 is any number", Range{-1, 1 << 20}},
    {"in_flight_weight_updates", "staleness", PLIMSOLL_RUN(staleness.in_flight_updates),
     "weights change under running samples; false lets them finish first", Range{0, 0},
     "partial_rollout partial_rollout_enable"},
    {"trigger_parameter_sync_step", "staleness", PLIMSOLL_RUN(staleness.sync_every), "trainer steps per weight update",
     Range{1, 1024}},

    {"max_concurrent_prompts_per_server", "lanes", PLIMSOLL_RUN(lanes.prompts_per_server),
     "prompts in flight per server; request lanes are this times group_size; 0 is what the engine takes",
     Range{0, 1 << 20}},
    {"enable_individual_sample_lanes", "lanes", PLIMSOLL_RUN(lanes.individual), "a lane is one sample, not a group"},
    {"free_lane_after_generation", "lanes", PLIMSOLL_RUN(lanes.free_after_generation),
     "a lane is freed before its reward is there"},
    {"enable_prompt_prefetch", "lanes", PLIMSOLL_RUN(lanes.prefetch), "prompts are prepared ahead"},
    {"prompt_prefetch_buffer_size", "lanes", PLIMSOLL_RUN(lanes.prefetch_buffer), "prompts prepared ahead",
     kCountOrZero},

    {"weight_broadcast_mode", "sync", PLIMSOLL_RUN(sync.mode), "how weights reach the servers"},
    {"weight_broadcast_bucket_mb", "sync", Custom{set_bucket_mb, "integer", tell_bucket_mb}, "MiB of one bucket"},
    {"weight_broadcast_cpu_staging", "sync", PLIMSOLL_RUN(sync.cpu_staging), "the gathered copy goes to the host"},
    {"weight_broadcast_pin_memory", "sync", PLIMSOLL_RUN(sync.pin_memory), "that copy is pinned"},
    {"weight_broadcast_free_grad_buffers", "sync", PLIMSOLL_RUN(sync.free_grad_buffers),
     "Megatron: gradient buffers are released during the gather"},

    {"ray_trainer_placement_strategy", "ray", PLIMSOLL_RUN(placing.trainer), "where Ray puts the trainer's ranks"},
    {"ray_inference_placement_strategy", "ray", PLIMSOLL_RUN(placing.inference), "where Ray puts the servers' ranks"},

    {"engine", "inference", PLIMSOLL_RUN(server.engine), "what serves"},
    {"engine_version", "inference", Custom{set_version, "version"}, "its version", Range{0, 0}, "vllm_version"},
    {"inference_tensor_parallel_size", "inference", PLIMSOLL_RUN(server.tensor), "GPUs that share each layer",
     Range{1, 1024}, "gen_tp"},
    {"inference_pipeline_parallel_size", "inference", PLIMSOLL_RUN(server.pipeline), "GPUs that share the depth",
     Range{1, 1024}, "gen_pp"},
    {"gpu_memory_utilization", "inference", PLIMSOLL_RUN(server.memory_fraction),
     "share of a GPU that the engine takes", kFraction, "mem_fraction_static"},
    {"max_model_len", "inference", PLIMSOLL_RUN(server.max_model_len), "longest request", kTokens, "context_length"},
    {"max_num_seqs", "inference", PLIMSOLL_RUN(server.max_num_seqs), "requests that run at once", Range{1, 1 << 20},
     "max_running_requests"},
    {"max_num_batched_tokens", "inference", PLIMSOLL_RUN(server.max_num_batched_tokens), "tokens of one forward pass",
     kTokens, "chunked_prefill_size"},
    {"block_size", "inference", PLIMSOLL_RUN(server.block_size), "tokens of a block of the cache", Range{1, 1 << 16},
     "page_size"},
    {"inference_weights", "inference", PLIMSOLL_RUN(server.weights), "storage of the served weights"},
    {"kv_cache_dtype", "inference", PLIMSOLL_RUN(server.kv), "storage of the cache"},
    {"kv_cache_memory", "inference", Custom{set_kv_cache_memory, "bytes"}, "size of the cache, instead of the share"},
    {"enforce_eager", "inference", PLIMSOLL_RUN(server.enforce_eager), "no CUDA graphs"},
    {"enable_prefix_caching", "inference", PLIMSOLL_RUN(server.prefix_caching), "a group's prompt is prefilled once",
     Range{0, 0}, "prefix_caching"},

    {"sleep_level", "colocated", PLIMSOLL_RUN(sleep), "what a server gives up while the trainer works"},
    {"offload_trainer", "colocated", PLIMSOLL_RUN(offload_trainer),
     "parameters and optimizer go to the host during generation"},

    {"trainer_framework", "trainer",
     Custom{set_trainer_framework, "fsdp2, megatron-lm, megatron-bridge, deepspeed, torchtitan"}, "what trains",
     Range{0, 0}, "train_backend"},
    {"model_dtype", "trainer", Custom{set_plain<kStored>, "fp32, bf16", tell_plain<kStored>},
     "FSDP: storage of the sharded weights"},
    {"mixed_precision_dtype", "trainer", Custom{set_plain<kCompute>, "bf16, fp16", tell_plain<kCompute>},
     "FSDP: dtype of the computation"},
    {"megatron_tensor_parallel_size", "trainer", Custom{set_plain<kTensor>, "integer", tell_plain<kTensor>},
     "tensor_model_parallel_size"},
    {"megatron_pipeline_parallel_size", "trainer", Custom{set_plain<kPipeline>, "integer", tell_plain<kPipeline>},
     "pipeline_model_parallel_size"},
    {"megatron_context_parallel_size", "trainer", Custom{set_plain<kContext>, "integer", tell_plain<kContext>},
     "context_parallel_size"},
    {"megatron_expert_parallel_size", "trainer", Custom{set_plain<kExpert>, "integer", tell_plain<kExpert>},
     "expert_model_parallel_size"},
    {"megatron_gradient_checkpointing", "trainer", Custom{set_checkpointing, "boolean", tell_checkpointing},
     "recomputation: full, uniform, one layer"},
    {"megatron_grad_reduce_in_fp32", "trainer", Custom{set_plain<kGradFp32>, "boolean", tell_plain<kGradFp32>},
     "grad_reduce_in_fp32"},
    {"megatron_use_distributed_optimizer", "trainer",
     Custom{set_plain<kDistributed>, "boolean", tell_plain<kDistributed>}, "use_distributed_optimizer"},
    {"megatron_optimizer_cpu_offload", "trainer", Custom{set_plain<kOffload>, "boolean", tell_plain<kOffload>},
     "optimizer_cpu_offload"},
    {"megatron_optimizer_offload_fraction", "trainer",
     Custom{set_plain<kOffloadFraction>, "number", tell_plain<kOffloadFraction>}, "optimizer_offload_fraction"},
    {"megatron_use_transformer_engine", "trainer", Custom{set_transformer_engine, "boolean", tell_transformer_engine},
     "Transformer Engine's modules"},
    {"megatron_fp8", "trainer", Custom{set_fp8, "boolean", tell_fp8}, "FP8 products with delayed scaling"},
};

}  // namespace

std::span<const Key> key_table() { return kKeys; }

}  // namespace plimsoll::rl
