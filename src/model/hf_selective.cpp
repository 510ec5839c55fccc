// SPDX-License-Identifier: Apache-2.0
// Models whose mixer is a Mamba of the first kind: alone (Mamba, Falcon-Mamba), or in most layers of a stack with
// attention and experts (Jamba).
#include <string>

#include <fmt/format.h>

#include "model/hf_family.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

// "auto" or absent: a sixteenth of the hidden size.
std::int64_t step_rank(Fields& in, std::string_view key, std::int64_t hidden) {
  constexpr std::int64_t kChannelsOfARank = 16;
  const std::int64_t usual = (hidden + kChannelsOfARank - 1) / kChannelsOfARank;
  return !in.has(key) || in.is_text(key) ? usual : in.size(key, limits::kWidth);
}

void use_mixer(Attention& attention, StateSpace mamba) {
  attention = {};
  attention.kind = AttentionKind::kMamba2;
  mamba.heads = mamba.groups = mamba.chunk = 1;
  mamba.norm = false;
  attention.mamba = mamba;
  attention.heads = attention.kv_heads = 1;
  attention.head_dim = mamba.head_dim;
}

Architecture read_selective(Fields& in, StepNorm norm) {
  Draft draft;
  draft.model.hidden = in.size("hidden_size", limits::kHidden);
  draft.depth = in.size("num_hidden_layers", limits::kDepth);
  draft.model.vocab = in.size("vocab_size", limits::kVocab);
  draft.model.tied_embeddings = in.flag("tie_word_embeddings", true);
  draft.model.rope = false;
  if (!in.flag("residual_in_fp32", true))
    in.fail("residual_in_fp32 is false; only a residual stream in fp32 is modelled for Mamba");
  StateSpace mamba;
  // The class computes it, and a file that states it wins.
  mamba.head_dim = in.size_or("intermediate_size", limits::kHeadDim, in.size_or("expand", 64, 2) * draft.model.hidden);
  mamba.state = in.size("state_size", limits::kHeadDim);
  mamba.conv = in.size("conv_kernel", limits::kConv);
  mamba.bias = in.flag("use_bias", false);
  mamba.conv_bias = in.flag("use_conv_bias", true);
  mamba.step_rank = step_rank(in, "time_step_rank", draft.model.hidden);
  mamba.step_norm = norm;
  use_mixer(draft.layer.attention, mamba);
  draft.layer.norms = 1;
  return stack(std::move(draft));
}

Architecture read_mamba(Fields& in) { return read_selective(in, StepNorm::kNone); }
Architecture read_falcon_mamba(Fields& in) { return read_selective(in, StepNorm::kBare); }

// Which layers of a stack are of a kind: those whose number leaves `offset` when divided by `period`.
LayerRule periodic(Fields& in, const std::string& name, std::int64_t period, std::int64_t offset) {
  period = in.size_or(name + "_period", limits::kDepth, period);
  offset = in.size_or(name + "_offset", limits::kDepth, offset, 0);
  if (in.ok() && offset >= period)
    in.fail(fmt::format("{0}_offset ({1}) is not below {0}_period ({2})", name, offset, period));
  return [=](std::int64_t i) { return i % period == offset; };
}

// Positions are not encoded.
Architecture read_jamba(Fields& in) {
  Draft draft = start(in, {.kv_heads = 8});
  draft.model.rope = false;
  draft.layer.ffn.width = in.size("intermediate_size", limits::kWidth);
  FeedForward mixture = draft.layer.ffn;
  const std::int64_t experts = in.size_or("num_experts|num_local_experts", limits::kExperts, 16);
  set_experts(mixture, experts, in.size_or("num_experts_per_tok", limits::kExperts, 2), draft.layer.ffn.width);
  const LayerRule attends = periodic(in, "attn_layer", 8, 4);
  const LayerRule is_moe = periodic(in, "expert_layer", 2, 1);
  StateSpace mamba;
  mamba.head_dim = in.size_or("mamba_expand", 64, 2) * draft.model.hidden;
  mamba.state = in.size_or("mamba_d_state", limits::kHeadDim, 16);
  mamba.conv = in.size_or("mamba_d_conv", limits::kConv, 4);
  mamba.conv_bias = in.flag("mamba_conv_bias", true);
  mamba.bias = in.flag("mamba_proj_bias", false);
  mamba.step_rank = step_rank(in, "mamba_dt_rank", draft.model.hidden);
  mamba.step_norm = StepNorm::kWeighted;
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!attends(i)) use_mixer(layer.attention, mamba);
    if (experts > 1 && is_moe(i)) layer.ffn = mixture;
  });
}

constexpr Family kHfSelectiveFamilies[] = {
    {"mamba", read_mamba}, {"falcon_mamba", read_falcon_mamba}, {"jamba", read_jamba}};

}  // namespace

std::span<const Family> selective_families() { return kHfSelectiveFamilies; }

}  // namespace plimsoll::model
