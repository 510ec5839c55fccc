// SPDX-License-Identifier: Apache-2.0
#include "job/hybrid_model.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "job/job.h"
#include "model/limits.h"

namespace plimsoll::job {

using model::Architecture;
using model::AttentionKind;
using model::FeedForward;
using model::Layer;
using model::StateSpace;

namespace {

// MambaMixer's own defaults: twice the hidden size in heads of 64, 8 groups, a state of 128, blocks of 128 tokens,
// 4 taps, and a bias in the convolution alone.
Result<StateSpace> mixer_of(const ModelKeys& keys, std::int64_t hidden) {
  StateSpace mixer;
  mixer.head_dim = keys.mamba_head_dim.value_or(64);
  mixer.state = keys.mamba_state_dim.value_or(128);
  mixer.groups = keys.mamba_num_groups.value_or(8);
  mixer.chunk = keys.mamba_chunk_size.value_or(128);
  mixer.conv = 4;
  if (!keys.mamba_num_heads && 2 * hidden % mixer.head_dim != 0)
    return bad_input(fmt::format("d_inner must be evenly divisible by headdim: 2 * hidden_size {} / mamba_head_dim {}",
                                 hidden, mixer.head_dim),
                     "give mamba_num_heads");
  mixer.heads = keys.mamba_num_heads.value_or(2 * hidden / mixer.head_dim);
  if (mixer.heads % mixer.groups != 0)
    return bad_input(fmt::format("nheads must be evenly divisible by ngroups: {} heads, mamba_num_groups {}",
                                 mixer.heads, mixer.groups),
                     "set mamba_num_groups to a divisor of the heads");
  return mixer;
}

Layer layer_of(char symbol, const Layer& attends, const FeedForward& moe, const StateSpace& mixer) {
  Layer layer = attends;
  layer.norms = 1;
  if (symbol == 'E') layer.ffn = moe;
  if (symbol == '-' || symbol == 'E') {
    // Heads stay: whoever splits layers divides by them.
    layer.attention = {};
    layer.attention.kind = AttentionKind::kNone;
    layer.attention.heads = attends.attention.heads;
    layer.attention.kv_heads = attends.attention.kv_heads;
    layer.attention.head_dim = attends.attention.head_dim;
    return layer;
  }
  layer.ffn.width = 0;  // what remains says which activation the model's MLPs have
  if (symbol != 'M') return layer;
  layer.attention = {};
  layer.attention.kind = AttentionKind::kMamba2;
  layer.attention.mamba = mixer;
  layer.attention.heads = layer.attention.kv_heads = mixer.heads;
  layer.attention.head_dim = mixer.head_dim;
  return layer;
}

char symbol_of(const Layer& layer) {
  if (layer.attention.kind == AttentionKind::kMamba2) return 'M';
  if (layer.attention.kind == AttentionKind::kMla) return '+';
  if (layer.attention.kind != AttentionKind::kNone) return '*';
  return layer.ffn.is_moe() ? 'E' : '-';
}

// M-|M- with two MTP depths: Et*2|t*2m*2L
std::string layout_of(const HybridPattern& pattern) {
  std::string layout = "E";
  for (std::size_t i = 0; i < pattern.segments.size(); ++i) {
    if (i > 0) layout += '|';
    if (pattern.segments[i] > 0) layout += fmt::format("t*{}", pattern.segments[i]);
  }
  if (pattern.mtp_depths > 0) layout += fmt::format("m*{}", pattern.mtp_depths);
  return layout + 'L';
}

}  // namespace

Result<HybridPattern> hybrid_pattern_of(const ModelKeys& keys) {
  const bool by_ratios = keys.hybrid_attention_ratio > 0 || keys.hybrid_mlp_ratio > 0;
  HybridPattern pattern;
  if (!keys.hybrid_layer_pattern.empty()) {
    if (by_ratios)
      return bad_input("hybrid_layer_pattern cannot be used together with hybrid_attention_ratio or hybrid_mlp_ratio.",
                       "leave the ratios out");
    PLIMSOLL_TRY(parsed, parse_hybrid_pattern(keys.hybrid_layer_pattern));
    pattern = std::move(parsed);
  } else {
    if (!by_ratios)
      return bad_input("is_hybrid_model: no hybrid_layer_pattern says which layers are mixers",
                       "give hybrid_layer_pattern, M-M-M*- say");
    if (keys.hybrid_attention_ratio + keys.hybrid_mlp_ratio > 1)
      return bad_input(fmt::format("hybrid_attention_ratio {} and hybrid_mlp_ratio {} make more than all layers",
                                   keys.hybrid_attention_ratio, keys.hybrid_mlp_ratio));
    if (!keys.num_layers || *keys.num_layers < 1 || *keys.num_layers > model::limits::kDepth)
      return bad_input("num_layers is not given; the ratios of a hybrid model are shares of it");
    pattern.layers = pattern_of_ratios(*keys.num_layers, keys.hybrid_attention_ratio, keys.hybrid_mlp_ratio);
    pattern.segments = {*keys.num_layers};
  }
  const std::int64_t depths = keys.mtp_num_layers.value_or(0);
  if (pattern.mtp.empty() && depths > 0 && !keys.mtp_hybrid_override_pattern.empty()) {
    PLIMSOLL_TRY(one, parse_hybrid_pattern("M/" + keys.mtp_hybrid_override_pattern));
    if (one.mtp_depths > 1) return bad_input("mtp_hybrid_override_pattern: it is the layers of one depth, without '/'");
    pattern.mtp = one.mtp;
    pattern.mtp_depths = depths;
  }
  return pattern;
}

Status make_hybrid(const ModelKeys& keys, const Layer& attends, const FeedForward& moe, Architecture& model) {
  PLIMSOLL_TRY(pattern, hybrid_pattern_of(keys));
  if (static_cast<std::int64_t>(pattern.layers.size()) > model::limits::kDepth)
    return bad_input(fmt::format("hybrid_layer_pattern: {} layers are more than any model has", pattern.layers.size()));
  if ((pattern.layers + pattern.mtp).find('E') != std::string::npos && moe.experts == 0)
    return bad_input("hybrid_layer_pattern has layers of experts (E), but num_moe_experts is not given");
  PLIMSOLL_TRY(mixer, mixer_of(keys, model.hidden));
  std::array<int, 128> kind_of{};
  kind_of.fill(-1);
  const auto index = [&](char symbol) {
    int& known = kind_of[static_cast<unsigned char>(symbol)];
    if (known < 0) {
      known = static_cast<int>(model.kinds.size());
      model.kinds.push_back(layer_of(symbol, attends, moe, mixer));
    }
    return static_cast<std::uint8_t>(known);
  };
  model.kinds.clear();
  model.layers.clear();
  model.mtp_kinds.clear();
  for (const char symbol : pattern.layers) model.layers.push_back(index(symbol));
  for (const char symbol : pattern.mtp) model.mtp_kinds.push_back(index(symbol));
  if (keys.num_layers && *keys.num_layers != model.depth())
    model.warnings.push_back(fmt::format("num_layers: hybrid_layer_pattern has {} layers, which count instead of {}",
                                         model.depth(), *keys.num_layers));
  const std::int64_t asked = keys.mtp_num_layers.value_or(pattern.mtp_depths);
  if (asked != pattern.mtp_depths)
    model.warnings.push_back(fmt::format(
        "mtp_num_layers: hybrid_layer_pattern has {} depths, which count instead of {}", pattern.mtp_depths, asked));
  model.mtp_layers = pattern.mtp_depths;
  return {};
}

bool routes_alone(const Architecture& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const model::Layer& layer) {
    return layer.attention.kind == model::AttentionKind::kNone && layer.ffn.is_moe();
  });
}

