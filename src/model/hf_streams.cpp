// SPDX-License-Identifier: Apache-2.0
// Gemma 3n: several residual streams, an embedding of every token for every layer, keys and values that upper layers
// take from lower ones, and gates of which most are zero.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "model/hf_family.h"
#include "model/limits.h"
#include "model/parts.h"

namespace plimsoll::model {

namespace {

Streams read_streams(Fields& in) {
  Streams streams;
  streams.count = in.size("altup_num_inputs", limits::kHeads, 2);
  const std::int64_t active = in.size_or("altup_active_idx", limits::kHeads, 0, 0);
  if (in.ok() && active >= streams.count)
    in.fail(fmt::format("altup_active_idx {} is not one of {} streams", active, streams.count));
  streams.laurel_rank = in.size("laurel_rank", limits::kWidth);
  streams.per_layer_width = in.size("hidden_size_per_layer_input", limits::kHidden);
  streams.per_layer_vocab = in.size("vocab_size_per_layer_input", limits::kVocab);
  streams.scales_output = in.flag("altup_correct_scale", true);
  return streams;
}

// One width for all layers, or a list with one for each.
std::vector<std::int64_t> widths(Fields& in, std::int64_t depth) {
  if (!in.is_list("intermediate_size"))
    return std::vector<std::int64_t>(static_cast<std::size_t>(depth), in.size("intermediate_size", limits::kWidth));
  auto listed = in.integers("intermediate_size", limits::kWidth).value_or(std::vector<std::int64_t>{});
  if (in.ok() && static_cast<std::int64_t>(listed.size()) != depth)
    in.fail(
        fmt::format("intermediate_size has {} entries; wanted one for each of the {} layers", listed.size(), depth));
  listed.resize(static_cast<std::size_t>(depth), 1);
  return listed;
}

// Which layers let only the largest gates pass: the first ten of a deep model where the file does not say it.
LayerRule sparse_layers(Fields& in, std::int64_t depth) {
  constexpr std::int64_t kUsual = 10;
  const auto listed = in.shares("activation_sparsity_pattern");
  if (!listed) return [depth](std::int64_t i) { return depth > kUsual && i < kUsual; };
  if (in.ok() && static_cast<std::int64_t>(listed->size()) != depth)
    in.fail(fmt::format("activation_sparsity_pattern has {} entries; wanted one for each of the {} layers",
                        listed->size(), depth));
  return [list = *listed](std::int64_t i) { return i < std::ssize(list) && list[static_cast<std::size_t>(i)] > 0; };
}

// The layers from this one on take keys and values from below. Each needs one of its kind there.
std::int64_t first_sharing_layer(Fields& in, std::int64_t depth, const LayerRule& full) {
  const std::int64_t shared = in.size_or("num_kv_shared_layers", limits::kDepth, 0, 0);
  if (!in.ok()) return depth;
  if (shared > depth) in.fail(fmt::format("num_kv_shared_layers {} is more than the {} layers", shared, depth));
  const std::int64_t first = depth - shared;
  if (shared == 0 || first <= 0) return depth;  // Transformers shares nothing where no layer is left to make keys
  bool makes[2] = {false, false};
  for (std::int64_t i = 0; i < first; ++i) makes[full(i) ? 1 : 0] = true;
  for (std::int64_t i = first; i < depth; ++i)
    if (!makes[full(i) ? 1 : 0]) {
      in.fail(fmt::format("num_kv_shared_layers {}: layer {} has no layer of its kind below {} to take keys from",
                          shared, i, first));
      break;
    }
  return first;
}

// Four sliding layers, then a full one, where the file does not list them.
Architecture read_gemma3n(Fields& in) {
  Draft draft = start(
      in,
      {.kv_heads = 2, .head_dim = 256, .tied = true, .activation = "gelu_pytorch_tanh", .heads = 8, .vocab = 262400});
  set_attention_bias(draft.layer, in.flag("attention_bias", false));
  draft.layer.norms = 4;
  draft.layer.attention.qk_norm = QkNorm::kPerHead;
  draft.layer.attention.value_norm = true;
  draft.model.norm_in_fp32_to_the_end = true;
  draft.model.final_softcap = !in.is_null("final_logit_softcapping");
  draft.model.streams = std::make_shared<const Streams>(read_streams(in));
  const std::int64_t window = in.is_null("sliding_window") ? 0 : in.size_or("sliding_window", limits::kPositions, 512);
  const LayerRule full =
      full_attention_layers(in, draft.depth, "sliding_attention", [](std::int64_t i) { return (i + 1) % 5 == 0; });
  const std::vector<std::int64_t> width = widths(in, draft.depth);
  const LayerRule sparse = sparse_layers(in, draft.depth);
  const std::int64_t sharing = first_sharing_layer(in, draft.depth, full);
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) {
    if (!full(i)) layer.attention.sliding_window = window;
    layer.attention.shares_keys = i >= sharing;
    layer.ffn.width = width[static_cast<std::size_t>(i)];
    layer.ffn.sparse = sparse(i);
  });
}

constexpr Family kHfStreamFamilies[] = {{"gemma3n_text", read_gemma3n}};

}  // namespace

std::span<const Family> stream_families() { return kHfStreamFamilies; }

}  // namespace plimsoll::model
