#!/bin/bash
# The projector alone, between a frozen tower and a frozen language model.
torchrun --nproc_per_node 8 llava/train/train_mem.py \
    --model_name_or_path lmsys/vicuna-7b-v1.5 \
    --vision_tower openai/clip-vit-large-patch14-336 \
    --mm_projector_type mlp2x_gelu \
    --mm_vision_select_layer -2 \
    --tune_mm_mlp_adapter True \
    --bf16 True \
    --per_device_train_batch_size 16 \
    --gradient_accumulation_steps 1 \
    --learning_rate 1e-3 \
    --model_max_length 2048 \
    --gradient_checkpointing True \
    --output_dir out
