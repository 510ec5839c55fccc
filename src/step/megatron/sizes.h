// SPDX-License-Identifier: Apache-2.0
// Bytes of every tensor that one Megatron rank makes in one layer, computed once per job and layer kind.
// Letters follow facts megatron-anatomy.md 0: H is one hidden state as stored between modules (divided
// by TP under sequence parallelism), HF the full one.
#pragma once

#include <cstdint>

#include "job/job.h"
#include "step/megatron/softmax.h"

namespace plimsoll::step::megatron {

// How the layers are implemented and which savings are on: what the builders branch on.
struct Choices {
  bool te = true;        // Transformer Engine; false: Megatron's local modules
  bool gathers = false;  // sequence parallelism with TP > 1: hidden states are gathered for GEMMs
  bool unfused_attention = false;
  bool rope = false;
  bool fused_rope = true;
  bool wgrad_fusion = true;  // weight gradients accumulate straight into the buffer
  bool bias_dropout_fusion = true;
  bool compiled_kernels = false;  // torch.compile autotunes them in the first step
  job::RecomputeModules recompute;
  job::OffloadModules offload;
  std::int64_t smallest_offloaded = 0;  // bytes

  friend bool operator==(const Choices&, const Choices&) = default;
};

// Attention of a decoder's tokens to the encoder's output; q == 0: the layer has none.
struct CrossSizes {
  std::int64_t q = 0;
  std::int64_t kv = 0;  // keys and values of the encoder's tokens, one tensor
  std::int64_t out = 0;
  std::int64_t lse = 0;
  std::int64_t scores = 0;
  std::int64_t softmax = 0;  // as in LayerSizes
  std::int64_t scores_mask = 0;
  std::int64_t scores_dropped = 0;
  std::int64_t scratch = 0;
  std::int64_t context = 0;        // the encoder's output as stored
  std::int64_t context_full = 0;   // gathered under sequence parallelism
  std::int64_t context_saved = 0;  // what each layer keeps of it for its projection; 0: the output itself
  std::int64_t w_q = 0;
  std::int64_t w_kv = 0;
  std::int64_t w_proj = 0;

  [[nodiscard]] ScoreSizes score_sizes() const { return {scores, softmax, scores_mask, scores_dropped}; }
  friend bool operator==(const CrossSizes&, const CrossSizes&) = default;
};

// A Mamba-2 mixer (facts megatron-memory.md 4.10); projected == 0: the layer has none.
struct MixerSizes {
  std::int64_t projected = 0;     // gate, channels, B, C and steps: the input projection's output
  bool transposes = false;        // more than one sequence: [s, b] is copied to [b, s] and back
  std::int64_t convolved = 0;     // channels, B and C
  std::int64_t channels = 0;      // one 16-bit value for each channel: scan output, gated output, normed output
  std::int64_t steps = 0;         // fp32 steps; their cumulated decays are as large
  std::int64_t states = 0;        // fp32 states of all blocks
  std::int64_t last = 0;          // fp32 states after the last block
  std::int64_t products = 0;      // fp32 C B^T of all blocks
  std::int64_t keys = 0;          // fp32 gradient of B, or of C
  std::int64_t stats = 0;         // of the gated norm
  std::int64_t normed_saved = 0;  // quantised input of the output projection; 0: the normed output itself
  std::int64_t w_in = 0;
  std::int64_t w_out = 0;

