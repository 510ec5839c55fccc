// SPDX-License-Identifier: Apache-2.0
// What a Mamba-2 mixer computes and moves under Megatron: the two projections, and between them mamba_ssm's
// convolution, scan in blocks and gated norm (facts step-time.md 5b).
#include <algorithm>

#include "step/work_parts.h"

namespace plimsoll::step::work {

namespace {

// Triton's kernels and the convolution are a call each; so are the decays and types made before them. PyTorch's small
// operations inside the backward come from C++ or from one line of Python each.
constexpr double kForwardCalls = 12;
constexpr double kBackwardCalls = 18 + 32 * kLoopStep;

// One rank's share of a mixer: values per token, and bytes of what its blocks make.
struct Sizes {
  Sizes(const Shape& s, const model::StateSpace& m)
      : inner(real(m.inner()) / s.tp),
        heads(real(m.heads) / s.tp),
        keys(std::max(1.0, real(m.groups) / s.tp) * real(m.state)),
        convolved(inner + 2 * keys),
        projected(inner + convolved + heads),
        state(real(m.state)),
        block(real(m.chunk)),
        states(4 * s.tokens / block * inner * state),
        products(4 * s.tokens * keys / state * block) {}

  double inner;
  double heads;
  double keys;  // of B, or of C
  double convolved;
  double projected;
  double state;
  double block;     // tokens
  double states;    // bytes, fp32: of every block
  double products;  // bytes, fp32: C B^T of every block
};

// Context parallelism trades tokens for heads before the convolution and back after the scan.
void exchange(WorkList& list, const Shape& s, double values) {
  if (s.job.parallel.context <= 1) return;
  Work& w = list.add(Doing::kMessage, Part::kMixer);
  w.group = Group::kContext;
  w.forward_pattern = w.backward_pattern = Pattern::kAllToAll;
  w.forward_message = w.backward_message = s.tokens * values * s.act;
}

// The products of the scan: states of a block, C with the states before it, C B^T, and that with the channels of the
// block, of which a token sees the half before it. The backward makes the first and the third again, and has one
// product for each gradient of channels, states, B, C, products and decays.
void scan_products(WorkList& list, const Shape& s, const Sizes& z) {
  Work& w = list.add(Doing::kScan, Part::kMixer);
  const double states = 2 * z.inner * z.state;
  const double within = z.block * z.inner;
  const double pairs = 2 * z.block * z.keys;
  w.flops = s.tokens * (2 * states + within + pairs);
  w.backward_flops = s.tokens * (5 * states + 3 * within + 3 * pairs);
  // [s, b] is copied to [b, s] and back, which is nothing for one sequence.
  const bool transposes = s.job.batch.micro_batch > 1 || s.job.parallel.context > 1;
  if (!transposes) return;
  w.forward_elements = w.backward_elements = s.tokens * (z.projected + z.inner);
  w.forward_kernels = w.backward_kernels = 2;
}

// What the kernels read and write.
void scan_traffic(WorkList& list, const Shape& s, const Sizes& z) {
  const double channels = s.tokens * z.inner * s.act;
  const double keys = s.tokens * z.keys * s.act;
  const double convolved = s.tokens * z.convolved * s.act;
  const double fp32_keys = 2 * keys * 4 / s.act;
  // Convolution; states of the blocks, carried on and narrowed; products; the scan with its gate; the norm.
  const double forward = 2 * convolved + (channels + keys + z.states) + 1.5 * z.states + (2 * keys + z.products) +
                         (z.products + 4 * channels + keys + z.states / 2) + 2 * channels;
  // The same up to the products, with states in fp32; gate; gradients of states, channels, B, C, products, decays;
  // both products of the pairs; convolution; norm.
  const double backward =
      2 * convolved + (channels + keys + z.states) + 2 * z.states + (2 * keys + z.products) + 6 * channels +
      (channels + keys + z.states) + 3 * z.states + (3 * channels + keys + z.products + z.states / 2) +
      2 * (channels + z.states / 2 + fp32_keys) + (2 * channels + 3 * z.products) +
      2 * (2 * keys + fp32_keys + z.products) + (2 * channels + z.products) + 3 * convolved + 3 * channels;
  stream(list, s, Part::kMixer, forward, backward, kForwardCalls, kBackwardCalls);
}

}  // namespace

void mamba_mixer(WorkList& list, const Shape& s, const model::StateSpace& mixer, bool quantised) {
  const Sizes z(s, mixer);
  gemm(list, s, Part::kMixer, s.tokens, z.projected, s.hidden, quantised, Cut::kColumns);
  exchange(list, s, z.projected);
  scan_traffic(list, s, z);
  scan_products(list, s, z);
  exchange(list, s, z.inner);
  gemm(list, s, Part::kMixer, s.tokens, s.hidden, z.inner, quantised, Cut::kRows);
}

}  // namespace plimsoll::step::work
