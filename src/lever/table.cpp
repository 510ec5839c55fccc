// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "base/result.h"
#include "base/text.h"
#include "job/keys.h"
#include "lever/proposers.h"

namespace plimsoll::lever {

namespace {

// Cheapest and least intrusive first within a kind; `fit` and the ladder rank by price, not by row.
constexpr Lever kLevers[] = {
    // The allocator and the batch.
    {"expandable-segments", "let the allocator grow its segments", true, Reach::kVariable, true,
     "PyTorch notes on CUDA memory; facts pytorch-allocator.md 7b", expandable_segments},
    {"micro-batch", "smaller micro-batches, more of them: the same sequences per step", true, Reach::kBatch, true,
     "facts megatron-memory.md 4", smaller_micro_batch},
    {"smaller-micro-batch", "micro-batches smaller than the half", true, Reach::kBatch, false,
     "facts megatron-memory.md 4", much_smaller_micro_batch},
    {"evaluation-batch", "smaller batches of evaluation", true, Reach::kBatch, true,
     "facts other-frameworks-memory.md 2.9", smaller_evaluation_batch},
    // What backward computes again.
    {"recompute-attention", "recompute core attention", true, Reach::kSwitch, false, "facts megatron-memory.md 5.1",
     recompute_attention},
    {"recompute-up-projection", "recompute the up-projections of latent attention", true, Reach::kSwitch, false,
     "facts megatron-memory.md 5.1", recompute_up_projection},
    {"recompute-moe-act", "recompute the experts' activation function", true, Reach::kSwitch, true,
     "facts megatron-memory.md 5.1", recompute_moe_act},
    {"recompute-mlp", "recompute the feed-forward block", true, Reach::kSwitch, true, "facts megatron-memory.md 5.1",
     recompute_mlp},
    {"recompute-moe", "recompute the expert block", true, Reach::kSwitch, true, "facts megatron-memory.md 5.1",
     recompute_moe},
    {"recompute-some-layers", "recompute some of the layers", true, Reach::kSwitch, false,
     "facts megatron-memory.md 5.2", recompute_some_layers},
    {"recompute-layers", "recompute whole layers", true, Reach::kSwitch, true, "facts megatron-memory.md 5.2",
     recompute_layers},
    // Kernels.
    {"flash-attention", "attention that never makes the score matrix", true, Reach::kSwitch, true,
     "facts other-frameworks-memory.md 2.3", flash_attention},
    {"chunked-loss", "logits and loss in pieces", true, Reach::kSwitch, true, "facts other-frameworks-memory.md 2.5",
     chunked_loss},
    {"cuda-graphs", "capture launches in CUDA graphs", true, Reach::kSwitch, true, "facts megatron-memory.md 9",
     cuda_graphs},
    // How weights, gradients and moments are kept.
    {"precision-aware-optimizer", "main weights as the 16 bits that bf16 lacks", true, Reach::kSwitch, true,
     "facts megatron-memory.md 3.2", precision_aware_optimizer},
    {"shard-optimizer", "shard the optimizer's states over data-parallel ranks", true, Reach::kSwitch, true,
     "facts megatron-memory.md 3.2", shard_optimizer},
    {"shard-everything", "shard weights and gradients over data-parallel ranks too", true, Reach::kSplit, true,
     "facts megatron-memory.md 3.5; other-frameworks-memory.md 6.1", shard_everything},
    {"reshard-after-forward", "free gathered weights between forward and backward", true, Reach::kSwitch, false,
     "facts other-frameworks-memory.md 6.1", reshard_after_forward},
    // The host.
    {"offload-optimizer", "keep the optimizer on the host", true, Reach::kHost, false, "facts megatron-memory.md 3.4",
     offload_optimizer},
    {"offload-weights", "keep weights on the host", true, Reach::kHost, false, "facts other-frameworks-memory.md 5.3",
     offload_weights},
    {"offload-activations", "keep activations on the host", true, Reach::kHost, false, "facts megatron-memory.md 8",
     offload_activations},
    // The split.
    {"sequence-parallel", "shard what tensor parallelism leaves whole", true, Reach::kSplit, true,
     "facts megatron-memory.md 4", sequence_parallel},
    {"more-pipeline", "more pipeline stages", true, Reach::kSplit, true, "facts megatron-memory.md 7", more_pipeline},
    {"more-tensor", "more tensor parallelism", true, Reach::kSplit, true, "facts megatron-memory.md 2", more_tensor},
    {"more-context", "more context parallelism", true, Reach::kSplit, true, "facts megatron-memory.md 4.4",
     more_context},
    {"context-messages", "another way to pass keys and values between context ranks", true, Reach::kSplit, false,
     "facts step-time.md 7", context_messages},
    {"more-expert", "more expert parallelism", true, Reach::kSplit, true, "facts megatron-memory.md 2.3", more_expert},
    // What is learned changes.
    {"adam-8bit", "moments of Adam in eight bits", false, Reach::kSwitch, true, "facts other-frameworks-memory.md 4",
     adam_8bit},
    {"adafactor", "Adafactor instead of Adam", false, Reach::kSwitch, false, "facts other-frameworks-memory.md 1",
     adafactor},
    {"bf16", "compute in bf16 instead of fp32", false, Reach::kSwitch, false, "facts other-frameworks-memory.md 2.6",
     bf16},
    {"fp8", "matrix products in FP8", false, Reach::kSwitch, false, "facts megatron-memory.md 3.3", fp8},
    {"gradients-bf16", "gradients in bf16", false, Reach::kSwitch, false, "facts megatron-memory.md 3.1",
     gradients_bf16},
    {"shorter-sequences", "shorter sequences", false, Reach::kBatch, false, "facts megatron-memory.md 4",
     shorter_sequences},
    {"lora", "train an adapter instead of the model", false, Reach::kSwitch, false,
     "facts other-frameworks-memory.md 3.1", lora},
    {"qlora", "train an adapter over a 4-bit model", false, Reach::kSwitch, false,
     "facts other-frameworks-memory.md 3.3", qlora},
};

}  // namespace

std::span<const Lever> levers() { return kLevers; }

const Lever* find_lever(std::string_view id) {
  const auto* found =
      std::find_if(std::begin(kLevers), std::end(kLevers), [id](const Lever& lever) { return lever.id == id; });
  return found == std::end(kLevers) ? nullptr : found;
}

const Lever& lever_of(const Change& change) {
  const Lever* lever = find_lever(change.lever);
  PLIMSOLL_CHECK(lever != nullptr);
  return *lever;
}

std::vector<Change> changes_of(const job::Job& job, const Which& which) {
  Proposals proposals;
  for (const Lever& lever : kLevers) {
    if (which.only_usual && !lever.usual) continue;
    if (lever.lossless ? !which.lossless : !which.science) continue;
    proposals.of(lever);
    lever.propose(job, proposals);
  }
  return proposals.take();
}

std::string as_flags(const job::Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [key, value] : settings) {
    std::string text = value;
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    if (text.empty()) continue;
    // A name that is no key of ours is a switch to the command line: its value is attached.
    const bool is_key = job::is_key(job::canonical_name(key)) || key.starts_with("environment.");
    words.push_back(fmt::format("--{}{}{}", key.find('.') == std::string::npos ? replace(key, '_', '-') : key,
                                is_key ? ' ' : '=', text));
  }
  return join(words, " ");
}

}  // namespace plimsoll::lever
