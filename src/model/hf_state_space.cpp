// SPDX-License-Identifier: Apache-2.0
// Models whose mixer is a Mamba-2 state space: alone (Mamba-2), in turn with MLPs and attention (Nemotron-H), or
// beside the attention of every layer (Falcon-H1), or after a block that several layers share (Zamba 2).
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "model/hf_family.h"
#include "model/limits.h"
#include "model/parts.h"

namespace plimsoll::model {

namespace {

// heads, kv_heads and head_dim are set for every kind of mixer: whoever splits layers divides by them.
void use_mixer(Attention& attention, const StateSpace& mamba) {
  attention = {};
  attention.kind = AttentionKind::kMamba2;
  attention.mamba = mamba;
  attention.heads = attention.kv_heads = mamba.heads;
  attention.head_dim = mamba.head_dim;
}

Architecture read_mamba2(Fields& in) {
  Draft draft;
  draft.model.hidden = in.size("hidden_size", limits::kHidden);
  draft.depth = in.size("num_hidden_layers", limits::kDepth);
  draft.model.vocab = in.size("vocab_size", limits::kVocab);
  draft.model.tied_embeddings = in.flag("tie_word_embeddings", false);
  draft.model.rope = false;
  StateSpace mamba;
  mamba.heads = in.size("num_heads", limits::kHeads);
  mamba.head_dim = in.size("head_dim", limits::kHeadDim);
  mamba.state = in.size("state_size", limits::kHeadDim);
  mamba.groups = in.size("n_groups", limits::kHeads);
  mamba.conv = in.size("conv_kernel", limits::kConv);
  mamba.chunk = in.size("chunk_size", limits::kPositions);
  mamba.bias = in.flag("use_bias", false);
  mamba.conv_bias = in.flag("use_conv_bias", true);
  use_mixer(draft.layer.attention, mamba);
  draft.layer.norms = 1;
  return stack(std::move(draft));
}

// Nemotron 3: squared ReLU without a gate in all experts; those of the larger models work at a latent width.
FeedForward nemotron_experts(Fields& in, const FeedForward& mlp) {
  FeedForward moe = mlp;
  moe.width = 0;
  moe.experts = in.size("n_routed_experts", limits::kExperts);
  moe.experts_per_token = in.size("num_experts_per_tok", limits::kExperts);
  moe.expert_width = in.size("moe_intermediate_size", limits::kWidth);
  moe.shared_width = in.size_or("moe_shared_expert_intermediate_size", limits::kWidth, 0, 0);
  moe.latent = in.size_or("moe_latent_size", limits::kWidth, 0, 0);
  return moe;
}

// One letter for each layer: M a mixer, - an MLP, * attention, E experts.
Architecture read_nemotron_h(Fields& in) {
  const std::string pattern = in.text("hybrid_override_pattern", "");
  Draft draft;
  draft.model.hidden = in.size("hidden_size", limits::kHidden);
  draft.depth = in.size_or("num_hidden_layers", limits::kDepth, static_cast<std::int64_t>(pattern.size()));
  draft.model.vocab = in.size("vocab_size", limits::kVocab);
  draft.model.tied_embeddings = in.flag("tie_word_embeddings", false);
  draft.model.rope = false;
  draft.model.max_positions = in.size_or("max_position_embeddings", limits::kPositions, 0);
  draft.layer.norms = 1;
  if (in.ok() && static_cast<std::int64_t>(pattern.size()) != draft.depth)
    in.fail(fmt::format("hybrid_override_pattern has {} letters; wanted one for each of the {} layers", pattern.size(),
                        draft.depth));
  Attention attention;
  attention.heads = in.size("num_attention_heads", limits::kHeads);
  attention.kv_heads = in.size("num_key_value_heads", limits::kHeads);
  attention.head_dim = in.size("head_dim", limits::kHeadDim);
  attention.rotates = false;
  attention.qkv_bias = attention.out_bias = in.flag("attention_bias", false);
  draft.model.attention_dropout = in.probability("attention_dropout", 0);
  StateSpace mamba;
  mamba.heads = in.size("mamba_num_heads", limits::kHeads);
  mamba.head_dim = in.size("mamba_head_dim", limits::kHeadDim);
  mamba.state = in.size("ssm_state_size", limits::kHeadDim);
  mamba.groups = in.size("n_groups", limits::kHeads);
  mamba.conv = in.size("conv_kernel", limits::kConv);
  mamba.chunk = in.size("chunk_size", limits::kPositions);
  mamba.bias = in.flag("mamba_proj_bias|use_bias", false);
  mamba.conv_bias = in.flag("use_conv_bias", true);
  FeedForward mlp;
  mlp.width = in.size("intermediate_size", limits::kWidth);
  mlp.gated = false;
  mlp.bias = in.flag("mlp_bias", false);
  mlp.activation = activation(in, "mlp_hidden_act", "relu2");
  const std::int64_t depths = in.size_or("num_nextn_predict_layers", limits::kMtpLayers, 0, 0);
  const std::string mtp = depths > 0 ? in.text("mtp_hybrid_override_pattern", "") : std::string();
  for (const char letter : pattern + mtp)
    if (letter != 'M' && letter != '-' && letter != '*' && letter != 'E') {
      in.fail(fmt::format("hybrid_override_pattern holds '{}'; wanted M, -, * or E", letter));
      break;
    }
  if (depths > 0 && mtp.empty())
    in.fail("num_nextn_predict_layers is given, but not mtp_hybrid_override_pattern, the layers of each");
  const bool routes = (pattern + mtp).find('E') != std::string::npos;
  const FeedForward moe = routes ? nemotron_experts(in, mlp) : FeedForward{};
  const auto make = [&](char letter, Layer& layer) {
    if (letter == 'M') {
      use_mixer(layer.attention, mamba);
    } else if (letter == '*') {
      layer.attention = attention;
    } else {
      layer.attention.kind = AttentionKind::kNone;
      layer.attention.heads = layer.attention.kv_heads = attention.heads;
      layer.attention.head_dim = attention.head_dim;
      layer.ffn = letter == 'E' ? moe : mlp;
    }
  };
  const Layer bare = draft.layer;
  Architecture model = stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    make(in.ok() ? pattern[static_cast<std::size_t>(i)] : 'M', layer);
  });
  if (!in.ok() || mtp.empty()) return model;
  model.mtp_layers = depths;
  model.mtp_repeats = in.flag("mtp_use_repeated_layer", true);
  for (const char letter : mtp) {
    Layer layer = bare;
    make(letter, layer);
    const auto known = std::find(model.kinds.begin(), model.kinds.end(), layer);
    model.mtp_kinds.push_back(static_cast<std::uint8_t>(known - model.kinds.begin()));
    if (known == model.kinds.end()) model.kinds.push_back(std::move(layer));
  }
  return model;
}

