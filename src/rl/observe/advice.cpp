// SPDX-License-Identifier: Apache-2.0
// The decision lists of facts rl-and-inference.md 8 and of the performance page that its section 1 corrects, in the
// order in which to try them. A knob that the framework does not have is left out.
#include <fmt/format.h>

#include "rl/frameworks/names.h"
#include "rl/observe/observer.h"

namespace plimsoll::rl {

namespace {

struct Row {
  Bottleneck bottleneck;
  std::string_view key;
  std::string_view change;
  std::string_view why;
};

constexpr Row kRows[] = {
    {Bottleneck::kRollout, "inference_num_workers", "raise",
     "more servers generate side by side; taken from the trainer, tokens/s are best where both sides wait equally"},
    {Bottleneck::kRollout, "max_concurrent_prompts_per_server", "raise",
     "as far as the cache holds the requests (about 70 % of it in use); beyond that they wait or are preempted"},
    {Bottleneck::kRollout, "inference_tensor_parallel_size", "raise only for memory or latency",
     "a server reads its weights faster and has more cache, but there are fewer servers"},
    {Bottleneck::kRollout, "enable_prefix_caching", "true", "a group's prompt is prefilled once instead of per sample"},
    {Bottleneck::kRollout, "kv_cache_dtype", "fp8", "half the bytes per token: twice the requests, faster decoding"},
    {Bottleneck::kRollout, "max_tokens", "lower", "cuts the longest completions, which the batch waits for"},
    {Bottleneck::kTrainer, "trainer_num_workers", "raise", "the trainer is what bounds the run: give it GPUs"},
    {Bottleneck::kTrainer, "seq_len", "set to the longest sample", "bins that are too long cost memory and padding"},
    {Bottleneck::kTrainer, "recompute", "less, where memory allows", "recomputation is up to a third of the work"},
    {Bottleneck::kTrainer, "fp8", "on, on Hopper and newer", "products run at up to twice the rate"},
    {Bottleneck::kTrainer, "prompts_batch_size_for_trainer", "raise",
     "the optimizer step and the weight synchronisation are paid once per batch"},
    {Bottleneck::kTrainer, "logprob_pass", "the server's log-probabilities", "saves one forward over the batch"},
    {Bottleneck::kKvCache, "max_concurrent_prompts_per_server", "lower",
     "to what the cache holds at about 70 %: a preempted request is prefilled again from the start"},
    {Bottleneck::kKvCache, "inference_tensor_parallel_size", "raise",
     "weights take less of each GPU; where they fill most of it the cache grows more than twofold"},
    {Bottleneck::kKvCache, "gpu_memory_utilization", "raise",
     "all of it becomes cache; before vLLM 0.20 CUDA graphs must still fit what is left"},
    {Bottleneck::kKvCache, "kv_cache_dtype", "fp8", "half the bytes per token"},
    {Bottleneck::kKvCache, "max_tokens", "lower", "shorter completions hold fewer blocks"},
    {Bottleneck::kKvCache, "max_num_batched_tokens", "lower", "the profile run takes less, the cache gets it"},
    {Bottleneck::kLanes, "max_concurrent_prompts_per_server", "raise", "until about 70 % of the cache is in use"},
    {Bottleneck::kLanes, "max_num_seqs", "raise", "where it is below the lanes of a server"},
    {Bottleneck::kLanes, "enable_individual_sample_lanes", "true",
     "a finished sample frees its lane at once instead of with its group"},
    {Bottleneck::kEnvironment, "free_lane_after_generation", "true", "a lane is not held while its reward is computed"},
    {Bottleneck::kEnvironment, "enable_individual_sample_lanes", "true",
     "a slow sample holds one lane, not its group's"},
    {Bottleneck::kEnvironment, "environment_workers", "raise", "rewards and tools run side by side"},
    {Bottleneck::kEnvironment, "enable_prompt_prefetch", "true", "prompts are prepared while lanes are busy"},
    {Bottleneck::kEnvironment, "prompt_prefetch_buffer_size", "raise", "where prompts take long to prepare"},
    {Bottleneck::kEnvironment, "max_concurrent_prompts_per_server", "raise", "more lanes hide the time of tools"},
    {Bottleneck::kWeightSync, "weight_broadcast_mode", "buckets over NCCL, or a checkpoint engine",
     "one message per tensor, or a file system, costs most"},
    {Bottleneck::kWeightSync, "weight_broadcast_bucket_mb", "raise", "fewer, larger messages"},
    {Bottleneck::kWeightSync, "ray_inference_placement_strategy", "PACK", "the last hop stays on NVLink"},
    {Bottleneck::kWeightSync, "trigger_parameter_sync_step", "raise", "fewer updates; samples are older"},
    {Bottleneck::kWeightSync, "prompts_batch_size_for_trainer", "raise", "one update serves more samples"},
};

struct Note {
  Bottleneck bottleneck;
  std::string_view key;  // the note is about this knob, {} stands for its name
  std::string_view text;
};

// Claims of the page that its code contradicts, and limits of its advice (facts rl-and-inference.md 1, 8).
constexpr Note kNotes[] = {
    {Bottleneck::kRollout, "max_tokens",
     "{} that is above what samples reach reserves nothing: blocks are taken as tokens arrive"},
    {Bottleneck::kTrainer, "max_async_rollout",
     "raising {} smooths jitter but cannot lift a lasting limit of the trainer: samples only get older"},
    {Bottleneck::kTrainer, "prompts_batch_size_for_trainer",
     "a larger {} does not need more activation memory where samples are packed into bins: bins run one at a time"},
    {Bottleneck::kTrainer, "number_of_minibatches", "{} changes what is learned per batch, not tokens/s"},
    {Bottleneck::kKvCache, "max_model_len",
     "lowering {} frees no cache: the engine fills the memory share whatever the longest request"},
    {Bottleneck::kStartUp, "gpu_memory_utilization",
     "running out of memory is possible for a server: at start-up, and before vLLM 0.20 when graphs are captured"},
};

std::string_view name_for(std::optional<Framework> framework, std::string_view key) {
  return framework ? knob_in(*framework, key) : key;
}

}  // namespace

std::vector<Advice> advice_for(Bottleneck bottleneck, std::optional<Framework> framework) {
  std::vector<Advice> advice;
  for (const Row& row : kRows) {
    if (row.bottleneck != bottleneck) continue;
    const std::string_view knob = name_for(framework, row.key);
    if (!knob.empty())
      advice.push_back({std::string{knob}, std::string{row.change}, std::string{row.why}, std::string{row.key}, {}});
  }
  return advice;
}

std::vector<std::string> notes_for(Bottleneck bottleneck, std::optional<Framework> framework) {
  std::vector<std::string> notes;
  for (const Note& note : kNotes) {
    if (note.bottleneck != bottleneck) continue;
    const std::string_view knob = name_for(framework, note.key);
    if (knob.empty()) continue;
    std::string text{note.text};
    if (const std::size_t at = text.find("{}"); at != std::string::npos) text.replace(at, 2, knob);
    notes.push_back(std::move(text));
  }
  return notes;
}

}  // namespace plimsoll::rl
