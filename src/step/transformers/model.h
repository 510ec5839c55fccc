// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model as this rank runs it: its weights, which weight each layer's modules use, and the
// choices that decide what its forward code does (facts other-frameworks-memory.md 2.2, 2.3, 3).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"
#include "job/pipeline_layout.h"
#include "step/transformers/graph.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

// Weight indices; -1: the module has none.
struct LinearIds {
  std::int32_t w = -1;
  std::int32_t bias = -1;
  std::int32_t lora_a = -1;
  std::int32_t lora_b = -1;
  std::int32_t lora_bias = -1;  // of the second matrix
  std::int32_t magnitude = -1;  // DoRA
};
struct NormIds {
  std::int32_t w = -1;
  std::int32_t bias = -1;
};

// A state-space mixer.
struct MambaIds {
  LinearIds in, out;
  std::int32_t conv = -1;
  std::int32_t conv_bias = -1;
  std::int32_t dt_bias = -1;
  std::int32_t a_log = -1;
  std::int32_t skip = -1;
  NormIds norm;
  // Of the first kind: the projection to steps, B and C, that from a few numbers to a step of every channel, and norms.
  LinearIds mix;
  std::int32_t steps = -1;
  NormIds step_norms[3];
};

// A block that several layers share, with what the layer has of its own: adapters of queries, keys, values and the
// packed product, and the product that leads to the layer's mixer.
struct BlockIds {
  NormIds norm[2];
  LinearIds q, k, v, o, gate_up, down;
  std::array<std::array<LinearIds, 2>, 4> adapters;
  LinearIds joint;
};

// What a layer of several residual streams has beside attention and MLP.
struct StreamIds {
  LinearIds router, correction, prediction;
  LinearIds laurel_down, laurel_up;
  LinearIds gate, up;  // of the layer's own embedding
  std::int32_t scale = -1;
  NormIds router_norm, laurel_norm, layer_norm;
};

// And what leads to the streams and from them.
struct StreamEnds {
  std::int32_t table = -1;  // a row per word for all layers
  LinearIds project;
  NormIds norm;
  std::vector<LinearIds> widen, narrow;
};

struct LayerIds {
  BlockIds block;
  StreamIds streams;
  MambaIds mamba;
  LinearIds cross_q, cross_k, cross_v, cross_o;  // attention to the encoder's output
  NormIds cross_norm;
  NormIds norm[4];  // before attention, before MLP; with four norms: in, after attention, before MLP, after MLP
  LinearIds q, k, v, o, qkv;
  LinearIds q_down, kv_down;  // MLA
  LinearIds decays;           // delta net: decay and step of every head
  NormIds q_norm, k_norm;     // per head or over all heads; MLA: of the latents
  LinearIds gate, up, gate_up, down;
  LinearIds gate_out;                 // lightning attention: on its output
  std::int32_t slopes[2] = {-1, -1};  // of the activation (Apertus)
  LinearIds router;
  std::int32_t experts_up = -1;
  std::int32_t experts_up_bias = -1;
  std::int32_t experts_down = -1;
  std::int32_t experts_down_bias = -1;
  LinearIds shared_gate, shared_up, shared_packed, shared_down, shared_switch;
  std::int32_t sinks = -1;
  std::int32_t first = 0;  // weights [first, last) belong to the layer
  std::int32_t last = 0;
};

// How rotated and still parts of a head are joined again.
enum class Rotation : std::uint8_t {
  kWhole,         // the whole head turns (Llama)
  kJoinEach,      // query, then key, even where nothing stands still (Phi-3)
  kJoinBoth,      // after both have turned (GPT-NeoX)
  kJoinBothHeld,  // as before, and the attention function still holds the parts (Phi-2)
  kHalves,        // the two halves turn apart and are joined (gpt-oss)
  kPairs,         // tables are gathered and repeated in every layer, keys turn first (GPT-J)
  kComplex,       // as complex numbers in fp32 (Llama 4)
};

// Where queries and keys are converted to fp32 for their rotation.
enum class Widening : std::uint8_t {
  kNone,
  kBefore,   // both, before any of them turns (Command-R)
  kEachUse,  // for each of the two products anew (ModernBERT)
  kHalves,   // for the one product, and the swapped halves for the other (ERNIE 4.5)
};

