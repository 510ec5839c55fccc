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
  double gemm_tf32 = 0.7;
  double gemm_fp32 = 0.75;
  double half_depth_bf16 = 100;  // depth at which a product reaches half its rate; fp32 and TF32 too
  double half_depth_fp8 = 340;   // MXFP8 too
  double half_depth_nvfp4 = 750;
  double power = 0;  // share of the rate that the power limit takes where nothing but matrix products runs
  double attention_forward = 0.5;
  double attention_backward = 0.42;
  double attention_head_64 = 0.75;  // forward and backward at heads of 64, against 128
  double attention_latent = 1.17;   // forward of MLA, whose keys are wider than its values, against 128
  double stream = 0.8;              // of HBM bandwidth
  double host_speed = 1.0;          // of the host's single thread, against a Xeon of a DGX H100
  bool host_is_measured = false;    // host_speed is that of the machine that the job runs on
};

struct Calibration {
  // Kernels (kernels-h200.json).
  double gemm_wave_tail = 0.11;   // share of an unfilled last wave that is lost
  double gemm_misaligned = 0.15;  // rate of a 16-bit product whose features are no multiple of 8
  double grouped_half_rows = 40;  // rows per group at which a grouped product reaches half its rate
  double grouped_half_rows_weight = 200;
  double grouped_half_rows_te = 160;  // and where every group is a product of its own
  double grouped_half_rows_weight_te = 600;
  double eager_stream = 0.7;      // of the stream rate: kernels of PyTorch's own modules against fused ones
  double eager_elements = 2.3e9;  // elements per second and multiprocessor of kernels that do not vectorise
  double permute_stream = 0.45;   // of the stream rate: kernels that sort and gather the tokens of experts
  double kernel_floor = 2.5e-6;   // of any kernel: launch latency and tail
  double attention_tail_forward = 10e-6;
  double attention_tail_backward = 30e-6;
  double attention_diagonal_forward = 200;  // keys that a query pays for beyond those that it sees
  double attention_diagonal_backward = 350;
  double attention_other_head = 0.72;   // rate at head sizes other than 64, 128 and those of MLA
  double attention_fp32 = 8;            // FLOPs that count for one: without tensor cores
  double attention_masked = 1.3;        // and with an additive mask
  double attention_fp8 = 1.3;           // rate of attention in FP8 against 16 bits
  double scan_products = 8.6e11;        // FLOP/s of a multiprocessor: products in the kernels of a state-space scan
  double transposed_elements = 3.45e9;  // elements per second and multiprocessor of a copy that transposes
  double attention_flash2 = 0.6;        // rate of FlashAttention 2 on Hopper and newer against cuDNN and FA 3
  // Host.
  double host_kernel_te = 45e-6;         // per kernel, with the Python of Transformer Engine and Megatron around it
  double host_kernel_local = 45e-6;      // Megatron's own modules
  double host_kernel_eager = 8e-6;       // PyTorch modules, compiled
  double host_rank_step = 2.1e-3;        // of a rank alone, once per step: finalising gradients, their norm
  double host_rank_weight = 72e-6;       // and for every weight that it updates
  double host_of_megatron = 1.8;         // speed of the host that the three above are of, on the scale of those below
  double host_eager_kernel = 4e-5;       // PyTorch modules as they are: per kernel
  double host_eager_module = 9e-5;       // per weight: the module around it and its gradient
  double host_local_replay = 1.5;        // of a forward of Megatron's own modules where checkpointing replays it
  double host_eager_saved = 4e-5;        // per tensor that a checkpointed layer saves: Python's hooks around it
  double host_eager_update = 2e-5;       // per weight and step: clipping and optimizer
  double host_launch = 8e-6;             // per kernel that C++ launches in a loop of its own
  double host_message = 50e-6;           // per collective that the host starts
  double host_graph = 0.05;              // of the above, inside a CUDA graph
  double moe_sync = 60e-6;               // per dropless dispatch: sizes travel to the host before the launch
  double step_overhead = 0.03;           // data, logging, barriers, once per step
  double step_overhead_trainer = 0.003;  // of the Trainer and of PyTorch's own loops
  // Communication, fractions of link rates.
  double nvlink = 0.8;
  double straggler = 0.013;  // of the step, for each doubling of GPUs beyond eight: the slowest sets the pace
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
  double optimizer_narrow = 1.31;  // and more where PyTorch updates weights, gradients and moments of two bytes
  double cpu_update_bytes = 4e9;   // bytes per second and GPU of an optimizer on the host, one thread
  double cpu_fused_update_bytes = 17.7e9;
  double cpu_threads = 0.69;  // exponent: how much more threads do
  double nvme_bytes = 20e9;   // bytes per second of all drives of a node

  std::string measured_on;  // id of the GPU that `plimsoll calibrate` measured; "": of any
  Device fallback;
  std::vector<std::pair<std::string, Device>> devices;  // by GPU id or architecture
};

// The built-in one (catalog/timing.json).
[[nodiscard]] const Calibration& built_in();

// The built-in one, changed by what a user's file names. JSON or TOML.
[[nodiscard]] Result<Calibration> read_calibration(const std::string& path, std::string_view text);

// What was measured on one GPU says nothing of another: an error where the job's is another.
[[nodiscard]] Status check_gpu(const Calibration& calibration, const cluster::Gpu& gpu);

// The head of a file that `plimsoll calibrate` wrote.
inline constexpr const char* kCalibrationKind = "plimsoll-calibration";
inline constexpr int kCalibrationSchema = 1;

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
