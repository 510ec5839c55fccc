// SPDX-License-Identifier: Apache-2.0
// From given to complete: the split of the GPUs, lengths that hold together, the trainer's job.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/checked.h"
#include "job/read.h"
#include "rl/lengths.h"
#include "rl/run.h"
#include "rl/trainer.h"
#include "rules/rules.h"

namespace plimsoll::rl {

Run::Run() = default;
Run::Run(const Run&) = default;
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(const Run&) = default;
Run& Run::operator=(Run&&) noexcept = default;
Run::~Run() = default;

namespace {

constexpr std::int64_t kMostSamples = 1 << 18;  // of a step; more is a mistyped number, and would be simulated

std::string_view limit_name(Framework framework) {
  switch (framework) {
    case Framework::kVerl:
      return "staleness_threshold";
    case Framework::kNemoRl:
      return "max_trajectory_age_steps";
    case Framework::kOpenRlhf:
      return "async_queue_size";
    default:
      return "max_async_rollout";
  }
}

Status require_given(const Run& run) {
  if (run.model_name.empty()) return bad_input("the model is not known", "give model = \"qwen3-8b\", say, or --model");
  if (!run.has("gpu") && !run.has("gpu_memory"))
    return bad_input("the GPU is not known", "give gpu = \"h100\", say, or --gpu");
  if (run.algorithm.group_size < 1)
    return bad_input("the samples per prompt are not known", "give group_size = 8, say");
  if (run.algorithm.prompts_per_step < 1)
    return bad_input("the prompts per step are not known", "give prompts_batch_size_for_trainer = 64, say");
  if (run.samples_per_step() > kMostSamples)
    return bad_input(fmt::format("{} prompts of {} samples are {} samples per step: wanted at most {}",
                                 run.algorithm.prompts_per_step, run.algorithm.group_size, run.samples_per_step(),
                                 kMostSamples));
  if (run.staleness.mode == Mode::kAsync && run.staleness.limit < 0)
    return bad_input("how far generation may run ahead is not known",
                     fmt::format("give {} = 0.5, say", limit_name(run.framework)));
  return {};
}

Status check_lengths(Lengths& lengths, const char* what) {
  if (!lengths.counts.empty()) {
    if (lengths.cv > 0) return bad_input(fmt::format("{}_histogram and {}_cv are both given", what, what));
    std::int64_t& maximum = lengths.maximum;
    const std::int64_t longest = lengths.counts.back().first;
    if (maximum == 0 || maximum > longest) maximum = longest;
    lengths.mean = Distribution(lengths).mean();
    return {};
  }
  if (!(lengths.mean >= 1))
    return bad_input(fmt::format("the mean {} length is not known", what),
                     fmt::format("give {}_mean = 500, say, or {}_histogram = \"FILE\"", what, what));
  if (lengths.maximum > 0 && lengths.mean > static_cast<double>(lengths.maximum))
    return bad_input(
        fmt::format("{}_mean {} is more than the longest allowed, {}", what, lengths.mean, lengths.maximum));
  if (lengths.maximum == 0) {
    // Without a limit of its own a length has one that it hardly ever meets.
    lengths.maximum = static_cast<std::int64_t>(std::min(1e9, Distribution(lengths).quantile(0.9999))) + 1;
  }
  return {};
}

Status check_rules(Run& run) {
  const bool waits = run.staleness.mode == Mode::kSync;
  if (run.is_colocated() && !waits)
    return bad_input("generation cannot run beside training on the same GPUs: placement is colocated and mode is " +
                         std::string{name_of(run.staleness.mode)},
                     "set placement = \"disaggregated\", or mode = \"sync\"");
  if (run.is_colocated() && (run.framework == Framework::kPrimeRl || run.framework == Framework::kTelescope))
    return bad_input(
        fmt::format("{} keeps trainer and servers on separate GPUs: placement is colocated", name_of(run.framework)));
  if (!run.has("weight_broadcast_mode") && run.is_colocated()) run.sync.mode = SyncMode::kShared;
  if (run.sync.mode == SyncMode::kShared && !run.is_colocated())
    return bad_input("weight_broadcast_mode is shared, and the pools share no GPU");
  if (waits) run.staleness.limit = 0;
  // NeMo-RL's recipes take 0.7 to 0.88 of a GPU that only serves (facts rl-and-inference.md 6).
  if (run.framework == Framework::kNemoRl && !run.is_colocated() && !run.has("gpu_memory_utilization"))
    run.server.memory_fraction = 0.8;
  if (!run.has("max_model_len") && !run.server.max_model_len)
    run.server.max_model_len = run.prompt.maximum + run.completion.maximum;
  if (run.packing.seq_len == 0) run.packing.seq_len = run.prompt.maximum + run.completion.maximum;
  if (run.server.max_model_len && run.prompt.maximum + run.completion.maximum > *run.server.max_model_len)
    run.warnings.push_back(
        fmt::format("max_model_len: {} tokens hold no prompt of {} with {} new tokens; samples end there",
                    *run.server.max_model_len, run.prompt.maximum, run.completion.maximum));
  return {};
}

Status split_gpus(Run& run) {
  std::int64_t& all = run.cluster.gpus;
  const std::int64_t unit = run.gpus_per_server();
  if (run.is_colocated()) {
    if (all == 0) all = std::max(run.trainer_gpus, run.inference_gpus);
    if (all == 0) return bad_input("the number of GPUs is not known", "give gpus = 16, say, or --gpus");
    run.trainer_gpus = run.inference_gpus = all;
  } else {
    const bool both = run.trainer_gpus > 0 && run.inference_gpus > 0;
    if (all == 0 && both) all = run.trainer_gpus + run.inference_gpus;
    if (all == 0)
      return bad_input("the number of GPUs is not known",
                       "give gpus = 16, say, or trainer_num_workers and inference_num_workers");
    if (run.trainer_gpus == 0 && run.inference_gpus == 0) {
      run.inference_gpus = all / 2 / unit * unit;
      run.trainer_gpus = all - run.inference_gpus;
      run.warnings.emplace_back(
          "inference_num_workers: not given; half of the GPUs serve (--plan finds the best split)");
    } else if (run.trainer_gpus == 0) {
      run.trainer_gpus = all - run.inference_gpus;
    } else if (run.inference_gpus == 0) {
      run.inference_gpus = all - run.trainer_gpus;
    }
    if (run.trainer_gpus + run.inference_gpus > all)
      return bad_input(fmt::format("trainer_num_workers {} and inference_num_workers {} are more than gpus {}",
                                   run.trainer_gpus, run.inference_gpus, all));
    if (run.trainer_gpus + run.inference_gpus < all)
      run.warnings.push_back(
          fmt::format("gpus: {} of {} are in neither pool", all - run.trainer_gpus - run.inference_gpus, all));
  }
  if (run.trainer_gpus < 1 || run.inference_gpus < 1)
    return bad_input(fmt::format("one pool has no GPU: {} train and {} serve", run.trainer_gpus, run.inference_gpus),
                     "give more GPUs, or a smaller inference_tensor_parallel_size");
  if (run.inference_gpus % unit != 0)
    return bad_input(
        fmt::format("inference_num_workers {} is not divisible by the {} GPUs of a server", run.inference_gpus, unit),
        "inference_num_workers counts GPUs, not servers");
  return {};
}

// What the trainer's framework refuses at its start.
Status check_trainer(const job::Job& trainer) {
  if (!trainer.is_megatron() && trainer.asked.fp8)
    return bad_input(fmt::format("fp8: a trainer of {} computes in bf16; FP8 is Megatron's with Transformer Engine",
                                 job::name_of(trainer.framework)),
                     "leave megatron_fp8 out, or set trainer_framework = \"megatron-lm\"");
  if (trainer.asked.fp8 && trainer.kernels.implementation == job::Implementation::kLocal)
    return bad_input("fp8: Megatron's own modules compute in bf16; FP8 needs those of Transformer Engine",
                     "set megatron_use_transformer_engine = true too, or leave megatron_fp8 out");
  for (const rules::Violation& violation : rules::check(trainer))
    if (violation.rule->severity == rules::Severity::kError)
      return bad_input(fmt::format("trainer: {} ({})", violation.wrong, violation.rule->id),
                       std::string(violation.rule->fix));
  return {};
}

}  // namespace

Status complete(Run& run) {
  PLIMSOLL_TRY_STATUS(require_given(run));
  PLIMSOLL_TRY_STATUS(check_lengths(run.prompt, "prompt"));
  PLIMSOLL_TRY_STATUS(check_lengths(run.completion, "completion"));
  PLIMSOLL_TRY_STATUS(check_rules(run));
  PLIMSOLL_TRY_STATUS(split_gpus(run));
  PLIMSOLL_TRY(job, make_trainer(run));
  PLIMSOLL_TRY_STATUS(check_trainer(job));
  run.trainer = std::move(job);
  run.model = run.trainer.model;
  run.server.model = run.model;
  run.server.gpu = run.cluster.gpu;
  for (const std::string& warning : run.trainer.warnings) run.warnings.push_back("trainer: " + warning);
  return {};
}

}  // namespace plimsoll::rl
