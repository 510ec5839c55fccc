// SPDX-License-Identifier: Apache-2.0
// How logs show Transformers, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kTransformersMarks[] = {"/transformers/", "\\transformers\\"};

constexpr RungLine kTransformersLines[] = {
    {"fixed-shapes", "DataCollator...(pad_to_multiple_of=64), group_by_length=True"},
    {"headroom", "from_pretrained(..., device_map=\"auto\", max_memory={0: \"72GiB\"})  # 90 % of the device"},
    {"flash-attention", "from_pretrained(..., attn_implementation=\"flash_attention_2\")  # or \"sdpa\""},
    {"micro-batch", "per_device_train_batch_size=N/2, gradient_accumulation_steps=2*M"},
    {"chunked-loss", "use_liger_kernel=True"},
    {"bf16", "bf16=True"},
    {"recompute-layers", "gradient_checkpointing=True"},
    {"token-budget", "group_by_length=True, and per_device_train_batch_size for the longest sample"},
    {"cap-length", "max_length=L, truncation=True"},
    {"shorter-sequence", "max_length=N/2"},
    {"no-foreach", "optim=\"adamw_torch_fused\""},
    {"adam-8bit", "optim=\"paged_adamw_8bit\""},
    {"shard-optimizer", "deepspeed=\"zero1.json\"  # or fsdp=\"shard_grad_op\""},
    {"shard-everything", "fsdp=\"full_shard auto_wrap\"  # or deepspeed=\"zero3.json\""},
    {"offload-optimizer", "deepspeed=\"zero2_offload.json\""},
    {"offload-weights", "from_pretrained(..., device_map=\"auto\")"},
    {"lower-precision-weights", "from_pretrained(..., torch_dtype=torch.bfloat16)"},
    {"quantise", "BitsAndBytesConfig(load_in_4bit=True)"},
    {"lora", "get_peft_model(model, LoraConfig(r=16, target_modules=\"all-linear\"))"},
    {"eval-on-host",
     "per_device_eval_batch_size=1, eval_accumulation_steps=8  # prediction_loss_only=True when only the loss is "
     "wanted"},
    {"state-dict-on-host",
     "fsdp_state_dict_type: SHARDED_STATE_DICT, or FullStateDictConfig(offload_to_cpu=True, rank0_only=True)"},
    {"sharded-checkpoint", "fsdp_state_dict_type: SHARDED_STATE_DICT"},
    {"sharded-load", "fsdp_cpu_ram_efficient_loading: true  # or ZeRO-3, or device_map=\"auto\""},
    {"load-lean", "from_pretrained(..., low_cpu_mem_usage=True, torch_dtype=\"auto\")"},
    {"fewer-workers", "dataloader_num_workers=2, dataloader_prefetch_factor=2"},
    {"fewer-checkpoints", "save_total_limit=2"},
    {"no-pinning", "dataloader_pin_memory=False  # or ulimit -l unlimited"},
    {"unpaged-optimizer", "optim=\"adamw_bnb_8bit\"  # not paged_adamw_8bit"},
};

}  // namespace

constinit const Speaker transformers_speaker = {
    .name = "Transformers",
    .marks = kTransformersMarks,
    .lines = kTransformersLines,
    .precedence = 4,
};

}  // namespace plimsoll::why