bool is_hybrid(const Architecture& model) {
  const auto is_half = [](const Layer& kind) {
    const model::Attention& a = kind.attention;
    const bool alone = kind.has_mixer() ? kind.ffn.is_empty() : !kind.ffn.is_empty();
    if (!alone || kind.norms != 1 || kind.cross_attention) return false;
    if (a.kind == AttentionKind::kMamba2) {
      const StateSpace& m = a.mamba;
      return !m.is_first_kind() && m.norm && m.conv_bias && !m.bias;
    }
    return a.mamba.heads == 0 &&
           (a.kind == AttentionKind::kNone || a.kind == AttentionKind::kGqa || a.kind == AttentionKind::kMla);
  };
  return !model.kinds.empty() && std::all_of(model.kinds.begin(), model.kinds.end(), is_half);
}

std::string pattern_of(const Architecture& model) {
  std::string pattern;
  for (const std::uint8_t kind : model.layers) pattern += symbol_of(model.kinds[kind]);
  for (std::int64_t depth = 0; depth < model.mtp_layers; ++depth) {
    pattern += '/';
    for (const std::uint8_t kind : model.mtp_depth()) pattern += symbol_of(model.kinds[kind]);
  }
  return pattern;
}

Status derive_hybrid_stages(Job& job) {
  if (!job.is_megatron() || !is_hybrid(job.model)) return {};
  Parallel& parallel = job.parallel;
  HybridPattern pattern;
  if (job.model_keys.is_hybrid()) {
    PLIMSOLL_TRY(parsed, hybrid_pattern_of(job.model_keys));
    pattern = std::move(parsed);
  }
  const auto refuse = [](bool given, std::string_view key) -> Status {
    if (!given) return {};
    return bad_input(
        fmt::format("{} should not be used with hybrid_layer_pattern. Pipeline stage layout is defined by "
                    "| separators in the pattern.",
                    key));
  };
  PLIMSOLL_TRY_STATUS(refuse(parallel.account_for_embedding, "account_for_embedding_in_pipeline_split"));
  PLIMSOLL_TRY_STATUS(refuse(parallel.account_for_loss, "account_for_loss_in_pipeline_split"));
  PLIMSOLL_TRY_STATUS(refuse(parallel.layers_per_virtual_stage.has_value(), "num_layers_per_virtual_pipeline_stage"));
  const auto segments = static_cast<std::int64_t>(pattern.segments.size());
  std::string layout = segments > 1 ? layout_of(pattern) : std::string();
  // A job that is derived once more has it already.
  PLIMSOLL_TRY_STATUS(refuse(!parallel.layout.empty() && parallel.layout != layout, "pipeline_model_parallel_layout"));
  if (segments <= 1) {
    if (parallel.virtual_pipeline > 1)
      return bad_input(
          "virtual_pipeline_model_parallel_size: a hybrid model has virtual stages only where its "
          "hybrid_layer_pattern has '|' separators",
          "set virtual_pipeline_model_parallel_size = 1");
    return {};
  }
  PLIMSOLL_TRY_STATUS(refuse(parallel.layers_in_first_stage.has_value(), "num_layers_in_first_pipeline_stage"));
  PLIMSOLL_TRY_STATUS(refuse(parallel.layers_in_last_stage.has_value(), "num_layers_in_last_pipeline_stage"));
  if (segments % parallel.pipeline != 0)
    return bad_input(
        fmt::format("the {} pipe-delimited segments of hybrid_layer_pattern must be evenly divisible by "
                    "pipeline_model_parallel_size ({})",
                    segments, parallel.pipeline));
  parallel.layout = std::move(layout);
  return {};
}

