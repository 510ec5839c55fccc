# Llama-3 70B in Megatron-Bridge: a recipe and the fields that this run changes.
from megatron.bridge.recipes.llama import llama3_70b_pretrain_config

cfg = llama3_70b_pretrain_config()
cfg.model.tensor_model_parallel_size = 8
cfg.model.pipeline_model_parallel_size = 2
cfg.model.virtual_pipeline_model_parallel_size = 5
cfg.model.sequence_parallel = True
cfg.model.seq_length = 8192
cfg.model.recompute_granularity = "selective"
cfg.model.recompute_modules = ["core_attn"]
cfg.train.micro_batch_size = 1
cfg.train.global_batch_size = 128
