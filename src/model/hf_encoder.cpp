// SPDX-License-Identifier: Apache-2.0
// Encoders with learned positions: BERT and its relatives, trained on masked words, and ViT, trained on classes of
// images. Norms follow the sums in BERT and come first in ViT.
#include <fmt/format.h>

#include "model/hf_family.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

Draft start_encoder(Fields& in) {
  Draft draft;
  draft.model.hidden = in.size("hidden_size|dim", limits::kHidden);
  draft.depth = in.size("num_hidden_layers|n_layers", limits::kDepth);
  Attention& attention = draft.layer.attention;
  attention.heads = attention.kv_heads = in.size("num_attention_heads|n_heads", limits::kHeads);
  attention.head_dim = divided_head_dim(in, draft.model.hidden, attention.heads);
  attention.causal = false;
  attention.qkv_bias = attention.out_bias = true;
  draft.layer.ffn.gated = false;
  draft.layer.ffn.bias = true;
  draft.layer.ffn.width = in.size("intermediate_size|hidden_dim", limits::kWidth);
  draft.layer.ffn.activation = activation(in, in.has("activation") ? "activation" : "hidden_act", "gelu");
  draft.model.norm = NormKind::kLayer;
  draft.model.rope = false;
  draft.model.hidden_dropout = in.probability("hidden_dropout_prob|dropout", 0.1);
  draft.model.attention_dropout = in.probability("attention_probs_dropout_prob|attention_dropout", 0.1);
  return draft;
}

Architecture read_masked(Fields& in) {
  Draft draft = start_encoder(in);
  Architecture& model = draft.model;
  model.vocab = in.size("vocab_size", limits::kVocab);
  model.position_rows = in.size("max_position_embeddings", limits::kPositionRows);
  model.max_positions = model.position_rows;
  model.token_types = in.size_or("type_vocab_size", limits::kPositionRows, 0, 0);
  model.tied_embeddings = in.flag("tie_word_embeddings", true);
  model.embedding_norm = true;
  model.embedding_dropout = model.hidden_dropout;
  model.post_norm_only = true;
  model.final_norm = false;
  model.head = Head::kMasked;
  return stack(std::move(draft));
}

// Rotary positions, gated MLPs and no biases; two of three layers look through a window, and the first has no norm
// before its attention, because the embedding's is just before it.
Architecture read_modernbert(Fields& in) {
  Draft draft = start_encoder(in);
  Architecture& model = draft.model;
  model.vocab = in.size("vocab_size", limits::kVocab);
  model.max_positions = in.size("max_position_embeddings", limits::kPositions);
  model.tied_embeddings = in.flag("tie_word_embeddings", true);
  model.norm = in.flag("norm_bias", false) ? NormKind::kLayer : NormKind::kLayerNoBias;
  model.rope = true;
  model.embedding_norm = true;
  model.embedding_dropout = in.probability("embedding_dropout", 0);
  model.hidden_dropout = 0;
  model.attention_dropout = in.probability("attention_dropout", 0);
  model.head = Head::kMasked;
  Attention& attention = draft.layer.attention;
  attention.fused_qkv = true;
  attention.qkv_bias = attention.out_bias = in.flag("attention_bias", false);
  draft.layer.ffn.gated = draft.layer.ffn.fused_gate_up = true;
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  draft.layer.ffn.activation = activation(in, "hidden_activation", "gelu");
  const std::int64_t window = in.size_or("local_attention", limits::kPositions, 128) / 2 + 1;
  const std::int64_t period = in.size_or("global_attn_every_n_layers", limits::kDepth, 3);
  const LayerRule full =
      full_attention_layers(in, draft.depth, "sliding_attention", [period](std::int64_t i) { return i % period == 0; });
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
    if (i == 0) layer.norms = 1;
  });
}

// Without a word list; the two classes are Transformers' default where the file maps none.
Architecture read_vit(Fields& in) {
  Draft draft = start_encoder(in);
  Architecture& model = draft.model;
  draft.layer.attention.qkv_bias = in.flag("qkv_bias", true);
  model.head = Head::kClasses;
  model.classes = model.vocab = in.size_or("num_labels", limits::kVocab, 2);
  model.embedding_dropout = model.hidden_dropout;
  const std::int64_t image = in.size("image_size", limits::kPositions);
  const std::int64_t patch = in.size("patch_size", limits::kPositions);
  const std::int64_t channels = in.size("num_channels", limits::kWidth);
  if (in.ok() && (image % patch != 0 || image / patch > 4096 || patch > 4096))
    in.fail(fmt::format("an image of {} pixels does not divide into patches of {}", image, patch));
  if (!in.ok()) return model;
  model.patches = (image / patch) * (image / patch);
  model.patch_values = channels * patch * patch;
  return stack(std::move(draft));
}

constexpr Family kHfEncoderFamilies[] = {
    {"bert", read_masked},      {"roberta", read_masked},    {"xlm-roberta", read_masked},
    {"camembert", read_masked}, {"distilbert", read_masked}, {"modernbert", read_modernbert},
    {"vit", read_vit}};

}  // namespace

std::span<const Family> encoder_families() { return kHfEncoderFamilies; }

}  // namespace plimsoll::model
