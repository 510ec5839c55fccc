from megatron.bridge.recipes.llama import llama3_70b_pretrain_config

cfg = llama3_70b_pretrain_config()
cfg.model.tensor_model_parallel_size = 4  # inside a node
cfg.model.pipeline_model_parallel_size = 4
cfg.model.virtual_pipeline_model_parallel_size = 5
cfg.model.sequence_parallel = True
cfg.model.seq_length = 2 * 4096
cfg.model.recompute_granularity = "selective"
cfg.model.recompute_modules = ["core_attn",
                               "mlp"]
cfg.train.micro_batch_size = 1
cfg.train.global_batch_size = 1_28
cfg.mixed_precision = bf16_with_fp8_current_scaling_mixed()
cfg.model.cpu_offloading = False
cfg.peft = LoRA(dim=16, alpha=32)