// How attention without a fused kernel makes probabilities of scores.
enum class Scores : std::uint8_t {
  kStandard,  // scaled, masked, softmax in fp32, converted back
  kNarrow,    // softmax in the dtype of the scores (GPT-2 outside autocast, Falcon)
  kBiased,    // one product adds scaled scores to the biases of positions (BLOOM)
  kFilled,    // biases of positions are added, masked scores are filled (MPT)
  kWide,      // queries and keys are converted to fp32 first (GPT-J)
};

// Norms that are neither one kernel nor Llama's chain.
enum class NormForm : std::uint8_t {
  kUsual,
  kCentred,      // LayerNorm as a chain of operations in fp32 (Command-R)
  kPlusOne,      // LayerNorm whose weight is shifted by one and that autocast runs in 16 bits (Nemotron)
  kBare,         // LayerNorm in fp32 without weights (OLMo)
  kNarrowed,     // LayerNorm whose output is converted back to its input's dtype (DBRX)
  kNarrowInput,  // RMS norm that multiplies its input as it came, not the fp32 copy (T5)
  kWideWeight,   // RMS norm whose weight is converted to fp32 and multiplies there (Helium)
  kPower         // RMS norm in fp32 to the end, by a power of the mean square (Gemma 3n)
};

// What differs between families in the code around the layers: the defaults are Llama's. Rows: families.cpp.
struct Family {
  // In which order a layer's modules are made: the mixer or attention (A), cross attention with its norm (C), MLP or
  // experts (M), the next norm (n), all norms that are left (N).
  std::string_view order = "ACMN";
  bool experts_first = false;         // before the router
  bool late_embedding_norm = false;   // the norm of embeddings stands behind the layers (BART)
  bool conv1d = false;                // GPT-2: weights stored [in, out], always addmm
  bool named_outputs = false;         // a block's output lives to the end of the layer (GPT-2)
  bool norms_sums = false;            // norms that follow blocks take the sum with the residual (BERT, OPT 350M)
  bool tables_by_sequence = false;    // every sequence of a batch has rotary positions of its own (Qwen-VL)
  bool cuts_tables = false;           // of three axes, and every layer puts its own tables together
  bool local_tables = false;          // layers with a window have rotary tables of their own (Gemma 3)
  bool positions_by_token = false;    // positions follow from the words, so every sequence has its own (RoBERTa)
  bool no_key_bias = false;           // keys are projected without the bias of the others (Whisper)
  bool lays_out_heads = false;        // query, key and value are copied head by head before the kernel (Whisper)
  bool slices_positions = false;      // the decoder's positions are rows of their table, not looked up (Whisper)
  bool drops_activation = false;      // dropout inside the MLP (T5)
  bool keeps_attended = false;        // no dropout behind attention (DistilBERT)
  bool holds_triangle = false;        // a mask of all positions, made with the model, that nothing reads (GPT-BigCode)
  bool norms_argument = false;        // the sum that is normalised is an argument of the norm's call (BERT)
  bool named_embeddings = false;      // a module makes embeddings, and the model holds its result (BERT)
  bool inline_mlp = false;            // the layer itself projects up, and its normed input goes there (OPT)
  bool nested_activation = false;     // its activation has the projection as argument (Whisper)
  bool names_blocks = false;          // a block's output lives until its dropped copy is added (T5)
  bool keeps_normed = false;          // the layer names what it normed and what its blocks gave (StableLM)
  bool adds_in_place = false;         // attention's output is added onto the MLP's (Falcon)
  bool scaled_embedding = false;      // Gemma, Granite
  bool scaled_residual = false;       // Granite: each block's output is multiplied before it is added
  bool normed_residual = false;       // the norm's output is what is added to, both scaled (MiniMax)
  bool wide_logits = false;           // the model gives its logits in fp32 (Mamba)
  bool wide_residual = false;         // the residual stream is fp32 (Mamba-2)
  bool heads_last = false;            // heads are taken apart when all are projected (OLMo)
  bool flat_tokens = false;           // the MLP's part of a layer sees the tokens of all sequences in one row (OPT)
  bool norms_after_heads = false;     // query and key are normalised after all projections (Gemma 3)
  bool norms_after_rotation = false;  // HunYuan
  Rotation rotation = Rotation::kWhole;
  bool wide_rotation = false;  // rotation in fp32, converted back (OLMo 2, Command-R)
  Widening widening = Widening::kNone;
  bool wide_tables = false;     // rotary tables stay in fp32 (OLMo 2)
  bool repeats_tables = false;  // every layer repeats the halves of the tables for itself (ERNIE 4.5)
  bool weight_in_fp32 = false;  // the norm's weight multiplies before the conversion (OLMo 2, gpt-oss)
  bool wide_router = false;     // routing in fp32 from the hidden state on (DeepSeek)
  bool narrow_weights = false;  // routing weights are converted to the hidden state's dtype
  bool late_softmax = false;    // routing: the softmax of the chosen scores (gpt-oss, Granite)
  bool plain_weights = false;   // routing weights are not divided by their sum
  bool looped_experts = false;  // one expert after the other, weights sliced (DBRX)
  bool shared_first = false;    // the shared expert runs before the router (ERNIE 4.5, HunYuan)
  bool narrow_router = false;   // routing in fp32 whatever autocast says (ERNIE 4.5)
  bool all_experts = false;     // every expert computes every token; scores of the others are zero (Llama 4)
  bool scaled_still = false;    // queries of layers that do not rotate are multiplied by a factor per place (Llama 4)
  bool scaled_logits = false;   // Command-R, Granite
  // Every module's output is multiplied by a number of its own, the mixer's by a vector, and the MLP projects up before
  // it gates (Falcon-H1).
  bool scaled_parts = false;
  bool shifted_logits = false;  // a constant is added to the logits (BART)
  bool narrow_loss = false;     // the loss takes the logits as they come, not in fp32 (encoders)
  bool drops_output = false;    // dropout after the last norm (T5)
  NormForm norm = NormForm::kUsual;
  bool splits_heads = false;   // the packed projection is split per head, after the transpose (GPT-NeoX)
  bool slices_qkv = false;     // the packed projection is sliced, not split (Phi-3)
  bool copies_heads = false;   // query, key and value are laid out anew before the product (BLOOM)
  bool clamps_qkv = false;     // DBRX
  bool scales_places = false;  // queries are multiplied by a factor per place (Ministral 3)
  bool picks_heads = false;    // keys and values are picked by index and repeated (Falcon)
  bool eager = false;          // Transformers has no fused attention for it
  bool masks_always = false;   // the mask is built where the causal flag would do (Falcon)
  bool loose_bias = false;     // a linear is a product and an addition (Falcon)
  bool scaled_query = false;   // OPT
  Scores scores = Scores::kStandard;
};

