#!/bin/bash
# Trains Llama-3 8B with Megatron-LM on one node of eight GPUs.
export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

GPUS_PER_NODE=8
NODES=${NODES:-1}
TP=2
PP=1

MODEL=(
  --num-layers 32
  --hidden-size 4096
  --ffn-hidden-size 14336
  --num-attention-heads 32
  --group-query-attention --num-query-groups 8
  --vocab-size 128256 --make-vocab-size-divisible-by 128
  --seq-length 8192 --max-position-embeddings 8192
  --position-embedding-type rope --rotary-base 500000
  --normalization RMSNorm --swiglu --disable-bias-linear
  --untie-embeddings-and-output-weights
  --attention-dropout 0 --hidden-dropout 0
)

TRAINING=(
  --micro-batch-size 1
  --global-batch-size 128
  --bf16 --lr 3e-4 --train-iters 1000
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
  --recompute-granularity selective --recompute-modules core_attn
)

torchrun --nproc_per_node "$GPUS_PER_NODE" --nnodes "$NODES" pretrain_gpt.py \
  "${MODEL[@]}" "${TRAINING[@]}" \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP --sequence-parallel \
  --tokenizer-type NullTokenizer --mock-data
