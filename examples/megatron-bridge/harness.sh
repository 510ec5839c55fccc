#!/bin/bash
# A job of Megatron-Bridge's performance harness, by the flags that it has: fine-tuning Llama-3 70B in FP8 on 32 H100.
python scripts/performance/run_script.py \
  -m llama -mr "${MODEL:-llama3_70b}" --task "${TASK:-sft}" -g h100 -c "${DTYPE:-fp8_cs}" -ng "${GPUS:-32}" "$@"
