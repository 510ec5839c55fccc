// SPDX-License-Identifier: Apache-2.0
// Building blocks of step/work: one job's splits and fusions, and the operations that attention, MLP and experts
// share.
#pragma once

#include "step/megatron/sizes.h"
#include "step/work.h"

namespace plimsoll::step::work {

using job::Job;

[[nodiscard]] inline double real(std::int64_t value) { return static_cast<double>(value); }

// Shorthand of one job's splits and fusions.
struct Shape {
  explicit Shape(const Job& j)
      : job(j),
        tokens(real(j.tokens())),
        gathers(j.parallel.sequence_parallel && j.parallel.tensor > 1),
        tp(real(j.parallel.tensor)),
        stored(gathers ? tokens / tp : tokens),
        hidden(real(j.model.hidden)),
        act(real(job::size_of(j.precision.compute))),
        eager(j.kernels.implementation == job::Implementation::kTransformers ||
              j.kernels.implementation == job::Implementation::kTorchtitan),
        compiled(j.kernels.torch_compile || j.kernels.liger),
        local(j.kernels.implementation == job::Implementation::kLocal) {}

  const Job& job;
  double tokens;  // T
  bool gathers;   // sequence parallelism
  double tp;
  double stored;  // tokens outside the tensor-parallel region
  double hidden;
  double act;  // bytes of an activation element
  bool eager;  // PyTorch modules, nothing fused across operations
  bool compiled;
  bool local;  // Megatron's own modules, whose operations cost the host what work_calls.h says
};

[[nodiscard]] inline bool trains_base(const Job& job) { return job.adapter.kind == job::AdapterKind::kNone; }

void gemm(WorkList& list, const Shape& s, Part part, double rows, double columns, double depth, bool quantised,
          Cut cut = Cut::kWhole);
// A chain of operations, each a kernel.
void stream(WorkList& list, const Shape& s, Part part, double forward, double backward, double forward_kernels,
            double backward_kernels);
// `times` calls of a function that Megatron compiles (jit_fuser), each a kernel.
void compiled_function(WorkList& list, const Shape& s, Part part, double forward, double backward, double times = 1);
// Before a column-parallel linear: gather forward; scatter the input gradient, and gather the input again for
// the weight gradient, backward. Without sequence parallelism the input gradient is all-reduced.
void column_message(WorkList& list, const Shape& s, Part part);
// After a row-parallel linear.
void row_message(WorkList& list, const Shape& s, Part part);
void norm(WorkList& list, const Shape& s, double elements);
void residual(WorkList& list, const Shape& s);
// `times`: calls that share the elements, one for each expert where experts run one by one.
void activation(WorkList& list, const Shape& s, Part part, const model::FeedForward& ffn, double elements,
                double times = 1);

// work_attention.cpp
void attention_gqa(WorkList& list, const Shape& s, const model::Attention& a, bool quantised);
void attention_mla(WorkList& list, const Shape& s, const model::Attention& a, bool quantised);
// work_mixer.cpp
void mamba_mixer(WorkList& list, const Shape& s, const model::StateSpace& mixer, bool quantised);
// work_experts.cpp
void moe_mlp(WorkList& list, const Shape& s, const model::FeedForward& ffn, const megatron::LayerSizes& z,
             bool quantised);

}  // namespace plimsoll::step::work
