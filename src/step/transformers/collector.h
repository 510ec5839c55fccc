// SPDX-License-Identifier: Apache-2.0
// Lists the weights of a model's modules in the order in which Transformers constructs them.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/name_pattern.h"
#include "model/parts.h"
#include "step/transformers/adapted.h"
#include "step/transformers/float8.h"
#include "step/transformers/model.h"

namespace plimsoll::step::transformers {

class Collector {
 public:
  Collector(const job::Job& job, Model& m) : job_(job), m_(m), adapted_(job), float8_(job) {
    const job::Precision& p = job.precision;
    const bool sharded =
        job.sharding.kind == job::ShardingKind::kFsdp2 || job.sharding.kind == job::ShardingKind::kFsdp1;
    const job::DType stored = sharded ? p.compute : p.params;
    width_ = static_cast<std::uint8_t>(job::size_of(stored));
    frozen_ = job.model.vision != nullptr && job.batch.images.freeze_language;
    quantized_ = adapted_.is_on() && job.adapter.has_quantized_base();
    for (const std::string& text : job.trainable_parameters)  // resolve() has read them
      if (auto pattern = NamePattern::parse(text)) chosen_.push_back(*std::move(pattern));
    // prepare_model_for_kbit_training turns what is not quantised into fp32 (facts other-frameworks-memory.md 3.3).
    small_width_ = quantized_ && job.adapter.prepared_for_kbit ? std::uint8_t{4} : width_;
  }

  std::uint8_t activation_width() const { return small_width_; }

  NormIds norm(std::int64_t width, Aliases names = {}) {
    const Module module{names, layer_of_model(), false, ModuleKind::kNorm};
    const bool has_bias = job_.model.norm == model::NormKind::kLayer;
    NormIds ids;
    choose(names);
    ids.w = vector(width);
    if (has_bias) ids.bias = bias(width, false);
    choose({});
    if (!adapted_.is_saved(module)) return ids;
    ids.w = trained_copy(ids.w);
    if (has_bias) ids.bias = trained_copy(ids.bias);
    return ids;
  }
  std::int32_t vector(std::int64_t elements) {
    return push({elements, elements, 0, WeightKind::kVector, small_width_});
  }

  LinearIds linear(Aliases names, std::int64_t in, std::int64_t out, bool has_bias) {
    const Module module{names, layer_of_model(), in_mlp_};
    const std::int64_t rank = adapted_.rank_of(module);
    LinearIds ids;
    const bool by_input = m_.family.conv1d;
    choose(names);
    ids.w = push({in * out, by_input ? in : out, out, WeightKind::kMatrix, width_});
    m_.weights.back().quantized = quantized_;
    m_.weights.back().projected = adapted_.is_projected(module);
    m_.weights.back().by_input = by_input;
    m_.weights.back().loose = m_.family.loose_bias;
    float8_.choose(m_.weights.back(), names, layer_of_model(), in, out);
    if (has_bias) ids.bias = bias(out, rank > 0);
    choose({});
    if (adapted_.is_saved(module)) {
      ids.w = trained_copy(ids.w);
      if (has_bias) ids.bias = trained_copy(ids.bias);
    }
    add_adapter(ids, in, out, rank);
    return ids;
  }

  // The output layer, where it has a weight of its own.
  void head(LinearIds& ids, std::int64_t rows, std::int64_t columns) {
    ids.w = table(rows, columns, WeightKind::kHead);
    m_.weights.back().projected = adapted_.is_projected(kHeadModule);
    float8_.choose(m_.weights.back(), {"lm_head"}, -1, columns, rows);
    if (saves_head()) ids.w = trained_copy(ids.w);
    adapt_head(ids, rows, columns);
  }
  // An output layer that is tied to the embedding may have an adapter, too, or be trained apart from it.
  void adapt_head(LinearIds& ids, std::int64_t rows, std::int64_t columns) {
    add_adapter(ids, columns, rows, adapted_.rank_of(kHeadModule));
  }
  [[nodiscard]] bool saves_head() { return adapted_.is_saved(kHeadModule); }
  [[nodiscard]] bool saves_embedding() { return adapted_.is_saved(kEmbeddingModule); }

  [[nodiscard]] std::vector<std::string> unmatched() const { return adapted_.unmatched(); }

