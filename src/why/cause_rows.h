// SPDX-License-Identifier: Apache-2.0
// One row per cause: its name in the code, its name in --json and docs/reference/classes.md, one clause that says it,
// and its fixes in order where no figure or phase decides between them (else src/why/fixes.cpp does).
#pragma once

// clang-format off
#define PLIMSOLL_CAUSES(ROW) \
  ROW(kActivationBound, "activation-bound", "the tensors of forward and backward do not fit", "") \
  ROW(kAllocatorCap, "allocator-cap", "this process may use only a part of the device, and that part is full", "") \
  ROW(kCheckpointSpike, "checkpoint-spike", "training fits, saving or resuming does not", "") \
  ROW(kConfigConflict, "config-conflict", "the framework refuses the configuration before any memory is used", "change-option") \
  ROW(kConvWorkspace, "conv-workspace", "a convolution found no workspace to run in: the device is full", "") \
  ROW(kCublasCudnnAlloc, "cublas-cudnn-alloc", "a library could not create its handle because the device is full", "") \
  ROW(kCudaGraphMemory, "cuda-graph-memory", "graph capture or its private pools take the last memory", "") \
  ROW(kDiskFull, "disk-full", "the volume or the quota is full, not memory", "free-disk fewer-checkpoints") \
  ROW(kDriverLimit, "driver-allocation-limit", "one block is larger than the driver hands out, though memory is free", "split-block relax-block-limit") \
  ROW(kEvalAccumulation, "eval-accumulation", "training fits, evaluation does not", "eval-on-host eval-in-chunks") \
  ROW(kExpandableInterop, "expandable-segments-interop", "the allocator setting breaks something else in this job", "") \
  ROW(kFdLimit, "fd-limit", "open files ran out, not memory", "file-limit fewer-workers") \
  ROW(kFirstBackward, "first-backward", "forward completes, the first backward does not", "") \
  ROW(kFragmentation, "fragmentation", "there is enough memory, but not in one piece", "") \
  ROW(kGenuineCapacity, "genuine-capacity", "weights, states and activations really exceed the device", "") \
  ROW(kHostRamKill, "host-ram-kill", "host memory or /dev/shm ran out; the GPU is innocent", "") \
  ROW(kKvCacheTooSmall, "kv-cache-too-small", "the serving engine's budget leaves too little KV cache", "") \
  ROW(kLongestBatch, "longest-batch", "ordinary steps fit; one rare long batch does not", "") \
  ROW(kManagedMemory, "managed-memory", "memory that host and device share could not be had: paged optimizer states or the like", "unpaged-optimizer host-memory") \
  ROW(kMaskedOom, "masked-oom", "an assertion hides that the device ran out of memory", "") \
  ROW(kMemoryLeak, "memory-leak", "use grows from step to step", "drop-references record-history") \
  ROW(kModelLoadSpike, "model-load-spike", "loading holds more than the model: a full copy per rank, or on the host", "") \
  ROW(kNcclMemory, "nccl-memory", "NCCL allocates outside PyTorch's cache and found no memory there", "") \
  ROW(kNotMemory, "not-memory", "this is not a memory problem", "") \
  ROW(kObjectStore, "object-store", "the object store is full, neither the host nor the device is", "object-store-size") \
  ROW(kOptimizerStateBound, "optimizer-state-bound", "forward and backward fit, the optimizer does not", "") \
  ROW(kOtherProcess, "other-process", "the memory is held by somebody else", "") \
  ROW(kPinnedHost, "pinned-host-memory", "page-locked host memory could not be had; the device is not full", "no-pinning host-memory") \
  ROW(kRlColocation, "rl-colocation", "trainer and rollout engine share a device, and both want it at once", "release-before-wake rollout-share") \
  ROW(kRocmHip, "rocm-hip", "the figures of the ROCm device contradict each other", "rocm-update") \
  ROW(kServingHeadroom, "serving-headroom", "the engine gave its cache what a request needs beside it", "engine-headroom engine-shard quantise") \
  ROW(kUnifiedLimit, "unified-memory-limit", "the share of system memory that the GPU may use is full", "") \
  ROW(kXlaPadding, "xla-padding", "the compiler pads tensors to tiles, and the padding fills the device", "tile-shapes smaller-batch") \
  ROW(kUnknown, "unknown", "what was given does not say why", "")
// clang-format on
