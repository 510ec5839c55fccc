// SPDX-License-Identifier: Apache-2.0
// The families of Transformers 5 as data: in what their modelling code differs from Llama's. What a row means for
// memory follows from the operations that each trait stands for.
#include <iterator>

#include "step/transformers/model.h"

namespace plimsoll::step::transformers {

namespace {

struct Row {
  std::string_view model_type;
  Family family;
};

const Row kRows[] = {
    {"gpt2", {.classic = true, .conv1d = true, .named_outputs = true, .scores = Scores::kNarrow}},
    {"gpt_bigcode", {.classic = true, .named_outputs = true, .holds_triangle = true}},
    {"gptj", {.classic = true, .rotation = Rotation::kPairs, .eager = true, .scores = Scores::kWide}},
    {"gpt_neox", {.classic = true, .rotation = Rotation::kJoinBoth, .splits_heads = true}},
    {"opt", {.classic = true, .norms_sums = true, .scaled_query = true}},
    {"bert", {.norms_sums = true, .narrow_loss = true}},
    {"roberta", {.norms_sums = true, .positions_by_token = true, .narrow_loss = true}},
    {"xlm-roberta", {.norms_sums = true, .positions_by_token = true, .narrow_loss = true}},
    {"camembert", {.norms_sums = true, .positions_by_token = true, .narrow_loss = true}},
    {"distilbert", {.norms_sums = true, .keeps_attended = true, .narrow_loss = true}},
    {"bart", {.norms_sums = true, .scaled_embedding = true, .shifted_logits = true, .narrow_loss = true}},
    {"t5", {.drops_activation = true, .narrow_loss = true, .drops_output = true, .norm = NormForm::kNarrowInput}},
    {"mt5", {.drops_activation = true, .narrow_loss = true, .drops_output = true, .norm = NormForm::kNarrowInput}},
    {"vit", {.narrow_loss = true}},
    {"whisper",
     {.no_key_bias = true,
      .lays_out_heads = true,
      .slices_positions = true,
      .narrow_loss = true,
      .scaled_query = true}},
    {"modernbert", {.wide_rotation = true, .wide_inputs = true}},
    {"bloom", {.classic = true, .copies_heads = true, .eager = true, .scores = Scores::kBiased}},
    {"mamba2", {.wide_residual = true}},
    {"mamba", {.copies_shifted = true, .wide_residual = true}},
    {"falcon_mamba", {.copies_shifted = true, .wide_residual = true}},
    {"jamba", {.narrow_weights = true, .plain_weights = true}},
    {"minimax", {.normed_residual = true}},
    {"apertus", {.norms_after_heads = true}},
    {"ministral3", {.scales_places = true}},
    {"vaultgemma", {.scaled_embedding = true}},
    {"bamba", {.rotation = Rotation::kJoinBoth}},
    {"mpt", {.classic = true, .eager = true, .scores = Scores::kFilled}},
    {"falcon",
     {.classic = true, .picks_heads = true, .masks_always = true, .loose_bias = true, .scores = Scores::kNarrow}},
    {"phi", {.classic = true, .rotation = Rotation::kJoinBothHeld}},
    {"phi3", {.rotation = Rotation::kJoinEach, .slices_qkv = true}},
    {"stablelm", {.rotation = Rotation::kJoinBothHeld}},
    {"nemotron", {.rotation = Rotation::kJoinEach, .norm = NormForm::kPlusOne}},
    {"glm", {.rotation = Rotation::kJoinEach}},
    {"glm4", {.rotation = Rotation::kJoinEach}},
    {"glm4_moe", {.rotation = Rotation::kJoinEach, .wide_router = true}},
    {"gemma", {.scaled_embedding = true}},
    {"gemma2", {.scaled_embedding = true}},
    {"gemma3", {.scaled_embedding = true, .norms_after_heads = true}},
    {"gemma3_text", {.scaled_embedding = true, .norms_after_heads = true}},
    {"gemma3n_text", {.scaled_embedding = true, .norm = NormForm::kPower}},
    {"granite", {.scaled_embedding = true, .scaled_residual = true, .scaled_logits = true}},
    {"granitemoe", {.scaled_embedding = true, .scaled_residual = true, .late_softmax = true, .scaled_logits = true}},
    {"granitemoehybrid",
     {.scaled_embedding = true, .scaled_residual = true, .late_softmax = true, .scaled_logits = true}},
    {"olmo", {.wide_rotation = true, .wide_tables = true, .norm = NormForm::kBare}},
    {"olmo2", {.wide_rotation = true, .wide_tables = true, .weight_in_fp32 = true}},
    {"olmo3", {.wide_rotation = true, .wide_tables = true, .weight_in_fp32 = true}},
    {"llama4_text",
     {.norms_after_rotation = true, .rotation = Rotation::kComplex, .all_experts = true, .scaled_still = true}},
    {"llama4_vision", {.rotation = Rotation::kComplex}},
    {"llama4_vision_model", {.rotation = Rotation::kComplex}},
    {"dots1", {.wide_router = true}},
    {"exaone_moe", {.norms_after_heads = true, .wide_router = true}},
    {"glm4_moe_lite", {.wide_router = true}},
    {"ernie4_5_moe",
     {.wide_rotation = true,
      .wide_inputs = true,
      .wide_tables = true,
      .repeats_tables = true,
      .narrow_weights = true,
      .shared_first = true,
      .narrow_router = true}},
    {"hunyuan_v1_moe", {.norms_after_rotation = true, .wide_router = true, .shared_first = true}},
    {"granitemoeshared",
     {.scaled_embedding = true, .scaled_residual = true, .late_softmax = true, .scaled_logits = true}},
    {"flex_olmo",
     {.wide_rotation = true,
      .wide_tables = true,
      .weight_in_fp32 = true,
      .narrow_weights = true,
      .plain_weights = true}},
    {"olmoe", {.narrow_weights = true, .plain_weights = true}},
    {"exaone4", {.norms_after_heads = true}},
    {"hunyuan_v1_dense", {.norms_after_rotation = true}},
    {"helium", {.norm = NormForm::kWideWeight}},
    {"ernie4_5", {.wide_rotation = true, .wide_inputs = true, .wide_tables = true, .repeats_tables = true}},
    {"cohere", {.wide_rotation = true, .wide_inputs = true, .scaled_logits = true, .norm = NormForm::kCentred}},
    {"cohere2", {.wide_rotation = true, .wide_inputs = true, .scaled_logits = true, .norm = NormForm::kCentred}},
    {"dbrx", {.looped_experts = true, .norm = NormForm::kNarrowed, .clamps_qkv = true}},
    {"gpt_oss",
     {.rotation = Rotation::kHalves,
      .weight_in_fp32 = true,
      .narrow_weights = true,
      .late_softmax = true,
      .eager = true,
      .scores = Scores::kNarrow}},
    {"qwen2_vl_text", {.tables_by_sequence = true, .cuts_tables = true}},
    {"qwen2_5_vl_text", {.tables_by_sequence = true, .cuts_tables = true}},
    {"qwen3_vl_text", {.tables_by_sequence = true}},
    {"qwen2_moe", {.narrow_weights = true}},
    {"qwen3_moe", {.narrow_weights = true}},
    {"qwen3_next", {.rotation = Rotation::kJoinBoth, .narrow_weights = true}},
    {"qwen3_5_text", {.rotation = Rotation::kJoinBoth}},
    {"qwen3_5_moe_text", {.rotation = Rotation::kJoinBoth}},
    {"deepseek_v2", {.wide_router = true}},
    {"deepseek_v3", {.wide_router = true}},
    {"deepseek_v32", {.wide_router = true}},
    {"kimi_k2", {.wide_router = true}},
    {"glm_moe_dsa", {.wide_router = true}},
};

}  // namespace

Family family_of(const job::Job& job) {
  for (const Row& row : kRows)
    if (row.model_type == job.model.model_type) return row.family;
  return {};
}

}  // namespace plimsoll::step::transformers