Status check_mixer(const Job& job, const StateSpace& mixer) {
  const std::int64_t t = job.parallel.tensor;
  const std::int64_t c = job.parallel.context;
  if (mixer.heads % t != 0)
    return bad_input(
        fmt::format("nheads must be evenly divisble by tp_size: {} heads of the mixer, "
                    "tensor_model_parallel_size {}",
                    mixer.heads, t));
  if (mixer.groups % t != 0)
    return bad_input(
        fmt::format("ngroups must be evenly divisible by tp_size: mamba_num_groups {}, "
                    "tensor_model_parallel_size {}",
                    mixer.groups, t));
  // MambaContextParallel exchanges tokens for heads; groups that are too few are repeated.
  const std::int64_t groups = mixer.groups / t;
  if (mixer.heads / t % c != 0 || (groups % c != 0 && c % groups != 0))
    return bad_input(
        fmt::format("context_parallel_size {} does not divide the {} heads and {} groups of a mixer on a "
                    "tensor-parallel rank",
                    c, mixer.heads / t, groups));
  const std::int64_t projected = mixer.inner() + mixer.conv_channels() + mixer.heads;
  if ((job.precision.fp8 != Fp8Recipe::kNone) && projected % 16 != 0)
    return bad_input(
        fmt::format("For FP8, the innermost dimension of the Mamba layer input projection output tensor "
                    "must be a multiple of 16; it is {}",
                    projected));
  return {};
}

}  // namespace plimsoll::job
