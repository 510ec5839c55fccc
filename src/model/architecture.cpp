// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/checked.h"
#include "model/limits.h"
#include "model/parameters.h"
#include "model/parts.h"

namespace plimsoll::model {

Architecture::Architecture() = default;
Architecture::Architecture(const Architecture&) = default;
Architecture::Architecture(Architecture&&) noexcept = default;
Architecture& Architecture::operator=(const Architecture&) = default;
Architecture& Architecture::operator=(Architecture&&) noexcept = default;
Architecture::~Architecture() = default;

namespace {

// Collects the first size that is out of bounds.
class Bounds {
 public:
  void positive(std::string_view what, std::int64_t value, std::int64_t limit) { within(what, value, 1, limit); }
  void optional(std::string_view what, std::int64_t value, std::int64_t limit) { within(what, value, 0, limit); }
  void probability(std::string_view what, double value) {
    if (!(value >= 0 && value < 1)) fail(fmt::format("{} is {}; wanted at least 0 and below 1", what, value));
  }
  void fail(std::string message) {
    if (problem_.empty()) problem_ = std::move(message);
  }
  [[nodiscard]] bool ok() const { return problem_.empty(); }
  [[nodiscard]] Status status() const {
    if (!problem_.empty()) return bad_input("model: " + problem_);
    return {};
  }

 private:
  void within(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t limit) {
    if (value < least || value > limit) fail(fmt::format("{} is {}; wanted {} to {}", what, value, least, limit));
  }