Architecture read_falcon_h1(Fields& in) {
  Draft draft = start(in, {.kv_heads = 8});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  StateSpace& mamba = draft.layer.attention.mamba;
  mamba.heads = in.size("mamba_n_heads", limits::kHeads);
  const std::int64_t inner = in.size_or("mamba_d_ssm", limits::kWidth, 2 * draft.model.hidden);
  mamba.head_dim = std::max<std::int64_t>(1, inner / mamba.heads);  // mamba_d_head says the same, or "auto"
  mamba.state = in.size("mamba_d_state", limits::kHeadDim);
  mamba.groups = in.size("mamba_n_groups", limits::kHeads);
  mamba.conv = in.size("mamba_d_conv", limits::kConv);
  mamba.chunk = in.size("mamba_chunk_size", limits::kPositions);
  mamba.conv_bias = in.flag("mamba_conv_bias", true);
  mamba.bias = in.flag("mamba_proj_bias", false);
  mamba.norm = in.flag("mamba_rms_norm", false);
  return stack(std::move(draft));
}

StateSpace bamba_mixer(Fields& in, const Draft& draft) {
  StateSpace mamba;
  mamba.heads = in.size_or("mamba_n_heads", limits::kHeads, 128);
  const double expand = in.positive_or("mamba_expand", 64, 2);
  const auto inner = static_cast<std::int64_t>(expand * static_cast<double>(draft.model.hidden));
  if (in.ok() && inner % mamba.heads != 0)
    in.fail(fmt::format("mamba_expand makes {} channels, which {} heads do not divide", inner, mamba.heads));
  mamba.head_dim = std::max<std::int64_t>(1, inner / std::max<std::int64_t>(1, mamba.heads));
  mamba.state = in.size_or("mamba_d_state", limits::kHeadDim, 256);
  mamba.groups = in.size_or("mamba_n_groups", limits::kHeads, 1);
  mamba.conv = in.size_or("mamba_d_conv", limits::kConv, 4);
  mamba.chunk = in.size_or("mamba_chunk_size", limits::kPositions, 256);
  mamba.conv_bias = in.flag("mamba_conv_bias", true);
  mamba.bias = in.flag("mamba_proj_bias", false);
  return mamba;
}