// One of Qwen's mergers, or the projector of another family.
struct ProjectorIds {
  NormIds norm;
  LinearIds merge, first, second;
};

struct Model;

// A tower of images: its layers as a model of their own over the same list of weights, and what leads to the text.
struct Tower {
  std::shared_ptr<const job::Job> job;  // with the tower's architecture
  std::shared_ptr<Model> layers;
  ProjectorIds projector;
  std::vector<ProjectorIds> deepstack;
  std::vector<std::array<std::int32_t, 2>> scales;  // InternVL, by layer
  std::int32_t newline = -1;                        // LLaVA-NeXT
  std::int64_t images = 0;                          // of a batch
  std::int64_t chunk = 0;                           // patches that look at one another where windows are cut

  explicit operator bool() const { return layers != nullptr; }
};

struct Model {
  const job::Job* job = nullptr;
  Tower tower;
  Family family;
  Device device;
  std::vector<Weight> weights;
  std::vector<std::string> unmatched;  // names of modules_to_save that no module has
  std::vector<LayerIds> layers;        // of this pipeline stage
  std::int64_t first_layer = 0;
  bool has_embedding = true;
  bool has_loss = true;
  std::int32_t embedding = -1;
  LinearIds embedding_adapter;   // low-rank pair beside the embedding
  std::int32_t token_rows = -1;  // rows of the embedding that are trained apart from it
  std::int32_t positions = -1;
  std::int32_t token_types = -1;
  std::int32_t class_token = -1;
  LinearIds patches;                      // of an image
  std::array<LinearIds, 2> convolutions;  // of speech
  LinearIds transform;                    // BERT: before the product with the words
  LinearIds project_in, project_out;      // OPT 350M
  NormIds transform_norm;
  std::int64_t encoder_depth = 0;  // layers of an encoder before those of the decoder
  std::int32_t decoder_positions = -1;
  NormIds encoder_norm, decoder_embedding_norm;
  std::array<std::int32_t, 2> relative_bias{-1, -1};  // T5: of the encoder, of the decoder
  NormIds embedding_norm, final_norm;
  std::vector<BlockIds> blocks;  // that layers share
  StreamEnds streams;
  LinearIds head;                   // the embedding's own weight where tied
  std::int32_t language_head = -1;  // beside a head of scores: its logits are made and not used
  bool tied = false;

