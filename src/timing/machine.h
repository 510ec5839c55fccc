// SPDX-License-Identifier: Apache-2.0
// A cluster as the cost model sees it: rates that its kernels and links really reach. Made once per cluster and
// calibration; every prediction reads it.
#pragma once

#include <cstdint>

#include "cluster/cluster.h"
#include "job/job.h"
#include "timing/calibration.h"

namespace plimsoll::timing {

enum class Number : std::uint8_t { kBf16, kFp8, kMxfp8, kNvfp4, kTf32, kFp32 };  // kBf16: fp16 too
inline constexpr std::size_t kNumbers = 6;

struct Machine {
  Machine(const cluster::Cluster& cluster, const Calibration& calibration);

  const Calibration* calibration;
  double gemm[kNumbers] = {};        // FLOP/s of a large GEMM
  double peak[kNumbers] = {};        // dense peak, for MFU
  double half_depth[kNumbers] = {};  // depth of a GEMM at half that
  double attention_forward = 0;      // FLOP/s
  double attention_backward = 0;
  double attention_head_64 = 1;  // rates at other heads, against 128
  double attention_latent = 1;
  double stream = 0;  // bytes/s
  double nvlink = 0;  // bytes/s of collectives in a domain
  double nic = 0;     // bytes/s of a GPU through the network
  double expert_nvlink = 0;
  double expert_nic = 0;
  double all_to_all_nvlink = 0;
  double all_to_all_nic = 0;
  double host_link = 0;
  double host_speed = 1;
  bool host_is_measured = false;
  // Against the host that the built-in costs of such a job's launches are of: those of Megatron were found on faster
  // hosts than those of the Trainer, which a measured speed is relative to.
  [[nodiscard]] double host_speed_for(const job::Job& job) const;
  double power = 0;  // what the power limit takes of products that run alone
  double sms = 132;
  std::int64_t domain = 8;  // GPUs of one NVLink domain
};

// Which members of a group share a domain. Ranks of a group are `stride` apart (rank order tp-cp-ep-dp-pp).
struct Span {
  double size = 1;
  double inside = 1;  // members in one domain
  [[nodiscard]] bool crosses() const { return inside < size; }
  friend bool operator==(const Span&, const Span&) = default;
};
[[nodiscard]] Span span_of(const Machine& machine, std::int64_t size, std::int64_t stride);

}  // namespace plimsoll::timing
