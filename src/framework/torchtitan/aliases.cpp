// SPDX-License-Identifier: Apache-2.0
// torchtitan's TOML, its tables flattened with dots (facts other-frameworks-memory.md 6.4).
#include "framework/torchtitan/torchtitan.h"
#include "job/alias_rows.h"

namespace plimsoll::job {

namespace {

using enum AliasKind;

const Alias kTorchtitanRows[] = {
    {"training.seq_len", kKey, "seq_length"},
    {"training.mixed_precision_reduce", kKey, "reduce_dtype"},
    {"training.dtype", kKey, "stored_dtype"},
    {"training.enable_cpu_offload", kKey, "fsdp_cpu_offload"},
    {"training.max_norm", kKey, "clip_grad"},
    {"training.compile", kKey, "torch_compile"},
    {"compile.enable", kKey, "torch_compile"},
    {"parallelism.tensor_parallel_degree", kKey, "tensor_model_parallel_size"},
    {"parallelism.pipeline_parallel_degree", kKey, "pipeline_model_parallel_size"},
    {"parallelism.context_parallel_degree", kKey, "context_parallel_size"},
    {"parallelism.expert_parallel_degree", kKey, "expert_model_parallel_size"},
    {"parallelism.data_parallel_replicate_degree", kKey, "dp_replicate"},
    {"parallelism.pipeline_parallel_layers_per_stage", kKey, "num_layers_per_virtual_pipeline_stage"},
    {"parallelism.enable_sequence_parallel", kKey, "sequence_parallel"},
    {"activation_checkpoint.memory_budget", kKey, "activation_memory_budget"},

    {"parallelism.disable_loss_parallel", kNotModelled, "the loss is counted as split over TP"},
    {"parallelism.pipeline_parallel_split_points", kRefused, "explicit split points are not modelled"},
    {"parallelism.module_fqns_per_model_part", kRefused, "explicit stages are not modelled"},
    {"parallelism.pipeline_parallel_first_stage_less_layers", kNotModelled, "one layer less is counted", "1"},
    {"parallelism.pipeline_parallel_last_stage_less_layers", kNotModelled, "one layer less is counted", "1"},
    {"parallelism.enable_fsdp_symm_mem", kNotModelled, "symmetric memory of FSDP is not counted"},
    {"optimizer.early_step_in_backward", kKey, "optimizer_in_backward"},
    {"model.converters", kNotModelled, "adapters of torchtitan's own are not counted"},
    {"quantize.*", kNotModelled, "not a key of its converters of linears"},
    {"fault_tolerance.enable", kNotModelled, "fault tolerance's copies are not counted"},
    {"training.local_batch_size", kNoEffect},
    {"parallelism.data_parallel_shard_degree", kNoEffect},  // read with the other degrees
    {"parallelism.pipeline_parallel_schedule", kNoEffect},  // becomes pipeline_schedule
    {"parallelism.fsdp_reshard_after_forward", kNoEffect},  // becomes reshard_after_forward
};

constexpr std::string_view kTorchtitanWithoutEffect = R"(
    activation_checkpoint.early_stop activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns
    activation_checkpoint.preserve_rng_state activation_checkpoint.determinism_check activation_checkpoint.visualize_memory_budget_pareto
    activation_checkpoint.debug checkpoint.* comm.* compile.* debug.* experimental.* fault_tolerance.* job.*
    lr_scheduler.* memory_estimation.* metrics.* model.hf_assets_path model.norm_type model.print_after_conversion
    model.tokenizer_path model.use_flex_attn model.attn_mask_type model.vocab_size_multiple_of optimizer.beta1 optimizer.beta2 optimizer.eps
    optimizer.lr optimizer.weight_decay optimizer.fused optimizer.momentum parallelism.context_parallel_load_balancer parallelism.enable_async_tensor_parallel
    parallelism.enable_compiled_autograd parallelism.pipeline_parallel_schedule_csv parallelism.pipeline_parallel_expert_parallel_overlap
    parallelism.expert_parallel_comm_backend profiling.* training.data_parallel_* training.dataset training.dataset_path
    training.deterministic training.enable_fp8_linear training.gc_debug training.gc_freq training.seed training.steps
    training.warmup_steps training.debug_moe_force_load_balance validation.* training.dataset_type training.use_for_integration_test
)";

}  // namespace

const std::vector<Alias>& torchtitan_aliases() {
  static const std::vector<Alias> table = with_names_without_effect(kTorchtitanRows, kTorchtitanWithoutEffect);
  return table;
}

}  // namespace plimsoll::job
