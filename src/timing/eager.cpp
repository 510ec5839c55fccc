// SPDX-License-Identifier: Apache-2.0
#include "timing/eager.h"

#include <algorithm>

#include "timing/kernels.h"

namespace plimsoll::timing {

namespace {

using step::transformers::AttentionCall;
using step::transformers::Launches;
using step::transformers::MemoryKernel;
using step::transformers::Product;
using step::transformers::ProductKind;

Number number_of(const job::Job& job, std::uint8_t width) {
  if (width == 1) return Number::kFp8;
  if (width < 4) return Number::kBf16;
  return job.precision.tf32 ? Number::kTf32 : Number::kFp32;
}

GroupedRate one_kernel(const Calibration& c) { return {c.grouped_half_rows, c.grouped_half_rows_weight}; }

double product_seconds(const Machine& m, Number number, const Product& p) {
  const Calibration& c = *m.calibration;
  switch (p.kind) {
    case ProductKind::kGrouped:
      return grouped_gemm_seconds(m, number, p.rows, p.columns, p.depth, p.count, p.width, one_kernel(c));
    case ProductKind::kGroupedWeight:
      return grouped_weight_gradient_seconds(m, number, p.depth, p.rows, p.columns, p.count, p.width, one_kernel(c));
    case ProductKind::kPlain:
      break;
  }
  // Batches fill the machine together: as many rows more.
  const double seconds = gemm_seconds(m, number, p.rows * p.count, p.columns, p.depth, p.width);
  // Narrower loads feed the matrix units more slowly: half of the rate at four elements, as measured at one.
  return p.width > 2 ? seconds : seconds / std::max(c.gemm_misaligned, p.alignment / 8.0);
}

// PyTorch has one kernel for all groups in bf16 only; other numbers, and GPUs before Ampere, get a product for each
// group, for which the offsets are copied to the host (recorded: 72 such copies in 12 layers of fp32 experts).
bool runs_one_by_one(const job::Job& job, const Product& p) {
  const bool has_kernel = p.width == 2 && job.cluster.gpu.architecture != cluster::Architecture::kVolta &&
                          job.cluster.gpu.architecture != cluster::Architecture::kTuring;
  return p.kind != ProductKind::kPlain && !has_kernel;
}

Parts price(const job::Job& job, const Prices& prices, const Launches& launches, double tensors, bool backward) {
  const Machine& m = *prices.machine;
  const Calibration& c = *m.calibration;
  Parts parts;
  double one_by_one_experts = 0;
  for (const Product& p : launches.products) {
    const double seconds = product_seconds(m, number_of(job, p.width), p);
    parts.gemm += seconds;
    if (runs_one_by_one(job, p)) {
      one_by_one_experts += seconds;
      parts.host += p.count * c.host_launch / m.host_speed;
    }
  }
  for (const AttentionCall& call : launches.attention) {
    const double slower = (call.width >= 4 ? c.attention_fp32 : 1) * (call.masked ? c.attention_masked : 1);
    parts.attention += backward ? attention_backward_seconds(m, call.flops * slower, Head{call.head_dim}, call.keys)
                                : attention_forward_seconds(m, call.flops * slower, Head{call.head_dim}, call.keys);
  }
  const double one_by_one = m.sms * c.eager_elements;
  // A profile of gpt-oss on an H200: 2.3 ms for each gradient of a bias of 16 experts with 1024 rows each.
  constexpr double kRowInTurn = 2.3e-6;
  double streams = 0;
  for (const MemoryKernel& s : launches.streams) {
    const double seconds = std::max({s.bytes / m.stream, s.elements / one_by_one, s.in_turn * kRowInTurn});
    parts.memory += s.share * (seconds + c.kernel_floor);
    streams += s.share;
  }
  parts.memory += launches.inner * c.kernel_floor;
  // A module costs the host once for its call and once for its gradient, besides the kernels that it launches.
  const double kernels = static_cast<double>(launches.products.size() + launches.attention.size()) + streams;
  parts.host += (kernels * c.host_eager_kernel + tensors / 2 * c.host_eager_module + launches.inner * c.host_launch) /
                m.host_speed;
  // The host waits for the sizes of the groups, launches their products, and has nothing else to do until the next
  // sizes are there: those products run beside no other work of the host.
  if (one_by_one_experts > 0) {
    const double rest = parts.gpu() - one_by_one_experts;
    parts.serial = one_by_one_experts + std::max(rest, parts.host) - std::max(parts.gpu(), parts.host);
  }
  return parts;
}

}  // namespace

bool runs_eagerly(const job::Job& job) {
  return job.kernels.implementation == job::Implementation::kTransformers && !job.kernels.torch_compile &&
         job.parallel.tensor == 1 && job.parallel.pipeline == 1 && job.parallel.context == 1 &&
         job.parallel.expert == 1;
}

PassCost price_eager(const job::Job& job, const Prices& prices, const step::transformers::PartLaunches& part) {
  PassCost cost;
  cost.forward = price(job, prices, part.forward, part.tensors, false);
  cost.backward = price(job, prices, part.backward, part.tensors, true);
  cost.tensors = part.tensors;
  const bool returns = !part.backward.products.empty() || !part.backward.streams.empty();  // else nothing is replayed
  if (returns && job.recompute.granularity == job::RecomputeGranularity::kFull) {
    cost.replay = cost.forward;
    // Python's hooks pack every saved tensor, pack it again in the replay, and unpack it where backward needs it. That
    // took as long on hosts whose launches cost 15 us as on those where they cost 44 (facts step-time.md 8b).
    cost.replay.host += part.forward.saved * prices.machine->calibration->host_eager_saved;
  }
  return cost;
}

}  // namespace plimsoll::timing
