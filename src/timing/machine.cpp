// SPDX-License-Identifier: Apache-2.0
#include "timing/machine.h"

#include <algorithm>

namespace plimsoll::timing {

namespace {

// Rates of parts whose catalogue entry has none, so that an answer is slow rather than infinite.
constexpr double kUnknownFlops = 100e12;
constexpr double kUnknownBandwidth = 1e12;
constexpr double kUnknownLink = 25e9;
constexpr double kExchangeNic = 50e9;
// Matrix units against the plain ones where the catalogue has no fp32 rate: 2 on consumer parts, 4 on A10, L4 and
// L40S, 8 on V100 and T4.
constexpr double kFp32Slower = 4;

double known(double value, double otherwise) { return value > 0 ? value : otherwise; }

}  // namespace

Machine::Machine(const cluster::Cluster& cluster, const Calibration& c) : calibration(&c) {
  const cluster::Rates& r = cluster.gpu.rates;
  const Device& d = device_of(c, cluster.gpu);
  const auto index = [](Number number) { return static_cast<std::size_t>(number); };
  const double bf16 = known(r.bf16, kUnknownFlops);
  // A part without the narrow format runs it at the rate of the next wider one.
  const double fp8 = known(r.fp8, bf16);
  const double fp4 = known(r.fp4, fp8);
  peak[index(Number::kBf16)] = bf16;
  peak[index(Number::kFp8)] = peak[index(Number::kMxfp8)] = fp8;
  peak[index(Number::kNvfp4)] = fp4;
  peak[index(Number::kTf32)] = known(r.tf32, bf16 / 2);
  peak[index(Number::kFp32)] = known(r.fp32, bf16 / kFp32Slower);
  gemm[index(Number::kTf32)] = peak[index(Number::kTf32)] * d.gemm_tf32;
  gemm[index(Number::kFp32)] = peak[index(Number::kFp32)] * d.gemm_fp32;
  gemm[index(Number::kBf16)] = bf16 * d.gemm_bf16;
  gemm[index(Number::kFp8)] = fp8 * d.gemm_fp8;
  gemm[index(Number::kMxfp8)] = fp8 * d.gemm_mxfp8;
  gemm[index(Number::kNvfp4)] = fp4 * d.gemm_nvfp4;
  for (double& depth : half_depth) depth = d.half_depth_bf16;
  half_depth[index(Number::kFp8)] = half_depth[index(Number::kMxfp8)] = d.half_depth_fp8;
  half_depth[index(Number::kNvfp4)] = d.half_depth_nvfp4;
  attention_forward = bf16 * d.attention_forward;
  attention_backward = bf16 * d.attention_backward;
  attention_head_64 = d.attention_head_64;
  attention_latent = d.attention_latent;
  stream = known(r.hbm, kUnknownBandwidth) * d.stream;
  host_link = known(r.host_link, kUnknownLink) * c.host_link;
  const double link = r.nvlink > 0 ? r.nvlink : known(r.host_link, kUnknownLink);
  nvlink = link * c.nvlink;
  expert_nvlink = link * c.expert_nvlink;
  nic = known(r.nic, kUnknownLink) * c.nic;
  // Exchanges of many small pieces do not reach a NIC of 800 Gb/s: B300 is as fast as B200 there.
  const double exchange_nic = std::min(known(r.nic, kUnknownLink), kExchangeNic);
  expert_nic = exchange_nic * c.expert_nic;
  all_to_all_nvlink = link * c.all_to_all_nvlink;
  all_to_all_nic = exchange_nic * c.all_to_all_nic;
  power = d.power;
  host_speed = std::max(0.05, d.host_speed);
  host_is_measured = d.host_is_measured;
  if (r.sms > 0) sms = static_cast<double>(r.sms);
  domain = std::max<std::int64_t>(1, std::min(cluster.nvlink_domain(), cluster.gpus));
}

double Machine::host_speed_for(const job::Job& job) const {
  return host_is_measured && job.is_megatron() ? host_speed / calibration->host_of_megatron : host_speed;
}

Span span_of(const Machine& machine, std::int64_t size, std::int64_t stride) {
  const std::int64_t inside = std::clamp<std::int64_t>(machine.domain / std::max<std::int64_t>(1, stride), 1, size);
  return {static_cast<double>(size), static_cast<double>(inside)};
}

}  // namespace plimsoll::timing
