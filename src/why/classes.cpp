// SPDX-License-Identifier: Apache-2.0
#include "why/classes.h"

namespace plimsoll::why {

namespace {

struct Words {
  std::string_view name;
  std::string_view says;
};

constexpr std::array<Words, kCauses> kWords = {{
    {"activation-bound", "the tensors of forward and backward do not fit"},
    {"allocator-cap", "this process may use only a part of the device, and that part is full"},
    {"checkpoint-spike", "training fits, saving or resuming does not"},
    {"config-conflict", "the framework refuses the configuration before any memory is used"},
    {"conv-workspace", "a convolution found no workspace to run in: the device is full"},
    {"cublas-cudnn-alloc", "a library could not create its handle because the device is full"},
    {"cuda-graph-memory", "graph capture or its private pools take the last memory"},
    {"disk-full", "the volume or the quota is full, not memory"},
    {"driver-allocation-limit", "one block is larger than the driver hands out, though memory is free"},
    {"eval-accumulation", "training fits, evaluation does not"},
    {"expandable-segments-interop", "the allocator setting breaks something else in this job"},
    {"fd-limit", "open files ran out, not memory"},
    {"first-backward", "forward completes, the first backward does not"},
    {"fragmentation", "there is enough memory, but not in one piece"},
    {"genuine-capacity", "weights, states and activations really exceed the device"},
    {"host-ram-kill", "host memory or /dev/shm ran out; the GPU is innocent"},
    {"kv-cache-too-small", "the serving engine's budget leaves too little KV cache"},
    {"longest-batch", "ordinary steps fit; one rare long batch does not"},
    {"managed-memory", "memory that host and device share could not be had: paged optimizer states or the like"},
    {"masked-oom", "an assertion hides that the device ran out of memory"},
    {"memory-leak", "use grows from step to step"},
    {"model-load-spike", "loading holds more than the model: a full copy per rank, or on the host"},
    {"nccl-memory", "NCCL allocates outside PyTorch's cache and found no memory there"},
    {"not-memory", "this is not a memory problem"},
    {"object-store", "the object store is full, neither the host nor the device is"},
    {"optimizer-state-bound", "forward and backward fit, the optimizer does not"},
    {"other-process", "the memory is held by somebody else"},
    {"pinned-host-memory", "page-locked host memory could not be had; the device is not full"},
    {"rl-colocation", "trainer and rollout engine share a device, and both want it at once"},
    {"rocm-hip", "the figures of the ROCm device contradict each other"},
    {"serving-headroom", "the engine gave its cache what a request needs beside it"},
    {"unified-memory-limit", "the share of system memory that the GPU may use is full"},
    {"xla-padding", "the compiler pads tensors to tiles, and the padding fills the device"},
    {"unknown", "what was given does not say why"},
}};

constexpr std::array<std::string_view, kResources> kResourceNames = {
    "unknown", "none", "device", "host", "pinned", "shm", "disk", "descriptors", "budget", "cap", "driver limit"};

}  // namespace

std::string_view resource_name(Resource resource) { return kResourceNames[static_cast<std::size_t>(resource)]; }
std::string_view cause_name(Cause cause) { return kWords[static_cast<std::size_t>(cause)].name; }
std::string_view cause_says(Cause cause) { return kWords[static_cast<std::size_t>(cause)].says; }

std::optional<Cause> cause_of(std::string_view name) {
  for (std::size_t i = 0; i < kCauses; ++i)
    if (kWords[i].name == name) return static_cast<Cause>(i);
  return std::nullopt;
}

}  // namespace plimsoll::why
