// SPDX-License-Identifier: Apache-2.0
// What the passes of a rank compute, move and send: the reading of the step that timing/ prices. It is made
// from the same job, layer and sizes as the tensors of the tape, so a knob moves bytes and seconds together.
// Every operation carries the work of its forward and of its backward; recompute repeats the forward of the
// parts that it names (facts step-time.md 3 to 8).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "job/job.h"

namespace plimsoll::step {

enum class Doing : std::uint8_t { kGemm, kGroupedGemm, kAttention, kScan, kStream, kMessage };

// Which module an operation belongs to, as recompute_modules names them.
enum class Part : std::uint8_t {
  kNorm,
  kLinear,  // attention projections
  kMlaUp,
  kCore,
  kMlp,
  kRouter,  // router, permutation, dispatch
  kExperts,
  kExpertActivation,
  kShared,
  kMixer,  // all of a state-space layer
  kOther,  // residual additions, and everything outside the layers
};

// How tensor parallelism cuts the weight of a product, and so which message its kernels can overlap with.
enum class Cut : std::uint8_t {
  kWhole,
  kColumns,  // its input is gathered
  kRows,     // its output is reduced
};

enum class Group : std::uint8_t { kTensor, kContext, kExpert };
enum class Pattern : std::uint8_t {
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kRing,             // c-1 hops behind attention chunks
  kExchangeAndRing,  // all-to-all among the members of a node, a ring between nodes
};

// Kernels are counted as calls of modules and operations; a step of a loop in Python costs the host this share of one.
inline constexpr double kLoopStep = 0.3;

// Sizes are doubles: their products leave 64 bits, and nothing here is exact to the byte. No member has a default,
// so that room for many costs nothing; WorkList::add starts from kNothing.
struct Work {
  Doing doing;
  Part part;
  bool quantised;  // runs in the job's FP8 or FP4 recipe
  bool trained;    // has a weight gradient
  Cut cut;
  // GEMM of the forward: rows (tokens) x columns x depth; a grouped one has `groups` weights that share the rows.
  double rows;
  double columns;
  double depth;
  double groups;
  // Attention and scan: FLOPs of the forward as executed (the causal half only), and the head size.
  double flops;
  double backward_flops;  // of a scan, which makes part of its forward again
  double head_dim;
  double value_dim;  // 0: as head_dim
  double keys;       // that a query sees on average
  // Bytes streamed through memory besides what a GEMM itself reads and writes.
  double forward_bytes;
  double backward_bytes;
  // Elements that pass kernels which do not vectorise (PyTorch's own on strided views, broadcasts or between dtypes),
  // once for each such kernel.
  double forward_elements;
  double backward_elements;
  // Kernels that the host launches; of a ring, for each of its hops.
  double forward_kernels;
  double backward_kernels;
  // What they cost the host, in launches of average cost; 0: as many as kernels.
  double forward_calls;
  double backward_calls;
  double forward_launches;  // beside them, those that one call starts in a loop in C++; the backward has twice as many
  // Message: bytes of the whole array (gather, scatter, reduce) or bytes one rank sends (all-to-all, one ring hop).
  Group group;
  Pattern forward_pattern;
  Pattern backward_pattern;
  double forward_message;
  double backward_message;
  double ring_message;     // kExchangeAndRing: bytes of one hop of the forward; backward has twice as many
  double backward_gather;  // a second gather of the backward: inputs of weight gradients
  // Dispatch that sends a token once per reached rank, and once per reached node over the network: experts per
  // token, else 0.
  double merged;

  friend bool operator==(const Work&, const Work&) = default;
};

inline constexpr Work kNothing = [] {
  Work work{};
  work.trained = true;
  work.groups = 1;
  work.backward_pattern = Pattern::kReduceScatter;
  return work;
}();

// The operations of one layer, or of one end of the model, in order. Holds them in place: a search makes
// millions of these.
class WorkList {
 public:
  WorkList() {}  // NOLINT(modernize-use-equals-default,cppcoreguidelines-pro-type-member-init): the room stays as it is
  Work& add(Doing doing, Part part) {
    PLIMSOLL_CHECK(count_ < kMost);
    Work& work = items_[count_++];
    work = kNothing;
    work.doing = doing;
    work.part = part;
    return work;
  }
  [[nodiscard]] Work& last() {
    PLIMSOLL_CHECK(count_ > 0);
    return items_[count_ - 1];
  }
  // Everything from the first operation on belongs to one module.
  void give_to(Part part) {
    for (std::size_t i = 0; i < count_; ++i) items_[i].part = part;
  }
  [[nodiscard]] const Work* begin() const { return items_.data(); }
  [[nodiscard]] const Work* end() const { return items_.data() + count_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  void clear() { count_ = 0; }

  static constexpr std::size_t kMost = 40;

 private:
  std::array<Work, kMost> items_;  // only the first count_ are ever read
  std::size_t count_ = 0;
};

// One transformer layer and one micro-batch. in_bf16: the layer is exempt from the quantised recipe.
void layer_work(const job::Job& job, const model::Layer& layer, bool in_bf16, WorkList& list);
// Embedding lookup of a micro-batch.
void embedding_work(const job::Job& job, WorkList& list);
// Final norm, output projection and loss of a micro-batch; once more for each MTP depth, with its projection.
void head_work(const job::Job& job, WorkList& list);
void mtp_projection_work(const job::Job& job, WorkList& list);

// Whether recompute replays this part of a layer in backward (full recompute replays all of it).
[[nodiscard]] bool replays(const job::Job& job, Part part);

// Floating-point operations per token that the frameworks report: forward and backward, the causal half of
// attention, no recompute (facts step-time.md 1).
[[nodiscard]] double model_flops_per_token(const job::Job& job);

}  // namespace plimsoll::step
