// SPDX-License-Identifier: Apache-2.0
// Seconds of a layer's passes: the operations of step/work priced one by one, with what overlap leaves of the
// messages. GPU seconds by kind, and beside them the host's seconds to launch them.
#pragma once

#include <array>
#include <cstddef>

#include "job/job.h"
#include "step/work.h"
#include "timing/machine.h"
#include "timing/queue.h"

namespace plimsoll::timing {

struct Parts {
  double gemm = 0;
  double attention = 0;
  double memory = 0;  // streamed through memory: norms, activations, casts, permutation
  double tensor = 0;  // messages left in the open
  double context = 0;
  double expert = 0;
  double host = 0;    // the host's own time, beside the GPU's
  double serial = 0;  // lost where host and GPU wait for each other, beside the slower of the two

  [[nodiscard]] double gpu() const { return gemm + attention + memory + tensor + context + expert; }
  Parts& operator+=(const Parts& other) {
    gemm += other.gemm;
    attention += other.attention;
    memory += other.memory;
    tensor += other.tensor;
    context += other.context;
    expert += other.expert;
    host += other.host;
    serial += other.serial;
    return *this;
  }
  [[nodiscard]] Parts times(double n) const {
    return {gemm * n, attention * n, memory * n, tensor * n, context * n, expert * n, host * n, serial * n};
  }
};

struct PassCost {
  Parts forward;
  Parts backward;
  Parts replay;        // the forward of what recompute names, again
  double tensors = 0;  // weights that are updated one by one
};

// What of a job decides the price of its operations, worked out once per configuration.
struct Prices {
  Prices(const job::Job& job, const Machine& machine, bool alone);

  const Machine* machine;
  Number number = Number::kBf16;  // of quantised products
  double cast_input = 0;          // bytes per element that quantising an input moves, all layouts
  double cast_gradient = 0;
  double cast_kernels = 0;
  double cast_calls = 1;               // of a cast, from Python
  double cast_launches = 0;            // of a cast, in these calls
  double scale_kernels = 0;            // of a product, that put its scales in order; launched from C++
  double scaling_cost = 1;             // of products whose scales change inside the depth
  double weight_gradient_bytes = 2;    // per element written by a weight-gradient product
  double host_kernel = 0;              // seconds per launched kernel outside graphs
  double host_graph_kernel = 0;        // and inside
  double host_message = 0;             // seconds per collective
  double stream_scale = 1;             // bytes that count for one, by how well kernels stream
  double attention_slower = 1;         // FLOPs that count for one, by the library of attention
  double tensor_share = 1;             // of tensor-parallel messages in the open
  bool hides_behind_products = false;  // of tensor-parallel messages, those of the backward that run beside products
  double tensor_bytes = 1;             // FP8 gathers halve them
  double gather_scales = 0;            // messages of scales beside each gather of tensor parallelism
  double gather_amax = 0;              // and of the largest element, before a tensor is quantised to be gathered
  double expert_share = 1;
  double moe_sync = 0;
  Span tensor;
  Span context;
  Span expert;
  bool graphs_attention = false;
  bool graphs_mlp = false;
  bool graphs_router = false;
  bool graphs_mixer = false;
  bool graphs_experts = false;
  bool selective_ops = false;
  bool biased_experts = false;  // their activation stays outside the fused kernel
  double padded_rows = 1;       // of buffers of experts whose size is fixed beforehand, for each row that is filled
  bool fused_experts = false;   // grouped products with activation and casts inside, sizes read on the device
  double gather_chunks = 1;     // pieces in which a product is computed while its input arrives
  double scatter_chunks = 1;    // and while its output leaves
  bool local = false;           // Megatron's own modules
  double host_speed = 1;        // that of the machine for such a job
  bool alone = false;           // messages cost nothing: one recorded rank with fake peers

  friend bool operator==(const Prices&, const Prices&) = default;
};

[[nodiscard]] PassCost price(const job::Job& job, const Prices& prices, const step::WorkList& list);

// The launches of a layer in order: forward, what is replayed of it, and backward.
struct LayerLaunches {
  static constexpr std::ptrdiff_t kNone = -1;
  std::array<Launch, step::WorkList::kMost> forward;
  std::array<Launch, step::WorkList::kMost> replay;
  std::array<Launch, step::WorkList::kMost> backward;
  std::ptrdiff_t count = 0;      // of each of the three
  std::ptrdiff_t drain = kNone;  // before this one the host waits for the GPU
  bool drains_replay = false;
};
[[nodiscard]] LayerLaunches layer_launches(const job::Job& job, const Prices& prices, const step::WorkList& list);

}  // namespace plimsoll::timing