  friend bool operator==(const MixerSizes&, const MixerSizes&) = default;
};

struct LayerSizes {
  CrossSizes cross;
  MixerSizes mixer;
  bool has_mixer = true;         // attention or a mixer, and its norm
  bool has_feed_forward = true;  // MLP or experts, and their norm
  // Hidden states
  std::int64_t h = 0;            // H
  std::int64_t hf = 0;           // HF
  std::int64_t norm1_saved = 0;  // norm output as the following linear saves it (1 byte each under FP8)
  std::int64_t norm2_saved = 0;
  std::int64_t stats = 0;         // per norm
  std::int64_t dropout_mask = 0;  // after each block; 0 without dropout
  std::int64_t norm_weight = 0;   // bytes of a norm's weight gradient
  // Attention
  bool mla = false;
  std::int64_t qkv = 0;  // packed projection output
  std::int64_t q = 0;
  std::int64_t k = 0;
  std::int64_t v = 0;
  std::int64_t out = 0;        // attention output
  std::int64_t out_saved = 0;  // extra copy saved for the output projection (FP8)
  std::int64_t out_copy = 0;   // FlashAttention in [s,b] layout with b > 1 keeps one more
  std::int64_t lse = 0;
  std::int64_t query_copy = 0;     // grouped queries gathered into one tensor (local, kv groups per rank > 1)
  std::int64_t qk_norm_input = 0;  // q and k before their norms
  std::int64_t qk_norm_stats = 0;
  std::int64_t rope_half = 0;    // cos or sin in 16 bits: 2*s*d
  std::int64_t scores = 0;       // unfused: 2 bytes per score
  std::int64_t softmax = 0;      // kept in fp32 beside them; 0: in their own type, in their place
  std::int64_t scores_mask = 0;  // unfused with dropout: 1 byte per score
  std::int64_t scores_dropped = 0;
  std::int64_t attention_scratch = 0;  // backward: fp32 dq, expanded dk and dv, row sums
  std::int64_t cp_buffer = 0;          // context parallelism: K,V in flight or gathered
  std::int64_t gate = 0;               // attention output gate and pre-gate output
  std::int64_t w_qkv = 0;              // weight-gradient bytes
  std::int64_t w_proj = 0;
  // MLA
  std::int64_t q_latent = 0;
  std::int64_t kv_latent = 0;
  std::int64_t kv_latent_norm = 0;
  std::int64_t k_rope = 0;
  std::int64_t w_down = 0;
  // Dense MLP
  std::int64_t fc1 = 0;
  std::int64_t fc1_saved = 0;  // as kept for the activation's backward (FP8 input store halves it)
  std::int64_t act = 0;        // computed
  std::int64_t act_saved = 0;  // as kept for fc2
  std::int64_t glu_extra = 0;  // unfused gated activation keeps the activated half too
  std::int64_t w_fc1 = 0;
  std::int64_t w_fc2 = 0;
  // Mixture of experts; experts == 0: dense
  std::int64_t experts = 0;       // local experts
  std::int64_t experts_used = 0;  // of them, with tokens
  bool grouped = true;
  bool sorted = true;             // tokens are sorted by local expert (more than one local expert)
  std::int64_t permuted = 0;      // tokens copied once per chosen expert, before dispatch
  std::int64_t routed = 0;        // 2hR: tokens that land on the rank
  std::int64_t routed_saved = 0;  // as kept for fc1 (FP8: 1 byte)
  std::int64_t expert_fc1 = 0;
  std::int64_t expert_act = 0;
  std::int64_t expert_act_saved = 0;
  std::int64_t expert_act_extra = 0;  // unfused activation, before the probabilities multiply
  std::int64_t probs = 0;
  std::int64_t router_kept = 0;   // logits, scores, maps
  std::int64_t sort_index = 0;    // 8*E*T: int64 index over the routing map
  std::int64_t latent = 0;        // tokens at the experts' width, where they have one of their own
  std::int64_t latent_saved = 0;  // hidden states as kept for the projection down
  std::int64_t latent_out = 0;    // combined tokens as kept for the projection back
  std::int64_t w_latent = 0;      // of each of the two projections
  std::int64_t shared_fc1 = 0;
  std::int64_t shared_act = 0;
  std::int64_t gathered_tokens = 0;  // allgather dispatcher
  std::int64_t w_expert_fc1 = 0;     // one expert
  std::int64_t w_expert_fc2 = 0;
  std::int64_t w_shared_fc1 = 0;
  std::int64_t w_shared_fc2 = 0;

  [[nodiscard]] ScoreSizes score_sizes() const { return {scores, softmax, scores_mask, scores_dropped}; }
  friend bool operator==(const LayerSizes&, const LayerSizes&) = default;
};

// Outside the layers.
struct EndSizes {
  std::int64_t h = 0;
  std::int64_t hf = 0;
  std::int64_t stats = 0;
  std::int64_t norm_weight = 0;
  std::int64_t tokens = 0;          // int64 ids of a micro-batch: 8T
  std::int64_t positions = 0;       // 8s
  std::int64_t attention_mask = 0;  // b*s*s from the data loader
  std::int64_t masked_ids = 0;      // 8T with TP > 1, kept per in-flight micro-batch
  std::int64_t embedding_mask = 0;  // dropout
  std::int64_t embedding_scratch = 0;
  std::int64_t logits = 0;       // 16-bit LG (or fp32)
  std::int64_t logits_fp32 = 0;  // 2 LG
  std::int64_t w_head = 0;
  std::int64_t w_embedding = 0;
  std::int64_t w_positions = 0;
  std::int64_t w_mtp_projection = 0;
  std::int64_t loss_small = 0;   // 4T: one fp32 per token
  std::int64_t token_types = 0;  // 8T: BERT's second ids, whose rows are added
  bool masked_head = false;      // a dense layer, its activation and a norm before the output layer
  std::int64_t w_transform = 0;
  std::int64_t rope_table = 0;  // per chunk
  std::int64_t autotune = 0;    // L2 flush buffer
  bool tp = false;              // TP > 1
  bool tied_here = false;       // head and embedding are one tensor (p = 1)
  job::LossKind loss = job::LossKind::kUnfused;

  friend bool operator==(const EndSizes&, const EndSizes&) = default;
};

[[nodiscard]] Choices choices_of(const job::Job& job);
[[nodiscard]] LayerSizes layer_sizes(const job::Job& job, const model::Layer& layer, bool in_bf16);
[[nodiscard]] EndSizes end_sizes(const job::Job& job);
// The job as the decoder of an encoder-decoder model sees it: with the decoder's length.
[[nodiscard]] job::Job at_decoder(const job::Job& job);

}  // namespace plimsoll::step::megatron
