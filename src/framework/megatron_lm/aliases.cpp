// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's flags that are not canonical keys themselves. Names without effect change data, schedules,
// logging, checkpoints or numerics, but no byte that a training step holds.
#include "framework/megatron_lm/flags.h"
#include "job/alias_rows.h"

namespace plimsoll::job {

namespace {

using enum AliasKind;

constexpr std::string_view kReinforcement = "reinforcement learning holds an inference engine that is not modelled";
constexpr std::string_view kDistillation = "knowledge distillation holds a teacher model that is not modelled";
constexpr std::string_view kElastic = "elastic (flextron) training is not modelled";

const Alias kMegatronLmRows[] = {
    {"embedding_weights_in_fp32", kNotModelled, "embeddings in fp32 are counted in bf16"},
    {"encoder_tensor_model_parallel_size", kRefused, "an encoder with ranks of its own is not modelled", "0"},
    {"encoder_pipeline_model_parallel_size", kRefused, "an encoder with ranks of its own is not modelled", "0"},
    {"num_experts", kKey, "num_moe_experts"},
    {"num_virtual_stages_per_pipeline_rank", kKey, "virtual_pipeline_model_parallel_size"},
    {"microbatch_group_size_per_virtual_pipeline_stage", kKey, "microbatch_group_size_per_vp_stage"},
    {"decoder_first_pipeline_num_layers", kKey, "num_layers_in_first_pipeline_stage"},
    {"decoder_last_pipeline_num_layers", kKey, "num_layers_in_last_pipeline_stage"},
    {"overlap_p2p_communication", kKey, "overlap_p2p_comm"},
    {"no_overlap_p2p_communication", kInverse, "overlap_p2p_comm"},
    {"overlap_p2p_communication_warmup_flush", kKey, "overlap_p2p_comm_warmup_flush"},
    {"fp8_format", kKey, "fp8"},
    {"fp4_format", kKey, "fp4"},
    {"fp8_param", kKey, "fp8_param_gather"},
    {"fp4_param", kKey, "fp4_param_gather"},
    {"accumulate_allreduce_grads_in_fp32", kKey, "grad_reduce_in_fp32"},
    {"grad_reduce_in_bf16", kInverse, "grad_reduce_in_fp32"},
    {"untie_embeddings_and_output_weights", kInverse, "share_embeddings_and_output_weights"},
    {"disable_bias_linear", kInverse, "add_bias_linear"},
    {"no_gradient_accumulation_fusion", kInverse, "gradient_accumulation_fusion"},
    {"no_rope_fusion", kInverse, "apply_rope_fusion"},
    {"rope_fusion", kKey, "apply_rope_fusion"},
    {"no_bias_gelu_fusion", kInverse, "bias_gelu_fusion"},
    {"no_bias_swiglu_fusion", kInverse, "bias_swiglu_fusion"},
    {"no_bias_dropout_fusion", kInverse, "bias_dropout_fusion"},
    {"no_masked_softmax_fusion", kInverse, "masked_softmax_fusion"},
    {"no_create_attention_mask_in_dataloader", kInverse, "create_attention_mask_in_dataloader"},
    {"world_size", kKey, "gpus"},
    {"use_nccl_ub", kKey, "nccl_ub"},
    {"ddp_pad_buckets_for_high_nccl_busbw", kKey, "pad_buckets_for_high_nccl_busbw"},
    {"ddp_reduce_scatter_with_fp32_accumulation", kKey, "reduce_scatter_with_fp32_accumulation"},
    {"use_custom_fsdp", kKey, "use_megatron_fsdp"},
    {"cuda_graph_scope", kKey, "cuda_graph_modules"},
    {"model_parallel_size", kRefused, "is no longer valid; it is --tensor-model-parallel-size now"},
    {"batch_size", kRefused, "is no longer valid; it is --micro-batch-size now"},
    {"warmup", kRefused, "is no longer valid; it is --lr-warmup-fraction now"},
    {"optimizer_cuda_graph", kNotModelled, "a captured optimizer step has a pool of its own"},
    {"checkpoint_activations", kRefused, "is no longer valid, use --recompute-activations"},

    {"encoder_num_layers", kKey, "num_layers"},
    {"encoder_seq_length", kKey, "seq_length"},
    {"bert_no_binary_head", kInverse, "bert_binary_head"},
    {"hybrid_override_pattern", kKey, "hybrid_layer_pattern"},
    {"mamba_training_ssm_states_dtype", kNotModelled, "states of the scan are counted in the parameters' type"},
    {"use_mamba_mem_eff_path", kNotModelled, "the memory-efficient path is counted", "true"},
    {"disable_mamba_mem_eff_path", kNotModelled, "the memory-efficient path is counted", "false"},
    {"perform_rl_step", kRefused, kReinforcement},
    {"export_kd_teacher_load", kRefused, kDistillation},
    {"export_kd_cfg", kRefused, kDistillation},
    {"flextron", kRefused, kElastic},
    {"experimental_attention_variant", kRefused, "experimental attention (gdn, dsa, ...) is not modelled from flags"},
    {"linear_attention_type", kRefused, "linear attention is not modelled from flags"},
    {"heterogeneous_layers_config_path", kRefused, "layers of different shapes are not modelled"},
    {"tensor_parallel_num_weight_shards", kNotModelled, "weights sharded beyond TP are counted as if they were not"},
    {"expert_tensor_parallel_num_weight_shards", kNotModelled,
     "expert weights sharded beyond ETP are counted as if they were not"},

    {"moe_shared_expert_overlap", kNotModelled, "the overlap keeps one more shared-expert input alive"},
    {"moe_router_padding_for_quantization", kNotModelled, "experts' segments are padded to 16 or 32 tokens"},
    {"moe_router_padding_for_fp8", kNotModelled, "experts' segments are padded to 16 tokens"},
    {"moe_paged_stash", kNotModelled, "expert activations live in a page pool instead"},
    {"moe_expert_rank_capacity_factor", kNotModelled, "tokens per rank are limited by it"},
    {"moe_extended_tp", kNotModelled, "experts are then split over TP * EP"},
    {"use_transformer_engine_op_fuser", kNotModelled, "fused operations keep fewer tensors"},
    {"num_microbatches_with_partial_activation_checkpoints", kNotModelled,
     "other micro-batches are recomputed in full"},
    {"ddp_param_name_patterns_for_fp32_local_accumulation", kNotModelled, "4 bytes per matched parameter come on top"},
    {"ep_overlap_early_attn_memory_release", kNotModelled, "attention activations are freed earlier"},
    {"moe_layer_recompute", kNotModelled, "write recompute_modules moe instead"},
    {"external_cuda_graph", kNotModelled, "write cuda_graph_impl instead"},
    {"enable_cuda_graph", kNotModelled, "write cuda_graph_impl instead"},
    {"torch_fsdp2_no_reshard_after_forward", kInverse, "reshard_after_forward"},
    {"suggested_communication_unit_size", kNotModelled, "more Megatron-FSDP units are then in flight"},
    {"keep_fp8_transpose_cache", kNotModelled, "transposed FP8 weights of gathered units are kept"},
    {"megatron_fsdp_grad_comm_dtype", kNotModelled, "a communication buffer per unit comes on top"},
    {"megatron_fsdp_version", kNotModelled, "version 1 is modelled", "1"},
    {"delta_offload_bytes_across_pp_ranks", kNotModelled, "later pipeline ranks offload less"},
    {"pin_cpu_grads", kNoEffect},
    {"pin_cpu_params", kNoEffect},
    {"overlap_cpu_optimizer_d2h_h2d", kNoEffect},
    {"use_torch_optimizer_for_cpu_offload", kNoEffect},
    {"freeze_all_layers", kRefused, "frozen layers are not modelled"},
    {"enable_mhc_connections", kRefused, "hyper-connections are not modelled"},
    {"fp16_lm_cross_entropy", kNotModelled, "the loss then works in fp16"},
    {"glu_linear_offset", kNotModelled, "an unfused gate keeps one more tensor"},
    {"multimodal", kRefused, "multimodal models are not modelled"},
    {"retro_add_retriever", kRefused, "Retro models are not modelled"},
    {"spec", kNotModelled, "a custom layer specification may hold other modules"},
    {"rl_use_sequence_packing", kRefused, kReinforcement},
    {"hybrid_context_parallel", kNotModelled, "sequences are then spread unevenly"},
    {"variable_seq_lengths", kNotModelled, "every micro-batch is counted at seq_length"},
    {"num_buckets", kNoEffect},
    {"no_position_embedding", kInverse, "add_position_embedding"},
    {"bucket_size", kKey, "ddp_bucket_size"},
    {"output_logit_dtype", kKey, "logit_dtype"},
    {"heterogeneous_layers_config_encoded_json", kRefused, "layers of different shapes are not modelled"},
    {"heterogeneous_block_specs", kRefused, "layers of different shapes are not modelled"},
    {"linear_attention_freq", kRefused, "linear attention is not modelled from flags"},
    {"distillation", kRefused, kDistillation},
    {"logits_load_dir", kNotModelled, "distillation from stored logits keeps them on the GPU"},
    {"freeze_model", kRefused, "frozen layers are not modelled"},
    {"freeze_base_for_mtp", kRefused, "frozen layers are not modelled"},
    {"freeze_router", kNotModelled, "a frozen router is counted as trained"},
    {"gtp_weight_remat_size", kNotModelled, "weights sharded beyond TP are counted as if they were not", "1"},
    {"expert_gtp_weight_remat_size", kNotModelled, "expert weights sharded beyond ETP are counted as if they were not",
     "1"},
    {"param_name_patterns_for_fp32_local_accumulation", kNotModelled, "4 bytes per matched parameter come on top"},
    {"attention_logit_softcapping", kNotModelled, "capped scores keep one more tensor in unfused attention"},
    {"batch_invariant_mode", kNotModelled, "batch-invariant kernels keep other tensors"},
    {"disable_jit_fuser", kNotModelled, "unfused kernels keep more tensors"},
    {"enable_full_sharding_in_hsdp", kNotModelled, "weights are then sharded over replicas too"},
    {"fp8_multi_head_attention", kNotModelled, "attention inputs are then kept in FP8"},
    {"fp8_output_proj", kNotModelled, "the head runs in FP8; its bytes are counted in 16 bits"},
    {"fused_residual_rmsnorm", kNotModelled, "the fused norm keeps fewer tensors"},
    {"megatron_fsdp_max_pool_double_buffer", kNotModelled, "gather buffers are then sized by the largest unit"},
    {"memory_efficient_layer_norm", kNotModelled, "norms then keep their output instead of their input"},
    {"mlp_chunks_for_training", kNotModelled, "a chunked MLP keeps less", "1"},
    {"modelopt_enabled", kNotModelled, "quantisers of ModelOpt are not counted"},
    {"moe_combine_bwd_dtype", kNotModelled, "quantised messages are counted in bf16", "bf16"},
    {"moe_dispatch_fwd_dtype", kNotModelled, "quantised messages are counted in bf16", "bf16"},
    {"moe_single_grouped_bias", kNotModelled, "grouped weights are counted one by one"},
    {"moe_single_grouped_weight", kNotModelled, "grouped weights are counted one by one"},
    {"moe_use_grouped_tensor", kNotModelled, "the grouped-tensor path pads every expert's tokens"},
    {"mtp_hsm", kNotModelled, "it keeps more per MTP depth"},
    {"mtp_standalone", kNotModelled, "MTP layers are counted on the last stage"},
    {"overlap_dispatch_backward_with_experts_wgrad", kNotModelled, "expert inputs then live longer"},
    {"qad_train_target", kNotModelled, "quantisation-aware distillation is counted as plain training"},
    {"quant_recipe", kNotModelled, "per-layer quantisation is not counted"},
    {"recompute_mtp", kNotModelled, "MTP layers are counted as kept"},
    {"te_precision_config_file", kNotModelled, "per-layer precision is not read"},
    {"use_grouped_gemm_for_dense_mlp", kNotModelled, "grouped-GEMM workspaces are not counted"},
    {"use_grouped_gemm_for_shared_expert", kNotModelled, "grouped-GEMM workspaces are not counted"},
    {"use_inference_optimized_layers", kNotModelled, "other layers than the training ones are used"},
    {"use_kitchen", kNotModelled, "quantisation by kitchen is not counted"},
    {"use_kitchen_attention", kNotModelled, "attention by kitchen is not counted"},
    {"use_layer_wise_distributed_optimizer", kNotModelled, "states are counted as evenly sharded"},
    {"use_legacy_models", kNotModelled, "Megatron core's layers are counted"},
    {"use_te_activation_func", kNotModelled, "Transformer Engine's activation keeps other tensors"},
};

constexpr std::string_view kMegatronLmWithoutEffect = R"(
    tp_comm_overlap_rs disable_tp_comm_bulk_dgrad disable_tp_comm_bulk_wgrad disable_tp_comm_overlap_ag
    disable_tp_comm_overlap_rs disable_tp_comm_split_ag disable_tp_comm_split_rs no_fp8_wgrad pipeline_model_parallel_split_rank
    activation_func_clamp_value adam_beta1 adam_beta2 adam_eps adaptive_muon_* add_skipping adlr_* align_grad_reduce
    align_param_gather allow_ambiguous_pad_token allow_ambiguous_pad_tokens app_tag_run_name app_tag_run_version
    apply_layernorm_1p apply_residual_connection_post_layernorm apply_wd_to_qk_layernorm ascii_tokenizer
    async_ckpt_* async_save async_strategy async_tensor_model_parallel_allreduce auto_detect_ckpt_format
    autocast_dtype average_in_collective barrier_with_L1_time basemodel_type batch_invariant_backend batch_p2p_comm
    batch_p2p_sync bert_* beta_fast beta_slow biencoder_* binary_mask block_data_path bpe_* budget_list budget_probs
    budget_type cache_mla_latents calc_ft_timeouts cga_size chat_template check_for_*
    check_weight_hash_across_dp_replicas_interval ckpt_* classes_fraction clone_scatter_output_in_embedding
    config_logger_dir consumed_train_samples consumed_valid_samples cpu_offloading_activations
    cpu_offloading_retain_pinned_cpu_buffers create_all_gather_group cuda_graph_retain_backward_graph
    cuda_graph_share_io_buffers cuda_graph_use_single_mempool cuda_graph_warmup_steps curr_iteration data_args_path
    data_cache_path data_parallel_random_init data_path data_per_class_fraction data_sharding dataloader_*
    ddp_average_in_collective ddp_num_buckets decode_only_cuda_graphs decoupled_lr decoupled_min_lr
    decoupled_weight_decay decrease_batch_size_if_needed delay_offload_until_cuda_graph deterministic_mode dino_*
    disable_bf16_reduced_precision_matmul disable_gloo_process_groups disable_msc
    disable_straggler_on_startup disable_symmetric_registration dist_ckpt_* distill_coeff distill_only
    distrib_optim_* distributed_backend distributed_timeout_minutes distributed_timeout_seconds_after_init dsa_*
    dump_param_to_param_group_map emb_int_list emb_per_list embedding_init_method embedding_init_method_std
    embedding_path empty_unused_memory_level enable_autocast enable_chunked_prefill enable_experimental
    enable_ft_package enable_gloo_process_groups enable_gpt_oss enable_msc enable_one_logger enable_router
    end_weight_decay eod_mask_loss error_injection_* eval_global_batch_size eval_interval eval_iters
    evidence_data_path exit_* experimental_attention_variant_loss_scale_func export_* fake_process_group
    filter_warnings fim_* finalize_model_grads_func fine_grained_offloading_max_inflight_offloads finetune
    finetune_data_* finetune_hf_dataset flash_attention_version flash_decode flex_* flextron_config_file
    flight_recorder_* force_emb force_mamba force_mlp force_router_skip fp4_quantizer_factory fp4_recipe
    fp8_amax_compute_algo fp8_amax_history_len fp8_interval fp8_margin fp8_quantizer_factory fp8_wgrad
    fsdp_all_gather_in_start_param_sync fsdp_db_use_persist_buf_on_alloc_fail fsdp_manual_registration ft_*
    full_validation fully_parallel_load fully_parallel_save fused_padded_mla_attention fused_single_qkv_rope gdp_*
    gpu_sniff_test_interval grad_norm_skip_threshold grad_scale_func grad_sync_func gradient_reduce_div_fusion
    grpo_* gtp_expert_remat_nccl_ub gtp_remat_nccl_ub gtp_remat_opt_in_modules
    gtp_remat_reduce_scatter_with_fp32_accumulation hard_sample_th head_lr_mult hetereogenous_dist_checkpoint
    hierarchical_context_parallel_sizes high_priority_a2a_comm_stream high_priority_stream_groups hysteresis
    ict_head_size ict_load img_h img_w indexer_* inference_* init_method init_method_std init_method_xavier_uniform
    initial_loss_scale inprocess_* is_flex_eval iter_per_epoch iterations_to_skip
    kitchen_* langrl_* layer_ranking_list layernorm_epsilon layernorm_zero_centered_gamma lazy_mpu_init
    linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_num_value_heads linear_scaler_end
    linear_scaler_start linear_value_head_dim lion_* load load_main_params_from_ckpt load_optim load_rng local_rank
    log_* logging_level logits_load_* logits_save_* loss_alpha loss_scale loss_scale_window lr lr_* mamba_*
    manual_gc manual_gc_eval manual_gc_interval mask_factor mask_prob mask_type master_addr master_port max_restarts
    max_seqlen_per_dp_cp_rank max_tokens_to_oom megatron_fsdp_cuda_graph_mode
    megatron_fsdp_enable_fine_grained_param_gather megatron_fsdp_use_decoupled_grad mem_batch_size mem_infer_seq_len
    memory_keys memory_profile memory_profile_path memory_snapshot_path merge_file metadata_path mhc_*
    mid_level_dataset_surplus min_loss_scale min_lr mla_down_proj_fusion mlp_chunks_for_prefill mlp_int_list
    mlp_per_list mmap_bin_files mock_data model_parallel_random_init modules_to_filter moe_apply_probs_on_input
    moe_aux_loss_coeff moe_deepep_num_sms num_sm num_splits fp8_buf moe_enable_routing_replay moe_expert_int_list moe_expert_per_list
    moe_flex_dispatcher_num_sms moe_grad_scale_func moe_hybridep_* moe_input_jitter_eps moe_mlp_glu_interleave_size
    moe_ncclep_zero_copy moe_pad_experts_for_cuda_graph_inference moe_paged_stash_* moe_per_layer_logging
    moe_permute_fusion_into_hybridep moe_router_bias_update_rate moe_router_enable_expert_bias
    moe_router_force_biased moe_router_force_load_balancing moe_router_fusion moe_router_group_topk
    moe_router_load_balancing_type moe_router_num_groups moe_router_pre_softmax moe_router_quantile_balancing_ema
    moe_router_score_function moe_router_topk_limited_devices moe_router_topk_scaling_factor moe_routing_trace_*
    moe_shared_expert_glu_interleave_size moe_token_drop_policy moe_token_dropping moe_upcycling_granularity
    moe_use_legacy_grouped_gemm moe_use_upcycling moe_z_loss_coeff most_recent_k mrope_section mscale mscale_all_dim
    mtp_detach_heads mtp_grad_scale_func mtp_loss_scaling_factor
    multiple_validation_sets muon_* mup_* nccl_all_reduce_for_prefill nccl_communicator_config_path nnodes
    no_align_param_gather no_async_tensor_model_parallel_allreduce no_attn_skip no_bert_binary_head
    no_check_for_nan_in_loss_and_grad no_ckpt_* no_data_sharding no_gradient_reduce_div_fusion no_initialization
    no_load_* no_mmap_bin_files no_one_logger no_persist_layer_norm no_pin_cpu_grads no_pin_cpu_params
    no_query_key_layer_scaling no_rope_freq no_save_* no_scatter_gather_tensors_in_pipeline no_sync_func
    no_use_layer_wise_param_layout no_use_tokenizer_model_from_checkpoint_args no_weight_decay_cond_type
    no_yarn_correction_range_round_to_int node_rank non_persistent_* norm_epsilon normalize_router_logits
    nproc_per_node null_tokenizer_* num_channels num_classes num_dataset_builder_threads num_speculative_tokens
    num_workers nvtx_ranges object_storage_cache_path one_logger_* onnx_safe openai_gelu
    original_max_position_embeddings original_model_sample_prob otel_* output_bert_embeddings
    output_layer_init_method overlap_param_gather_with_optimizer_step override_ckpt_iteration
    override_opt_param_scheduler override_selected_budget pad_vocab_size param_budget_target param_sync_func
    patch_dim per_dataset_sequences_path per_split_data_args_path perform_initialization persist_layer_norm
    phase_transition_iterations pipeline_dtype pipeline_model_parallel_comm_backend prefill_chunk_size
    pretrained_checkpoint profile profile_* pytorch_profiler_* qk_clip qk_clip_alpha qk_clip_threshold
    query_in_block_prob rampup_batch_size rank rdzv_backend rdzv_endpoint rdzv_id record_memory_history
    record_shapes redirects refit_method relative_attention_* renormalize_blend_weights replication
    replication_factor replication_jump rerun_mode reset_attention_mask reset_position_ids
    result_rejected_tracker_filename retriever_* rl_* rope_scaling_factor rope_type rotary_* router_beta router_gbs
    router_inter_dim router_std run_workload_inspector_server runtime_time_unit s3_cache_path sample_rate save
    save_* scatter_gather_tensors_in_pipeline seed set_level_for_all_loggers sft sft_tokenizer_prompt_format
    sgd_nesterov sharp_enabled_group short_seq_prob skip_num_attn_layer_constraint skip_total_layer_constraint
    skip_train slice soap_* soft_mask softmax_scale special_tokens split standalone start_eval_at_iter
    start_weight_decay step_batch_size_schedule straggler_* strict_fsdp_dtensor_load swin_backbone_type
    symmetric_ar_type tau_decay tau_init te_rng_tracker tee tensorboard_* test_data_path test_mode
    throughput_window_size tiktoken_* timing_log_level timing_log_option titles_data_path tokenizer_hf_*
    tokenizer_metadata tokenizer_model tokenizer_prompt_format tokenizer_sentencepiece_* tokenizer_special_tokens
    tp_comm_atomic_* tp_comm_bootstrap_backend tp_comm_bulk_* tp_comm_overlap_ag tp_comm_overlap_cfg
    tp_comm_overlap_disable_* tp_comm_overlap_rs* tp_comm_split_* tp_only_amax_red train_data_path train_iters
    train_samples train_sync_interval trust_remote_code use_checkpoint_args use_checkpoint_opt_param_scheduler
    use_cpu_initialization use_dist_ckpt use_gigatoken use_gloo_process_groups use_legacy_static_engine
    use_mcore_models use_mp_args_from_checkpoint_args use_mup use_nsys_profiler
    use_one_sent_docs use_persistent_ckpt_worker use_pytorch_profiler use_ring_exchange_p2p use_rope_scaling
    use_same_sampling_seed_across_dp_ranks use_sharp use_te_rng_tracker use_tokenizer_model_from_checkpoint_args
    valid_data_path validation_set_names verify_integrity vision_* vocab_file vocab_file_id_list wandb_*
    wd_incr_steps weight_decay weight_decay_incr_style wsd_decay_steps yaml_cfg yarn_*
)";

}  // namespace

const std::vector<Alias>& megatron_aliases() {
  static const std::vector<Alias> table = with_names_without_effect(kMegatronLmRows, kMegatronLmWithoutEffect);
  return table;
}

}  // namespace plimsoll::job
