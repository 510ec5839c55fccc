# A run of InternEvo: Megatron's tensor parallelism with split sequences, a sharded optimizer.
JOB_NAME = "small"
HIDDEN_SIZE = 2048
MLP_RATIO = 8 / 3

data = dict(seq_len=2048, micro_num=4, micro_bsz=2, total_steps=20, valid_every=0)
model = dict(
    checkpoint=False,
    num_attention_heads=16,
    num_kv_attention_heads=8,
    vocab_size=92544,
    hidden_size=HIDDEN_SIZE,
    num_layers=24,
    mlp_ratio=MLP_RATIO,
    dtype="torch.bfloat16",
    norm_type="rmsnorm",
    use_flash_attn=True,
    num_chunks=1,
)
parallel = dict(zero1=dict(size=-1), tensor=dict(size=2, mode="msp"), pipeline=dict(size=1), weight=dict(size=1))
monitor = dict(alert_file_path=f"log/{JOB_NAME}.log")
