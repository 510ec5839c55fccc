// SPDX-License-Identifier: Apache-2.0
// What all ranks of one job share: its layer kinds, its ends, and, for folded runs, what chunks of a shape do to
// memory. A folded run of the next rank finds the chunks of the last one measured.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "step/megatron/chunk.h"

namespace plimsoll::step::megatron {

// Token ids of the last micro-batch stay with each chunk's data iterator until the next.
struct Tokens {
  Tensor ids, positions;
};

// What one pass through a chunk does to memory.
struct ChunkProfile {
  Profile forward, backward, deferring_backward;
  Tensor output, grad, deferred_input, deferred_grad;
};

class RankLayers {
 public:
  explicit RankLayers(const job::Job& job);
  RankLayers(const RankLayers&) = delete;
  RankLayers& operator=(const RankLayers&) = delete;

  [[nodiscard]] const Choices& choices() const { return choices_; }
  [[nodiscard]] const EndSizes& end_sizes() const { return end_sizes_; }
  [[nodiscard]] ChunkBuilder builder(const job::Chunk& chunk, bool folded);
  // Of a folded builder.
  [[nodiscard]] const ChunkProfile& profile(const ChunkBuilder& builder);
  void new_batch(Tape& tape, Tokens& tokens) const;
  // Of the widest scores that Megatron's own attention makes.
  [[nodiscard]] std::int64_t widest_scores() const;
  // Of one pass through the layer that offloads most.
  [[nodiscard]] std::int64_t widest_offload() const;

 private:
  struct Measured {
    job::Chunk chunk;
    std::vector<LayerKind*> kinds;
    std::unique_ptr<ChunkProfile> profile;  // stays where it is
  };
  [[nodiscard]] LayerKind* kind_of(std::int64_t layer, bool moves);
  [[nodiscard]] ChunkProfile measure(const ChunkBuilder& builder) const;

  const job::Job& job_;
  Choices choices_;
  EndSizes end_sizes_;
  Ends ends_;
  // At the decoder's length; of an encoder-decoder model alone.
  EndSizes decoder_end_sizes_;
  Ends decoder_ends_;
  bool quantised_ = false;
  std::vector<LayerKind*> kind_index_;
  std::vector<std::unique_ptr<LayerKind>> owned_kinds_;
  std::vector<Measured> measured_;
};

}  // namespace plimsoll::step::megatron
