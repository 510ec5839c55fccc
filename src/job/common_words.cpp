// SPDX-License-Identifier: Apache-2.0
// The words that training programs share, as seen in LitGPT, LLM Foundry, Lingua, VeOmni, open-instruct, LMFlow,
// ColossalAI, fms-fsdp, nanoGPT and their like. A row holds for every tool: none is here for one file.
#include "job/common_words.h"

#include <string>
#include <vector>

#include "base/text.h"

namespace plimsoll::job {

namespace {

struct Row {
  std::string_view meaning;
  std::string_view names;  // separated by blanks
};

constexpr Row kRows[] = {
    {"max_length",
     "max_seq_len max_seq_length seq_len seq_length sequence_length sequence_len max_sequence_length context_length "
     "context_len max_context_length block_size model_max_length max_length cutoff_len max_len train_seq_len "
     "max_token_length max_seqlen packed_sequence_size encoder_seq_length max_words input_length max_input_length "
     "global_max_sequence_length training_seq_len training_seq_length train_seq_length"},
    {"per_device_train_batch_size",
     "micro_batch_size microbatch_size micro_batch_size_per_gpu micro_batch_size_per_device train_micro_batch_size "
     "train_microbatch_size device_train_microbatch_size device_train_batch_size device_batch_size "
     "micro_train_batch_size per_device_train_batch_size train_batch_size_per_device per_device_parallelism "
     "per_device_batch_size per_gpu_batch_size "
     "per_gpu_train_batch_size batch_size_per_gpu "
     "step_per_device_batch_size batch_size_per_device local_batch_size train_micro_batch_size_per_gpu "
     "rank_micro_batch_size mini_batch mbs train_batch_size_per_gpu"},
    {"global_batch_size",
     "global_batch_size global_train_batch_size total_batch_size effective_batch_size total_train_batch_size "
     "train_global_batch_size step_batch_size train_batch_per_replica gbs"},
    {"batch", "batch_size train_batch_size training_batch_size batch_size_training"},
    {"grad_cache", "grad_cache use_grad_cache gradient_cache"},
    {"chunk_of_cache", "grad_cache_chunk_size gc_chunk_size chunk_size"},
    {"gradient_accumulation_steps",
     "gradient_accumulation_steps grad_accum_steps grad_acc_steps gradient_accumulation grad_accumulation_steps "
     "accumulate_grad_batches accumulation_steps grad_accum gradient_accumulation_step accum_steps accum_iter "
     "gradient_accumulate_step accumulative_counts grad_accumulation grad_acc gradient_accumulate_every "
     "accum_freq"},
    {"devices",
     "num_gpus n_gpus ngpus gpus devices num_devices n_gpus_per_node num_gpus_per_node gpus_per_node nproc_per_node "
     "num_processes"},
    {"nodes", "num_nodes n_nodes nnodes num_machines"},
    {"gpus", "world_size"},
    {"model",
     "model_name_or_path pretrained_model_name_or_path model_path model_name model_id checkpoint_dir base_model "
     "base_model_name_or_path pretrained_model pretrained hf_model hf_path hf_checkpoint hf_name model_dir load_path "
     "pretrain pretrained_model_path pretrained_model_name model model_config_path config_path repo_id pretrained_path "
     "config_name_or_path model_tag llm_backbone backbone_name model_id_or_path model_name_or_id base_model_id "
     "model_train_path train_model_path input_model input_model_path input_model_filename "
     "base_model_path base_model_name llm_path llm_name hf_model_id hf_model_name hf_model_name_or_path name_or_path "
     "student student_model student_model_name_or_path student_model_path student_model_name student_name_or_path "
     "student_path"},
    {"precision",
     "precision mixed_precision amp_dtype autocast_dtype mixed_precision_dtype compute_dtype model_dtype param_dtype "
     "training_precision train_precision"},
    {"weights_dtype", "dtype torch_dtype weights_dtype model_data_type backbone_dtype policy_dtype"},
    {"pure_bf16", "pure_bf16 fsdp_pure_bf16"},
    {"bf16", "bf16 use_bf16 bfloat16 is_bf16"},
    {"fp16", "fp16 use_fp16"},
    {"gradient_checkpointing",
     "gradient_checkpointing activation_checkpointing grad_checkpoint use_gradient_checkpointing remat "
     "enable_gradient_checkpointing enable_activation_checkpointing use_activation_checkpointing activation_checkpoint "
     "gradient_checkpoint gradient_checkpointing_enable activation_checkpointing_mode fsdp_activation_checkpointing "
     "model_gradient_checkpointing use_grad_checkpoint checkpointing grad_checkpointing recompute"},
    {"selective", "selective_activation_checkpointing selective_checkpointing"},
    {"activation_offloading",
     "activation_offloading activation_offload activation_cpu_offload activation_checkpoint_cpu_offload "
     "activation_checkpointing_cpu_offload enable_activation_offload enable_activation_offloading offload_activations "
     "offload_activation activations_cpu_offload cpu_offload_activations gradient_checkpointing_offload "
     "cpu_checkpointing checkpoint_in_cpu"},
    {"optim", "optimizer optim optimizer_type optimizer_name optim_type optimizer_args optimizer_config"},
    {"fsdp",
     "fsdp fsdp_type sharding_strategy fsdp_mode fsdp_sharding_strategy use_fsdp enable_fsdp data_parallel_mode "
     "dist_config distributed_strategy strategy data_parallel"},
    {"fsdp_offload", "fsdp_cpu_offload offload_params enable_fsdp_offload"},
    {"deepspeed",
     "deepspeed deepspeed_config deepspeed_config_file ds_config ds_cfgs ds_cfg ds_config_path deepspeed_path "
     "deepspeed_config_path deepspeed_cfg"},
    {"zero_stage", "zero_stage deepspeed_stage ds_stage"},
    {"use_lora", "use_lora lora_enable enable_lora use_peft use_peft_lora is_peft is_lora"},
    {"lora_r", "lora_r lora_rank lora_dim peft_lora_r"},
    {"lora_dropout", "lora_dropout peft_lora_dropout"},
    {"lora_target_modules", "lora_target_modules target_modules lora_target lora_targets lora_modules"},
    {"quantize",
     "quantize quantization load_in_4bit use_4bit quantization_bit use_4bit_quantization load_in_kbits quant bits "
     "load_in_bits quant_bits quant_bit"},
    {"double_quant",
     "double_quant use_double_quant bnb_double_quant use_nested_quant bnb_4bit_use_double_quant use_bnb_nested_quant"},
    {"use_dora", "use_dora dora"},
    {"is_quantized", "is_quantized use_quantization use_bnb quantized quantization_enabled"},
    {"prompt_cut", "max_prompt_length max_prompt_len"},
    {"tp_size",
     "tp tp_size tensor_parallel_size model_parallel_size tensor_parallel tensor_parallel_degree "
     "tensor_model_parallel_size tp_degree"},
    {"cp_size",
     "cp cp_size context_parallel_size context_parallel_degree ulysses_size ulysses_sequence_parallel_size "
     "ulysses_parallel_size sequence_parallel_size seq_parallel_size sp_size "
     "sequence_parallel_degree seq_parallel_degree sp_degree"},
    {"pipeline_model_parallel_size",
     "pp pp_size pipeline_parallel_size pipeline_parallel_degree pipeline_model_parallel_size"},
    {"expert_model_parallel_size", "ep ep_size expert_parallel_size expert_parallel_degree expert_model_parallel_size"},
    {"dp_replicate",
     "dp_replicate dp_replicate_size data_parallel_replicate_degree data_parallel_replicate_size "
     "data_parallel_replication_size data_parallel_replication_world_size"},
    {"dp_shard",
     "dp_shard dp_shard_size data_parallel_shard_size data_parallel_shard_degree data_parallel_sharding_world_size "
     "data_parallel_sharding_size"},
    {"derived", "model_class dp"},
    {"copies", "dp_size data_parallel_size"},
    {"attn_implementation", "attn_implementation attn_impl attention_implementation"},
    {"use_liger_kernel", "use_liger_kernel use_liger enable_liger_kernel"},
    {"torch_compile", "compile torch_compile use_compile"},
    {"packing", "packing packed packing_samples sample_packing pack_sequences use_packing"},
    {"vision_tower",
     "vision_tower mm_vision_tower vision_tower_name vision_tower_path vision_tower_name_or_path vision_backbone_id "
     "vision_encoder_name vision_encoder_path image_tower"},
    {"mm_projector_type", "mm_projector_type projector_type connector_type"},
    {"freeze_vision_tower", "freeze_vit freeze_vision_tower freeze_visual freeze_vision_encoder"},
    {"freeze_multi_modal_projector", "freeze_aligner freeze_multi_modal_projector freeze_projector freeze_merger"},
    {"freeze_language_model", "freeze_llm freeze_language_model freeze_text_model"},
    {"trainable_layers",
     "freeze_trainable_layers unfreeze_last_n_layers num_unfrozen_layers train_last_n_layers num_trainable_layers "
     "unfreeze_n_layers last_n_layers_to_train"},
    {"rate", "lr learning_rate max_lr optm_lr optim_lr optimizer_lr"},
    {"duration",
     "epochs num_epochs num_train_epochs max_steps steps train_steps max_duration total_steps max_iters "
     "n_epochs num_steps num_train_steps num_training_steps total_training_steps max_epochs train_iters "
     "max_train_steps max_tokens "
     "total_tokens "
     "train_tokens"},
    {"switch",
     "match_all_linear reference_dtype ref_dtype bnb_4bit_quant_storage_dtype enable_reentrant use_reentrant "
     "quant_type bnb_quant_type "
     "bnb_compute_dtype bnb_4bit_quant_type bnb_4bit_compute_dtype beta1 beta2 betas eps adam_eps "
     "limit_all_gathers fsdp_limit_all_gathers backward_prefetch fsdp_backward_prefetch forward_prefetch "
     "fsdp_forward_prefetch fsdp_amp use_orig_params fsdp_use_orig_params sync_module_states fsdp_sync_module_states "
     "cpu_ram_efficient_loading fsdp_cpu_ram_efficient_loading fsdp_state_dict_type "
     "activation_checkpointing_reentrant gradient_checkpointing_kwargs communication_dtype fsdp_algorithm "
     "quant_storage_dtype"},
};

// A table around a value: the name above it is the one that counts.
bool is_wrapper(std::string_view word) {
  for (const std::string_view one :
       {"enable", "enabled", "name", "type", "class_path", "class_name", "_target_", "_component_", "mode"})
    if (word == one) return true;
  return false;
}

// Parts of a file that are about something else than the training itself.
bool is_elsewhere(std::string_view section) {
  for (const std::string_view one :
       {"eval", "val", "test", "infer", "generat", "gconfig", "log", "wandb", "callback", "profil", "scheduler",
        "variables", "metric", "monitor", "tensorboard", "tracker", "algorithms", "harness", "icl"})
    if (section.substr(0, one.size()) == one) return true;
  return false;
}

bool holds(std::string_view names, std::string_view word) {
  for (const std::string_view name : split(names, ' '))
    if (name == word) return true;
  return false;
}

// "train_batchsize" and "train_bsz" are "train_batch_size".
std::string with_parted_words(std::string path) {
  constexpr std::string_view kShort = "bsz";
  for (std::size_t at = path.find(kShort); at != std::string::npos; at = path.find(kShort, at + 1)) {
    const std::size_t end = at + kShort.size();
    const bool is_word = (at == 0 || path[at - 1] == '_' || path[at - 1] == '.') &&
                         (end == path.size() || path[end] == '_' || path[end] == '.');
    if (is_word) path.replace(at, kShort.size(), "batch_size");
  }
  constexpr std::string_view kJoined = "batchsize";
  for (std::size_t at = path.find(kJoined); at != std::string::npos; at = path.find(kJoined, at + 1))
    path.insert(at + 5, "_");
  return path;
}

}  // namespace

std::string_view meaning_of(std::string_view path) {
  const std::string spelled = with_parted_words(replace(lower(path), '-', '_'));
  std::vector<std::string_view> parts = split(spelled, '.');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i)
    if (is_elsewhere(parts[i])) return "elsewhere";
  if (parts.size() > 1 && parts[parts.size() - 2].starts_with("tokenizer") && is_wrapper(parts.back()))
    return "elsewhere";
  if (parts.size() > 1 && is_wrapper(parts.back())) {
    if (parts.back() == "name" && parts[parts.size() - 2] == "model") return "model";
    parts.pop_back();
  }
  const std::string_view last = parts.back();
  for (const std::string_view other : {"icl_", "eval_", "val_", "valid_", "test_"})
    if (last.starts_with(other)) return "elsewhere";
  const std::string_view above = parts.size() > 1 ? parts[parts.size() - 2] : std::string_view{};
  // "lora: {r: 8}", "lora_config: {rank: 8, alpha: 16}", "peft_config: {r: 16}".
  const bool in_adapter = above.find("lora") != std::string_view::npos ||
                          above.find("peft") != std::string_view::npos || above == "adapter";
  if (in_adapter && last == "target_modules") return "lora_target_modules";
  if (in_adapter && (last == "r" || last == "rank" || last == "dim")) return "lora_r";
  if (in_adapter && (last == "dropout" || last == "alpha")) return last == "dropout" ? "lora_dropout" : "switch";
  if (last == "lora" || last == "peft_config") return "use_lora";
  // What a tokenizer cuts at is the length where nothing else says one.
  if (above.starts_with("tokenizer"))
    return last == "max_length" || last == "model_max_length" ? "cut_length" : "elsewhere";
  // "model: {id: ...}", "quantization: {bits: 4, compute_dtype: bf16}".
  if (above == "model" && (last == "id" || last == "path")) return "model";
  if (above.find("quant") != std::string_view::npos && last == "compute_dtype") return "switch";
  // "mixed_precision_args: {dtype: bf16}" is what is computed in, "distributed: {stage: 3}" what is split.
  const bool of_casts = above.starts_with("mixed_precision") || above.starts_with("autocast") || above == "amp";
  if (of_casts && last == "dtype") return "precision";
  if (above.starts_with("distributed") && last == "stage") return "shard_stage";
  for (const Row& row : kRows)
    if (holds(row.names, last)) return row.meaning;
  return {};
}

}  // namespace plimsoll::job
