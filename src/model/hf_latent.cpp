// SPDX-License-Identifier: Apache-2.0
// Models with multi-head latent attention: DeepSeek V2, V3, V3.2, Kimi K2 and GLM-5 (facts models.md,
// Families). head_dim and num_key_value_heads in these files are not used by the attention.
#include "model/hf_family.h"
#include "model/hf_moe.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

Draft start_latent(Fields& in) {
  Draft draft = start(in, {.head_dim = 1});
  Attention& attention = draft.layer.attention;
  attention.kind = AttentionKind::kMla;
  // Absent means the class default; null means that the query is projected directly.
  attention.q_lora_rank = in.is_null("q_lora_rank") ? 0 : in.size_or("q_lora_rank", limits::kWidth, 1536);
  attention.kv_lora_rank = in.size("kv_lora_rank", limits::kWidth);
  attention.qk_nope_dim = in.size("qk_nope_head_dim", limits::kHeadDim);
  attention.qk_rope_dim = in.size("qk_rope_head_dim", limits::kHeadDim);
  attention.v_head_dim = in.size("v_head_dim", limits::kHeadDim);
  attention.kv_heads = attention.heads;
  attention.head_dim = attention.qk_nope_dim + attention.qk_rope_dim;
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  return draft;
}

Architecture read_deepseek(Fields& in) { return stack_routed(in, start_latent(in)); }

Architecture read_indexed(Fields& in) {
  Draft draft = start_latent(in);
  draft.layer.attention.index_heads = in.size("index_n_heads", limits::kHeads);
  draft.layer.attention.index_head_dim = in.size("index_head_dim", limits::kHeadDim);
  return stack_routed(in, std::move(draft));
}

constexpr Family kHfLatentFamilies[] = {
    {"deepseek_v2", read_deepseek},   {"deepseek_v3", read_deepseek}, {"kimi_k2", read_deepseek},
    {"glm4_moe_lite", read_deepseek}, {"deepseek_v32", read_indexed}, {"glm_moe_dsa", read_indexed},
};

}  // namespace

std::span<const Family> latent_families() { return kHfLatentFamilies; }

}  // namespace plimsoll::model
