// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/sizes_parts.h"

#include <algorithm>

namespace plimsoll::step::megatron {

using job::Job;

std::int64_t saved_gemm_input(const Job& job, std::int64_t elements, bool in_bf16) {
  if (in_bf16) return 2 * elements;
  if (job.precision.fp4) return elements * 9 / 16;
  switch (job.precision.fp8) {
    case job::Fp8Recipe::kNone:
      return job::size_of(job.precision.compute) * elements;
    case job::Fp8Recipe::kDelayed:
    case job::Fp8Recipe::kTensorwise:
      return elements;
    case job::Fp8Recipe::kBlockwise:
      return elements + elements / 32;
    case job::Fp8Recipe::kMxfp8:
      return elements + elements / 32;
  }
  return 2 * elements;
}

Shape shape_of(const Job& job) {
  const bool sp = job.parallel.sequence_parallel && job.parallel.tensor > 1;
  return {job.tokens(), job.tokens() / (sp ? job.parallel.tensor : 1), job.parallel.tensor,
          job::size_of(job.precision.compute), job::size_of(job.precision.params)};
}

// facts megatron-memory.md 4.10. The scan works in blocks of `chunk` tokens; context parallelism exchanges tokens for
// heads, which leaves every product as it is.
void fill_mixer(const Job& job, const model::StateSpace& m, const Shape& s, bool in_bf16, LayerSizes& z) {
  const std::int64_t inner = m.inner() / s.tp;
  const std::int64_t heads = m.heads / s.tp;
  const std::int64_t groups = std::max<std::int64_t>(1, m.groups / s.tp);
  const std::int64_t projected = 2 * inner + 2 * groups * m.state + heads;
  const std::int64_t sequences = job.batch.micro_batch;
  const std::int64_t blocks = sequences * ((s.tokens / sequences + m.chunk - 1) / m.chunk);
  MixerSizes& x = z.mixer;
  x.projected = s.act_bytes * projected * s.tokens;
  x.transposes = sequences > 1 || job.parallel.context > 1;
  x.convolved = s.act_bytes * (inner + 2 * groups * m.state) * s.tokens;
  x.channels = s.act_bytes * inner * s.tokens;
  x.steps = 4 * heads * s.tokens;
  x.states = 4 * blocks * inner * m.state;
  x.last = 4 * sequences * inner * m.state;
  x.products = 4 * blocks * groups * m.chunk * m.chunk;
  x.keys = 4 * groups * m.state * s.tokens;
  x.stats = 4 * groups * s.tokens;
  const bool quantised = (job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4) && !in_bf16;
  if (quantised) x.normed_saved = saved_gemm_input(job, inner * s.tokens, in_bf16);
  x.w_in = s.param_bytes * projected * job.model.hidden;
  x.w_out = s.param_bytes * inner * job.model.hidden;
}

}  // namespace plimsoll::step::megatron
