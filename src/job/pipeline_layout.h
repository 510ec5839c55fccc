// SPDX-License-Identifier: Apache-2.0
// Which layers each pipeline rank builds, chunk by chunk (facts megatron-memory.md 2.7). Layers are
// dealt in stage order, stage i = chunk * pipeline + rank, so a chunk's layers are contiguous.
// Invariant: the chunks together hold every layer once, one embedding and one loss.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "job/job.h"

namespace plimsoll::job {

struct Chunk {
  std::int64_t first_layer = 0;
  std::int64_t num_layers = 0;  // 0: an empty stage
  bool has_embedding = false;
  bool has_loss = false;
  std::int64_t mtp_layers = 0;

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

struct PipelineLayout {
  std::vector<std::vector<Chunk>> ranks;  // [pipeline rank][chunk]
};

// The layout of a job whose virtual_pipeline is final, or why its layers cannot be split so.
[[nodiscard]] Result<PipelineLayout> pipeline_layout(const Job& job);
// Whether the job has one, without making it.
[[nodiscard]] Status check_pipeline_layout(const Job& job);
// Stages of a written-out layout.
[[nodiscard]] Result<std::int64_t> layout_stages(std::string_view layout);
// Stages of a layout string, repeats written out: "Et*2|(t|)*2L" -> "Ett", "t", "t", "L".
[[nodiscard]] Result<std::vector<std::string>> expand_layout(std::string_view layout);

}  // namespace plimsoll::job
