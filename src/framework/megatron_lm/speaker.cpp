// SPDX-License-Identifier: Apache-2.0
// How logs show Megatron-LM, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kMegatronLmMarks[] = {"megatron/", "pretrain_gpt"};

constexpr RungLine kMegatronLmLines[] = {
    {"flash-attention", "--attention-backend flash"},
    {"micro-batch", "--micro-batch-size N/2  # --global-batch-size stays"},
    {"chunked-loss", "--cross-entropy-loss-fusion"},
    {"bf16", "--bf16"},
    {"recompute-attention", "--recompute-granularity selective --recompute-modules core_attn"},
    {"recompute-mlp", "--recompute-granularity selective --recompute-modules core_attn mlp"},
    {"recompute-layers", "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"},
    {"shorter-sequence", "--seq-length N/2"},
    {"adam-8bit", "--use-precision-aware-optimizer --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8"},
    {"shard-optimizer", "--use-distributed-optimizer"},
    {"shard-everything", "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"},
    {"more-pipeline", "--pipeline-model-parallel-size 2N"},
    {"offload-optimizer", "--optimizer-cpu-offload --use-precision-aware-optimizer"},
    {"eval-on-host", "--eval-micro-batch-size 1"},
    {"sharded-checkpoint", "--ckpt-format torch_dist"},
    {"fewer-workers", "--num-workers 1"},
    {"fewer-checkpoints", "--save-interval <larger>  # and delete old iterations"},
    {"fewer-graphs", "--cuda-graph-modules attn  # fewer modules; --cuda-graph-share-io-buffers"},
    {"no-graphs", "--cuda-graph-impl none"},
    {"no-user-buffers", "drop --use-nccl-ub, or unset PYTORCH_CUDA_ALLOC_CONF"},
};

}  // namespace

constinit const Speaker megatron_lm_speaker = {
    .name = "Megatron-LM",
    .marks = kMegatronLmMarks,
    .lines = kMegatronLmLines,
    .precedence = 7,
    .is_megatron = true,
};

}  // namespace plimsoll::why
