// SPDX-License-Identifier: Apache-2.0
// Encoder-decoder models of text: BART, whose norms follow the sums, and T5, whose biases by distance are one table
// for each stack. Layers of the encoder come first.
#include <fmt/format.h>

#include "model/hf_family.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

// The two stacks share all but their depth and width.
Architecture stack_both(Draft draft, std::int64_t encoder, std::int64_t encoder_width, std::int64_t decoder_width) {
  return stack(std::move(draft), [=](std::int64_t i, Layer& layer) {
    layer.encoder = i < encoder;
    layer.cross_attention = i >= encoder;
    layer.attention.causal = i >= encoder;
    layer.ffn.width = i < encoder ? encoder_width : decoder_width;
  });
}

Architecture read_bart(Fields& in) {
  Draft draft;
  Architecture& model = draft.model;
  model.hidden = in.size("d_model|hidden_size", limits::kHidden);
  const std::int64_t encoder = in.size("encoder_layers|num_hidden_layers", limits::kDepth / 2);
  draft.depth = encoder + in.size("decoder_layers", limits::kDepth / 2);
  Attention& attention = draft.layer.attention;
  attention.heads = attention.kv_heads = in.size("encoder_attention_heads|num_attention_heads", limits::kHeads);
  if (in.ok() && in.size("decoder_attention_heads", limits::kHeads) != attention.heads)
    in.fail("encoder_attention_heads and decoder_attention_heads differ; stacks with other heads are not modelled");
  attention.head_dim = divided_head_dim(in, model.hidden, attention.heads);
  attention.qkv_bias = attention.out_bias = true;
  draft.layer.ffn.gated = false;
  draft.layer.ffn.bias = true;
  draft.layer.ffn.activation = activation(in, "activation_function", "gelu");
  model.vocab = in.size("vocab_size", limits::kVocab);
  model.position_rows = in.size("max_position_embeddings", limits::kPositionRows - 2) + 2;
  model.max_positions = model.position_rows - 2;
  model.tied_embeddings = in.flag("tie_word_embeddings", true);
  model.norm = NormKind::kLayer;
  model.rope = false;
  model.post_norm_only = true;
  model.embedding_norm = true;
  model.final_norm = false;
  model.hidden_dropout = model.embedding_dropout = in.probability("dropout", 0.1);
  model.attention_dropout = in.probability("attention_dropout", 0);
  return stack_both(std::move(draft), encoder, in.size("encoder_ffn_dim", limits::kWidth),
                    in.size("decoder_ffn_dim", limits::kWidth));
}

Architecture read_t5(Fields& in) {
  Draft draft;
  Architecture& model = draft.model;
  model.hidden = in.size("d_model|hidden_size", limits::kHidden);
  const std::int64_t encoder = in.size("num_layers|num_hidden_layers", limits::kDepth / 2);
  draft.depth = encoder + in.size_or("num_decoder_layers", limits::kDepth / 2, encoder);
  Attention& attention = draft.layer.attention;
  attention.heads = attention.kv_heads = in.size("num_heads|num_attention_heads", limits::kHeads);
  attention.head_dim = in.size("d_kv", limits::kHeadDim);
  const std::string projection = in.text("feed_forward_proj", "relu");
  draft.layer.ffn.gated = projection.rfind("gated-", 0) == 0;
  const std::string act = draft.layer.ffn.gated ? projection.substr(6) : projection;
  // "gated-gelu" is, for old files, the chain of Python operations.
  draft.layer.ffn.activation = act == "relu"   ? Activation::kRelu
                               : act == "silu" ? Activation::kSilu
                                               : Activation::kGeluNew;
  if (act != "relu" && act != "gelu" && act != "gelu_new" && act != "silu")
    in.fail(fmt::format("feed_forward_proj is '{}'; wanted relu, gelu or silu, or one of them after gated-",
                        projection.substr(0, 40)));
  model.vocab = in.size("vocab_size", limits::kVocab);
  // Transformers 5 ties them whatever the file says: its key only scales what goes into the head.
  model.tied_embeddings = true;
  model.rope = false;
  model.relative_buckets = in.size("relative_attention_num_buckets", limits::kPositionRows);
  model.hidden_dropout = model.embedding_dropout = in.probability("dropout_rate", 0.1);
  model.attention_dropout = model.hidden_dropout;
  const std::int64_t width = in.size("d_ff", limits::kWidth);
  return stack_both(std::move(draft), encoder, width, width);
}

// Speech: frames of mel bins go through two convolutions, of which the second halves their number.
Architecture read_whisper(Fields& in) {
  Draft draft;
  Architecture& model = draft.model;
  model.hidden = in.size_or("d_model|hidden_size", limits::kHidden, 384);
  const std::int64_t encoder = in.size_or("encoder_layers|num_hidden_layers", limits::kDepth / 2, 4);
  draft.depth = encoder + in.size_or("decoder_layers", limits::kDepth / 2, 4);
  Attention& attention = draft.layer.attention;
  attention.heads = attention.kv_heads = in.size_or("encoder_attention_heads|num_attention_heads", limits::kHeads, 6);
  if (in.ok() && in.size_or("decoder_attention_heads", limits::kHeads, 6) != attention.heads)
    in.fail("encoder_attention_heads and decoder_attention_heads differ; stacks with other heads are not modelled");
  attention.head_dim = divided_head_dim(in, model.hidden, attention.heads);
  attention.qkv_bias = attention.out_bias = true;
  draft.layer.ffn.gated = false;
  draft.layer.ffn.bias = true;
  draft.layer.ffn.activation = activation(in, "activation_function", "gelu");
  model.vocab = in.size_or("vocab_size", limits::kVocab, 51865);
  model.mel_bins = in.size_or("num_mel_bins", limits::kWidth, 80);
  model.source_positions = in.size_or("max_source_positions", limits::kPositionRows, 1500);
  model.position_rows = model.max_positions = in.size_or("max_target_positions", limits::kPositionRows, 448);
  model.tied_embeddings = in.flag("tie_word_embeddings", true);
  model.norm = NormKind::kLayer;
  model.rope = false;
  model.hidden_dropout = model.embedding_dropout = in.probability("dropout", 0);
  model.attention_dropout = in.probability("attention_dropout", 0);
  return stack_both(std::move(draft), encoder, in.size_or("encoder_ffn_dim", limits::kWidth, 1536),
                    in.size_or("decoder_ffn_dim", limits::kWidth, 1536));
}

constexpr Family kHfSeq2seqFamilies[] = {
    {"bart", read_bart}, {"t5", read_t5}, {"mt5", read_t5}, {"whisper", read_whisper}};

}  // namespace

std::span<const Family> seq2seq_families() { return kHfSeq2seqFamilies; }

}  // namespace plimsoll::model