  // Low-rank factors beside the embedding: the first has a column for every word.
  void adapt_embedding(LinearIds& ids, std::int64_t rows, std::int64_t columns) {
    const std::int64_t rank = adapted_.rank_of(kEmbeddingModule);
    if (rank == 0) return;
    const auto width = static_cast<std::uint8_t>(job::size_of(job_.adapter.dtype));
    ids.lora_a = push({rows * rank, rows, rows, WeightKind::kAdapter, width});
    ids.lora_b = push({columns * rank, columns, columns, WeightKind::kAdapter, width});
  }
  // Rows of the embedding that are trained, and as they were before.
  std::int32_t trained_rows(std::int64_t columns) {
    const std::int64_t rows = adapted_.is_on() ? job_.adapter.trained_tokens : 0;
    if (rows == 0) return -1;
    const auto width = static_cast<std::uint8_t>(job::size_of(job_.adapter.dtype));
    push({rows * columns, rows, 0, WeightKind::kAdapter, width});
    m_.weights.back().trainable = false;
    return push({rows * columns, rows, 0, WeightKind::kAdapter, width});
  }
  // modules_to_save: the frozen module stays and a copy of it is trained.
  std::int32_t trained_copy(std::int32_t original) {
    Weight copy = m_.weights[static_cast<std::size_t>(original)];
    m_.weights[static_cast<std::size_t>(original)].trainable = false;
    copy.quantized = false;
    const std::int32_t id = push(copy);
    m_.weights.back().trainable = true;
    return id;
  }

  std::int32_t experts(std::int64_t count, std::int64_t elements) {
    choose({"experts"});
    const std::int32_t id = push({count * elements, count, 0, WeightKind::kMatrix, width_});
    choose({});
    return id;
  }

  std::int32_t table(std::int64_t rows, std::int64_t columns, WeightKind kind) {
    choose({kind == WeightKind::kHead ? "lm_head" : "model.embed_tokens"});
    const std::int32_t id = push({rows * columns, rows, rows, kind, small_width_});
    choose({});
    return id;
  }

  // What leads to several residual streams and from them.
  void stream_ends(const model::Streams& s) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t columns = job_.model.depth() * s.per_layer_width;
    m_.streams.table = table(s.per_layer_vocab, columns, WeightKind::kEmbedding);
    m_.streams.project = linear({"per_layer_model_projection"}, h, columns, false);
    m_.streams.norm = norm(s.per_layer_width);
    for (std::int64_t i = 1; i < s.count; ++i) m_.streams.widen.push_back(linear({"altup_projections"}, h, h, false));
    for (std::int64_t i = 1; i < s.count; ++i)
      m_.streams.narrow.push_back(linear({"altup_unembed_projections"}, h, h, false));
  }

  // What the next layer makes behind its mixer: T5's table of relative positions, which the first layer of a stack has.
  void behind_next_mixer(std::function<void()> make) { behind_mixer_ = std::move(make); }

  void layer(const model::Layer& spec) {
    LayerIds ids;
    layer_ = static_cast<std::int32_t>(m_.layers.size());
    ids.first = static_cast<std::int32_t>(m_.weights.size());
    const std::int64_t h = job_.model.hidden;
    if (spec.shared_block > 0) ids.block.joint = linear({"linear"}, h, h, false);
    const std::string_view order = m_.family.order;
    // A layer with fewer norms than the others lacks the first.
    auto lacking = std::ranges::count(order, 'n') - spec.norms;
    int norms = 0;
    const auto next_norm = [&] {
      if (norms < spec.norms && norms < 4) ids.norm[norms] = norm(h, {layer_norm_name(norms, spec.norms)});
      ++norms;
    };
    for (const char module : order) {
      if (module == 'A') mixer(spec.attention, ids);
      if (module == 'A' && behind_mixer_) std::exchange(behind_mixer_, nullptr)();
      if (module == 'C' && spec.cross_attention) cross_attention(spec.attention, ids);
      if (module == 'M') feed_forward(spec.ffn, ids);
      if (module == 'n' && lacking-- <= 0) next_norm();
      while (module == 'N' && norms < spec.norms) next_norm();
    }
    if (spec.shared_block > 0) shared_block(*job_.model.shared_block, spec.shared_block, ids.block);
    if (job_.model.streams != nullptr) streams(*job_.model.streams, ids.streams);
    ids.last = static_cast<std::int32_t>(m_.weights.size());
    layer_ = -1;
    m_.layers.push_back(ids);
  }

