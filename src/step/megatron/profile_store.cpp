// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/profile_store.h"

#include <initializer_list>

namespace plimsoll::step::megatron {

namespace {

// Some 4 KiB each; a search of 5 million points of DeepSeek-V3 has a few hundred.
constexpr std::size_t kMostLayers = 4096;
constexpr std::size_t kMostChunks = std::size_t{1} << 16;

std::size_t mixed(std::initializer_list<std::int64_t> values) {
  std::uint64_t hash = 0x9e3779b97f4a7c15U;
  for (const std::int64_t value : values) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32U;
  }
  return hash;
}

std::int64_t bits(const Choices& c) {
  std::int64_t all = 0;
  for (const bool bit :
       {c.te, c.gathers, c.unfused_attention, c.wgrad_fusion, c.recompute.core_attn, c.recompute.layernorm,
        c.recompute.mla_up_proj, c.recompute.mlp, c.recompute.moe, c.recompute.moe_act, c.recompute.shared_experts})
    all = 2 * all + (bit ? 1 : 0);
  return all;
}

std::int64_t address(const void* of) { return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(of)); }

}  // namespace

void ProfileStore::bound() {
  if (kept_ <= kMostLayers && chunks_.size() <= kMostChunks && passes_.size() <= kMostChunks) return;
  passes_.clear();
  chunks_.clear();
  layers_.clear();
  ends_.clear();
  kept_ = 0;
}

// A few sizes tell most layers apart; equality is of all.
LayerKind& ProfileStore::layer(const Choices& choices, const LayerSizes& z, OffloadScope offload) {
  auto& alike = layers_[mixed({z.h, z.hf, z.q, z.fc1, z.mixer.projected, z.act_saved, z.out_saved, z.cp_buffer,
                               z.routed, z.expert_fc1, z.w_qkv, bits(choices)})];
  for (const auto& known : alike)
    if (known->is(choices, z, offload)) return *known;
  ++kept_;
  return *alike.emplace_back(std::make_unique<LayerKind>(choices, z, offload));
}

const EndSizes& ProfileStore::ends(const Choices& choices, const EndSizes& sizes) {
  auto& alike = ends_[mixed({sizes.h, sizes.hf, sizes.logits, sizes.tokens, bits(choices)})];
  for (const auto& known : alike)
    if (known->sizes == sizes && known->choices == choices) return known->sizes;
  ++kept_;
  return alike.emplace_back(std::make_unique<KnownEnds>(KnownEnds{choices, sizes}))->sizes;
}

std::size_t ProfileStore::HashOfShape::operator()(const ChunkShape& s) const {
  const std::int64_t flags =
      (s.by_blocks ? 1 : 0) + (s.has_embedding ? 2 : 0) + (s.has_loss ? 4 : 0) + (s.defers_wgrad ? 8 : 0);
  return mixed({address(s.ends), address(s.runs[0].kind), s.runs[0].layers, address(s.runs[1].kind), s.runs[1].layers,
                s.runs[2].layers, address(s.mtp[0]), s.recomputed, s.checkpoint_bytes, s.mtp_layers, flags});
}

const ChunkProfile* ProfileStore::find(const ChunkShape& shape) const {
  const auto found = chunks_.find(shape);
  return found != chunks_.end() ? &found->second : nullptr;
}

namespace {

std::size_t hash_of(const PipelineShape& p, const ProfileStore::Chunks& chunks) {
  const std::size_t middle = chunks.size() / 2;
  return mixed({p.stages, p.rank, p.chunks, p.micro_batches, p.group, p.message,
                (p.overlap ? 1 : 0) + (p.gpipe ? 2 : 0), address(chunks.front()), address(chunks[middle]),
                address(chunks.back())});
}

}  // namespace

const Profile* ProfileStore::find(const PipelineShape& pipeline, const Chunks& chunks) const {
  const auto alike = passes_.find(hash_of(pipeline, chunks));
  if (alike == passes_.end()) return nullptr;
  for (const KnownPasses& known : alike->second)
    if (known.pipeline == pipeline && known.chunks == chunks) return &known.profile;
  return nullptr;
}

void ProfileStore::keep(const PipelineShape& pipeline, const Chunks& chunks, const Profile& profile) {
  passes_[hash_of(pipeline, chunks)].push_back({pipeline, chunks, profile});
}

const ChunkProfile& ProfileStore::keep(const ChunkShape& shape, const ChunkProfile& profile) {
  return chunks_.emplace(shape, profile).first->second;
}

}  // namespace plimsoll::step::megatron
