// SPDX-License-Identifier: Apache-2.0
// How much of a machine's peak its kernels and links reach, and what software costs besides: few numbers, each
// with a physical meaning and a source (catalog/timing.json). A user's own file, measured on their cluster, has
// the same keys; what it names wins. Fractions are of the catalogue's peaks, times are seconds.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"

namespace plimsoll::timing {

// What kernels reach on one kind of GPU, as fractions of its dense peaks.
struct Device {
  double gemm_bf16 = 0.65;
  double gemm_fp8 = 0.6;
  double gemm_mxfp8 = 0.6;
  double gemm_nvfp4 = 0.4;
  double attention_forward = 0.5;
  double attention_backward = 0.42;
  double stream = 0.8;      // of HBM bandwidth
  double host_speed = 1.0;  // of the host's single thread, against a Xeon of a DGX H100
};

struct Calibration {
  // Kernels (kernels-h200.json).
  double gemm_half_depth_bf16 = 103;  // depth K at which a GEMM reaches half its rate
  double gemm_half_depth_fp8 = 240;
  double gemm_wave_tail = 0.11;     // share of an unfilled last wave that is lost
  double gemm_small_rows = 64;      // rows of a grouped GEMM's group that are lost to its tile edge
  double grouped_gemm = 0.8;        // rate of a grouped GEMM against one of the same rows
  double grouped_gemm_fused = 1.0;  // of the device-side one that whole-iteration graphs of an MoE need
  double eager_stream = 0.7;        // of the stream rate: kernels of PyTorch's own modules against fused ones
  double kernel_floor = 2.5e-6;     // of any kernel: launch latency and tail
  double attention_tail_forward = 40e-6;
  double attention_tail_backward = 120e-6;
  double attention_small_head = 0.36;  // exponent: rate at head size 64 against 128
  double attention_flash2 = 0.6;       // rate of FlashAttention 2 on Hopper and newer against cuDNN and FA 3
  // Host.
  double host_kernel_te = 45e-6;     // per kernel, with the Python of Transformer Engine and Megatron around it
  double host_kernel_local = 45e-6;  // Megatron's own modules
  double host_kernel_eager = 8e-6;   // PyTorch modules
  double host_message = 50e-6;       // per collective that the host starts
  double host_graph = 0.05;          // of the above, inside a CUDA graph
  double host_overlap = 10;          // exponent of the soft maximum of host and GPU
  double moe_sync = 60e-6;           // per dropless dispatch: sizes travel to the host before the launch
  double step_overhead = 0.03;       // data, logging, barriers, once per step
  // Communication, fractions of link rates.
  double nvlink = 0.8;
  double nic = 0.75;
  double expert_nvlink = 0.7;  // kernels of DeepEP and HybridEP
  double expert_nic = 0.6;
  double all_to_all_nvlink = 0.6;  // NCCL's all-to-all
  double all_to_all_nic = 0.6;
  double latency_nvlink = 12e-6;
  double latency_network = 30e-6;
  double tensor_exposed = 0.5;         // share of tensor-parallel messages that userbuffers leave in the open
  double tensor_exposed_alone = 0.95;  // and without them
  double data_exposed = 0.06;          // of overlapped data-parallel messages: last bucket, slowed kernels
  double shard_exposed = 0.1;          // of overlapped FSDP messages
  double expert_hidden = 0.5;          // of the EP messages under 1F1B overlap
  double host_link = 0.87;
  double offload_slowdown = 0.03;
  double optimizer_passes = 1.15;  // of the bytes that an update must move
  double cpu_update_bytes = 4e9;   // bytes per second and GPU of an optimizer on the host, one thread
  double cpu_fused_update_bytes = 17.7e9;
  double cpu_threads = 0.69;  // exponent: how much more threads do

  Device fallback;
  std::vector<std::pair<std::string, Device>> devices;  // by GPU id or architecture
};

// The built-in one (catalog/timing.json).
[[nodiscard]] const Calibration& built_in();

// The built-in one, changed by what a user's file names. JSON or TOML.
[[nodiscard]] Result<Calibration> read_calibration(const std::string& path, std::string_view text);

// The values of a GPU: by its id, else by its architecture, else the fallback.
[[nodiscard]] const Device& device_of(const Calibration& calibration, const cluster::Gpu& gpu);

// Every scalar by name, for files and for fitting.
struct NamedValue {
  std::string_view name;
  double Calibration::* field;
  bool divides = false;  // something is divided by it: zero is refused
};
struct NamedDeviceValue {
  std::string_view name;
  double Device::* field;
  bool divides = true;
};
[[nodiscard]] const std::vector<NamedValue>& named_values();
[[nodiscard]] const std::vector<NamedDeviceValue>& named_device_values();

}  // namespace plimsoll::timing
