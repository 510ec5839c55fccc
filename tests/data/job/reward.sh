#!/bin/bash
accelerate launch --num_processes 8 train_reward.py \
    --model_name_or_path Qwen/Qwen2.5-3B-Instruct \
    --per_device_train_batch_size 4 \
    --max_length 1024 \
    --learning_rate 1e-5 \
    --gradient_checkpointing True \
    --bf16 True \
    --output_dir out
