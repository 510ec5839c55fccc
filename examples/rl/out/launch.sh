#!/bin/bash
# Trains with Megatron-LM. Read it again: plimsoll fit launch.sh plimsoll.toml
# llama3-8b, 8 GPUs (h100-sxm-80gb)
set -euo pipefail

export CUDA_DEVICE_MAX_CONNECTIONS=1      # TP and CP before Blackwell: messages start before the GEMMs that hide them
export TORCH_NCCL_AVOID_RECORD_STREAMS=1  # buffers of collectives are freed as soon as they are done
export NCCL_NVLS_ENABLE=2                 # NVLink SHARP where it is there; 0 saves its buffers

MODEL=(
  --num-layers 32                        # decoder layers
  --hidden-size 4096                     # width of the residual stream
  --ffn-hidden-size 14336                # width of a dense MLP
  --num-attention-heads 32               # query heads
  --group-query-attention                # num_query_groups applies
  --num-query-groups 8                   # key and value heads
  --kv-channels 128                      # size of one head
  --max-position-embeddings 8192         # longest sequence of the model
  --position-embedding-type rope         # how positions enter
  --normalization RMSNorm                # kind of the norms
  --disable-bias-linear                  # off: all linear layers have biases
  --untie-embeddings-and-output-weights  # off: head and embedding are one
  --hidden-dropout 0                     # dropout after attention and MLP
  --attention-dropout 0                  # dropout of attention scores
  --swiglu                               # SiLU with a gate projection
  --rotary-base 500000                   # rope_theta of the model
)

PARALLEL=(
  --tensor-model-parallel-size 1    # TP: ranks that share each layer
  --pipeline-model-parallel-size 1  # PP: ranks that share the depth
  --context-parallel-size 4         # its exposed messages are 0.0 % of the step (plimsoll plan: fastest of 4815 that fit)
  --cp-comm-type p2p                # how CP exchanges; one or one per layer
)

BATCH=(
  --seq-length 8192       # tokens of one sequence
  --micro-batch-size 2    # 44.00 MiB of headroom remain on the worst rank (plimsoll plan: fastest of 4815 that fit)
  --global-batch-size 64  # sequences of one optimizer step
)

PRECISION=(
  --bf16  # train in bf16
)

OPTIMIZER=(
  --use-distributed-optimizer  # Megatron shards optimizer states over DP
  --overlap-grad-reduce        # gradients are reduced during backward
  --overlap-param-gather       # weights are gathered during forward
)

DATA=(
  --mock-data                          # sample data; put yours here
  --tokenizer-type NullTokenizer       # adds one row for its end-of-document token
  --vocab-size 128255                  # rows of the vocabulary without it
  --lr "${LR:-1e-4}"                   # memory and time do not depend on it
  --train-iters "${TRAIN_ITERS:-100}"  # optimizer steps
)

# NNODES, NODE_RANK and MASTER_ADDR come from Slurm, or from whoever starts one of these per node.
torchrun --nproc_per_node 8 --nnodes "${NNODES:-1}" --node_rank "${NODE_RANK:-${SLURM_NODEID:-0}}" \
  --master_addr "${MASTER_ADDR:-localhost}" --master_port "${MASTER_PORT:-29500}" \
  "${MEGATRON_LM:-.}/pretrain_gpt.py" \
  "${MODEL[@]}" "${PARALLEL[@]}" "${BATCH[@]}" "${PRECISION[@]}" "${OPTIMIZER[@]}" "${DATA[@]}"
