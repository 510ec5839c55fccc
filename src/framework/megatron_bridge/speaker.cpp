// SPDX-License-Identifier: Apache-2.0
// How logs show Megatron-Bridge, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kMegatronBridgeMarks[] = {"megatron/bridge", "megatron_bridge"};

constexpr RungLine kMegatronBridgeLines[] = {
    {"flash-attention", "cfg.model.attention_backend = \"flash\""},
    {"micro-batch", "cfg.train.micro_batch_size = N/2  # global_batch_size stays"},
    {"chunked-loss", "cfg.model.cross_entropy_loss_fusion = True"},
    {"recompute-attention",
     "cfg.model.recompute_granularity = \"selective\"; cfg.model.recompute_modules = [\"core_attn\"]"},
    {"recompute-mlp", "cfg.model.recompute_granularity = \"selective\"; cfg.model.recompute_modules = [\"mlp\"]"},
    {"recompute-layers",
     "cfg.model.recompute_granularity = \"full\"; cfg.model.recompute_method = \"uniform\"; "
     "cfg.model.recompute_num_layers = 1"},
    {"shorter-sequence", "cfg.model.seq_length = N/2; cfg.dataset.seq_length = N/2"},
    {"adam-8bit", "cfg.optimizer.use_precision_aware_optimizer = True; cfg.optimizer.exp_avg_dtype = torch.uint8"},
    {"shard-optimizer", "cfg.ddp.use_distributed_optimizer = True"},
    {"shard-everything",
     "cfg.ddp.use_megatron_fsdp = True; cfg.ddp.data_parallel_sharding_strategy = \"optim_grads_params\""},
    {"more-pipeline", "cfg.model.pipeline_model_parallel_size = 2N"},
    {"offload-optimizer",
     "cfg.optimizer.optimizer_cpu_offload = True; cfg.optimizer.use_precision_aware_optimizer = True"},
    {"lora", "cfg.peft = LoRA(dim=16)"},
    {"sharded-checkpoint", "cfg.checkpoint.ckpt_format = \"torch_dist\""},
    {"fewer-checkpoints", "cfg.checkpoint.most_recent_k = 2"},
    {"no-graphs", "cfg.model.cuda_graph_impl = \"none\""},
};

}  // namespace

constinit const Speaker megatron_bridge_speaker = {
    .name = "Megatron-Bridge",
    .marks = kMegatronBridgeMarks,
    .lines = kMegatronBridgeLines,
    .precedence = 8,
    .is_megatron = true,
};

}  // namespace plimsoll::why
