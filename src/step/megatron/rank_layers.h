// SPDX-License-Identifier: Apache-2.0
// What all ranks of one job share: its layer kinds, its ends, and, for folded runs, what chunks of a shape do to
// memory. A folded run of the next rank finds the chunks of the last one measured.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "step/megatron/profile_store.h"

namespace plimsoll::step::megatron {

// Token ids of the last micro-batch stay with each chunk's data iterator until the next.
struct Tokens {
  Tensor ids, positions;
};

class RankLayers {
 public:
  // `store`, where there is one, has what other jobs had measured, and outlives it.
  explicit RankLayers(const job::Job& job, ProfileStore* store = nullptr);
  RankLayers(const RankLayers&) = delete;
  RankLayers& operator=(const RankLayers&) = delete;

  [[nodiscard]] const Choices& choices() const { return choices_; }
  [[nodiscard]] const EndSizes& end_sizes() const { return end_sizes_; }
  [[nodiscard]] ChunkBuilder builder(const job::Chunk& chunk, bool folded);
  // For folded runs.
  [[nodiscard]] const ChunkProfile& profile(const job::Chunk& chunk);
  // Where all profiles are that were asked for; null where some are of this job alone.
  [[nodiscard]] ProfileStore* common_store() const { return has_own_profiles_ ? nullptr : store_; }
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
  // A layer of this kind where layer `layer` is.
  [[nodiscard]] LayerKind* kind_at(std::uint8_t model_kind, std::int64_t layer, bool moves);
  [[nodiscard]] std::vector<LayerKind*> mtp_kinds(const job::Chunk& chunk);
  // Whether all layers do the same.
  [[nodiscard]] bool is_uniform() const;
  // Nothing for a chunk whose profile depends on more, or that changes its kind of layer too often.
  [[nodiscard]] std::optional<ChunkShape> shape_of(const job::Chunk& chunk);
  [[nodiscard]] ChunkProfile measure(const ChunkBuilder& builder) const;

  const job::Job& job_;
  Choices choices_;
  EndSizes end_sizes_;
  Ends ends_;
  // At the decoder's length; of an encoder-decoder model alone.
  EndSizes decoder_end_sizes_;
  Ends decoder_ends_;
  bool quantised_ = false;
  ProfileStore* store_;
  const EndSizes* stored_ends_ = nullptr;
  bool has_own_profiles_ = false;
  std::vector<LayerKind*> kind_index_;
  std::vector<LayerKind*> used_kinds_;
  std::vector<std::unique_ptr<LayerKind>> owned_kinds_;
  std::vector<Measured> measured_;
};

}  // namespace plimsoll::step::megatron
