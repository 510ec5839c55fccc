// SPDX-License-Identifier: Apache-2.0
// What one transformer layer keeps from forward to backward, tensor by tensor as the facts sum it up. Every
// case also checks that the backward frees it all (kept_by_a_layer).
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::step {
namespace {

using test::completed;
using test::kept_by_a_layer;
using test::Letters;
using test::letters_of_llama_70b;
using test::llama_70b;
using test::with_selective;
using test::with_transformer_engine;

// Facts megatron-anatomy.md 2.1, with the numbers of its worked example (section 9).
TEST(LocalLayer, keeps_the_thirteen_tensors_of_the_recordings) {
  const Letters l = letters_of_llama_70b();
  EXPECT_EQ(l.H(), 16 * kMiB);
  EXPECT_EQ(l.QKV(), 20 * kMiB);
  EXPECT_EQ(l.Q(), 16 * kMiB);
  EXPECT_EQ(l.KV(), 2 * kMiB);
  EXPECT_EQ(l.F1(), 112 * kMiB);
  EXPECT_EQ(l.F2(), 56 * kMiB);
  EXPECT_EQ(l.rope(), 4 * kMiB);
  EXPECT_EQ(kept_by_a_layer(completed(llama_70b())), l.A());
}

TEST(LocalLayer, without_sequence_parallelism_hidden_states_are_whole) {
  job::Job job = llama_70b();
  job.parallel.sequence_parallel = false;
  Letters l = letters_of_llama_70b();
  l.ts = 1;
  EXPECT_EQ(kept_by_a_layer(completed(job)), l.A());
}

TEST(LocalLayer, rope_tables_do_not_grow_with_the_micro_batch) {
  job::Job job = llama_70b();
  job.batch.micro_batch = 2;
  job.batch.global_batch = 64;
  Letters l = letters_of_llama_70b();
  l.b = 2;
  EXPECT_EQ(kept_by_a_layer(completed(job)), l.A());
}

TEST(LocalLayer, multi_head_attention_on_one_gpu_sums_to_the_formula) {
  job::Job job = llama_70b();
  job.model.hidden = 2048;
  job.model.kinds[0].attention.heads = job.model.kinds[0].attention.kv_heads = 16;
  job.model.kinds[0].ffn.width = 5632;
  job.parallel = {};
  job.cluster.gpus = 1;
  job.batch.global_batch = 4;
  const Letters l{2048, 5632, 16, 16, 128, 4096, 1, 1, 1};
  EXPECT_EQ(kept_by_a_layer(completed(job)), l.A());
}

// Facts megatron-anatomy.md 2.3.
TEST(SelectiveRecompute, core_attn_drops_only_the_log_sum_exp) {
  const Letters l = letters_of_llama_70b();
  job::RecomputeModules modules;
  modules.core_attn = true;
  EXPECT_EQ(kept_by_a_layer(completed(with_selective(llama_70b(), modules))), l.A() - l.LSE());
}

TEST(SelectiveRecompute, mlp_drops_both_of_its_activations_and_keeps_the_norm_output) {
  const Letters l = letters_of_llama_70b();
  job::RecomputeModules modules;
  modules.mlp = true;
  EXPECT_EQ(kept_by_a_layer(completed(with_selective(llama_70b(), modules))), l.A() - l.F1() - l.F2());
}

TEST(SelectiveRecompute, layernorm_drops_both_norm_outputs_and_statistics) {
  const Letters l = letters_of_llama_70b();
  job::RecomputeModules modules;
  modules.layernorm = true;
  EXPECT_EQ(kept_by_a_layer(completed(with_selective(llama_70b(), modules))), l.A() - 2 * l.H() - l.stats());
}

TEST(SelectiveRecompute, combinations_drop_the_sum) {
  const Letters l = letters_of_llama_70b();
  job::RecomputeModules modules;
  modules.core_attn = modules.mlp = modules.layernorm = true;
  EXPECT_EQ(kept_by_a_layer(completed(with_selective(llama_70b(), modules))),
            l.A() - l.LSE() - l.F1() - l.F2() - 2 * l.H() - l.stats());
}

// Facts megatron-memory.md 4.1: T * [8h/ts + (4ad + 4kd + 4a)/t + 6f/t + 8/ts].
std::int64_t te_dense(const Letters& l) {
  return l.T() * (8 * l.h / l.ts + (4 * l.a * l.d + 4 * l.k * l.d + 4 * l.a) / l.t + 6 * l.f / l.t) + l.stats();
}

TEST(TransformerEngineLayer, frees_the_packed_qkv_and_keeps_no_rope_tables) {
  const job::Job job = completed(with_transformer_engine(llama_70b()));
  EXPECT_EQ(kept_by_a_layer(job), te_dense(letters_of_llama_70b()));
}

TEST(TransformerEngineLayer, keeps_34_bytes_per_hidden_element_in_the_classic_case) {
  job::Job job = with_transformer_engine(llama_70b());
  job.parallel = {};
  job.cluster.gpus = 1;
  job.batch.global_batch = 1;
  job.model.hidden = 4096;
  job.model.norm = model::NormKind::kLayer;
  job.model.hidden_dropout = 0.1;
  model::Layer& layer = job.model.kinds[0];
  layer.attention.heads = layer.attention.kv_heads = 32;
  layer.ffn.width = 4 * 4096;
  layer.ffn.gated = false;
  layer.ffn.activation = model::Activation::kGelu;
  // 34h per token, and besides: log-sum-exp 4a, LayerNorm statistics 8 per norm.
  EXPECT_EQ(kept_by_a_layer(completed(job)), 4096 * (34 * 4096 + 4 * 32 + 16));
}

TEST(TransformerEngineLayer, flash_attention_keeps_one_more_output_above_one_sequence) {
  job::Job job = with_transformer_engine(llama_70b());
  job.batch.micro_batch = 2;
  job.batch.global_batch = 64;
  Letters l = letters_of_llama_70b();
  l.b = 2;
  EXPECT_EQ(kept_by_a_layer(completed(job)), te_dense(l) + l.Q());
  job.kernels.attention = job::AttentionBackend::kFused;
  EXPECT_EQ(kept_by_a_layer(completed(job)), te_dense(l)) << "cuDNN works on the layout as it is";
}

TEST(TransformerEngineLayer, an_unfused_gated_activation_keeps_the_activated_half) {
  job::Job job = with_transformer_engine(llama_70b());
  job.kernels.bias_activation_fusion = false;
  const Letters l = letters_of_llama_70b();
  EXPECT_EQ(kept_by_a_layer(completed(job)), te_dense(l) + l.F2());
}

TEST(TransformerEngineLayer, query_and_key_norms_keep_their_inputs) {
  job::Job job = with_transformer_engine(llama_70b());
  job.model.kinds[0].attention.qk_norm = model::QkNorm::kPerHead;
  const Letters l = letters_of_llama_70b();
  const std::int64_t statistics = 4 * (l.a + l.k) / l.t * l.T();
  EXPECT_EQ(kept_by_a_layer(completed(job)), te_dense(l) + l.Q() + l.KV() + statistics);
}

TEST(TransformerEngineLayer, layernorm_recompute_does_nothing_in_a_dense_layer) {
  job::RecomputeModules modules;
  modules.layernorm = true;
  const job::Job job = completed(with_selective(with_transformer_engine(llama_70b()), modules));
  EXPECT_EQ(kept_by_a_layer(job), te_dense(letters_of_llama_70b()));
}

TEST(TransformerEngineLayer, mlp_recompute_also_drops_the_fused_norm) {
  job::RecomputeModules modules;
  modules.mlp = true;
  const Letters l = letters_of_llama_70b();
  const job::Job job = completed(with_selective(with_transformer_engine(llama_70b()), modules));
  EXPECT_EQ(kept_by_a_layer(job), te_dense(l) - l.F1() - l.F2() - l.H() - l.stats() / 2);
}

TEST(UnfusedAttention, keeps_two_bytes_per_score_and_five_with_dropout) {
  job::Job job = with_transformer_engine(llama_70b());
  job.kernels.attention = job::AttentionBackend::kUnfused;
  const Letters l = letters_of_llama_70b();
  const std::int64_t scores = l.a / l.t * l.s * l.s;
  EXPECT_EQ(kept_by_a_layer(completed(job)), te_dense(l) - l.LSE() + 2 * scores);
  job.model.attention_dropout = 0.1;
  EXPECT_EQ(kept_by_a_layer(completed(job)), te_dense(l) - l.LSE() + 5 * scores);
  job::RecomputeModules modules;
  modules.core_attn = true;
  EXPECT_EQ(kept_by_a_layer(completed(with_selective(job, modules))), te_dense(l) - l.LSE());
}

// Facts megatron-memory.md 4.2.
TEST(Fp8Layer, saves_linear_inputs_in_one_byte_and_one_copy_of_the_attention_output) {
  job::Job job = with_transformer_engine(llama_70b());
  job.precision.fp8 = job::Fp8Recipe::kTensorwise;
  const Letters l = letters_of_llama_70b();
  const std::int64_t per_token = 6 * l.h / l.ts + (2 * (l.a + 2 * l.k) * l.d + 3 * l.a * l.d + 4 * l.a + 5 * l.f) / l.t;
  EXPECT_EQ(kept_by_a_layer(completed(job)), l.T() * per_token + l.stats());
}

// Facts megatron-memory.md 8: quantised copies leave the GPU with the rest.
TEST(LayerOffload, only_statistics_and_the_log_sum_exp_stay) {
  job::Job job = with_transformer_engine(llama_70b());
  const Letters l = letters_of_llama_70b();
  const auto left = [](const job::Job& asked) {
    const job::Job done = completed(asked);
    return kept_by_a_layer(done, done.model.kinds.front(), megatron::OffloadScope::kLayer);
  };
  EXPECT_EQ(left(job), l.LSE() + l.stats());
  job.precision.fp8 = job::Fp8Recipe::kTensorwise;
  EXPECT_EQ(left(job), l.LSE() + l.stats());
}

TEST(Fp8Layer, block_scales_of_mxfp8_add_a_thirty_second) {
  job::Job job = with_transformer_engine(llama_70b());
  job.precision.fp8 = job::Fp8Recipe::kTensorwise;
  const std::int64_t per_tensor = kept_by_a_layer(completed(job));
  job.precision.fp8 = job::Fp8Recipe::kMxfp8;
  const Letters l = letters_of_llama_70b();
  const std::int64_t quantised = l.T() * (2 * l.h / l.ts + (l.a * l.d + l.f) / l.t);
  EXPECT_EQ(kept_by_a_layer(completed(job)), per_tensor + quantised / 32);
}

TEST(Fp8Layer, nvfp4_saves_nine_sixteenths_of_a_byte) {
  job::Job job = with_transformer_engine(llama_70b());
  job.cluster.gpu = cluster::find_gpu("gb200").value();
  job.precision.fp4 = true;
  const Letters l = letters_of_llama_70b();
  const std::int64_t quantised = l.T() * (2 * l.h / l.ts + (l.a * l.d + l.f) / l.t);
  const std::int64_t as_bf16 = 2 * l.H() + l.F2();  // what bf16 saves in their place, without the copy
  EXPECT_EQ(kept_by_a_layer(completed(job)), te_dense(l) - as_bf16 + quantised * 9 / 16);
}

struct MoeCase {
  std::int64_t experts = 8, k = 2, width = 4096;
};

job::Job moe_job(const MoeCase& c) {
  job::Job job = with_transformer_engine(llama_70b());
  job.parallel.expert = 2;
  job.moe.grouped_gemm = true;
  model::FeedForward& ffn = job.model.kinds[0].ffn;
  ffn.width = 0;
  ffn.experts = c.experts;
  ffn.experts_per_token = c.k;
  ffn.expert_width = c.width;
  return job;
}

// Facts megatron-memory.md 4.6: with et = t and SP, R = T * K.
TEST(MoeLayer, keeps_the_routed_tokens_and_both_expert_activations) {
  const MoeCase c;
  const Letters l = letters_of_llama_70b();
  const std::int64_t attention = te_dense(l) - l.F1() - l.F2();
  const std::int64_t R = l.T() * c.k;
  const std::int64_t experts = R * (2 * l.h + 6 * c.width / l.t + 4);
  const std::int64_t router = (3 * 2 + 1) * c.experts * l.T() / l.ts;  // logits, scores, probabilities in bf16; map
  EXPECT_EQ(kept_by_a_layer(completed(moe_job(c))), attention + experts + router + 8 * R);
}

TEST(MoeLayer, one_expert_tensor_rank_gets_fewer_tokens_and_wider_experts) {
  const MoeCase c;
  job::Job job = moe_job(c);
  job.parallel.expert_tensor = 1;
  const Letters l = letters_of_llama_70b();
  const std::int64_t R = l.T() / l.ts * c.k;
  const std::int64_t experts = R * (2 * l.h + 6 * c.width + 4);
  const std::int64_t router = 7 * c.experts * l.T() / l.ts;
  EXPECT_EQ(kept_by_a_layer(completed(job)), te_dense(l) - l.F1() - l.F2() + experts + router + 8 * R);
}

TEST(MoeLayer, an_imbalance_multiplies_what_lands_on_the_rank) {
  const MoeCase c;
  const std::int64_t balanced = kept_by_a_layer(completed(moe_job(c)));
  job::Job job = moe_job(c);
  job.moe.imbalance = 1.5;
  const Letters l = letters_of_llama_70b();
  const std::int64_t more = l.T() * c.k / 2;
  EXPECT_EQ(kept_by_a_layer(completed(job)) - balanced, more * (2 * l.h + 6 * c.width / l.t + 4 + 8));
}

TEST(MoeLayer, a_capacity_factor_limits_the_imbalance_and_padding_fixes_it) {
  const MoeCase c;
  const std::int64_t balanced = kept_by_a_layer(completed(moe_job(c)));
  job::Job job = moe_job(c);
  job.moe.imbalance = 3;
  job.moe.capacity_factor = 1.0;
  EXPECT_EQ(kept_by_a_layer(completed(job)), balanced);
  job.moe.imbalance = 1;
  job.moe.capacity_factor = 2.0;
  EXPECT_EQ(kept_by_a_layer(completed(job)), balanced);
  job.moe.pad_to_capacity = true;
  EXPECT_GT(kept_by_a_layer(completed(job)), balanced);
}

TEST(MoeLayer, shared_experts_add_three_widths_per_token) {
  const MoeCase c;
  const std::int64_t without = kept_by_a_layer(completed(moe_job(c)));
  job::Job job = moe_job(c);
  job.model.kinds[0].ffn.shared_width = 2048;
  const Letters l = letters_of_llama_70b();
  EXPECT_EQ(kept_by_a_layer(completed(job)) - without, 6 * 2048 / l.t * l.T());
}

TEST(MoeLayer, moe_act_drops_the_activation_output_and_moe_everything_behind_the_norm) {
  const MoeCase c;
  const std::int64_t plain = kept_by_a_layer(completed(moe_job(c)));
  const Letters l = letters_of_llama_70b();
  job::RecomputeModules act;
  act.moe_act = true;
  EXPECT_EQ(plain - kept_by_a_layer(completed(with_selective(moe_job(c), act))), 2 * c.width / l.t * l.T() * c.k);
  job::RecomputeModules all;
  all.moe = true;
  EXPECT_EQ(kept_by_a_layer(completed(with_selective(moe_job(c), all))), te_dense(l) - l.F1() - l.F2());
}

// Facts megatron-anatomy.md 2.4: the recorded local layer with degenerate routing, R = T * K * e.
TEST(MoeLayer, the_recorded_local_layer_sorts_with_int64_over_the_whole_map) {
  const MoeCase c;
  job::Job job = moe_job(c);
  job.kernels.implementation = job::Implementation::kLocal;
  job.kernels.rope_fusion = false;
  job.moe.grouped_gemm = false;
  job.moe.every_peer_routes_here = true;
  const Letters l = letters_of_llama_70b();
  const std::int64_t R = l.T() / l.ts * c.k * 2 * l.t;  // EP 2, expert TP 4
  const std::int64_t router = (5 * c.experts + 8 * c.k) * l.T() / l.ts;
  EXPECT_EQ(kept_by_a_layer(completed(job)),
            l.A() - l.F1() - l.F2() + R * (2 * l.h + 6 * c.width / l.t + 2) + 8 * c.experts * l.T() / l.ts + router);
}

// Facts megatron-memory.md 4.5.
struct MlaCase {
  std::int64_t r_q = 1536, r_kv = 512, d_n = 128, d_r = 64, d_v = 128, heads = 128;
};

job::Job mla_job(const MlaCase& c) {
  job::Job job = with_transformer_engine(llama_70b());
  model::Attention& a = job.model.kinds[0].attention;
  a.kind = model::AttentionKind::kMla;
  a.heads = a.kv_heads = c.heads;
  a.q_lora_rank = c.r_q;
  a.kv_lora_rank = c.r_kv;
  a.qk_nope_dim = c.d_n;
  a.qk_rope_dim = c.d_r;
  a.v_head_dim = c.d_v;
  return job;
}

std::int64_t mla_kept(const MlaCase& c, const Letters& l) {
  const std::int64_t stored = 2 * c.r_q + 2 * c.r_q + 2 * (c.r_kv + c.d_r) + 2 * c.r_kv;
  const std::int64_t heads = 2 * c.heads * (2 * (c.d_n + c.d_r) + 2 * c.d_v) + 4 * c.heads;
  return 4 * l.H() + l.T() * (stored / l.ts + 2 * c.d_r + heads / l.t) + l.F1() + l.F2() + l.stats();
}

TEST(MlaLayer, keeps_latents_and_the_expanded_heads) {
  const MlaCase c;
  EXPECT_EQ(kept_by_a_layer(completed(mla_job(c))), mla_kept(c, letters_of_llama_70b()));
}

TEST(MlaLayer, without_a_query_latent_its_terms_go) {
  MlaCase c;
  c.r_q = 0;
  EXPECT_EQ(kept_by_a_layer(completed(mla_job(c))), mla_kept(c, letters_of_llama_70b()));
}

TEST(MlaLayer, mla_up_proj_recompute_drops_heads_and_latent_norms) {
  const MlaCase c;
  const Letters l = letters_of_llama_70b();
  job::RecomputeModules modules;
  modules.mla_up_proj = true;
  const std::int64_t dropped =
      l.T() * (2 * c.heads * (2 * (c.d_n + c.d_r) + c.d_v) / l.t + (2 * c.r_q + 2 * c.r_kv) / l.ts);
  EXPECT_EQ(kept_by_a_layer(completed(with_selective(mla_job(c), modules))), mla_kept(c, l) - dropped);
}

}  // namespace
}  // namespace plimsoll::step
