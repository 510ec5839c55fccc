// SPDX-License-Identifier: Apache-2.0
// Names of TrainingArguments, of TRL's SFTConfig and ModelConfig, of accelerate's YAML and of PEFT's
// adapter_config.json (facts other-frameworks-memory.md 2.10, 3.1, 6.3).
#include "framework/transformers/facts.h"
#include "job/alias_rows.h"

namespace plimsoll::job {

namespace {

using enum AliasKind;

constexpr std::string_view kPreference =
    "says that preferences are trained only in a file of TRL's arguments or its command; elsewhere say "
    "preference_loss, and reference_model for DPO and KTO";
constexpr std::string_view kOnline =
    "reinforcement training holds servers beside the trainer; plimsoll rl reads its runs";

const Alias kTransformersRows[] = {
    {"per_device_train_batch_size", kKey, "micro_batch_size"},
    {"per_gpu_train_batch_size", kKey, "micro_batch_size"},
    {"max_length", kKey, "seq_length"},
    {"max_seq_length", kKey, "seq_length"},
    {"model_max_length", kKey, "seq_length"},
    {"torch_dtype", kKey, "load_dtype"},
    {"dtype", kKey, "load_dtype"},
    {"attn_implementation", kKey, "attention_backend"},
    {"packing", kKey, "packed_sequences"},
    {"max_grad_norm", kKey, "clip_grad"},
    {"num_processes", kKey, "gpus"},
    {"world_size", kKey, "gpus"},
    {"n_gpu", kKey, "gpus"},
    {"activation_offloading", kKey, "offload_checkpointed_inputs"},
    {"activation_checkpointing", kKey, "gradient_checkpointing"},
    {"dynamo", kKey, "torch_compile"},
    {"r", kKey, "lora_rank"},
    {"lora_r", kKey, "lora_rank"},
    {"target_modules", kKey, "lora_target_modules"},
    {"lora_modules_to_save", kKey, "modules_to_save"},
    {"bias", kKey, "adapter_bias"},
    {"use_bnb_nested_quant", kKey, "bnb_4bit_use_double_quant"},
    {"dp_replicate_size", kKey, "dp_replicate"},
    {"tp_size", kKey, "tensor_model_parallel_size"},
    {"cp_size", kKey, "context_parallel_size"},

    {"auto_find_batch_size", kNotModelled, "the given micro-batch size is counted, not the one it ends with"},
    {"num_lora_modules", kNotModelled, "adapters are counted on every linear, not on the last ones alone", "-1"},
    {"layer_replication", kNotModelled, "replicated layers are not counted"},
    {"target_parameters", kNotModelled, "adapters on bare parameters are not counted"},
    {"lora_target_parameters", kNotModelled, "adapters on bare parameters are not counted"},
    {"loftq_config", kNotModelled, "quantisation by LoftQ is not counted"},
    {"eva_config", kNotModelled, "ranks found by EVA are not counted"},
    {"megatron_config", kNoEffect},
    {"fsdp_transformer_layer_cls_to_wrap", kNoEffect},
    {"padding_free", kNotModelled, "every batch is counted at micro_batch_size * seq_length tokens"},
    {"sp_size", kRefused, "sequence parallelism of accelerate is not modelled", "1"},
    {"use_cpu", kRefused, "training without a GPU is not modelled"},

    {"pre_seq_len", kRefused, "prefixes that are trained in place of weights (P-tuning) are not modelled"},
    {"num_generations", kRefused, kOnline},
    {"max_completion_length", kRefused, kOnline},
    {"max_prompt_length", kRefused, kPreference},
    {"beta", kRefused, kPreference},
    {"precompute_ref_log_probs", kRefused, kPreference},
    {"sync_ref_model", kRefused, kPreference},
    {"use_vllm", kRefused, kOnline},
};

constexpr std::string_view kTransformersWithoutEffect = R"(
    fsdp_activation_checkpointing trainer_gradient_checkpointing
    accelerator_config adam_beta1 adam_beta2 adam_epsilon alpha_pattern alora_invocation_tokens arrow_config
    assistant_only_loss auto_mapping average_tokens_across_devices base_model_name_or_path batch_eval_metrics
    bf16_full_eval fp16_full_eval layers_pattern bnb_4bit_compute_dtype bnb_4bit_quant_storage bnb_4bit_quant_type chat_template_path command_file commands
    completion_only_loss compute_environment corda_config cp_backend cp_comm_strategy data_seed dataloader_* dataset_*
    ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout debug
    disable_tqdm do_eval do_predict do_train downcast_bf16 dp_shard_size ds3_gather_for_generation dynamo_backend
    enable_cpu_affinity enable_jit_checkpoint eos_token eval_delay eval_do_concat_batches eval_on_start
    eval_packing eval_steps eval_use_gather_object evaluation_strategy fan_in_fan_out fp16_backend fp16_opt_level
    full_determinism gpu_ids gradient_checkpointing_kwargs greater_is_better group_by_length half_precision_backend hub_*
    ignore_data_skip include_for_metrics include_inputs_for_metrics include_num_input_tokens_seen include_tokens_per_second
    inference_mode init_lora_weights jit_mode_eval label_names learning_rate length_column_name liger_kernel_config
    load_best_model_at_end local_rank log_level log_level_replica log_on_each_node logging_* lora_alpha lora_task_type
    lr_scheduler_kwargs lr_scheduler_type machine_rank main_process_ip main_process_port main_training_function
    max_steps megatron_core metric_for_best_model model_init_kwargs model_revision mp_parameters mpirun_config no_cuda
    num_machines num_train_epochs optim_args output_dir overwrite_output_dir packing_strategy pad_to_multiple_of pad_token
    past_index per_device_eval_batch_size prediction_loss_only project push_to_hub push_to_hub_* ray_scope rdzv_backend
    remove_unused_columns report_to restore_callback_states_from_checkpoint revision router_aux_loss_coef
    run_name runtime_config same_network save_* seed shuffle_dataset skip_memory_metrics sp_backend split_batches task_type
    torch_compile_backend torch_compile_mode torchdynamo tpu_* trackio_* train_sampling_strategy
    truncation_mode trust_remote_code use_cache use_ipex use_legacy_prediction_loop use_mps_device use_qalora use_rslora
    warmup_ratio warmup_steps warmup_min_ratio weight_decay peft_version qalora_group_size velora_config
    ignore_bias_and_layer_norm_regex lr_scheduler disable_dropout
)";

}  // namespace

const std::vector<Alias>& transformers_aliases() {
  static const std::vector<Alias> table = with_names_without_effect(kTransformersRows, kTransformersWithoutEffect);
  return table;
}

}  // namespace plimsoll::job
