#!/bin/bash
# A program that finds its configuration by itself, with groups and values over it.
export CUDA_VISIBLE_DEVICES=0,1,2,3
torchrun --nproc_per_node 4 train.py model=small task=long \
    ++trainer.batch_size=2 \
    ++trainer.gradient_checkpointing=true \
    ++precision=bf16
