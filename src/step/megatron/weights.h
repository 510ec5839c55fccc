// SPDX-License-Identifier: Apache-2.0
// The parameters that one Megatron rank holds, tensor by tensor, in the order in which the model
// creates them (facts megatron-memory.md 2, megatron-anatomy.md 1.1).
#pragma once

#include <cstdint>
#include <vector>

#include "job/job.h"
#include "job/pipeline_layout.h"

namespace plimsoll::step::megatron {

struct Weight {
  std::int64_t elements = 0;
  bool decayed = true;            // weight decay: matrices; norms and biases form the second optimizer group
  bool expert = false;            // lives in the expert data-parallel domain
  bool gemm = false;              // quantised by FP8/FP4 recipes
  bool in_layer = false;          // part of a transformer layer: a unit of Megatron-FSDP
  bool shared_embedding = false;  // second copy of a tied embedding: a bucket of its own
  bool frozen = false;            // outside gradient buffers and optimizer
  bool is_late = false;           // the word embedding, if its gradient reaches its buffer after all others
};

// Parameters of one chunk of pipeline stage `stage`. The vector is cleared first, so a caller can reuse it.
void chunk_weights(const job::Job& job, const job::Chunk& chunk, std::int64_t stage, std::vector<Weight>& weights);

// Sum of elements.
[[nodiscard]] std::int64_t count(const std::vector<Weight>& weights);

}  // namespace plimsoll::step::megatron
