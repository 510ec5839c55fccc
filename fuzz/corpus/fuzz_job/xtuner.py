# A run of XTuner: QLoRA of a small Llama, packed sequences.
import torch
from mmengine.optim import AmpOptimWrapper
from peft import LoraConfig
from torch.optim import AdamW
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from xtuner.model import SupervisedFinetune

base = "meta-llama/Llama-3.2-1B"
max_length = 2048
shards = 1
accumulative_counts = 4
accumulative_counts *= shards
batch_size = 2 if shards == 1 else 1  # per device
use_varlen_attn = False
optim_type = AdamW

model = dict(
    type=SupervisedFinetune,
    use_varlen_attn=use_varlen_attn,
    llm=dict(
        type=AutoModelForCausalLM.from_pretrained,
        pretrained_model_name_or_path=base,
        torch_dtype=torch.bfloat16,
        quantization_config=dict(
            type=BitsAndBytesConfig, load_in_4bit=True, bnb_4bit_use_double_quant=True, bnb_4bit_quant_type="nf4"
        ),
    ),
    lora=dict(type=LoraConfig, r=64, lora_alpha=16, lora_dropout=0.1, bias="none", task_type="CAUSAL_LM"),
)

train_set = dict(type="some_set", max_length=max_length, pack_to_max_length=True)
train_dataloader = dict(batch_size=batch_size, num_workers=0, dataset=dict(type="Concat", datasets=[train_set]))

optim_wrapper = dict(
    type=AmpOptimWrapper,
    optimizer=dict(type=optim_type, lr=2e-4, betas=(0.9, 0.999)),
    clip_grad=dict(max_norm=1, error_if_nonfinite=False),
    accumulative_counts=accumulative_counts,
    dtype="bfloat16",
)
train_cfg = dict(max_epochs=3)
if use_varlen_attn:
    custom_hooks = [dict(type="VarlenHook")]