  std::string problem_;
};

// Only after both factors passed their own bounds, so the product cannot overflow.
void check_product(Bounds& bounds, std::string_view what, std::int64_t a, std::int64_t b) {
  if (bounds.ok()) bounds.positive(what, a * b, limits::kWidth);
}

void check_attention(Bounds& bounds, const Attention& attention) {
  bounds.optional("the sliding window", attention.sliding_window, limits::kPositions);
  if (attention.kind == AttentionKind::kLinear) {
    bounds.positive("linear key heads", attention.linear_key_heads, limits::kHeads);
    bounds.positive("linear key dimension", attention.linear_key_dim, limits::kHeadDim);
    bounds.positive("linear value heads", attention.linear_value_heads, limits::kHeads);
    bounds.positive("linear value dimension", attention.linear_value_dim, limits::kHeadDim);
    bounds.positive("linear convolution width", attention.linear_conv, limits::kConv);
    check_product(bounds, "linear key width", attention.linear_key_heads, attention.linear_key_dim);
    check_product(bounds, "linear value width", attention.linear_value_heads, attention.linear_value_dim);
    return;
  }
  if (attention.kind == AttentionKind::kConvolution)
    bounds.positive("the convolution width", attention.linear_conv, limits::kConv);
  if (attention.kind == AttentionKind::kLightning)
    bounds.positive("the block of linear attention", attention.linear_block, limits::kPositions);
  if (attention.kind == AttentionKind::kMamba2 || attention.mamba.heads != 0) {
    const StateSpace& m = attention.mamba;
    bounds.positive("state-space heads", m.heads, limits::kHeads);
    bounds.positive("the state-space head dimension", m.head_dim, limits::kHeadDim);
    bounds.positive("the state size", m.state, limits::kHeadDim);
    bounds.positive("state-space groups", m.groups, limits::kHeads);
    bounds.positive("the convolution width", m.conv, limits::kConv);
    bounds.positive("the chunk of the scan", m.chunk, limits::kPositions);
    bounds.optional("the rank of the steps", m.step_rank, limits::kWidth);
    check_product(bounds, "state-space heads x dimension", m.heads, m.head_dim);
    check_product(bounds, "state-space groups x state", m.groups, m.state);
    if (bounds.ok() && m.heads % m.groups != 0)
      bounds.fail(fmt::format("{} state-space heads are not a multiple of {} groups", m.heads, m.groups));
  }
  bounds.positive("attention heads", attention.heads, limits::kHeads);
  if (attention.kind == AttentionKind::kMla) {
    bounds.optional("the query latent rank", attention.q_lora_rank, limits::kWidth);
    bounds.positive("the key/value latent rank", attention.kv_lora_rank, limits::kWidth);
    bounds.positive("the head's part without position", attention.qk_nope_dim, limits::kHeadDim);
    bounds.positive("the head's rotary part", attention.qk_rope_dim, limits::kHeadDim);
    bounds.positive("the value head dimension", attention.v_head_dim, limits::kHeadDim);
    check_product(bounds, "heads x query/key dimension", attention.heads,
                  attention.qk_nope_dim + attention.qk_rope_dim);
    check_product(bounds, "heads x value dimension", attention.heads, attention.v_head_dim);
    bounds.optional("indexer heads", attention.index_heads, limits::kHeads);
    if (attention.index_heads == 0) return;
    bounds.positive("indexer head dimension", attention.index_head_dim, limits::kHeadDim);
    check_product(bounds, "indexer heads x dimension", attention.index_heads, attention.index_head_dim);
    if (attention.q_lora_rank == 0) bounds.fail("the sparse-attention indexer needs a query latent rank");
    return;
  }
  bounds.positive("key/value heads", attention.kv_heads, limits::kHeads);
  bounds.positive("the head dimension", attention.head_dim, limits::kHeadDim);
  check_product(bounds, "heads x head dimension", attention.heads, attention.head_dim);
  check_product(bounds, "key/value heads x head dimension", attention.kv_heads, attention.head_dim);
  if (bounds.ok() && attention.heads % attention.kv_heads != 0)
    bounds.fail(fmt::format("{} attention heads are not a multiple of {} key/value heads", attention.heads,
                            attention.kv_heads));
}

void check_feed_forward(Bounds& bounds, const FeedForward& ffn, bool may_be_empty) {
  if (ffn.is_empty() && may_be_empty) return;
  if (ffn.experts == 0) {
    bounds.positive("the FFN width", ffn.width, limits::kWidth);
    return;
  }
  bounds.positive("experts", ffn.experts, limits::kExperts);
  bounds.positive("the expert width", ffn.expert_width, limits::kWidth);
  bounds.optional("the latent width of experts", ffn.latent, limits::kWidth);
  bounds.optional("the shared expert width", ffn.shared_width, limits::kWidth);
  bounds.optional("the FFN width", ffn.width, limits::kWidth);
  bounds.positive("experts per token", ffn.experts_per_token, limits::kExperts);
  if (bounds.ok() && ffn.experts_per_token > ffn.experts)
    bounds.fail(fmt::format("a token visits {} experts but there are only {}", ffn.experts_per_token, ffn.experts));
}

void check_shared_block(Bounds& bounds, const Architecture& model) {
  for (const Layer& kind : model.kinds)
    if (kind.shared_block < 0 || (kind.shared_block > 0 && model.shared_block == nullptr) ||
        (kind.shared_block > 0 && kind.shared_block > model.shared_block->count))
      bounds.fail(fmt::format("a layer runs shared block {}, which does not exist", kind.shared_block));
  if (model.shared_block == nullptr) return;
  const SharedBlock& block = *model.shared_block;
  check_attention(bounds, block.attention);
  check_feed_forward(bounds, block.ffn, false);
  bounds.positive("the number of shared blocks", block.count, limits::kDepth);
  bounds.positive("the rank of a shared block's adapters", block.adapter_rank, limits::kWidth);
}

void check_streams(Bounds& bounds, const Architecture& model) {
  if (model.streams == nullptr) return;
  const Streams& s = *model.streams;
  constexpr std::int64_t kMost = 64;
  if (s.count < 2 || s.count > kMost)
    bounds.fail(fmt::format("the number of residual streams is {}; wanted 2 to {}", s.count, kMost));
  bounds.positive("the rank of Laurel", s.laurel_rank, limits::kWidth);
  bounds.positive("the vocabulary of the layers' embeddings", s.per_layer_vocab, limits::kVocab);
  bounds.positive("the width of a layer's embedding", s.per_layer_width, limits::kHidden);
  check_product(bounds, "layers x width of a layer's embedding", model.depth(), s.per_layer_width);
}

void check_total(Bounds& bounds, const Architecture& model) {
  std::array<std::int64_t, 256> layers_of_kind{};
  for (const std::uint8_t kind : model.layers) ++layers_of_kind[kind];
  for (const std::uint8_t kind : model.mtp_depth()) layers_of_kind[kind] += model.mtp_weights();
  const auto add = [&bounds](std::int64_t sum, std::int64_t more) {
    const std::int64_t total = checked_add(sum, more).value_or(limits::kParameters + 1);
    if (total > limits::kParameters) bounds.fail("more than 2^50 parameters; no such model can be meant");
    return total > limits::kParameters ? limits::kParameters : total;
  };
  std::int64_t total = 2 * model.vocab * model.hidden + model.position_rows * model.hidden;
  total = add(total, shared_parameters(model));
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto layers = checked_mul(layer_parameters(model, model.kinds[kind]), layers_of_kind[kind]);
    total = add(total, layers.value_or(limits::kParameters + 1));
  }
}

}  // namespace

