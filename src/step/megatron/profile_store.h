// SPDX-License-Identifier: Apache-2.0
// What a search has measured already: layers and chunks, found again by the sizes of their tensors and not by the knobs
// that made them so. Points that differ in pipeline, layout, optimizer or messages have the same layers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "step/megatron/chunk.h"
#include "step/schedule.h"

namespace plimsoll::step::megatron {

// What one pass through a chunk does to memory.
struct ChunkProfile {
  Profile forward, backward, deferring_backward;
  Tensor output, grad, deferred_input, deferred_grad;
};

// Neighbours of one kind.
struct LayerRun {
  const LayerKind* kind = nullptr;  // of the store
  std::int64_t layers = 0;

  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};

// All that the profile of a chunk depends on, without offloading and without an encoder.
struct ChunkShape {
  static constexpr std::size_t kMostRuns = 4;

  const EndSizes* ends = nullptr;  // of the store
  std::array<LayerRun, kMostRuns> runs;
  std::array<const LayerKind*, kMostRuns> mtp = {};  // layers of one MTP depth
  std::int64_t mtp_layers = 0;
  std::int64_t recomputed = 0;        // layers of a group that is replayed at once, or those that are; 0: none
  std::int64_t checkpoint_bytes = 0;  // where a checkpoint keeps less than the input
  bool by_blocks = false;             // the first `recomputed` layers are replayed, instead of groups of so many
  bool has_embedding = false;
  bool has_loss = false;
  bool defers_wgrad = false;

  friend bool operator==(const ChunkShape&, const ChunkShape&) = default;
};

class ProfileStore {
 public:
  ProfileStore() = default;
  ProfileStore(const ProfileStore&) = delete;
  ProfileStore& operator=(const ProfileStore&) = delete;

  // Forgets everything once it has grown large. What was handed out is invalid then: to be called between jobs.
  void bound();

  [[nodiscard]] LayerKind& layer(const Choices& choices, const LayerSizes& sizes, OffloadScope offload);
  [[nodiscard]] const EndSizes& ends(const Choices& choices, const EndSizes& sizes);
  // Null where it is not known yet.
  [[nodiscard]] const ChunkProfile* find(const ChunkShape& shape) const;
  const ChunkProfile& keep(const ChunkShape& shape, const ChunkProfile& profile);

  // What all passes of a later step do to memory, by the schedule and the chunks (of the store) that they run through.
  using Chunks = std::vector<const ChunkProfile*>;
  [[nodiscard]] const Profile* find(const PipelineShape& pipeline, const Chunks& chunks) const;
  void keep(const PipelineShape& pipeline, const Chunks& chunks, const Profile& profile);

 private:
  struct HashOfShape {
    std::size_t operator()(const ChunkShape& shape) const;
  };
  struct KnownPasses {
    PipelineShape pipeline;
    Chunks chunks;
    Profile profile;
  };
  struct KnownEnds {
    Choices choices;
    EndSizes sizes;
  };
  template <class Known>
  using ByHash = std::unordered_map<std::size_t, std::vector<std::unique_ptr<Known>>>;

  ByHash<LayerKind> layers_;
  ByHash<KnownEnds> ends_;
  std::unordered_map<ChunkShape, ChunkProfile, HashOfShape> chunks_;
  std::unordered_map<std::size_t, std::vector<KnownPasses>> passes_;
  std::size_t kept_ = 0;  // layers and ends
};

}  // namespace plimsoll::step::megatron
