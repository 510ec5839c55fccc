// SPDX-License-Identifier: Apache-2.0
#include "job/model_keys.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/text.h"
#include "job/hybrid_model.h"
#include "model/towers.h"

namespace plimsoll::job {

namespace {

using model::Activation;
using model::Architecture;
using model::AttentionKind;
using model::Layer;

// No published model comes near these; above them products of sizes would overflow.
constexpr std::int64_t kMaxDepth = 100'000;

tl::unexpected<Error> missing(std::string_view key) {
  return bad_input(fmt::format("{} is not given and no model is named", key),
                   fmt::format("give the model (--model llama3-8b, or a path to its config.json) or {}", key));
}

void lay_over(const ModelKeys& keys, model::StateSpace& mixer) {
  if (keys.mamba_state_dim) mixer.state = *keys.mamba_state_dim;
  if (keys.mamba_head_dim) mixer.head_dim = *keys.mamba_head_dim;
  if (keys.mamba_num_heads) mixer.heads = *keys.mamba_num_heads;
  if (keys.mamba_num_groups) mixer.groups = *keys.mamba_num_groups;
  if (keys.mamba_chunk_size) mixer.chunk = *keys.mamba_chunk_size;
}

void lay_over(const ModelKeys& keys, model::FeedForward& ffn) {
  if (keys.activation) ffn.activation = *keys.activation;
  if (keys.gated) ffn.gated = *keys.gated;
  if (ffn.is_empty()) return;
  if (!ffn.is_moe()) {
    if (keys.ffn_hidden_size) ffn.width = *keys.ffn_hidden_size;
    return;
  }
  if (keys.num_moe_experts) ffn.experts = *keys.num_moe_experts;
  if (keys.moe_router_topk) ffn.experts_per_token = *keys.moe_router_topk;
  if (keys.moe_ffn_hidden_size) ffn.expert_width = *keys.moe_ffn_hidden_size;
  if (keys.moe_latent_size) ffn.latent = *keys.moe_latent_size;
  if (keys.moe_shared_expert_intermediate_size) ffn.shared_width = *keys.moe_shared_expert_intermediate_size;
  if (keys.moe_shared_expert_gate) ffn.shared_gate = *keys.moe_shared_expert_gate;
}

void lay_biases_over(const ModelKeys& keys, Layer& kind) {
  model::Attention& attention = kind.attention;
  const bool attends = attention.kind != AttentionKind::kNone && attention.kind != AttentionKind::kMamba2;
  if (keys.add_bias_linear) {
    if (attends) attention.qkv_bias = *keys.add_bias_linear || keys.add_qkv_bias.value_or(false);
    if (attends) attention.out_bias = *keys.add_bias_linear;
    kind.ffn.bias = *keys.add_bias_linear;
    if (kind.ffn.is_moe()) kind.ffn.expert_bias = kind.ffn.router_bias = *keys.add_bias_linear;
  } else if (keys.add_qkv_bias && attends) {
    attention.qkv_bias = *keys.add_qkv_bias || attention.out_bias;
  }
}

// Keys of a layer, laid over one kind of the base.
void lay_over(const ModelKeys& keys, Layer& kind) {
  lay_biases_over(keys, kind);
  lay_over(keys, kind.ffn);
  model::Attention& attention = kind.attention;
  if (attention.kind == AttentionKind::kMamba2) {
    lay_over(keys, attention.mamba);
    attention.heads = attention.kv_heads = attention.mamba.heads;
    attention.head_dim = attention.mamba.head_dim;
  }
  if (attention.kind == AttentionKind::kMamba2 || attention.kind == AttentionKind::kNone) return;
  if (keys.multi_latent_attention)
    attention.kind = *keys.multi_latent_attention ? AttentionKind::kMla : AttentionKind::kGqa;
  const bool softmax = attention.kind != AttentionKind::kLinear;
  if (keys.num_attention_heads && softmax) {
    const bool every_head_has_kv = attention.kv_heads == attention.heads;
    attention.heads = *keys.num_attention_heads;
    if (every_head_has_kv || attention.kind == AttentionKind::kMla) attention.kv_heads = attention.heads;
  }
  if (keys.group_query_attention && !*keys.group_query_attention) attention.kv_heads = attention.heads;
  if (keys.num_query_groups && keys.group_query_attention.value_or(true) && attention.kind == AttentionKind::kGqa)
    attention.kv_heads = *keys.num_query_groups;
  if (keys.kv_channels && attention.kind == AttentionKind::kGqa) attention.head_dim = *keys.kv_channels;
  if (keys.qk_layernorm) attention.qk_norm = *keys.qk_layernorm ? model::QkNorm::kPerHead : model::QkNorm::kNone;
  if (keys.qk_l2_norm.value_or(false)) {
    attention.qk_norm = model::QkNorm::kPerHead;
    attention.qk_norm_has_weight = false;
  }
  if (keys.sinks && softmax) attention.sinks = *keys.sinks;
  if (keys.attention_output_gate) attention.output_gate = *keys.attention_output_gate;
  if (keys.sliding_window) attention.sliding_window = *keys.sliding_window;
  if (keys.q_lora_rank) attention.q_lora_rank = *keys.q_lora_rank;
  if (keys.kv_lora_rank) attention.kv_lora_rank = *keys.kv_lora_rank;
  if (keys.qk_head_dim) attention.qk_nope_dim = *keys.qk_head_dim;
  if (keys.qk_pos_emb_head_dim) attention.qk_rope_dim = *keys.qk_pos_emb_head_dim;
  if (keys.v_head_dim) attention.v_head_dim = *keys.v_head_dim;
}

// Keys of the whole model.
void lay_over(const ModelKeys& keys, Architecture& model) {
  if (keys.hidden_size) model.hidden = *keys.hidden_size;
  if (keys.vocab_size) model.vocab = *keys.vocab_size + (keys.null_tokenizer ? 1 : 0) + keys.vocab_extra_ids;
  if (keys.tied_embeddings) model.tied_embeddings = *keys.tied_embeddings;
  if (keys.rms_norm) model.norm = *keys.rms_norm ? model::NormKind::kRms : model::NormKind::kLayer;
  if (keys.hidden_dropout) model.hidden_dropout = model.embedding_dropout = *keys.hidden_dropout;
  if (keys.attention_dropout) model.attention_dropout = *keys.attention_dropout;
  if (keys.mtp_num_layers) model.mtp_layers = *keys.mtp_num_layers;
  if (keys.mtp_use_repeated_layer) model.mtp_repeats = true;
  if (keys.position_embedding) model.rope = *keys.position_embedding == PositionKind::kRope;
  if (keys.max_position_embeddings) model.max_positions = *keys.max_position_embeddings;
  const bool learned =
      keys.position_embedding ? *keys.position_embedding == PositionKind::kLearned : model.position_rows > 0;
  model.position_rows = learned ? model.max_positions : 0;
}

Status resize(Architecture& model, std::int64_t depth) {
  if (depth < 1 || depth > kMaxDepth)
    return bad_input(fmt::format("num_layers = {}: wanted 1 to {}", depth, kMaxDepth));
  const auto wanted = static_cast<std::size_t>(depth);
  const std::size_t have = model.layers.size();
  const bool tail_is_uniform = have < 2 || model.layers[have - 1] == model.layers[have - 2];
  if (wanted > have && !tail_is_uniform)
    return bad_input(
        fmt::format("num_layers = {}: {} has {} layers of alternating kinds, so which kinds the added "
                    "ones have is not known",
                    depth, model.name, have));
  model.layers.resize(wanted, model.layers.back());
  return {};
}

// Megatron's own defaults: GELU, LayerNorm, learned positions, biases, dropout 0.1, tied embeddings.
// "Every 5,001st of 32 layers" means something else.
Status check_period(const ModelKeys& keys, std::size_t depth) {
  const auto period = static_cast<std::size_t>(keys.moe_layer_period.value_or(1));
  if (period <= depth) return {};
  return bad_input(fmt::format("moe_layer_freq = {}: the model has {} layers", period, depth),
                   "1 makes every layer a mixture of experts, 2 every second one");
}

// Layers that window_attn_skip_freq leaves out attend to everything: a kind of their own.
Status spare_windows(const ModelKeys& keys, Architecture& model) {
  if (!keys.window_period && keys.window_pattern.empty()) return {};
  if (!keys.window_pattern.empty() && keys.window_pattern.size() != model.layers.size())
    return bad_input(fmt::format("window_attn_skip_freq names {} layers; the model has {}", keys.window_pattern.size(),
                                 model.layers.size()));
  std::map<std::uint8_t, std::uint8_t> without;  // a kind, the same without a window
  std::size_t at = 0;
  for (std::uint8_t& kind : model.layers) {
    ++at;
    const bool windowed = keys.window_pattern.empty() ? at % static_cast<std::size_t>(*keys.window_period) != 0
                                                      : bool{keys.window_pattern[at - 1]};
    if (windowed || model.kinds[kind].attention.sliding_window == 0) continue;
    auto found = without.find(kind);
    if (found == without.end()) {
      if (model.kinds.size() > 250) return bad_input("window_attn_skip_freq: too many kinds of layers");
      Layer full = model.kinds[kind];
      full.attention.sliding_window = 0;
      found = without.emplace(kind, static_cast<std::uint8_t>(model.kinds.size())).first;
      model.kinds.push_back(std::move(full));
    }
    kind = found->second;
  }
  return {};
}

// Megatron's T5: two stacks of num_layers layers each, the second with attention to the first's output. Its
// pretrain_t5.py gives both the depth of the first, whatever decoder_num_layers says.
void make_encoder_decoder(const ModelKeys& keys, Architecture& model) {
  Layer encoder = model.kinds.front();
  encoder.encoder = true;
  encoder.attention.causal = false;
  Layer decoder = model.kinds.front();
  decoder.cross_attention = true;
  const std::size_t depth = model.layers.size();
  model.model_type = "t5";
  model.kinds = {encoder, decoder};
  model.layers.assign(2 * depth, 0);
  std::fill(model.layers.begin() + static_cast<std::ptrdiff_t>(depth), model.layers.end(), std::uint8_t{1});
  model.head_bias = model.tied_embeddings;
  if (keys.decoder_num_layers && *keys.decoder_num_layers != static_cast<std::int64_t>(depth))
    model.warnings.push_back(fmt::format(
        "decoder_num_layers: pretrain_t5.py builds the decoder with encoder_num_layers ({}) layers", depth));
}

// Megatron's BERT: tokens see one another, and a dense layer with a norm stands before the output layer.
void make_masked(const ModelKeys& keys, Architecture& model) {
  for (Layer& kind : model.kinds) kind.attention.causal = false;
  model.model_type = "bert";
  model.head = model::Head::kMasked;
  model.head_bias = true;
  model.pooled_pairs = keys.bert_binary_head.value_or(true);
  if (model.pooled_pairs) model.token_types = 2;
}

Status apply_class(const ModelKeys& keys, Architecture& model) {
  // Only T5 has a decoder apart.
  const ModelClass kind = keys.model_class.value_or(keys.decoder_num_layers ? ModelClass::kT5 : ModelClass::kGpt);
  if (kind == ModelClass::kGpt) return {};
  if (model.has_moe() || model.mtp_layers > 0)
    return bad_input("model_class: T5 and BERT have neither experts nor multi-token prediction");
  if (kind == ModelClass::kT5) {
    make_encoder_decoder(keys, model);
  } else {
    make_masked(keys, model);
  }
  return {};
}

// The experts of Megatron's own MoE layer; none where the keys give none.
Layer moe_layer(const ModelKeys& keys, const Layer& dense, std::int64_t width) {
  Layer moe = dense;
  moe.ffn.width = 0;
  moe.ffn.experts = keys.num_moe_experts.value_or(0);
  moe.ffn.expert_bias = moe.ffn.router_bias = keys.add_bias_linear.value_or(true);
  moe.ffn.experts_per_token = keys.moe_router_topk.value_or(2);
  moe.ffn.expert_width = keys.moe_ffn_hidden_size.value_or(width);
  moe.ffn.latent = keys.moe_latent_size.value_or(0);
  moe.ffn.shared_width = keys.moe_shared_expert_intermediate_size.value_or(0);
  moe.ffn.shared_gate = keys.moe_shared_expert_gate.value_or(false);
  return moe;
}

Result<Architecture> from_keys_alone(const ModelKeys& keys) {
  if (!keys.num_layers && !keys.is_hybrid()) return missing("num_layers");
  if (!keys.hidden_size) return missing("hidden_size");
  if (!keys.num_attention_heads) return missing("num_attention_heads");
  if (!keys.vocab_size)
    return bad_input("vocab_size is not known: Megatron takes it from the tokenizer, which is not read here",
                     "give --vocab-size 50257, say");
  const std::int64_t hidden = *keys.hidden_size;
  const std::int64_t heads = *keys.num_attention_heads;
  if (!keys.kv_channels && !keys.multi_latent_attention.value_or(false) && hidden % heads != 0)
    return bad_input(fmt::format("hidden_size {} is not divisible by num_attention_heads {}", hidden, heads),
                     "give kv_channels");

  Layer dense;
  dense.attention.heads = dense.attention.kv_heads = heads;
  dense.attention.head_dim = hidden / heads;
  if (keys.multi_latent_attention.value_or(false)) {
    dense.attention.kind = AttentionKind::kMla;
    dense.attention.q_lora_rank = 512;
    dense.attention.kv_lora_rank = 512;
    dense.attention.qk_nope_dim = 128;
    dense.attention.qk_rope_dim = 64;
    dense.attention.v_head_dim = 128;
    dense.attention.head_dim = keys.qk_head_dim.value_or(128) + keys.qk_pos_emb_head_dim.value_or(64);
  }
  dense.attention.qkv_bias = dense.attention.out_bias = dense.ffn.bias = true;
  dense.ffn.gated = false;
  dense.ffn.activation = Activation::kGelu;
  const bool two_thirds = keys.swiglu_ffn_rule && keys.gated.value_or(false);
  const std::int64_t width = keys.ffn_hidden_size.value_or(two_thirds ? hidden * 8 / 3 / 64 * 64 : 4 * hidden);
  dense.ffn.width = width;
  lay_over(keys, dense);

  Architecture model;
  model.name = "the model of the arguments";
  model.model_type = "gpt";
  model.norm = model::NormKind::kLayer;
  model.tied_embeddings = true;
  model.hidden_dropout = model.embedding_dropout = model.attention_dropout = 0.1;
  model.rope = false;
  model.position_rows = 1;  // learned unless a key says otherwise; lay_over() sets the rows
  lay_over(keys, model);
  const auto depth = static_cast<std::size_t>(keys.num_layers.value_or(1));
  if (keys.num_layers && (*keys.num_layers < 1 || *keys.num_layers > kMaxDepth))
    return bad_input(fmt::format("num_layers = {}: wanted 1 to {}", *keys.num_layers, kMaxDepth));
  if (model.position_rows == 0 && !model.rope &&
      keys.position_embedding.value_or(PositionKind::kLearned) == PositionKind::kLearned)
    return bad_input("max_position_embeddings is not given; learned position embeddings need it",
                     "give max_position_embeddings, or position_embedding_type rope");

  const Layer moe = moe_layer(keys, dense, width);
  if (keys.is_hybrid()) {
    PLIMSOLL_TRY_STATUS(make_hybrid(keys, dense, moe.ffn, model));
    PLIMSOLL_TRY_STATUS(spare_windows(keys, model));
    return model;
  }
  if (!moe.ffn.is_moe()) {
    model.kinds = {dense};
    model.layers.assign(depth, 0);
    PLIMSOLL_TRY_STATUS(spare_windows(keys, model));
    PLIMSOLL_TRY_STATUS(apply_class(keys, model));
    return model;
  }
  if (!keys.moe_layer_pattern.empty() && keys.moe_layer_pattern.size() != depth)
    return bad_input(
        fmt::format("moe_layer_freq names {} layers; num_layers is {}", keys.moe_layer_pattern.size(), depth));
  PLIMSOLL_TRY_STATUS(check_period(keys, depth));
  model.kinds = {dense, moe};
  for (std::size_t i = 0; i < depth; ++i) {
    const auto period = static_cast<std::size_t>(keys.moe_layer_period.value_or(1));
    const bool is_moe = keys.moe_layer_pattern.empty() ? i % period == 0 : bool{keys.moe_layer_pattern[i]};
    model.layers.push_back(is_moe ? 1 : 0);
  }
  PLIMSOLL_TRY_STATUS(spare_windows(keys, model));
  PLIMSOLL_TRY_STATUS(apply_class(keys, model));
  return model;
}

// A pattern beside a model that has one may say where the pipeline cuts it and what its MTP depths are, no more.
Status check_pattern(const ModelKeys& keys, Architecture& model) {
  if (!is_hybrid(model))
    return bad_input(
        fmt::format("hybrid_layer_pattern: {} is not a model of mixers, attention and MLPs in layers of "
                    "their own",
                    model.name));
  if (keys.hybrid_layer_pattern.empty()) return {};
  PLIMSOLL_TRY(pattern, hybrid_pattern_of(keys));
  const std::string known = pattern_of(model);
  if (pattern.layers != known.substr(0, known.find('/')))
    return bad_input(fmt::format("hybrid_layer_pattern contradicts {}, whose layers are {}", model.name, known));
  return {};
}

Result<Architecture> over_base(const ModelKeys& keys, Architecture model) {
  if (!keys.moe_layer_pattern.empty() || keys.moe_layer_period) {
    PLIMSOLL_TRY_STATUS(check_period(keys, model.layers.size()));
    if (!keys.moe_layer_pattern.empty() && keys.moe_layer_pattern.size() != model.layers.size())
      return bad_input(fmt::format("moe_layer_freq names {} layers; {} has {}", keys.moe_layer_pattern.size(),
                                   model.name, model.layers.size()));
    std::size_t at = 0;
    for (const std::uint8_t kind : model.layers) {
      const bool wanted = keys.moe_layer_pattern.empty()
                              ? at % static_cast<std::size_t>(*keys.moe_layer_period) == 0
                              : at < keys.moe_layer_pattern.size() && keys.moe_layer_pattern[at];
      if (wanted != model.kinds[kind].ffn.is_moe())
        return bad_input(fmt::format("moe_layer_freq contradicts {}: its layer {} is {}", model.name, at,
                                     wanted ? "dense" : "a mixture of experts"));
      ++at;
    }
  }
  if (keys.num_moe_experts.value_or(0) > 0 && !model.has_moe())
    return bad_input(fmt::format("num_moe_experts = {}: {} is a dense model", *keys.num_moe_experts, model.name));
  if (keys.is_hybrid()) PLIMSOLL_TRY_STATUS(check_pattern(keys, model));
  if (keys.num_layers && !keys.is_hybrid()) PLIMSOLL_TRY_STATUS(resize(model, *keys.num_layers));
  for (Layer& kind : model.kinds) lay_over(keys, kind);
  lay_over(keys, model);
  PLIMSOLL_TRY_STATUS(spare_windows(keys, model));
  return model;
}

// A tower for images before a language model that has none of its own.
Status attach_tower(const ModelKeys& keys, Architecture& model) {
  if (keys.vision_tower.empty()) return {};
  if (model.vision != nullptr)
    model.warnings.push_back(fmt::format("vision_tower: it stands in the place of the tower that {} has", model.name));
  PLIMSOLL_TRY(tower, model::tower_named(keys.vision_tower, keys.projector, model));
  if (!tower.is_known)
    model.warnings.push_back(
        fmt::format("vision_tower: {} is not known; it is counted as {}", keys.vision_tower, tower.known_as));
  if (!keys.projector.empty() && !model::is_projector(keys.projector))
    model.warnings.push_back(
        fmt::format("mm_projector_type: {} is counted as mlp2x_gelu, two linears with a GELU "
                    "between them and a token for each patch",
                    keys.projector));
  model.vision = std::move(tower.vision);
  return {};
}

// Rewards and classes: ...ForSequenceClassification has one product with num_labels, without a bias.
Status change_head(const ModelKeys& keys, Architecture& model) {
  if (!keys.num_labels) return {};
  if (model.head != model::Head::kLanguage || model.encoder_depth() > 0 || model.mtp_layers > 0)
    return bad_input(fmt::format("num_labels: a head of scores is modelled on decoders, not on {}", model.name));
  model.head = model::Head::kScores;
  model.classes = *keys.num_labels;
  model.keeps_language_head = keys.value_head;
  if (keys.value_head) return {};
  model.tied_embeddings = false;
  model.head_bias = false;
  return {};
}

}  // namespace

Result<Architecture> architecture_of(const ModelKeys& keys, const Architecture& base) {
  auto model = base.layers.empty() ? from_keys_alone(keys) : over_base(keys, base);
  if (!model) return model;
  PLIMSOLL_TRY_STATUS(attach_tower(keys, *model));
  PLIMSOLL_TRY_STATUS(change_head(keys, *model));
  return model;
}

}  // namespace plimsoll::job
