NPROC=${NPROC:-8}
MODEL=${1:-"lmsys/../meta-llama/Llama-2-7b-hf"}
ARGS=(--bf16 True "--model_max_length 2048")
if [[ $NPROC -gt 1 ]]; then
  ARGS+=(--deepspeed zero2.json)
fi
echo torchrun train.py ${ARGS[@]}
torchrun --nproc_per_node=$NPROC train.py \
  --model_name_or_path "$MODEL" ${ARGS[@]} \
  --output_dir out --per_device_train_batch_size 2 --gradient_accumulation_steps 4 \
  --gradient_checkpointing True --learning_rate 2e-5
