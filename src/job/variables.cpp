// SPDX-License-Identifier: Apache-2.0
#include "job/variables.h"

#include <algorithm>

#include "base/spelling.h"

namespace plimsoll::job {

namespace {

constexpr KnownVariable kVariables[] = {
    {"CUDA_DEVICE_MAX_CONNECTIONS", "hardware queues: 1 starts TP and CP messages before the GEMMs that hide them"},
    {"PYTORCH_CUDA_ALLOC_CONF", "the allocator of PyTorch; expandable segments avoid fragmentation"},
    {"PYTORCH_ALLOC_CONF", "the allocator of PyTorch (newer name)"},
    {"TORCH_NCCL_AVOID_RECORD_STREAMS", "buffers of collectives are freed as soon as they are done"},
    {"TORCH_NCCL_HIGH_PRIORITY", "messages start before queued compute"},
    {"NCCL_NVLS_ENABLE", "0 saves the buffers of NVLink SHARP; 2, NCCL's default, uses it where it is there"},
    {"NCCL_GRAPH_REGISTER", "0: captured graphs must not register buffers of expandable segments"},
    {"NVTE_CPU_OFFLOAD_V1", "fine-grained offloading uses the first offload path of Transformer Engine"},
    {"NVTE_FLASH_ATTN", "whether Transformer Engine may choose FlashAttention"},
    {"NVTE_FUSED_ATTN", "whether Transformer Engine may choose cuDNN attention"},
    {"NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0 forbids nondeterministic attention kernels"},
    {"NVTE_FWD_LAYERNORM_SM_MARGIN", "SMs left to messages during norms"},
    {"NVTE_BWD_LAYERNORM_SM_MARGIN", "SMs left to messages during norms"},
    {"UB_SKIPMC", "userbuffers without multicast, which GPUs before Hopper lack"},
    {"CUBLAS_WORKSPACE_CONFIG", "size of cuBLAS workspaces"},
};

// Names share their beginnings and are long, and a job has dozens that are none of these.
constexpr std::size_t kMostWrongLetters = 2;

}  // namespace

std::span<const KnownVariable> known_variables() { return kVariables; }

std::string meant_variable(std::string_view name) {
  const auto is_name = [name](const KnownVariable& one) { return one.name == name; };
  if (std::any_of(std::begin(kVariables), std::end(kVariables), is_name)) return {};
  for (const KnownVariable& one : kVariables)
    if (edit_distance(name, one.name) <= kMostWrongLetters) return std::string(one.name);
  return {};
}

}  // namespace plimsoll::job