 private:
  inline static const Module kHeadModule{{"lm_head", "embed_out", "output"}, -1, false, ModuleKind::kHead};
  inline static const Module kEmbeddingModule{
      {"embed_tokens", "wte", "word_embeddings", "embed_in"}, -1, false, ModuleKind::kEmbedding};

  static std::string_view layer_norm_name(int i, int norms) {
    if (i == 0) return "input_layernorm";
    if (norms < 4 || i == 1) return "post_attention_layernorm";
    return i == 2 ? "pre_feedforward_layernorm" : "post_feedforward_layernorm";
  }
  void mixer(const model::Attention& a, LayerIds& ids) {
    module_ = "self_attn.";
    attention(a, ids);
    module_ = "";
  }
  void cross_attention(const model::Attention& a, LayerIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t q = a.heads * a.head_dim;
    ids.cross_k = linear({"k_proj", "k"}, h, q, a.qkv_bias && !m_.family.no_key_bias);
    ids.cross_v = linear({"v_proj", "v"}, h, q, a.qkv_bias);
    ids.cross_q = linear({"q_proj", "q"}, h, q, a.qkv_bias);
    ids.cross_o = linear({"out_proj", "o"}, q, h, a.out_bias);
    ids.cross_norm = norm(h);
  }
  void feed_forward(const model::FeedForward& f, LayerIds& ids) {
    module_ = "mlp.";
    in_mlp_ = true;
    if (f.is_moe()) {
      mixture(f, ids);
    } else if (!f.is_empty()) {
      dense(f, ids);
    }
    module_ = "";
    in_mlp_ = false;
  }
  [[nodiscard]] std::int64_t layer_of_model() const { return layer_ < 0 ? -1 : m_.first_layer + layer_; }

  std::int32_t bias(std::int64_t elements, bool of_adapted_linear) {
    const std::int32_t id = vector(elements);
    if (adapted_.trains_bias(of_adapted_linear)) m_.weights.back().trainable = true;
    return id;
  }
  void add_adapter(LinearIds& ids, std::int64_t in, std::int64_t out, std::int64_t rank) {
    if (rank == 0) return;
    const auto width = static_cast<std::uint8_t>(job::size_of(job_.adapter.dtype));
    ids.lora_a = push({in * rank, rank, rank, WeightKind::kAdapter, width});
    ids.lora_b = push({rank * out, out, out, WeightKind::kAdapter, width});
    if (job_.adapter.own_bias) ids.lora_bias = channels(out, width);
    if (job_.adapter.kind == job::AdapterKind::kDora) ids.magnitude = channels(out, width);
  }
  std::int32_t channels(std::int64_t out, std::uint8_t width) {
    const std::int32_t id = push({out, out, 0, WeightKind::kAdapter, width});
    m_.weights.back().per_channel = true;
    return id;
  }
  std::int32_t push(Weight w) {
    w.per_channel = w.kind == WeightKind::kVector;
    w.trainable = (!adapted_.is_on() && !frozen_ && is_chosen_ && trains_layer()) || w.kind == WeightKind::kAdapter;
    w.layer = layer_;
    m_.weights.push_back(w);
    return static_cast<std::int32_t>(m_.weights.size()) - 1;
  }

  // Whether what is pushed next is among the chosen parameters: under any of the names that its module may have.
  void choose(Aliases names) {
    if (chosen_.empty()) return;
    is_chosen_ = false;
    const std::string layer = layer_ < 0 ? "" : "model.layers." + std::to_string(m_.first_layer + layer_) + ".";
    for (const std::string_view name : names)
      for (const std::string_view module :
           {module_, std::string_view(module_ == "mlp." ? "block_sparse_moe." : module_)})
        for (const NamePattern& pattern : chosen_)
          is_chosen_ = is_chosen_ ||
                       pattern.starts(layer + (layer_ < 0 ? "" : std::string(module)) + std::string(name) + ".weight");
  }

