// SPDX-License-Identifier: Apache-2.0
#include "timing/passes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "timing/collectives.h"
#include "timing/kernels.h"
#include "timing/queue.h"

namespace plimsoll::timing {

namespace {

using step::Doing;
using step::Group;
using step::kLoopStep;
using step::Part;
using step::Pattern;
using step::Work;

bool graphed(const Prices& p, Part part) {
  switch (part) {
    case Part::kNorm:
    case Part::kLinear:
    case Part::kMlaUp:
    case Part::kCore:
      return p.graphs_attention;
    case Part::kMlp:
    case Part::kShared:
      return p.graphs_mlp;
    case Part::kRouter:
      return p.graphs_router;
    case Part::kExperts:
    case Part::kExpertActivation:
      return p.graphs_experts;
    case Part::kMixer:
      return p.graphs_mixer;
    case Part::kOther:
      return p.graphs_attention && p.graphs_mlp;
  }
  return false;
}

double host_seconds(const Prices& p, Part part, double kernels) {
  return kernels * (graphed(p, part) ? p.host_graph_kernel : p.host_kernel);
}

double message_seconds(const Prices& p, const Work& w, Pattern pattern, double bytes) {
  const Machine& m = *p.machine;
  switch (w.group) {
    case Group::kTensor:
      if (pattern == Pattern::kAllReduce) return all_reduce_seconds(m, p.tensor, bytes);
      return gather_seconds(m, p.tensor, pattern == Pattern::kAllGather ? bytes * p.tensor_bytes : bytes);
    case Group::kContext:
      if (pattern == Pattern::kAllToAll) return all_to_all_seconds(m, p.context, bytes);
      if (pattern == Pattern::kExchangeAndRing)
        return all_to_all_seconds(m, {p.context.inside, p.context.inside}, bytes);
      if (pattern == Pattern::kRing) return (p.context.size - 1) * hop_seconds(m, p.context.crosses(), bytes);
      return gather_seconds(m, p.context, bytes);
    case Group::kExpert:
      if (pattern == Pattern::kAllToAll) return dispatch_seconds(m, p.expert, bytes, w.merged);
      return gather_seconds(m, p.expert, bytes);
  }
  return 0;
}

void add_message(const Prices& p, const Work& w, double attention_forward, double attention_backward, Parts& forward,
                 Parts& backward) {
  double ahead = message_seconds(p, w, w.forward_pattern, w.forward_message);
  double back = message_seconds(p, w, w.backward_pattern, w.backward_message);
  if (w.backward_gather > 0) back += message_seconds(p, w, Pattern::kAllGather, w.backward_gather);
  switch (w.group) {
    case Group::kTensor:
      forward.tensor += ahead * p.tensor_share;
      backward.tensor += back * p.tensor_share;
      return;
    case Group::kContext:
      // Hops run behind the attention of the chunk before; one chunk's worth of attention hides each.
      if (w.forward_pattern == Pattern::kRing) {
        const double hidden = (p.context.size - 1) / p.context.size;
        ahead = std::max(0.0, ahead - attention_forward * hidden);
        back = std::max(0.0, back - attention_backward * hidden);
      } else if (w.forward_pattern == Pattern::kExchangeAndRing && p.context.crosses()) {
        const double domains = p.context.size / p.context.inside;
        const double hidden = (domains - 1) / domains;
        const double hops = (domains - 1) * hop_seconds(*p.machine, true, w.ring_message);
        ahead += std::max(0.0, hops - attention_forward * hidden);
        back += std::max(0.0, 2 * hops - attention_backward * hidden);
      }
      forward.context += ahead;
      backward.context += back;
      return;
    case Group::kExpert:
      forward.expert += ahead * p.expert_share;
      backward.expert += back * p.expert_share;
      return;
  }
}

// Without userbuffers Megatron and Transformer Engine still start the messages of a column-parallel product's backward
// beside its products: the input is gathered again while the input gradient is computed, and that is scattered while
// the weight gradient is. Those of the forward, and the gather before a row-parallel product's backward, stand alone.
void add_tensor_message(const Prices& p, const Work& w, const Work* next, Parts& forward, Parts& backward) {
  const bool product = next != nullptr && next->doing == Doing::kGemm && next->cut == step::Cut::kColumns;
  if (!p.hides_behind_products || !product || !next->trained) {
    add_message(p, w, 0, 0, forward, backward);
    return;
  }
  const Number number = next->quantised ? p.number : Number::kBf16;
  const double input = gemm_seconds(*p.machine, number, next->rows, next->depth, next->columns, 2);
  const double weight =
      gemm_seconds(*p.machine, number, next->columns, next->depth, next->rows, p.weight_gradient_bytes);
  const double gather = w.backward_gather > 0 ? message_seconds(p, w, Pattern::kAllGather, w.backward_gather) : 0;
  forward.tensor += message_seconds(p, w, w.forward_pattern, w.forward_message);
  backward.tensor += std::max(0.0, gather - input) +
                     std::max(0.0, message_seconds(p, w, w.backward_pattern, w.backward_message) - weight);
}

double ring_hops(const Prices& p, const Work& w) {
  if (w.forward_pattern == Pattern::kRing) return p.context.size - 1;
  if (w.forward_pattern == Pattern::kExchangeAndRing) return p.context.size / p.context.inside - 1;
  return 1;
}

// What stands beside a gather of quantised tensors, in small messages: of the scales, called from Python, and of the
// largest element, from C++.
struct Small {
  double scales = 0;
  double amax = 0;