// A mixer or attention, and an MLP in every layer; attn_layer_indices names the layers with attention.
Architecture read_bamba(Fields& in) {
  Draft draft = start(in, {.kv_heads = 8, .heads = 32, .vocab = 128000});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.ffn.width = in.size_or("intermediate_size", limits::kWidth, 14336);
  draft.layer.ffn.bias = in.flag("mlp_bias", false);
  const StateSpace mamba = bamba_mixer(in, draft);
  const auto attends = in.integers("attn_layer_indices", limits::kDepth).value_or(std::vector<std::int64_t>{});
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (std::find(attends.begin(), attends.end(), i) == attends.end()) use_mixer(layer.attention, mamba);
  });
}

// Bamba's mixers with Granite's experts: what is shared is one packed MLP, and all of it where there are no experts.
// Positions are not encoded unless the file says so.
Architecture read_granite_hybrid(Fields& in) {
  Draft draft = start(in, {.heads = 32, .vocab = 32000});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.model.rope = in.text("position_embedding_type", "") == "rope";
  draft.model.attention_dropout = in.probability("attention_dropout", 0);
  FeedForward& ffn = draft.layer.ffn;
  ffn.fused_gate_up = true;
  const std::int64_t shared = in.size_or("shared_intermediate_size", limits::kWidth, 1024);
  const std::int64_t experts = in.size_or("num_local_experts", limits::kExperts, 8, 0);
  if (experts > 0) {
    set_experts(ffn, experts, in.size_or("num_experts_per_tok", limits::kExperts, 2),
                in.size_or("intermediate_size", limits::kWidth, 11008));
    ffn.shared_width = shared;
  } else {
    ffn.width = shared;
  }
  const StateSpace mamba = bamba_mixer(in, draft);
  const auto kinds = in.texts("layer_types|layers_block_type").value_or(std::vector<std::string>{});
  if (in.ok() && !kinds.empty() && static_cast<std::int64_t>(kinds.size()) != draft.depth)
    in.fail(fmt::format("layer_types has {} entries; wanted one for each of the {} layers", kinds.size(), draft.depth));
  for (const std::string& kind : kinds)
    if (kind != "mamba" && kind != "linear_attention" && kind != "attention" && kind != "full_attention") {
      in.fail(fmt::format("layer_types holds '{}'; wanted mamba or attention", kind.substr(0, 40)));
      break;
    }
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    const bool attends = in.ok() && !kinds.empty() && kinds[static_cast<std::size_t>(i)].ends_with("attention") &&
                         kinds[static_cast<std::size_t>(i)] != "linear_attention";
    if (!attends) use_mixer(layer.attention, mamba);
  });
}