  // Of chosen layers alone neither the embedding nor what stands above the layers is trained.
  bool trains_layer() const {
    const std::int64_t count = job_.trainable_layers;
    if (count == 0) return true;
    return layer_ >= 0 && (count > 0 ? layer_ >= job_.model.depth() - count : layer_ < -count);
  }

  void attention(const model::Attention& a, LayerIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t q = a.heads / m_.tensor * a.head_dim;
    const std::int64_t kv = std::max<std::int64_t>(1, a.kv_heads / m_.tensor) * a.head_dim;
    if (a.kind == model::AttentionKind::kMla) return latent(a, ids);
    if (a.kind == model::AttentionKind::kLinear) return delta_net(a, ids);
    if (a.kind == model::AttentionKind::kNone) return;
    if (a.kind == model::AttentionKind::kConvolution) return convolution(a, ids);
    if (a.kind == model::AttentionKind::kLightning) return lightning(a, ids);
    if (a.kind == model::AttentionKind::kMamba2) return mamba(a.mamba, ids.mamba);
    if (a.mamba.heads > 0) mamba(a.mamba, ids.mamba);
    if (a.sinks) ids.sinks = vector(a.heads / m_.tensor);
    if (a.fused_qkv) {
      if (m_.family.slices_qkv) ids.o = linear({"o_proj"}, q, h, a.out_bias);
      ids.qkv = linear({"qkv_proj", "query_key_value", "c_attn", "wqkv", "Wqkv"}, h, q + 2 * kv, a.qkv_bias);
      if (!m_.family.slices_qkv) ids.o = linear({"o_proj", "dense", "c_proj", "out_proj", "wo"}, q, h, a.out_bias);
      return;
    }
    ids.q = linear({"q_proj", "query"}, h, a.output_gate ? 2 * q : q, a.qkv_bias);
    if (!a.shares_keys) {
      ids.k = linear({"k_proj", "key"}, h, kv, a.qkv_bias && !m_.family.no_key_bias);
      ids.v = linear({"v_proj", "value"}, h, kv, a.qkv_bias);
    }
    ids.o = linear({"o_proj", "dense", "out_proj"}, q, h, a.out_bias);
    if (a.qk_norm != model::QkNorm::kNone && a.qk_norm_has_weight) {
      ids.q_norm = norm(a.qk_norm == model::QkNorm::kPerHead ? a.head_dim : q, {"q_norm"});
      if (!a.shares_keys) ids.k_norm = norm(a.qk_norm == model::QkNorm::kPerHead ? a.head_dim : kv, {"k_norm"});
    }
  }

  // The weights come with the first layer that uses them; adapters and the way to the mixer are the layer's own.
  void shared_block(const model::SharedBlock& block, int which, BlockIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const model::Attention& a = block.attention;
    const std::int64_t q = a.heads * a.head_dim;
    const std::int64_t kv = a.kv_heads * a.head_dim;
    const std::int64_t width = block.ffn.width;
    const std::int64_t r = block.adapter_rank;
    const auto index = static_cast<std::size_t>(which - 1);
    if (m_.blocks.size() <= index) m_.blocks.resize(index + 1);
    BlockIds& common = m_.blocks[index];
    if (common.q.w < 0) {
      common.q = linear({"q_proj"}, 2 * h, q, false);
      common.k = linear({"k_proj"}, 2 * h, kv, false);
      common.v = linear({"v_proj"}, 2 * h, kv, false);
      common.o = linear({"o_proj"}, q, h, false);
      common.gate_up = linear({"gate_up_proj"}, h, 2 * width, block.ffn.bias);
      common.down = linear({"down_proj"}, width, h, block.ffn.bias);
      common.norm[0] = norm(2 * h);
      common.norm[1] = norm(h);
    }
    const LinearIds joint = ids.joint;  // the layer's own, made before its mixer
    ids = common;
    ids.joint = joint;
    for (std::size_t i = 0; i < 4; ++i) {
      const bool attention = i < 3;
      if (attention && !block.adapts_attention) continue;
      ids.adapters[i] = {linear({"0"}, attention ? 2 * h : h, r, false),
                         linear({"1"}, r, attention ? 2 * h : 2 * width, false)};
    }
  }