Status validate(const Architecture& model) {
  Bounds bounds;
  bounds.positive("the hidden size", model.hidden, limits::kHidden);
  bounds.positive("the vocabulary", model.vocab, limits::kVocab);
  bounds.positive("the number of layers", model.depth(), limits::kDepth);
  bounds.positive("the number of layer kinds", static_cast<std::int64_t>(model.kinds.size()), 255);
  for (const std::uint8_t kind : model.layers)
    if (kind >= model.kinds.size()) bounds.fail(fmt::format("a layer is of kind {}, which does not exist", kind));
  for (const std::uint8_t kind : model.mtp_kinds)
    if (kind >= model.kinds.size()) bounds.fail(fmt::format("an MTP layer is of kind {}, which does not exist", kind));
  bounds.optional("the position table", model.position_rows, limits::kPositionRows);
  bounds.optional("the embedding dimension", model.embedding_dim, limits::kHidden);
  bounds.optional("relative position buckets", model.relative_buckets, limits::kPositionRows);
  bounds.optional("the table of token types", model.token_types, limits::kPositionRows);
  bounds.optional("the number of patches", model.patches, limits::kPositions);
  bounds.optional("the values of a patch", model.patch_values, limits::kWidth);
  if (model.head == Head::kClasses || model.head == Head::kScores)
    bounds.positive("the number of classes", model.classes, limits::kVocab);
  bounds.optional("the number of MTP layers", model.mtp_layers, limits::kMtpLayers);
  bounds.optional("the context length", model.max_positions, limits::kPositions);
  bounds.probability("hidden dropout", model.hidden_dropout);
  bounds.probability("attention dropout", model.attention_dropout);
  bounds.probability("embedding dropout", model.embedding_dropout);
  for (const Layer& kind : model.kinds) {
    check_attention(bounds, kind.attention);
    // A mixer alone is a layer in models that alternate them (Mamba-2, Nemotron-H).
    check_feed_forward(bounds, kind.ffn, kind.norms == 1 && kind.attention.kind != AttentionKind::kNone);
    if (kind.norms != 0 && kind.norms != 1 && kind.norms != 2 && kind.norms != 4)
      bounds.fail(fmt::format("{} norms per layer; wanted 0, 1, 2 or 4", kind.norms));
  }
  check_shared_block(bounds, model);
  check_streams(bounds, model);
  if (bounds.ok()) check_total(bounds, model);
  return bounds.status();
}

}  // namespace plimsoll::model