// Attention of the embedding and the residual stream side by side: heads are cut from twice the hidden size, whatever
// the file says of head_dim.
SharedBlock zamba2_block(Fields& in, std::int64_t hidden) {
  SharedBlock block;
  Attention& attention = block.attention;
  attention.heads = in.size("num_attention_heads", limits::kHeads);
  attention.kv_heads = in.size_or("num_key_value_heads", limits::kHeads, attention.heads);
  attention.head_dim = divided_head_dim(in, 2 * hidden, attention.heads);
  block.count = in.size("num_mem_blocks", limits::kDepth);
  block.adapter_rank = in.size("adapter_rank", limits::kWidth);
  block.adapts_attention = in.flag("use_shared_attention_adapter", false);
  if (in.ok() && block.adapts_attention && attention.kv_heads != attention.heads)
    in.fail(
        fmt::format("use_shared_attention_adapter adds as many values to keys as to queries, but "
                    "num_key_value_heads is {} and num_attention_heads {}",
                    attention.kv_heads, attention.heads));
  FeedForward& ffn = block.ffn;
  ffn.width = in.size_or("intermediate_size", limits::kWidth, 4 * hidden);
  ffn.fused_gate_up = true;
  ffn.bias = in.flag("add_bias_linear", false);
  ffn.activation = activation(in, "hidden_act", "gelu");
  return block;
}

StateSpace zamba2_mixer(Fields& in, std::int64_t hidden) {
  StateSpace mamba;
  mamba.heads = in.size("n_mamba_heads", limits::kHeads);
  const auto inner = static_cast<std::int64_t>(in.positive_or("mamba_expand", 64, 2) * static_cast<double>(hidden));
  if (in.ok() && inner % mamba.heads != 0)
    in.fail(fmt::format("mamba_expand makes {} channels, which {} heads do not divide", inner, mamba.heads));
  mamba.head_dim = std::max<std::int64_t>(1, inner / std::max<std::int64_t>(1, mamba.heads));
  mamba.state = in.size("mamba_d_state", limits::kHeadDim);
  mamba.groups = in.size("mamba_ngroups", limits::kHeads);
  mamba.conv = in.size("mamba_d_conv", limits::kConv);
  mamba.chunk = in.size("chunk_size", limits::kPositions);
  mamba.bias = in.flag("add_bias_linear", false);
  return mamba;
}

// Every layer is a mixer; those called hybrid run a block of attention and MLP first, whose weights they share. Blocks
// take turns, each layer with adapters of its own.
Architecture read_zamba2(Fields& in) {
  Draft draft;
  draft.model.hidden = in.size("hidden_size", limits::kHidden);
  draft.depth = in.size("num_hidden_layers", limits::kDepth);
  draft.model.vocab = in.size("vocab_size", limits::kVocab);
  draft.model.tied_embeddings = in.flag("tie_word_embeddings", true);
  draft.model.rope = in.flag("use_mem_rope", false);
  draft.model.attention_dropout = in.probability("attention_dropout", 0);
  draft.model.max_positions = in.size_or("max_position_embeddings", limits::kPositions, 0);
  draft.layer.norms = 1;
  use_mixer(draft.layer.attention, zamba2_mixer(in, draft.model.hidden));
  const SharedBlock block = zamba2_block(in, draft.model.hidden);
  const auto kinds = in.texts("layers_block_type|layer_types").value_or(std::vector<std::string>{});
  if (in.ok() && static_cast<std::int64_t>(kinds.size()) != draft.depth)
    in.fail(fmt::format("layers_block_type has {} entries; wanted one for each of the {} layers", kinds.size(),
                        draft.depth));
  bool any = false;
  for (const std::string& kind : kinds) {
    any = any || kind == "hybrid";
    if (kind == "mamba" || kind == "linear_attention" || kind == "hybrid") continue;
    in.fail(fmt::format("layers_block_type holds '{}'; wanted mamba or hybrid", kind.substr(0, 40)));
    break;
  }
  if (any) draft.model.shared_block = std::make_shared<const SharedBlock>(block);
  std::int64_t seen = 0;
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (in.ok() && kinds[static_cast<std::size_t>(i)] == "hybrid")
      layer.shared_block = static_cast<int>(1 + seen++ % block.count);
  });
}

constexpr Family kHfStateSpaceFamilies[] = {
    {"mamba2", read_mamba2}, {"nemotron_h", read_nemotron_h},           {"falcon_h1", read_falcon_h1},
    {"bamba", read_bamba},   {"granitemoehybrid", read_granite_hybrid}, {"zamba2", read_zamba2}};

}  // namespace

std::span<const Family> state_space_families() { return kHfStateSpaceFamilies; }

}  // namespace plimsoll::model
