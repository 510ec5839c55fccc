// SPDX-License-Identifier: Apache-2.0
// The line that a user writes for a rung of the ladder: the framework's own, or the one for any of them.
#include "why/rungs.h"
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr RungLine kLinesOfAny[] = {
    {"expandable-segments", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {"max-split-size", "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:256"},
    {"fixed-shapes", "pad every batch to a multiple of 64, or to one of a few sizes"},
    {"headroom", "plan for 90 % of the device: max_memory, offload thresholds, cache sizes"},
    {"raise-limit", "torch.cuda.set_per_process_memory_fraction(1.0)  # or drop the call that sets it"},
    {"free-the-device",
     "nvidia-smi --query-compute-apps=pid,used_memory --format=csv  # end it, or set CUDA_VISIBLE_DEVICES"},
    {"one-device-per-rank",
     "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))  # before anything touches the GPU"},
    {"flash-attention", "torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"},
    {"micro-batch", "batch_size=N/2, and step the optimizer every 2*M batches"},
    {"smaller-batch", "batch_size=N/2, or split the input and join the results"},
    {"chunked-loss", "split the tokens into chunks before lm_head and sum the losses"},
    {"bf16", "with torch.autocast(\"cuda\", dtype=torch.bfloat16):"},
    {"recompute-layers", "torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"},
    {"token-budget", "a batch sampler with a token budget (longest sample x batch size), sorted by length"},
    {"cap-length", "drop or cut samples longer than L; lower --max-tokens"},
    {"shorter-sequence", "half the sequence length or resolution"},
    {"no-foreach", "torch.optim.AdamW(params, foreach=False)  # or fused=True"},
    {"adam-8bit", "bitsandbytes.optim.PagedAdamW8bit(params)"},
    {"shard-optimizer", "torch.distributed.optim.ZeroRedundancyOptimizer(params, torch.optim.AdamW)"},
    {"shard-everything", "torch.distributed.fsdp.fully_shard(block)"},
    {"offload-optimizer", "torchao.optim.CPUOffloadOptimizer(params, torch.optim.AdamW)"},
    {"offload-weights", "accelerate.cpu_offload(model)  # diffusers: pipe.enable_model_cpu_offload()"},
    {"lower-precision-weights", "model.to(torch.bfloat16) before model.to(device)"},
    {"quantise", "torchao.quantization.quantize_(model, Int4WeightOnlyConfig())"},
    {"lora", "peft.get_peft_model(model, peft.LoraConfig(r=16))  # fine-tuning only"},
    {"bigger-device", "plimsoll fit job.toml --sweep gpu=h100-sxm-80gb,h200-sxm-141gb"},
    {"eval-on-host", "with torch.inference_mode(): ...; outputs.append(out.cpu())  # and a smaller eval batch"},
    {"eval-in-chunks", "for part in scores.split(1024): ranked.append(part.topk(k).indices.cpu())"},
    {"state-dict-on-host", "StateDictOptions(full_state_dict=True, cpu_offload=True)"},
    {"sharded-checkpoint", "torch.distributed.checkpoint.save(state, checkpoint_id=path)"},
    {"load-on-host", "torch.load(path, map_location=\"cpu\", mmap=True)"},
    {"sharded-load",
     "build on torch.device(\"meta\"), fully_shard, then set_model_state_dict with broadcast_from_rank0=True"},
    {"load-lean", "with torch.device(\"meta\"): ...; torch.load(path, mmap=True); one rank at a time"},
    {"host-memory", "#SBATCH --mem=0  # or --mem=<more>; docker run --memory=<more>; resources.limits.memory"},
    {"fewer-workers", "DataLoader(num_workers=2, prefetch_factor=2, persistent_workers=False)"},
    {"host-references", "bound every list, cache and replay buffer; store .item() and numpy arrays, not tensors"},
    {"less-offload", "offload a fraction of the optimizer state, or none"},
    {"memory-map", "np.memmap / datasets(streaming=True) / keep_in_memory=False"},
    {"more-shm", "docker run --shm-size=16g  # Kubernetes: an emptyDir with medium: Memory at /dev/shm"},
    {"free-disk", "df -h <output folder>; quota -s"},
    {"fewer-checkpoints", "delete old checkpoints after each save"},
    {"fewer-graphs", "torch.cuda.graph(g, pool=shared_pool), largest shape first, and fewer shapes"},
    {"no-graphs", "torch.compile(mode=\"default\"), no torch.cuda.graph"},
    {"shorter-context", "--max-model-len N"},
    {"engine-share", "--gpu-memory-utilization 0.95"},
    {"engine-share-less", "--gpu-memory-utilization N"},
    {"engine-shard", "--tensor-parallel-size 2N"},
    {"kv-fp8", "--kv-cache-dtype fp8"},
    {"cache-limit", "torch.cuda.set_per_process_memory_fraction(0.95)"},
    {"nccl-lean", "export NCCL_NVLS_ENABLE=0 NCCL_MAX_NCHANNELS=8 NCCL_BUFFSIZE=2097152"},
    {"no-user-buffers", "switch NCCL buffer registration off, or unset PYTORCH_CUDA_ALLOC_CONF"},
    {"unset-expandable", "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"},
    {"release-before-wake",
     "offload actor weights and optimizer, torch.cuda.empty_cache(), llm.wake_up(tags=[\"weights\"]), sync, "
     "llm.wake_up(tags=[\"kv_cache\"])"},
    {"rollout-share", "actor_rollout_ref.rollout.gpu_memory_utilization=0.4"},
    {"drop-references", "losses.append(loss.item())  # not loss; no retain_graph=True; detach() what is kept"},
    {"record-history",
     "torch.cuda.memory._record_memory_history(); ...; torch.cuda.memory._dump_snapshot(\"oom.pickle\")"},
    {"change-option", "see the message"},
    {"rocm-update", "rocm-smi --showmeminfo vram; dmesg | grep -i vram; update ROCm and the kernel driver"},
    {"find-the-index", "CUDA_LAUNCH_BLOCKING=1 python ...  # then compute-sanitizer; check indices against sizes"},
    {"find-the-straggler",
     "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1; py-spy dump on the rank that is missing"},
    {"more-time", "#SBATCH --time=<more>, and a smaller save interval"},
    {"file-limit", "ulimit -n 65536  # or torch.multiprocessing.set_sharing_strategy(\"file_system\")"},
    {"no-pinning", "DataLoader(..., pin_memory=False)  # or ulimit -l unlimited"},
    {"object-store-size", "ray.init(object_store_memory=N)  # ray memory lists what holds it now"},
    {"split-block", "smaller batches, or torch.chunk() along the longest dimension"},
    {"relax-block-limit",
     "export UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1  # Intel GPUs; other drivers have no such switch"},
    {"unified-watermark",
     "export PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0  # Macs; on an APU raise the GTT or the BIOS share"},
    {"engine-headroom", "--gpu-memory-utilization 0.85 --max-num-batched-tokens 2048"},
    {"no-benchmark", "torch.backends.cudnn.benchmark = False"},
    {"unpaged-optimizer", "bnb.optim.AdamW8bit(...)  # not PagedAdamW8bit"},
    {"tile-shapes", "last two dimensions multiples of 8 and 128 (TPU); keep them there under sharding"},
};

const RungLine* find(std::span<const RungLine> lines, std::string_view id) {
  for (const RungLine& line : lines)
    if (line.rung == id) return &line;
  return nullptr;
}

}  // namespace

std::string_view line_for(std::string_view id, Framework framework) {
  const Speaker* speaker = speaker_of(framework);
  const RungLine* line = speaker != nullptr ? find(speaker->lines, id) : nullptr;
  if (line == nullptr) line = find(kLinesOfAny, id);
  return line != nullptr ? line->line : std::string_view{};
}

}  // namespace plimsoll::why
