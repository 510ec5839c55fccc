// SPDX-License-Identifier: Apache-2.0
// Megatron-Bridge's fields beyond those that it shares with Megatron-LM's flags. The reader drops the
// section (model., ddp., ...) and whole sections that memory does not depend on (logger, checkpoint, ...).
#include "framework/megatron_bridge/bridge.h"
#include "framework/megatron_lm/flags.h"
#include "job/alias_rows.h"

namespace plimsoll::job {

namespace {

using enum AliasKind;

const Alias kMegatronBridgeRows[] = {
    {"sequence_length", kKey, "seq_length"},
    {"dim", kKey, "lora_rank"},
    {"dropout", kKey, "lora_dropout"},
    {"target_modules", kKey, "lora_target_modules"},
    {"lora_dtype", kKey, "adapter_dtype"},
    {"autocast_enabled", kNotModelled, "autocast around a bf16 model adds casts"},
    {"enable_autocast", kNotModelled, "autocast around a bf16 model adds casts"},
    {"dense_grouped_gemm", kNotModelled, "grouped-GEMM workspaces are not counted"},
    {"use_arbitrary_attention_mask", kNotModelled, "a dense mask is not counted"},
    {"use_transformer_engine_full_layer_spec", kNotModelled, "Megatron's own layer is counted"},
    {"restore_modelopt_state", kNotModelled, "quantisers of ModelOpt are not counted"},
    {"share_expert_adapters", kNotModelled, "one adapter per expert group is counted", "true"},
    {"experts_shared_outer_loras", kNotModelled, "separate adapters are counted"},
    {"keep_mtp_spec_in_bf16", kNotModelled,
     "layers of multi-token prediction are counted in the precision of the others", "false"},
    {"eval_context_parallel_size", kNotModelled, "evaluation is counted at the training CP size"},
};

constexpr std::string_view kMegatronBridgeWithoutEffect = R"(
    _checkpoint_load_required _pg_collection a2a_experimental align_param_gather alpha canonical_mapping cga_size
    check_optimizer_step_success data_parallel_size dropout_position embedding_init_method enable_megatron_core_experimental
    external_gpu_device_mapping finetune_lr hybrid_stack_spec fp32 generation_config hf_model_id hf_model_revision init_training_step
    lora_A_init_method lora_B_init_method model_type mtp_enabled normalize_moe_lora num_epochs parallel_output
    params_to_save post_wrap_hook pre_wrap_hook rope_scaling scatter_embedding_sequence_parallel
    seq_len_interpolation_factor skip_sync_grad_norm_across_mp transformer_layer_spec use_decentralized_pg wrap_with_ddp
    mixed_precision_wrapper tp_comm_overlap_* max_steps num_sm num_splits fp8_buf packed_sequence_specs
    dataset_seq_length ddp_use_distributed_optimizer enable_in_batch_packing enable_offline_packing fine_tuning
    offline_packing_specs optimizer_bf16 optimizer_use_distributed_optimizer packed_sequence_size packing_buffer_size
    pad_cu_seqlens pad_to_max_length tokenizer_vocab_size
)";

}  // namespace

const std::vector<Alias>& bridge_aliases() {
  static const std::vector<Alias> table = [] {
    std::vector<Alias> all = with_names_without_effect(kMegatronBridgeRows, kMegatronBridgeWithoutEffect);
    all.insert(all.end(), megatron_aliases().begin(), megatron_aliases().end());
    return all;
  }();
  return table;
}

}  // namespace plimsoll::job