  void streams(const model::Streams& s, StreamIds& ids) {
    const std::int64_t h = job_.model.hidden;
    ids.scale = vector(h);
    ids.correction = linear({"correction_coefs"}, s.count, s.count, false);
    ids.prediction = linear({"prediction_coefs"}, s.count, s.count * s.count, false);
    ids.router = linear({"modality_router"}, h, s.count, false);
    ids.router_norm = norm(h);
    ids.laurel_down = linear({"linear_left"}, h, s.laurel_rank, false);
    ids.laurel_up = linear({"linear_right"}, s.laurel_rank, h, false);
    ids.laurel_norm = norm(h);
    ids.gate = linear({"per_layer_input_gate"}, h, s.per_layer_width, false);
    ids.up = linear({"per_layer_projection"}, s.per_layer_width, h, false);
    ids.layer_norm = norm(h);
  }

  void latent(const model::Attention& a, LayerIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t qk = a.qk_nope_dim + a.qk_rope_dim;
    const std::int64_t heads = a.heads / m_.tensor;
    if (a.q_lora_rank > 0) {
      ids.q_down = linear({"q_a_proj"}, h, a.q_lora_rank, false);
      ids.q_norm = norm(a.q_lora_rank);
      ids.q = linear({"q_b_proj"}, a.q_lora_rank, heads * qk, false);
    } else {
      ids.q = linear({"q_proj"}, h, heads * qk, false);
    }
    ids.kv_down = linear({"kv_a_proj_with_mqa"}, h, a.kv_lora_rank + a.qk_rope_dim, false);
    ids.k_norm = norm(a.kv_lora_rank);
    ids.k = linear({"kv_b_proj"}, a.kv_lora_rank, heads * (a.qk_nope_dim + a.v_head_dim), false);
    ids.o = linear({"o_proj"}, heads * a.v_head_dim, h, false);
  }

  // Qwen3.5 cuts the packed projections into more modules of the same size together.
  void delta_net(const model::Attention& a, LayerIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t heads = a.linear_value_heads / m_.tensor;
    const std::int64_t keys = a.linear_key_heads / m_.tensor * a.linear_key_dim;
    const std::int64_t values = heads * a.linear_value_dim;
    vector(heads);  // dt_bias
    vector(heads);  // A_log
    vector((2 * keys + values) * a.linear_conv);
    ids.qkv = linear({"in_proj_qkvz", "in_proj_qkv", "in_proj_z"}, h, 2 * keys + 2 * values, false);
    ids.decays = linear({"in_proj_ba", "in_proj_b", "in_proj_a"}, h, 2 * heads, false);
    ids.q_norm = norm(a.linear_value_dim);
    ids.o = linear({"out_proj"}, values, h, false);
  }

  void convolution(const model::Attention& a, LayerIds& ids) {
    const std::int64_t h = job_.model.hidden;
    ids.mamba.conv = vector(h * a.linear_conv);
    if (a.qkv_bias) ids.mamba.conv_bias = vector(h);
    ids.qkv = linear({"in_proj"}, h, 3 * h, a.qkv_bias);
    ids.o = linear({"out_proj"}, h, h, a.out_bias);
  }

  void lightning(const model::Attention& a, LayerIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t width = a.heads / m_.tensor * a.head_dim;
    ids.q_norm = norm(width);
    ids.qkv = linear({"qkv_proj"}, h, 3 * width, false);
    ids.o = linear({"out_proj"}, width, h, false);
    ids.gate_out = linear({"output_gate"}, h, width, false);
  }

  void selective(const model::StateSpace& s, MambaIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t inner = s.inner();
    ids.a_log = push({inner * s.state, inner, 0, WeightKind::kMatrix, small_width_});
    ids.skip = vector(inner);
    ids.conv = vector(inner * s.conv);
    if (s.conv_bias) ids.conv_bias = vector(inner);
    ids.in = linear({"in_proj"}, h, 2 * inner, s.bias);
    ids.mix = linear({"x_proj"}, inner, s.step_rank + 2 * s.state, false);
    ids.steps = linear({"dt_proj"}, s.step_rank, inner, false).w;
    ids.dt_bias = vector(inner);
    ids.out = linear({"out_proj"}, inner, h, s.bias);
    if (s.step_norm != model::StepNorm::kWeighted) return;
    for (std::size_t i = 0; i < 3; ++i) ids.step_norms[i].w = vector(i == 0 ? s.step_rank : s.state);
  }

