// SPDX-License-Identifier: Apache-2.0
#include "rl/trainer.h"

#include "base/bytes.h"
#include "model/parameters.h"
#include "rl/support.h"
#include "rl/sync.h"

namespace plimsoll::rl {
namespace {

TrainerMemory memory_of(const Settings& more) {
  const auto run = run_of(with(telescope_settings(), more));
  auto memory = trainer_memory(run, run.trainer);
  if (!memory) ADD_FAILURE() << to_string(memory.error());
  return *memory;
}

const Settings kMegatron = {{"model", "qwen3-14b"},
                            {"gpus", "16"},
                            {"trainer_num_workers", "8"},
                            {"trainer_framework", "megatron-lm"},
                            {"megatron_tensor_parallel_size", "4"},
                            {"megatron_use_transformer_engine", "true"}};

// facts rl-and-inference.md 1: the full state dict in model_dtype on every trainer GPU, 28 to 30 GB for 7B.
TEST(TrainerMemory, fsdp_gathers_the_whole_model_on_every_gpu) {
  const TrainerMemory memory = memory_of({});
  const std::int64_t elements = model::count_parameters(model::find_model("qwen2.5-7b").value()).total;
  EXPECT_EQ(memory.copy, 4 * elements);
  EXPECT_EQ(memory.parameters, 4 * (elements / 4));
  EXPECT_EQ(memory.gradients, 4 * (elements / 4));
  EXPECT_EQ(memory.optimizer, 8 * (elements / 4));
  EXPECT_EQ(memory.peaks[2].bytes - memory.peaks[1].bytes, 256 * kMiB);
  EXPECT_EQ(memory_of({{"model_dtype", "bf16"}}).copy, 2 * elements);
}

TEST(TrainerMemory, staging_does_not_lower_the_gather_of_fsdp) {
  const TrainerMemory without = memory_of({});
  const TrainerMemory staged = memory_of({{"weight_broadcast_cpu_staging", "true"}});
  EXPECT_EQ(staged.peaks[1].bytes, without.peaks[1].bytes);
  EXPECT_EQ(without.peaks[2].bytes - staged.peaks[2].bytes, without.copy);
}

TEST(TrainerMemory, freed_gradient_buffers_pay_off_only_with_staging) {
  const auto peak = [](const char* frees, const char* stages) {
    const TrainerMemory memory = memory_of(
        with(kMegatron, {{"weight_broadcast_free_grad_buffers", frees}, {"weight_broadcast_cpu_staging", stages}}));
    return std::max(memory.peaks[1].bytes, memory.peaks[2].bytes);
  };
  EXPECT_EQ(peak("true", "false"), peak("false", "false"));
  EXPECT_LT(peak("true", "true"), peak("true", "false") - 25 * kGiB);
}

TEST(TrainerMemory, gradients_in_bf16_are_half_as_large) {
  const TrainerMemory fp32 = memory_of(kMegatron);
  const TrainerMemory bf16 = memory_of(with(kMegatron, {{"megatron_grad_reduce_in_fp32", "false"}}));
  EXPECT_EQ(fp32.gradients, 2 * bf16.gradients);
}

TEST(TrainerMemory, the_batch_does_not_change_it_and_the_bin_does) {
  const std::int64_t base = memory_of({}).rank.device_used;
  EXPECT_EQ(memory_of({{"prompts_batch_size_for_trainer", "512"}}).rank.device_used, base);
  EXPECT_GT(memory_of({{"seq_len", "8192"}}).rank.device_used, base + 2 * kGiB);
}

TEST(TrainerMemory, others_send_bucket_by_bucket) {
  const auto run = run_of({{"framework", "verl"},
                           {"model", "qwen2.5-7b"},
                           {"gpu", "h100"},
                           {"gpus", "8"},
                           {"group_size", "8"},
                           {"prompts_per_step", "64"},
                           {"prompt_mean", "300"},
                           {"completion_mean", "1100"},
                           {"max_tokens", "4000"}});
  const auto memory = trainer_memory(run, run.trainer);
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->copy, 0);
  EXPECT_EQ(memory->bucket, 2 * (4LL << 30));
}

TEST(TrainerTime, attention_costs_the_squares_of_the_samples) {
  const auto share = [](const Settings& more) {
    const auto run = run_of(with(telescope_settings(), more));
    const Packed packed = typical_packing(run, 1, run.trainer.data_parallel);
    return trainer_time(run, run.trainer, packed)->attention_share;
  };
  const Settings equal = {{"prompt_mean", "24"}, {"prompt_max", "24"}, {"completion_cv", "0"}};
  // Four samples of 1024 tokens fill a bin: a quarter of the pairs.
  EXPECT_NEAR(share(with(equal, {{"completion_mean", "1000"}})), 0.25, 0.01);
  EXPECT_NEAR(share(with(equal, {{"completion_mean", "3700"}, {"seq_len", "3724"}})), 1, 0.01);
}

TEST(TrainerTime, extra_passes_and_minibatches_cost_what_they_run) {
  const auto time = [](const Settings& more) {
    const auto run = run_of(with(telescope_settings(), more));
    return trainer_time(run, run.trainer, typical_packing(run, 64, run.trainer.data_parallel)).value();
  };
  const TrainerTime base = time({});
  const TrainerTime extra = time({{"ppo_clip_ref_logprobs", "batch"}});
  EXPECT_EQ(extra.forward_backward, base.forward_backward);
  EXPECT_NEAR(extra.extra_passes / base.forward_backward, 0.26, 0.03);  // a third without the recomputation
  EXPECT_NEAR(time({{"reference_pass", "true"}, {"logprob_pass", "true"}}).extra_passes, 2 * extra.extra_passes, 1e-9);
  const TrainerTime split = time({{"number_of_minibatches", "4"}});
  EXPECT_NEAR(split.optimizer, 4 * base.optimizer, 1e-9);
  EXPECT_LT(split.seconds, 1.15 * base.seconds);
  EXPECT_GT(time({{"critic", "true"}}).seconds, 2 * base.seconds);
  EXPECT_NEAR(time({{"overhead_seconds", "7"}}).seconds, base.seconds + 7, 1e-9);
}

// Measured by verl on H20 without and with its checkpoint engine (facts rl-and-inference.md 6). The catalogue knows no
// network card of an H20; that of an H100, 400 Gbit/s, gives the 40 GB/s that the facts reckon with.
TEST(WeightSync, verls_measurements_are_met_within_a_half) {
  const auto seconds = [](const char* model, const char* gpus, const char* mode, const Settings& more) {
    Settings settings = {{"framework", "verl"},  {"model", model},
                         {"gpu", "h100"},        {"gpus", gpus},
                         {"group_size", "8"},    {"prompts_per_step", "64"},
                         {"prompt_mean", "300"}, {"completion_mean", "1100"},
                         {"max_tokens", "4000"}, {"placement", "disaggregated"},
                         {"mode", "sync"},       {"weight_broadcast_mode", mode}};
    const auto run = run_of(with(settings, more));
    return sync_time(run, run.trainer, 0).seconds();
  };
  const Settings large = {{"trainer_framework", "megatron-lm"},
                          {"pipeline_model_parallel_size", "2"},
                          {"expert_model_parallel_size", "32"},
                          {"inference_tensor_parallel_size", "8"}};
  const Settings medium = {{"trainer_framework", "megatron-lm"}, {"expert_model_parallel_size", "16"}};
  EXPECT_NEAR(seconds("qwen3-30b-a3b", "32", "per-tensor", medium), 15.8, 0.5 * 15.8);
  EXPECT_NEAR(seconds("qwen3-30b-a3b", "32", "checkpoint-engine", medium), 4.4, 0.5 * 4.4);
  EXPECT_NEAR(seconds("qwen3-235b-a22b", "128", "per-tensor", large), 58.6, 0.5 * 58.6);
  EXPECT_NEAR(seconds("qwen3-235b-a22b", "128", "checkpoint-engine", large), 23.7, 0.5 * 23.7);
  EXPECT_LT(seconds("qwen2.5-7b", "8", "per-tensor", {}), 0.5);
}

TEST(WeightSync, staging_and_pinning_cost_copies) {
  const auto seconds = [](const Settings& more) {
    const auto run = run_of(with(telescope_settings(), more));
    return sync_time(run, run.trainer, 0).seconds();
  };
  const double base = seconds({});
  const double pinned = seconds({{"weight_broadcast_cpu_staging", "true"}});
  const double pageable = seconds({{"weight_broadcast_cpu_staging", "true"}, {"weight_broadcast_pin_memory", "false"}});
  EXPECT_GT(pinned, base + 0.3);
  EXPECT_GT(pageable, pinned + 0.3);
}

TEST(WeightSync, a_second_node_makes_the_network_the_link) {
  const auto sync = [](const char* gpus) {
    const auto run = run_of(with(telescope_settings(), {{"gpus", gpus}}));
    return sync_time(run, run.trainer, 0);
  };
  EXPECT_FALSE(sync("8").crosses);
  EXPECT_TRUE(sync("16").crosses);
  EXPECT_GT(sync("16").transfer, 8 * sync("8").transfer);
}

}  // namespace
}  // namespace plimsoll::rl