  // Shapes of the running pass
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t decoder_sequence = 0;  // of an encoder-decoder model, while its decoder runs; 0: the same
  std::uint8_t width = 2;             // of activations outside autocast
  bool autocast = false;
  bool eager_attention = false;
  bool liger = false;
  bool torchtitan = false;
  bool compiled = false;
  bool caches_keys = false;  // keys and values pass through a cache (the Trainer turns off the outer config's alone)
  std::int64_t tensor = 1;   // tensor-parallel ranks: heads, MLP width and vocabulary are divided
  bool sequence_parallel = false;  // the residual stream is divided too
  std::int64_t context = 1;        // context-parallel ranks: `sequence` is this rank's part

  [[nodiscard]] const model::Architecture& architecture() const { return job->model; }
  [[nodiscard]] std::int64_t depth() const { return static_cast<std::int64_t>(layers.size()); }
  [[nodiscard]] std::int64_t tokens() const { return batch * sequence; }
  // Tokens of the residual stream on this rank.
  [[nodiscard]] std::int64_t residual_tokens() const { return sequence_parallel ? tokens() / tensor : tokens(); }
  // Elements of what flows from layer to layer.
  [[nodiscard]] std::int64_t stream_elements() const;
  [[nodiscard]] std::int64_t parameters() const;
};

[[nodiscard]] Family family_of(const job::Job& job);
// Weights in construction order with their dtypes and trainability; nothing is allocated yet.
[[nodiscard]] Model make_model(const job::Job& job, const job::Chunk& stage);
// All of the model.
[[nodiscard]] job::Chunk whole_model(const job::Job& job);

// tower_weights.cpp: fills the tower and its weights, which come before the language model's.
void add_tower(const job::Job& job, Model& m);

// Keys and values of the last layers that make their own, for those above that do not: of full and of windowed layers.
struct KeptKeys {
  std::array<std::array<Var, 2>, 2> of;
};

// Tables and masks that every layer of a pass shares.
struct Shared {
  Var cos, sin;
  Var full_mask;                   // empty: causal flag only
  Var encoded;                     // the encoder's output, for every layer of the decoder
  Var encoded_bias;                // of the attention to it (T5)
  Var positions;                   // biases by distance of the eager families (BLOOM, MPT)
  Var sliding_mask;                // for layers with a window that the sequence reaches
  Var embeds;                      // the embedding, which shared blocks read again (Zamba 2)
  Var per_layer;                   // embeddings of every token for every layer (Gemma 3n)
  Var local_cos, local_sin;        // of layers with a window, where they have tables of their own
  std::shared_ptr<KeptKeys> keys;  // where layers share keys
};

// norm.cpp
Var norm(Graph& g, const Model& m, const Var& x, std::int64_t rows, const NormIds& ids, Name name);
// encoder.cpp: how encoders embed and what they do before their loss
Var embed_patches(Graph& g, const Model& m, const Var& pixels);
// held: what the encoder names until it returns
Var embed_speech(Graph& g, const Model& m, const Var& features, Var& held);
Var embed_types(Graph& g, const Model& m, const Var& words, std::vector<Var>& held);
Var masked_head(Graph& g, const Model& m, const Var& hidden);
Var class_head(Graph& g, const Model& m, const Var& hidden);
// adapter.cpp: the embedding with what PEFT trains of it or beside it
Var embed_words(Graph& g, const Model& m, const Var& ids, std::int64_t tokens, std::int64_t hidden);
// adapter.cpp: a linear with its LoRA or DoRA adapter, or quantised weight
Var project(Graph& g, const Model& m, const Var& x, const LinearIds& ids, Name name);
// rotary.cpp
// torchtitan's table of frequencies is a buffer of the model, for the longest sequence of the training.
void hold_frequencies(const Model& m, Tape& tape);
// Buffers that families make with the model, on every rank.
void hold_buffers(const Model& m, Tape& tape);
void make_rotary(Graph& g, const Model& m, Shared& shared);
// One of them, as most families turn it.
Var turn(Graph& g, const Var& x, const Shared& shared, Widening widening = Widening::kNone);
// Replaces q and k; returns what the surrounding function still holds.
std::array<Var, 4> rotate(Graph& g, const Model& m, const Shared& shared, std::int64_t head_dim, Var& q, Var& k);
// mask.cpp
void make_masks(Graph& g, const Model& m, Shared& shared);
// A bias for every head and pair of places, looked up by distance in a table that is trained (T5); the layers of a
// stack share it. Cross attention has one of zeros.
Var learned_bias(Graph& g, const Model& m, std::int32_t table);
Var empty_bias(Graph& g, const Model& m, std::int64_t keys, std::uint8_t width);
// scores.cpp: attention without a fused kernel
Var eager_attention(Graph& g, const Model& m, const AttentionShape& shape, const model::Attention& a,
                    std::int32_t sinks, const Var& q, const Var& k, const Var& v, const Shared& shared);