  void mamba(const model::StateSpace& s, MambaIds& ids) {
    if (s.is_first_kind()) return selective(s, ids);
    const std::int64_t h = job_.model.hidden;
    const std::int64_t inner = s.inner() / m_.tensor;
    const std::int64_t channels = s.conv_channels() / m_.tensor;
    const std::int64_t heads = s.heads / m_.tensor;
    ids.dt_bias = vector(heads);
    ids.a_log = vector(heads);
    ids.skip = vector(heads);
    ids.conv = vector(channels * s.conv);
    if (s.conv_bias) ids.conv_bias = vector(channels);
    ids.in = linear({"in_proj"}, h, inner + channels + heads, s.bias);
    if (s.norm) ids.norm.w = vector(inner);
    ids.out = linear({"out_proj"}, inner, h, s.bias);
  }

  void dense(const model::FeedForward& f, LayerIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t width = f.width / m_.tensor;
    if (!f.gated) {
      ids.up = linear({"fc1", "c_fc", "dense_h_to_4h", "up_proj"}, h, width, f.bias);
      ids.down = linear({"fc2", "c_proj", "dense_4h_to_h", "down_proj"}, width, h, f.bias);
      if (f.activation == model::Activation::kXielu)
        for (std::int32_t& slope : ids.slopes) slope = vector(1);
      return;
    }
    if (f.fused_gate_up) {
      ids.gate_up = linear({"gate_up_proj"}, h, 2 * width, f.bias);
    } else {
      ids.gate = linear({"gate_proj", "w1"}, h, width, f.bias);
      ids.up = linear({"up_proj", "w3"}, h, width, f.bias);
    }
    ids.down = linear({"down_proj", "w2"}, width, h, f.bias);
  }

  // Transformers 5 stores the experts of a layer as two three-dimensional weights.
  void mixture(const model::FeedForward& f, LayerIds& ids) {
    const std::int64_t h = job_.model.hidden;
    const std::int64_t fan = f.gated ? 2 : 1;
    const std::int64_t width = f.expert_width / m_.tensor;
    const std::int64_t shared = f.shared_width / m_.tensor;
    const auto router = [&] {
      choose({"gate"});
      const std::uint8_t wide = m_.family.narrow_router ? 4 : width_;  // kept in fp32 beside 16-bit weights
      ids.router.w = push({f.experts * h, f.experts, f.experts, WeightKind::kMatrix, wide});
      choose({});
      if (m_.family.narrow_router) {  // what balances the choice of experts is a parameter that nobody trains
        (void)push({f.experts, f.experts, 0, WeightKind::kVector, wide});
        m_.weights.back().trainable = false;
      }
      if (f.router_bias) ids.router.bias = vector(f.experts);
    };
    if (!m_.family.experts_first) router();
    ids.experts_up = experts(f.experts, fan * width * h);
    if (f.expert_bias) ids.experts_up_bias = experts(f.experts, fan * width);
    ids.experts_down = experts(f.experts, width * h);
    if (f.expert_bias) ids.experts_down_bias = experts(f.experts, h);
    if (m_.family.experts_first) router();
    if (f.shared_width > 0) {
      if (f.fused_gate_up) {
        ids.shared_packed = linear({"input_linear"}, h, 2 * shared, false);
      } else {
        ids.shared_gate = linear({"gate_proj"}, h, shared, false);
        ids.shared_up = linear({"up_proj"}, h, shared, false);
      }
      ids.shared_down = linear({"down_proj"}, shared, h, false);
      if (f.shared_gate) ids.shared_switch = linear({"shared_expert_gate"}, h, 1, false);
    }
  }

  const job::Job& job_;
  Model& m_;
  Adapted adapted_;
  Float8Linears float8_;
  bool in_mlp_ = false;
  std::uint8_t width_ = 2;
  std::uint8_t small_width_ = 2;
  bool frozen_ = false;
  bool quantized_ = false;
  std::int32_t layer_ = -1;
  std::function<void()> behind_mixer_;
  std::vector<NamePattern> chosen_;  // parameters that are trained; none: all
  bool is_chosen_ = true;
  std::string_view module_;  // of the layer, that weights are collected for
};

}  // namespace plimsoll::step::transformers
