// SPDX-License-Identifier: Apache-2.0
#include "timing/machine.h"

#include <algorithm>

namespace plimsoll::timing {

namespace {

// Rates of parts whose catalogue entry has none, so that an answer is slow rather than infinite.
constexpr double kUnknownFlops = 100e12;
constexpr double kUnknownBandwidth = 1e12;
constexpr double kUnknownLink = 25e9;

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
  gemm[index(Number::kBf16)] = bf16 * d.gemm_bf16;
  gemm[index(Number::kFp8)] = fp8 * d.gemm_fp8;
  gemm[index(Number::kMxfp8)] = fp8 * d.gemm_mxfp8;
  gemm[index(Number::kNvfp4)] = fp4 * d.gemm_nvfp4;
  attention_forward = bf16 * d.attention_forward;
  attention_backward = bf16 * d.attention_backward;
  stream = known(r.hbm, kUnknownBandwidth) * d.stream;
  host_link = known(r.host_link, kUnknownLink) * c.host_link;
  const double link = r.nvlink > 0 ? r.nvlink : known(r.host_link, kUnknownLink);
  nvlink = link * c.nvlink;
  expert_nvlink = link * c.expert_nvlink;
  nic = known(r.nic, kUnknownLink) * c.nic;
  expert_nic = known(r.nic, kUnknownLink) * c.expert_nic;
  all_to_all_nvlink = link * c.all_to_all_nvlink;
  all_to_all_nic = known(r.nic, kUnknownLink) * c.all_to_all_nic;
  host_speed = std::max(0.05, d.host_speed);
  if (r.sms > 0) sms = static_cast<double>(r.sms);
  domain = std::max<std::int64_t>(1, std::min(cluster.nvlink_domain(), cluster.gpus));
}

Span span_of(const Machine& machine, std::int64_t size, std::int64_t stride) {
  const std::int64_t inside = std::clamp<std::int64_t>(machine.domain / std::max<std::int64_t>(1, stride), 1, size);
  return {static_cast<double>(size), static_cast<double>(inside)};
}

}  // namespace plimsoll::timing