// PyTorch's own form where no kernel takes the arguments: in fp32, keys and values repeated (Falcon's single head, T5's
// learned bias).
Var math_attention(Graph& g, const AttentionShape& s, const Var& q, const Var& k, const Var& v, const Var& mask,
                   double dropout_share);
// layer.cpp: what the hook of a block's last product does with its result, while the operands of that product and the
// block's own values are still held: DTensor scatters sequences there.
struct Leave {
  Graph* graph = nullptr;
  const Model* model = nullptr;  // null: nothing is done
  Var operator()(const Var& y) const;
};
// attention.cpp
Var attention(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
              const Var& x, const Leave& leave = {});
// The kernel, or the eager chain, with the layer's mask.
Var attend(Graph& g, const Model& m, const AttentionShape& shape, const model::Attention& a, std::int32_t sinks,
           const Var& q, const Var& k, const Var& v, const Shared& shared);
// latent.cpp
Var latent_attention(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                     const Var& x);
// delta_net.cpp
Var delta_net(Graph& g, const Model& m, const model::Attention& a, const LayerIds& ids, const Var& x);
// mamba.cpp
Var mamba_mixer(Graph& g, const Model& m, const model::StateSpace& s, const MambaIds& ids, const Var& x);
// selective.cpp: the same of the first kind
Var selective_mixer(Graph& g, const Model& m, const model::StateSpace& s, const MambaIds& ids, const Var& x);
// short_convolution.cpp, lightning.cpp: what stands in the place of attention
Var short_convolution(Graph& g, const Model& m, const model::Attention& a, const LayerIds& ids, const Var& x);
Var lightning_attention(Graph& g, const Model& m, const model::Attention& a, const LayerIds& ids, const Var& x);
// mlp.cpp
Var activate(Graph& g, const Model& m, model::Activation activation, const Var& x);
Var mlp(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x,
        const Leave& leave = {});
// The same where the caller's name for the input is taken by what is projected.
Var inline_mlp(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, Var x);
// moe.cpp
Var mixture(Graph& g, const Model& m, const model::FeedForward& ffn, const LayerIds& ids, const Var& x);
// compiled.cpp: the same under torch.compile, where the family's layers are of the plain kind
[[nodiscard]] bool compiles(const Model& m);
Var compiled_layer(Graph& g, const Model& m, std::int64_t index, const Shared& shared, const Var& x, bool materialise);
// shared_block.cpp: what is added to the residual stream before the mixer (Zamba 2)
Var shared_block(Graph& g, const Model& m, const BlockIds& ids, const Shared& shared, const Var& x);
// streams.cpp: every layer's embeddings of the tokens; streams made of one, whose pieces the caller holds, and back
Var layer_inputs(Graph& g, const Model& m, const Var& ids, const Var& embeds);
Var widen(Graph& g, const Model& m, const Var& embeds, std::vector<Var>& pieces);
Var narrow(Graph& g, const Model& m, const Var& x);
Var stream_layer(Graph& g, const Model& m, std::int64_t index, const Shared& shared, const Var& x);
// For a layer that is run alone: what it takes from the embedding and from layers below, without a storage.
void stand_in(Graph& g, const Model& m, Shared& shared);
// Gates that lie far above the mean of their row; zero elsewhere.
Var largest(Graph& g, const Var& x, std::int64_t rows);
// tower.cpp: features of a batch of images at the text's width, and those that enter the text's first layers
using RunLayer = std::function<Var(const Var& input, const std::function<Var(const Var&)>& layer)>;
struct Seen {
  Var features;
  std::vector<Var> deepstack;
};
Seen see(Graph& g, const Model& m, const Var& pixels, const RunLayer& run);
// Puts features in the place of tokens; adds features to the hidden state of such tokens.
Var place_images(Graph& g, const Model& m, const Var& embeds, const Var& features);
Var add_to_images(Graph& g, const Model& m, const Var& hidden, const Var& features);
// layer.cpp
Var layer(Graph& g, const Model& m, std::int64_t index, const Shared& shared, const Var& x);

}  // namespace plimsoll::step::transformers
