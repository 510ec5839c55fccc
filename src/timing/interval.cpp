// SPDX-License-Identifier: Apache-2.0
#include "timing/interval.h"

#include <algorithm>

#include "job/effective.h"
#include "timing/eager.h"

namespace plimsoll::timing {

namespace {

// 90th percentiles of docs/accuracy.md, rounded up: published dense and MoE rows, the rows of torchtitan, and steps of
// the Trainer that do not wait for their host. Of hybrids (mixers of state spaces beside attention) that of measured
// against predicted, over seen and blind rows: nearly all of them are slower than predicted.
constexpr double kDense = 0.13;
constexpr double kMoe = 0.18;
constexpr double kMixers = 0.43;
constexpr double kOtherParts = 0.3;
constexpr double kOtherFrameworks = 0.18;
constexpr double kTrainer = 0.1;
// Steps that wait for Python differ by half from machine to machine (the golden values of models of width 512).
constexpr double kHost = 0.45;
// Where plimsoll calibrate has timed that machine (trainer-h200-probed.json).
constexpr double kMeasuredHost = 0.17;
constexpr double kNotModelled = 0.05;  // for each named assumption, up to three

}  // namespace

double relative_interval(const job::Job& job, double host_share, Host host) {
  double share = job.is_megatron() ? kDense : runs_eagerly(job) && job.cluster.gpus == 1 ? kTrainer : kOtherFrameworks;
  if (job.model.has_moe()) share = std::max(share, kMoe);
  if (job.is_megatron() && job.model.has_mixers()) share = std::max(share, kMixers);
  // Efficiencies were fitted to Hopper and Blackwell; of other parts little was measured.
  if (!job.cluster.gpu.is_hopper_or_newer()) share = std::max(share, kOtherParts);
  const std::size_t assumed = unmodelled(job).size();
  share += (host == Host::kMeasured ? kMeasuredHost : kHost) * host_share +
           kNotModelled * static_cast<double>(std::min<std::size_t>(3, assumed));
  return std::min(share, 0.9);
}

std::vector<std::string> unmodelled(const job::Job& job) {
  std::vector<std::string> warnings;
  const auto warn = [&](bool set, const char* text) {
    if (set) warnings.emplace_back(text);
  };
  warn(job.cluster.gpu.rates.bf16 <= 0 || job.cluster.gpu.rates.hbm <= 0,
       "gpu: the catalogue has no rates of this part; the time is that of a slow one");
  warn(job.batch.packed, "packed: attention is timed as one sequence of the whole length");
  warn(
      job.kernels.empty_cache_steps > 0,
      "torch_empty_cache_steps: the driver's calls that give memory back and take it again are not timed; Transformers "
      "says about 10 % where every step does it");
  warn(job.parallel.delay_wgrad, "delay_wgrad_compute: weight gradients are timed inside the backward");
  warn(job.precision.fp8_attention,
       "fp8_dot_product_attention: attention is timed at 1.3 times the rate of 16 bits, which is assumed");
  warn(job.offload.weights, "cpu_offloading_weights: weights are timed as staying on the GPU");
  warn(job::parameter_offload(job.sharding) == job::OffloadTarget::kNvme ||
           job::optimizer_offload(job.sharding) == job::OffloadTarget::kNvme,
       "NVMe: timed at 20 GB/s for all drives of a node, which is assumed; nvme_bytes of a calibration sets it");
  const bool host_updates = job.optimizer.cpu_offload_fraction > 0 || job.sharding.cpu_offload ||
                            job::optimizer_offload(job.sharding) != job::OffloadTarget::kNone;
  warn(host_updates && !job.environment.contains("OMP_NUM_THREADS"),
       "optimizer on the host: timed with one thread, which is what torchrun gives a rank; OMP_NUM_THREADS=14 is six "
       "times as fast");
  warn(job.adapter.has_quantized_base(), "quantized base: products are timed in 16 bits, without dequantisation");
  for (const model::Layer& kind : job.model.kinds)
    if (kind.attention.kind == model::AttentionKind::kLinear) {
      warn(true, "linear attention: its core is timed as attention inside short chunks");
      break;
    }
  return warnings;
}

}  // namespace plimsoll::timing