  [[nodiscard]] double gpu(const Prices& p) const {
    return p.alone ? 0 : (scales + amax) * p.machine->calibration->latency_nvlink;
  }
  [[nodiscard]] double calls() const { return scales + kLoopStep * amax; }
};
struct Beside {
  Small forward;
  Small backward;
};

Beside beside(const Prices& p, const Work& w, const Work* previous, const Work* next) {
  if (w.group != Group::kTensor) return {};
  const bool before = next != nullptr && next->doing == Doing::kGemm && next->cut == step::Cut::kColumns;
  if (before && next->quantised && w.forward_pattern == Pattern::kAllGather && w.forward_message > 0)
    return {{p.gather_scales, p.gather_amax}, {w.backward_gather > 0 ? p.gather_scales : 0, 0}};
  const bool after = previous != nullptr && previous->doing == Doing::kGemm && previous->cut == step::Cut::kRows;
  // Gradients are gathered once for each direction of their scales.
  if (after && previous->quantised && w.backward_pattern == Pattern::kAllGather && w.backward_message > 0)
    return {{}, {2 * p.gather_scales, p.gather_amax}};
  return {};
}

void add_message_launches(const Prices& p, const Work& w, const Beside& small, Parts& forward, Parts& backward) {
  const double each = graphed(p, w.part) ? p.host_message * p.machine->calibration->host_graph : p.host_message;
  const double ahead = small.forward.calls() + (w.forward_message > 0 ? 1 : 0);
  const double back = small.backward.calls() + (w.backward_message > 0 ? 1 : 0) + (w.backward_gather > 0 ? 1 : 0);
  forward.host += ahead * each;
  backward.host += back * each;
  forward.tensor += small.forward.gpu(p);
  backward.tensor += small.backward.gpu(p);
}

// A product in pieces of its rows, each as it arrives or leaves.
double chunked_gemm(const Prices& p, Number number, double rows, double columns, double depth, double chunks) {
  if (chunks <= 1) return gemm_seconds(*p.machine, number, rows, columns, depth, 2);
  return chunks * gemm_seconds(*p.machine, number, rows / chunks, columns, depth, 2);
}

// A piece is a launch, a copy and two events, started from C++.
double host_pieces(const Prices& p, double chunks) { return chunks > 1 ? (chunks - 1) * kLoopStep * p.host_kernel : 0; }

// Input and gradient of a quantised product, in `times` pieces of together `rows` rows.
void add_casts(const Prices& p, const Work& w, double rows, double times, Parts& forward, Parts& backward) {
  const Machine& m = *p.machine;
  // One call quantises what belongs to all experts, in a loop in C++ that makes a tensor of Python for each; the
  // forward looks for the quantised weight of each, in a loop in Python.
  const double launch = graphed(p, w.part) ? 0 : m.calibration->host_launch / p.host_speed;
  const double host = host_seconds(p, w.part, p.cast_calls + (times - 1) * kLoopStep) +
                      (times * p.cast_launches - p.cast_calls) * launch;
  if (times > 1) forward.host += host_seconds(p, w.part, times * kLoopStep);
  forward.memory += stream_seconds(m, rows * w.depth * p.cast_input, times * p.cast_kernels);
  backward.memory += stream_seconds(m, rows * w.columns * p.cast_gradient, times * p.cast_kernels);
  forward.host += host;
  backward.host += host;
  // Every product first puts the scales of both its operands in the order that the matrix units read.
  const double ordered = times * p.scale_kernels;
  const double products = w.trained ? 2 : 1;  // of the backward
  forward.memory += stream_seconds(m, 0, ordered);
  backward.memory += stream_seconds(m, 0, products * ordered);
  forward.host += ordered * launch;
  backward.host += products * ordered * launch;
}

void add_gemm(const Prices& p, const Work& w, Parts& forward, Parts& backward) {
  const Machine& m = *p.machine;
  const Number number = w.quantised ? p.number : Number::kBf16;
  const double slower = w.quantised ? p.scaling_cost : 1;
  const double ahead = w.cut == step::Cut::kColumns ? p.gather_chunks
                       : w.cut == step::Cut::kRows  ? p.scatter_chunks
                                                    : 1;
  const double back = w.cut == step::Cut::kRows ? p.gather_chunks : 1;
  forward.gemm += slower * chunked_gemm(p, number, w.rows, w.columns, w.depth, ahead);
  backward.gemm += slower * chunked_gemm(p, number, w.rows, w.depth, w.columns, back);
  forward.host += host_pieces(p, ahead);
  backward.host += host_pieces(p, back);
  if (w.trained) backward.gemm += slower * gemm_seconds(m, number, w.columns, w.depth, w.rows, p.weight_gradient_bytes);
  if (!w.quantised) return;
  add_casts(p, w, w.rows, 1, forward, backward);
}

void add_grouped_gemm(const Prices& p, const Work& w, Parts& forward, Parts& backward) {
  const Machine& m = *p.machine;
  const Number number = w.quantised ? p.number : Number::kBf16;
  const Calibration& c = *m.calibration;
  // One kernel for all groups, or a product for each on a few streams (Transformer Engine).
  const GroupedRate rate = p.fused_experts ? GroupedRate{c.grouped_half_rows, c.grouped_half_rows_weight}
                                           : GroupedRate{c.grouped_half_rows_te, c.grouped_half_rows_weight_te};
  forward.gemm += grouped_gemm_seconds(m, number, w.rows, w.columns, w.depth, w.groups, 2, rate);
  backward.gemm += grouped_gemm_seconds(m, number, w.rows, w.depth, w.columns, w.groups, 2, rate);
  if (w.trained)
    backward.gemm +=
        grouped_weight_gradient_seconds(m, number, w.rows, w.columns, w.depth, w.groups, p.weight_gradient_bytes, rate);
  const double launches = graphed(p, w.part) ? 0 : w.forward_launches * c.host_launch / p.host_speed;
  forward.host += launches;
  backward.host += (w.trained ? 2 : 1) * launches;
  // Casts are inside the one kernel of product and activation, which has no bias.
  if (!w.quantised || (p.fused_experts && !p.biased_experts)) return;
  // Every expert's rows are quantised by kernels of their own.
  add_casts(p, w, w.rows * p.padded_rows, p.fused_experts ? 1 : w.groups, forward, backward);
}

void add_stream(const Prices& p, const Work& w, Parts& forward, Parts& backward) {
  // Routing and permutation read rows wherever they lie.
  double scale = w.part == Part::kRouter ? p.stream_scale / p.machine->calibration->permute_stream : p.stream_scale;
  // What is no part of the fused kernel passes over the whole buffer.
  if (w.part == Part::kExpertActivation || w.part == Part::kExperts) scale *= p.padded_rows;
  const Machine& m = *p.machine;
  // Transformer Engine's operations pass the same tensors through kernels of their own.
  const double one_by_one =
      p.fused_experts ? std::numeric_limits<double>::infinity() : m.sms * m.calibration->eager_elements;
  forward.memory = stream_seconds(m, w.forward_bytes * scale, w.forward_kernels) + w.forward_elements / one_by_one;
  backward.memory = stream_seconds(m, w.backward_bytes * scale, w.backward_kernels) + w.backward_elements / one_by_one;
}

// Seconds of the attention of a layer, behind which rings of CP hide.
struct Hiding {
  double forward = 0;
  double backward = 0;
};

Hiding hiding_of(const Prices& p, const step::WorkList& list) {
  Hiding hiding;
  if (p.context.size <= 1) return hiding;
  for (const Work& w : list) {
    if (w.doing != Doing::kAttention) continue;
    const Head head{w.head_dim, w.value_dim};
    hiding.forward += attention_forward_seconds(*p.machine, w.flops * p.attention_slower, head, w.keys);
    hiding.backward += attention_backward_seconds(*p.machine, w.flops * p.attention_slower, head, w.keys);
  }
  return hiding;
}

void add_attention(const Prices& p, const Work& w, Parts& forward, Parts& backward) {
  const Head head{w.head_dim, w.value_dim};
  forward.attention = attention_forward_seconds(*p.machine, w.flops * p.attention_slower, head, w.keys);
  backward.attention = attention_backward_seconds(*p.machine, w.flops * p.attention_slower, head, w.keys);
  if (w.forward_bytes <= 0) return;
  forward.memory += stream_seconds(*p.machine, w.forward_bytes * p.stream_scale, w.forward_kernels);
  backward.memory += stream_seconds(*p.machine, w.backward_bytes * p.stream_scale, w.backward_kernels);
}

struct WorkCost {
  Parts forward;
  Parts backward;
  Parts replay;
};

WorkCost price_one(const job::Job& job, const Prices& p, const step::WorkList& list, const Work& w,
                   const Hiding& hiding) {
  const Work* const next = &w + 1 < list.end() ? &w + 1 : nullptr;
  const Work* const previous = &w > list.begin() ? &w - 1 : nullptr;
  WorkCost cost;
  Parts& forward = cost.forward;
  Parts& backward = cost.backward;
  switch (w.doing) {
    case Doing::kGemm:
    case Doing::kGroupedGemm:
      if (w.doing == Doing::kGemm) {
        add_gemm(p, w, forward, backward);
      } else {
        add_grouped_gemm(p, w, forward, backward);
      }
      if (w.backward_bytes > 0) backward.memory += stream_seconds(*p.machine, w.backward_bytes * p.stream_scale, 1);
      break;
    case Doing::kAttention:
      add_attention(p, w, forward, backward);
      break;
    case Doing::kScan:
      forward.attention = scan_seconds(*p.machine, w.flops);
      backward.attention = scan_seconds(*p.machine, w.backward_flops);
      forward.memory = transposed_seconds(*p.machine, w.forward_elements);
      backward.memory = transposed_seconds(*p.machine, w.backward_elements);
      break;
    case Doing::kStream:
      if (p.fused_experts && !p.biased_experts && w.part == Part::kExpertActivation) break;
      add_stream(p, w, forward, backward);
      break;
    case Doing::kMessage:
      if (!p.alone && w.group == Group::kTensor) add_tensor_message(p, w, next, forward, backward);
      if (!p.alone && w.group != Group::kTensor) add_message(p, w, hiding.forward, hiding.backward, forward, backward);
      add_message_launches(p, w, beside(p, w, previous, next), forward, backward);
      if (w.forward_bytes > 0) forward.memory += stream_seconds(*p.machine, w.forward_bytes * p.stream_scale, 1);
      if (w.backward_bytes > 0) backward.memory += stream_seconds(*p.machine, w.backward_bytes * p.stream_scale, 1);
      break;
  }
  const double hops = w.doing == Doing::kMessage ? ring_hops(p, w) : 1;
  forward.host += host_seconds(p, w.part, hops * (w.forward_calls > 0 ? w.forward_calls : w.forward_kernels));
  backward.host += host_seconds(p, w.part, hops * (w.backward_calls > 0 ? w.backward_calls : w.backward_kernels));
  if (!step::replays(job, w.part)) return cost;
  // Of torchtitan's per-operation policy every second matrix product is kept, and what was reduced.
  const bool reduced = w.doing == Doing::kMessage && w.forward_pattern == Pattern::kReduceScatter;
  if (!p.selective_ops || !reduced) cost.replay = forward;
  if (p.selective_ops && w.doing == Doing::kGemm) cost.replay = forward.times(0.5);
  // A replay sets states of random numbers, records its graph and runs the engine inside the engine.
  if (p.local) cost.replay.host *= p.machine->calibration->host_local_replay;
  return cost;
}

// A dropless dispatch copies the counts of tokens per expert to the host, which waits for them.
bool drains(const Prices& p, const Work& w) {
  return w.doing == Doing::kMessage && w.group == Group::kExpert && p.moe_sync > 0;
}

Launch launch_of(const Parts& parts) { return {parts.host, parts.gpu()}; }

}  // namespace

LayerLaunches layer_launches(const job::Job& job, const Prices& p, const step::WorkList& list) {
  LayerLaunches launches;
  const Hiding hiding = hiding_of(p, list);
  for (const Work& w : list) {
    const WorkCost cost = price_one(job, p, list, w, hiding);
    if (drains(p, w) && launches.drain == LayerLaunches::kNone) launches.drain = launches.count;
    launches.replay[launches.count] = launch_of(cost.replay);
    launches.forward[launches.count++] = launch_of(cost.forward);
    launches.backward[launches.count - 1] = launch_of(cost.backward);
  }
  std::reverse(launches.backward.begin(), launches.backward.begin() + launches.count);
  launches.drains_replay = launches.drain != LayerLaunches::kNone && step::replays(job, Part::kRouter);
  return launches;
}

namespace {

// From one drain to that of the next layer, host and GPU start together; a replayed layer has its backward between.
void add_drains(const job::Job& job, const Prices& p, const step::WorkList& list, PassCost& cost) {
  const LayerLaunches all = layer_launches(job, p, list);
  if (all.drain == LayerLaunches::kNone) return;
  std::array<Launch, 2 * step::WorkList::kMost> cycle;
  const auto rotated = [&](const auto& from, auto into) {
    const auto begin = from.begin();
    return std::rotate_copy(begin, begin + all.drain, begin + all.count, into);
  };
  rotated(all.forward, cycle.begin());
  const auto count = static_cast<std::size_t>(all.count);
  cost.forward.serial = lost_to_drain({cycle.data(), count}, p.moe_sync);
  if (!all.drains_replay) return;
  auto at = std::copy(all.replay.begin() + all.drain, all.replay.begin() + all.count, cycle.begin());
  at = std::copy(all.backward.begin(), all.backward.begin() + all.count, at);
  std::copy(all.replay.begin(), all.replay.begin() + all.drain, at);
  cost.replay.serial = lost_to_drain({cycle.data(), 2 * count}, p.moe_sync);
}

}  // namespace

PassCost price(const job::Job& job, const Prices& p, const step::WorkList& list) {
  PassCost cost;
  const Hiding hiding = hiding_of(p, list);
  bool waits = false;
  for (const Work& w : list) {
    const WorkCost one = price_one(job, p, list, w, hiding);
    cost.forward += one.forward;
    cost.backward += one.backward;
    cost.replay += one.replay;
    waits = waits || drains(p, w);
  }
  if (waits) add_drains(job, p, list, cost);
  return cost;
}

}  // namespace plimsoll::timing
