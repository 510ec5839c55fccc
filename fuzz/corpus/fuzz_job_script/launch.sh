#!/bin/bash
# Trains a 7B model on two nodes.
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8

export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"

GPUS_PER_NODE=8
NNODES=${NNODES:-2}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
CHECKPOINT_PATH=$1
TP=2
HIDDEN=4096   # width

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NNODES
    --master_addr ${MASTER_ADDR:-localhost}
)

GPT_MODEL_ARGS=(
    --num-layers 32
    --hidden-size $HIDDEN
    --ffn-hidden-size 11008 # SwiGLU
    --num-attention-heads 32
    --seq-length 4096
    --max-position-embeddings 4096
    --swiglu --normalization RMSNorm
    --position-embedding-type rope
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --hidden-dropout 0.0 --attention-dropout 0.0
)

TRAINING="--micro-batch-size 1 --global-batch-size 256 \
    --bf16 --lr 1e-4 --use-distributed-optimizer --recompute-granularity full \
    --recompute-method uniform --recompute-num-layers 1"

MODEL_PARALLEL_ARGS=(
    --tensor-model-parallel-size "${TP}"
    --pipeline-model-parallel-size 2
    --sequence-parallel
)

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${GPT_MODEL_ARGS[@]} \
    $TRAINING \
    "${MODEL_PARALLEL_ARGS[@]}" \
    --vocab-size 32000 --tokenizer-type NullTokenizer \
    --save $CHECKPOINT_PATH --load=$CHECKPOINT_PATH \
    --data-path ${DATA_PATH} 2>&1 | tee train.log
