// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's JSON, its tables flattened with dots (facts other-frameworks-memory.md 5.4).
#include "framework/deepspeed/deepspeed.h"
#include "job/alias_rows.h"

namespace plimsoll::job {

namespace {

using enum AliasKind;

constexpr std::string_view kCheckpointing =
    "acts only on models that call DeepSpeed's own checkpoint function; Transformers models do not";

const Alias kDeepspeedRows[] = {
    {"train_batch_size", kKey, "global_batch_size"},
    {"train_micro_batch_size_per_gpu", kKey, "micro_batch_size"},
    {"fp16.enabled", kKey, "fp16"},
    {"bf16.enabled", kKey, "bf16"},
    {"bfloat16.enabled", kKey, "bf16"},
    {"gradient_clipping", kKey, "clip_grad"},
    {"data_types.grad_accum_dtype", kKey, "grad_accum_dtype"},
    {"zero_optimization.stage", kKey, "zero_stage"},
    {"zero_optimization.reduce_bucket_size", kKey, "reduce_bucket_size"},
    {"zero_optimization.stage3_prefetch_bucket_size", kKey, "stage3_prefetch_bucket_size"},
    {"zero_optimization.prefetch_bucket_size", kKey, "stage3_prefetch_bucket_size"},
    {"zero_optimization.stage3_param_persistence_threshold", kKey, "stage3_param_persistence_threshold"},
    {"zero_optimization.param_persistence_threshold", kKey, "stage3_param_persistence_threshold"},
    {"zero_optimization.stage3_max_live_parameters", kKey, "stage3_max_live_parameters"},
    {"zero_optimization.max_live_parameters", kKey, "stage3_max_live_parameters"},
    {"zero_optimization.stage3_max_reuse_distance", kKey, "stage3_max_reuse_distance"},
    {"zero_optimization.max_reuse_distance", kKey, "stage3_max_reuse_distance"},
    {"zero_optimization.sub_group_size", kKey, "sub_group_size"},
    {"zero_optimization.overlap_comm", kKey, "overlap_comm"},
    {"zero_optimization.contiguous_gradients", kKey, "contiguous_gradients"},
    {"zero_optimization.zero_hpz_partition_size", kKey, "zero_hpz_partition_size"},
    {"zero_optimization.mics_shard_size", kKey, "mics_shard_size"},
    {"zero_optimization.offload_optimizer.device", kKey, "offload_optimizer_device"},
    {"zero_optimization.offload_optimizer.ratio", kKey, "offload_optimizer_ratio"},
    {"zero_optimization.offload_optimizer.buffer_count", kKey, "offload_optimizer_buffer_count"},
    {"zero_optimization.offload_param.device", kKey, "offload_param_device"},
    {"zero_optimization.offload_param.buffer_count", kKey, "offload_param_buffer_count"},
    {"zero_optimization.offload_param.buffer_size", kKey, "offload_param_buffer_size"},
    {"zero_optimization.offload_param.max_in_cpu", kKey, "offload_param_max_in_cpu"},

    {"zero_optimization.stage3_model_persistence_threshold", kNotModelled,
     "the total of persistent parameters is counted without this cap"},
    {"zero_optimization.zero_quantized_weights", kNotModelled, "quantised gather buffers are counted in 16 bits"},
    {"zero_optimization.zero_quantized_gradients", kNotModelled, "quantised reduce buffers are counted in 16 bits"},
    {"zero_optimization.zero_quantized_nontrainable_weights", kNotModelled, "frozen shards are counted in 16 bits"},
    {"zero_optimization.stage3_module_granularity_threshold", kNotModelled, "modules are counted one by one"},
    {"zero_optimization.stage3_allgather_sequential", kNotModelled, "coalesced gathers are counted"},
    {"communication_data_type", kNotModelled, "a bucket is counted in the gradients' dtype"},
    {"msamp.enabled", kRefused, "FP8 of MS-AMP is not modelled"},
    {"amp.enabled", kRefused, "Amp and ZeRO are not currently compatible"},
    {"torch_autocast.enabled", kNotModelled, "autocast's casts are not counted"},
    {"tensor_parallel.autotp_size", kNotModelled, "AutoTP is not counted; every rank holds whole layers"},
    {"tensor_parallel.tp_size", kNotModelled, "AutoTP is not counted; every rank holds whole layers", "1"},
    {"fp16.fp16_master_weights_and_grads", kNotModelled, "master weights are counted in fp32"},
    {"bf16.bf16_master_weights_and_grads", kNotModelled, "master weights are counted in fp32"},
    {"bf16.bf16_optimizer_states", kNotModelled, "optimizer states are counted in fp32"},
    {"activation_checkpointing.partition_activations", kNotModelled, kCheckpointing},
    {"activation_checkpointing.cpu_checkpointing", kNotModelled, kCheckpointing},
    {"activation_checkpointing.contiguous_memory_optimization", kNotModelled, kCheckpointing},
    {"pipeline.*", kNotModelled, "DeepSpeed's pipeline engine is not counted"},
    {"elasticity.enabled", kNotModelled, "the batch sizes given are counted"},
    {"compression_training.*", kNotModelled, "compression is not counted"},
    {"sparse_attention.*", kNotModelled, "sparse attention is not counted"},
    {"hybrid_engine.enabled", kNotModelled, "the inference engine of RLHF is not counted"},
    {"sequence_parallel_size", kRefused, "Ulysses sequence parallelism of DeepSpeed is not modelled", "1"},
};

constexpr std::string_view kDeepspeedWithoutEffect = R"(
    activation_checkpointing.* aio.* amp.* autotuning.* bf16.* bfloat16.* checkpoint.* comms_logger.* compile.*
    csv_monitor.* curriculum_learning.* data_efficiency.* data_types.* disable_allgather dump_state eigenvalue.*
    elasticity.* flops_profiler.* fp16.* fp32_allreduce gradient_predivide_factor hybrid_engine.* loss_scale memory_breakdown
    monitor_config.* nebula.* optimizer.* prescale_gradients progressive_layer_drop.* scheduler.* seq_parallel_communication_data_type
    sparse_gradients steps_per_print tensor_parallel.* tensorboard.* timers.* torch_autocast.* wall_clock_breakdown wandb.*
    use_cache weight_quantization.* zero_allow_untested_optimizer zero_force_ds_cpu_optimizer
    zero_optimization.allgather_bucket_size zero_optimization.allgather_partitions
    zero_optimization.elastic_checkpoint zero_optimization.gather_16bit_weights_on_model_save
    zero_optimization.grad_hooks zero_optimization.ignore_unused_parameters zero_optimization.legacy_stage1
    zero_optimization.load_from_fp32_weights zero_optimization.log_trace_cache_warnings
    zero_optimization.memory_efficient_linear zero_optimization.mics_hierarchical_params_gather
    zero_optimization.offload_optimizer.* zero_optimization.offload_param.* zero_optimization.override_module_apply
    zero_optimization.pipeline_loading_checkpoint zero_optimization.reduce_scatter zero_optimization.round_robin_gradients
    zero_optimization.stage3_gather_16bit_weights_on_model_save
    zero_optimization.stage3_gather_fp16_weights_on_model_save zero_optimization.stage3_use_all_reduce_for_fetch_params
    zero_optimization.use_all_reduce_for_fetch_params zero_optimization.leaf_module.* zero_optimization.use_multi_rank_bucket_allreduce
)";

}  // namespace

const std::vector<Alias>& deepspeed_aliases() {
  static const std::vector<Alias> table = with_names_without_effect(kDeepspeedRows, kDeepspeedWithoutEffect);
  return table;
}

}  // namespace plimsoll::job
