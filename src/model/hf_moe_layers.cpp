// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "model/hf_moe.h"
#include "model/limits.h"

namespace plimsoll::model {

namespace {

// moe_layer_freq: every n-th layer counted from 0, or a list of 0 and 1 per layer.
LayerRule layer_frequency(Fields& in, std::int64_t depth, std::int64_t first_moe) {
  if (!in.is_list("moe_layer_freq")) {
    const std::int64_t frequency = in.size_or("moe_layer_freq", limits::kDepth, 1);
    return [=](std::int64_t i) { return i >= first_moe && i % frequency == 0; };
  }
  const std::vector<std::int64_t> list = in.integers("moe_layer_freq", 1).value_or(std::vector<std::int64_t>{});
  if (static_cast<std::int64_t>(list.size()) != depth) {
    in.fail(fmt::format("moe_layer_freq has {} entries; wanted one for each of the {} layers", list.size(), depth));
    return [](std::int64_t) { return false; };
  }
  return [=](std::int64_t i) { return i >= first_moe && list[static_cast<std::size_t>(i)] == 1; };
}

bool any_dense(const LayerRule& is_moe, std::int64_t depth) {
  for (std::int64_t i = 0; i < depth; ++i)
    if (!is_moe(i)) return true;
  return false;
}

// The width of dense layers, which only files that have some must state.
std::int64_t dense_width(Fields& in, const LayerRule& is_moe, std::int64_t depth) {
  return any_dense(is_moe, depth) ? in.size("intermediate_size", limits::kWidth) : 0;
}

}  // namespace

ShapeFeedForward qwen_feed_forward(Fields& in, const Draft& draft, SharedExpert shared) {
  const std::int64_t step = in.size_or("decoder_sparse_step", limits::kDepth, 1);
  const std::vector<std::int64_t> dense_list =
      in.integers("mlp_only_layers", limits::kDepth).value_or(std::vector<std::int64_t>{});
  const std::int64_t experts = in.size("num_experts", limits::kExperts, 0);
  const LayerRule is_moe = moe_layers(in, draft.depth, [=](std::int64_t i) {
    return experts > 0 && (i + 1) % step == 0 && std::find(dense_list.begin(), dense_list.end(), i) == dense_list.end();
  });
  FeedForward dense = draft.layer.ffn;
  dense.width = dense_width(in, is_moe, draft.depth);
  if (experts == 0) return [dense](std::int64_t, FeedForward& ffn) { ffn = dense; };
  FeedForward mixture = draft.layer.ffn;
  set_experts(mixture, experts, in.size("num_experts_per_tok", limits::kExperts),
              in.size("moe_intermediate_size", limits::kWidth));
  if (shared == SharedExpert::kGated) {
    mixture.shared_width = in.size("shared_expert_intermediate_size", limits::kWidth, 0);
    mixture.shared_gate = mixture.shared_width > 0;
  }
  return [=](std::int64_t i, FeedForward& ffn) { ffn = is_moe(i) ? mixture : dense; };
}

Architecture stack_qwen_moe(Fields& in, Draft draft, SharedExpert shared) {
  const ShapeFeedForward shape = qwen_feed_forward(in, draft, shared);
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) { shape(i, layer.ffn); });
}

Architecture stack_routed(Fields& in, Draft draft) {
  const std::int64_t experts = in.size_or("n_routed_experts|num_local_experts", limits::kExperts, 0, 0);
  const std::int64_t first_moe = in.size_or("first_k_dense_replace", limits::kDepth, 0, 0);
  const LayerRule rule = layer_frequency(in, draft.depth, first_moe);
  const LayerRule is_moe = moe_layers(in, draft.depth, [=](std::int64_t i) { return experts > 0 && rule(i); });
  FeedForward dense = draft.layer.ffn;
  dense.width = dense_width(in, is_moe, draft.depth);
  FeedForward mixture = draft.layer.ffn;
  if (experts > 0) {
    const std::int64_t width = in.size("moe_intermediate_size", limits::kWidth);
    set_experts(mixture, experts, in.size("num_experts_per_tok", limits::kExperts), width);
    mixture.shared_width = in.size_or("n_shared_experts", limits::kExperts, 0, 0) * width;
  }
  return stack(std::move(draft), [&](std::int64_t i, Layer& layer) { layer.ffn = is_moe(i) ? mixture : dense; });
}

}  // namespace plimsoll::model
