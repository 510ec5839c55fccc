// SPDX-License-Identifier: Apache-2.0
// Records become jobs: what each format says, and what makes a record unusable.
#include "truth/record.h"

#include <gtest/gtest.h>

#include "support.h"
#include "truth/score.h"

namespace plimsoll::truth {
namespace {

using test::file_of;
using test::kGolden;
using test::kMegatron;
using test::kThroughput;
using test::kTorch;
using test::kTrainer;
using test::only;
using test::with;

TEST(MegatronRecording, becomes_a_job_of_local_layers) {
  const Record r = only(kMegatron);
  EXPECT_EQ(r.skip, "");
  EXPECT_EQ(r.id, "small");
  EXPECT_EQ(r.pp_rank, 1);
  EXPECT_EQ(r.peak_allocated, 100'000'000);
  EXPECT_EQ(r.peak_reserved, 120'000'000);
  EXPECT_EQ(r.job.model.depth(), 4);
  EXPECT_EQ(r.job.model.layer(0).attention.head_dim, 64);
  EXPECT_EQ(r.job.parallel.tensor, 2);
  EXPECT_TRUE(r.job.parallel.sequence_parallel);
  EXPECT_EQ(r.job.micro_batches, 4);
  EXPECT_EQ(r.job.kernels.implementation, job::Implementation::kLocal);
  EXPECT_EQ(r.job.kernels.loss, job::LossKind::kNativeFused);
  EXPECT_TRUE(r.job.recompute.modules.core_attn);
  EXPECT_EQ(r.groups.at("recompute"), "core_attn");
  EXPECT_EQ(r.groups.at("allocator"), "default");
}

TEST(MegatronRecording, full_recompute_names_its_method) {
  const Record r = only(with(kMegatron, R"("granularity": "selective", "modules": ["core_attn"])",
                             R"("granularity": "full", "method": "block", "num_layers": 2)"));
  EXPECT_EQ(r.skip, "");
  EXPECT_EQ(r.job.recompute.method, job::RecomputeMethod::kBlock);
  EXPECT_EQ(r.job.recompute.num_layers, 2);
  EXPECT_EQ(r.groups.at("recompute"), "full block");
}

TEST(MegatronRecording, recompute_words_that_are_not_known_skip_the_record) {
  EXPECT_EQ(only(with(kMegatron, R"("core_attn")", R"("core_atn")")).skip, "recompute module 'core_atn' is not known");
  EXPECT_EQ(only(with(kMegatron, R"("selective")", R"("some")")).skip,
            "recompute granularity 'some' is neither selective nor full");
  EXPECT_EQ(only(with(kMegatron, R"("granularity": "selective")", R"("granularity": "full")")).skip,
            "recompute method '' is neither uniform nor block");
}

TEST(MegatronRecording, a_field_of_another_type_skips_the_record_and_is_named) {
  EXPECT_EQ(only(with(kMegatron, R"("tp": 2)", R"("tp": "2")")).skip, "parallel.tp: found a string; wanted an integer");
  EXPECT_EQ(only(with(kMegatron, R"("hidden": 512)", R"("hidden": 512.5)")).skip,
            "model.hidden: found a number; wanted an integer");
  EXPECT_EQ(only(with(kMegatron, R"("sequence_parallel": true)", R"("sequence_parallel": 1)")).skip,
            "parallel.sequence_parallel: found an integer; wanted true or false");
  EXPECT_EQ(only(with(kMegatron, R"("modules": ["core_attn"])", R"("modules": "core_attn")")).skip,
            "train.recompute.modules: found a string; wanted a list");
}

TEST(MegatronRecording, a_missing_size_skips_the_record_and_is_named) {
  EXPECT_EQ(only(with(kMegatron, R"("layers": 4, )", "")).skip, "model.layers is missing; wanted an integer");
  EXPECT_EQ(only(with(kMegatron, R"("seq": 256)", R"("seq": null)")).skip, "train.seq is missing; wanted an integer");
  EXPECT_EQ(only(with(kMegatron, R"("peak_allocated": 100000000, )", "")).skip,
            "measured has neither peak_allocated nor step_seconds; wanted one of them");
}

TEST(MegatronRecording, sizes_that_no_machine_has_are_refused) {
  for (const char* size : {"0", "-1", "1000000000000", "9223372036854775807", "-9223372036854775808"}) {
    for (const char* field :
         {R"("layers": 4)", R"("hidden": 512)", R"("heads": 8)", R"("vocab": 1024)", R"("tp": 2)", R"("pp": 2)",
          R"("dp": 1)", R"("micro_batch": 1)", R"("world_size": 4)", R"("ffn": 1024)"}) {
      const std::string name = std::string(field).substr(0, std::string(field).find(':') + 2);
      EXPECT_NE(only(with(kMegatron, field, name + size)).skip, "") << name << size;
    }
  }
}

TEST(MegatronRecording, data_parallel_ranks_must_be_what_the_gpus_make) {
  EXPECT_EQ(only(with(kMegatron, R"("dp": 1)", R"("dp": 2)")).skip,
            "parallel.dp is 2, but 4 GPUs with these sizes make 1");
}

TEST(MegatronRecording, an_unknown_gpu_skips_the_record) {
  EXPECT_NE(only(with(kMegatron, "h200-sxm-141gb", "h900")).skip.find("h900"), std::string::npos);
}

TEST(TorchRecording, becomes_a_job_of_transformers) {
  const Record r = only(kTorch);
  EXPECT_EQ(r.skip, "");
  EXPECT_EQ(r.job.framework, job::Framework::kTransformers);
  EXPECT_TRUE(r.job.precision.autocast);
  EXPECT_EQ(r.job.precision.params, job::DType::kFp32);
  EXPECT_EQ(r.job.optimizer.impl, job::OptimizerImpl::kFused);
  EXPECT_EQ(r.job.recompute.granularity, job::RecomputeGranularity::kFull);
  EXPECT_EQ(r.job.environment.at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_EQ(r.peak_reserved, 60'000'000);
}

TEST(TorchRecording, the_longest_of_drawn_sequences_counts_and_reserved_bytes_are_not_scored) {
  const Record r = only(
      with(kTorch, R"("seq": 256, "seq_choices": null)", R"("steps": 40, "seq": null, "seq_choices": [64, 512, 128])"));
  EXPECT_EQ(r.skip, "");
  EXPECT_EQ(r.job.batch.seq_length, 512);
  EXPECT_FALSE(r.peak_reserved);
}

// (2/3)^3 = 30 % that none of three draws was the longest of three.
TEST(TorchRecording, a_run_too_short_to_draw_the_longest_sequence_is_not_scored) {
  const Record r = only(
      with(kTorch, R"("seq": 256, "seq_choices": null)", R"("steps": 3, "seq": null, "seq_choices": [64, 512, 128])"));
  EXPECT_NE(r.skip.find("30 %"), std::string::npos) << r.skip;
}

TEST(TorchRecording, lora_takes_its_rank_and_targets) {
  const Record r = only(with(kTorch, R"("lora_rank": null, "lora_targets": null)",
                             R"("lora_rank": 16, "lora_targets": ["q_proj", "v_proj"])"));
  EXPECT_EQ(r.skip, "");
  EXPECT_EQ(r.job.adapter.rank, 16);
  EXPECT_EQ(r.job.adapter.targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(r.groups.at("adapter"), "lora");
}

TEST(TorchRecording, absurd_sizes_skip_the_record) {
  EXPECT_EQ(only(with(kTorch, R"("lora_rank": null)", R"("lora_rank": 9223372036854775807)")).skip,
            "train.lora_rank is 9223372036854775807; wanted 0 to 1048576");
  EXPECT_EQ(only(with(kTorch, R"("lora_rank": null)", R"("lora_rank": 8)")).skip,
            "train.lora_rank is given without train.lora_targets");
  EXPECT_NE(only(with(kTorch, R"("seq": 256)", R"("seq": 9223372036854775807)")).skip, "");
}

TEST(TorchRecording, a_run_that_ended_in_an_error_is_not_scored) {
  EXPECT_NE(only(with(kTorch, R"("measured": {)", R"("measured": {"oom_message": "CUDA out of memory", )")).skip, "");
}

TEST(TorchRecording, wrong_and_missing_fields_skip_the_record) {
  EXPECT_EQ(only(with(kTorch, R"("micro_batch": 2)", R"("micro_batch": true)")).skip,
            "train.micro_batch: found a boolean; wanted an integer");
  EXPECT_EQ(only(with(kTorch, R"("precision": "bf16-autocast",)", "")).skip,
            "train.precision is missing; wanted a string");
  EXPECT_NE(only(with(kTorch, R"("hidden_size": 512)", R"("hidden_size": "wide")")).skip, "");
  EXPECT_NE(only(with(kTorch, R"("seq": 256)", R"("seq": null)")).skip, "") << "no sequence length at all";
}

TEST(Golden, becomes_a_job_of_its_flags_on_the_last_rank) {
  const Record r = only(kGolden);
  EXPECT_EQ(r.skip, "");
  EXPECT_EQ(r.id, "gpt/small@golden_dev.json");
  EXPECT_EQ(r.peak_allocated, 1'000'000'000);
  EXPECT_FALSE(r.peak_reserved);
  EXPECT_EQ(r.job.model.depth(), 4);
  EXPECT_EQ(r.groups.at("gpu"), "H100");
  EXPECT_EQ(r.groups.at("family"), "gpt");
}

TEST(Golden, tests_of_something_else_are_skipped_with_their_reason) {
  EXPECT_NE(only(with(kGolden, "regular", "checkpoint-consistency")).skip.find("checkpoint"), std::string::npos);
  EXPECT_EQ(only(with(kGolden, R"({"max": 1000000000.0})", "{}")).skip, "no peak was published");
}

TEST(Golden, wrong_fields_and_flags_skip_the_record) {
  EXPECT_EQ(only(with(kGolden, R"({"max": 1000000000.0})", R"({"max": "big"})")).skip,
            "mem_max_allocated_bytes.max: found a string; wanted a number");
  EXPECT_EQ(only(with(kGolden, R"("world_size": 8, )", "")).skip, "world_size is missing; wanted an integer");
  EXPECT_NE(only(with(kGolden, R"("--hidden-size": 512)", R"("--hidden-size": "wide")")).skip, "");
  EXPECT_NE(only(with(kGolden, R"("--num-layers": 4)", R"("--num-layers": 99999999999)")).skip, "");
}

// Files are touched without their bytes: the container is that of the day when those last changed.
TEST(Golden, of_newer_containers_have_the_workspaces_of_torch_2_12) {
  const std::string gb200 = with(kGolden, R"("gpu_type": "H100")", R"("gpu_type": "GB200")");
  const auto torch = [](const std::string& text) { return only(text).job.stated.at("torch_version"); };
  EXPECT_EQ(torch(gb200), "2.11");
  EXPECT_EQ(torch(with(gb200, "2026-01-01", "2026-05-19")), "2.12");
  EXPECT_EQ(torch(with(gb200, R"("environment": "dev")", R"("values_since": "2026-05-19", "environment": "dev")")),
            "2.12");
  EXPECT_EQ(torch(with(with(gb200, "2026-01-01", "2026-08-19"), R"("environment": "dev")",
                       R"("values_since": "2026-04-08", "environment": "dev")")),
            "2.11");
}

// The container of before November 2025 is a fact of the record, not of what it measured.
TEST(Golden, of_old_containers_ran_unfused_attention_where_it_had_to_be_deterministic) {
  const std::string old =
      with(with(kGolden, "2026-01-01", "2025-10-21"), R"("environment": "dev")", R"("environment": "lts")");
  const std::string deterministic =
      with(old, R"("--hidden-size")",
           R"("--transformer-impl": "transformer_engine", "--deterministic-mode": true, "--hidden-size")");
  EXPECT_NE(only(old).job.kernels.attention, job::AttentionBackend::kUnfused);
  EXPECT_EQ(only(deterministic).job.kernels.attention, job::AttentionBackend::kUnfused);
  EXPECT_NE(only(with(deterministic, "2025-10-21", "2025-11-06")).job.kernels.attention,
            job::AttentionBackend::kUnfused);
  EXPECT_NE(only(with(deterministic, R"("environment": "lts")", R"("environment": "dev")")).job.kernels.attention,
            job::AttentionBackend::kUnfused);
}

TEST(Golden, figures_of_one_test_that_differ_are_all_scored) {
  const std::string other = with(with(kGolden, "2026-01-01", "2025-01-01"), "1000000000.0", "100000000.0");
  const auto file = read_records("golden.json", file_of(other + "," + std::string(kGolden)));
  ASSERT_TRUE(file);
  for (const Record& record : file->records) EXPECT_EQ(record.skip, "");
}

TEST(Throughput, becomes_a_job_whose_step_follows_from_tokens_per_second) {
  const Record r = only(kThroughput);
  ASSERT_EQ(r.skip, "");
  EXPECT_TRUE(r.whole_job);
  EXPECT_FALSE(r.peak_allocated);
  EXPECT_EQ(r.groups.at("kind"), "dense");
  EXPECT_EQ(r.job.data_parallel, 4);
  // 128 sequences of 8192 tokens at 12000 tokens/s on each of 8 GPUs.
  EXPECT_NEAR(*r.step_seconds, 128 * 8192 / 12000.0 / 8, 1e-9);
}

TEST(Throughput, of_releases_that_round_tokens_follows_from_flops) {
  const Record r =
      only(with(kThroughput, "\"tokens_per_s_per_gpu\": 12000",
                "\"tokens_per_s_per_gpu\": 12000, \"tflops_per_gpu\": 720, \"rounding_note\": \"coarse\""));
  // 5.147e10 FLOPs per token (facts step-time.md 1).
  EXPECT_NEAR(*r.step_seconds, 128 * 8192 / (720e12 / 5.147e10) / 8, 0.01);
}

// "FP8" is the default of the stack that ran: NeMo's delayed scaling of spring 2025, current scaling of
// Megatron-Bridge.
TEST(Throughput, in_fp8_has_the_recipe_of_its_suite) {
  const std::string fp8 = with(kThroughput, "\"BF16\"", "\"FP8\"");
  EXPECT_EQ(only(fp8).job.precision.fp8, job::Fp8Recipe::kTensorwise);
  EXPECT_EQ(only(with(fp8, "\"megatron-bridge\"", "\"dgx-cloud-benchmarking\"")).job.precision.fp8,
            job::Fp8Recipe::kDelayed);
}

// 61 layers on 32 stages: one beside the embedding, two on each, none beside MTP and loss.
TEST(Throughput, of_a_layout_that_is_short_by_three_ends_without_a_layer) {
  const std::string deepseek = with(with(kThroughput, "LLAMA3_8B", "DeepSeekV3"), "\"gbs\": 128", "\"gbs\": 8192");
  const Record r = only(with(with(deepseek, "\"gpus\": 8", "\"gpus\": 1024"), "\"tp\": 2",
                             R"("tp": 2, "pp": 8, "vp": 4, "ep": 64, "overlap_grad_reduce": false)"));
  ASSERT_EQ(r.skip, "");
  EXPECT_EQ(r.job.parallel.layout, "Et*1|(t*2|)*30mL");
  EXPECT_FALSE(r.job.optimizer.overlap_grad_reduce);
}

TEST(Throughput, that_cannot_be_predicted_says_why) {
  EXPECT_NE(only(with(kThroughput, "LLAMA3_8B", "no-such-model")).skip.find("no-such-model"), std::string::npos);
  EXPECT_NE(only(with(kThroughput, "DGX-H100", "Cray-1")).skip, "");
  EXPECT_NE(only(with(kThroughput, "\"gbs\": 128", "\"gbs\": null")).skip.find("global batch"), std::string::npos);
  EXPECT_NE(only(with(kThroughput, "\"gbs\": 128", "\"gbs\": \"many\"")).skip.find("gbs"), std::string::npos);
  EXPECT_NE(only(with(kThroughput, "\"tp\": 2", "\"tp\": 7")).skip, "");
}

TEST(TrainerRecord, is_read_as_fit_would_read_its_files) {
  const Record r = only(kTrainer);
  EXPECT_EQ(r.skip, "");
  EXPECT_EQ(r.job.batch.micro_batch, 3);
  EXPECT_EQ(r.job.batch.seq_length, 512);
  EXPECT_EQ(r.job.recompute.granularity, job::RecomputeGranularity::kFull);
  EXPECT_EQ(r.job.precision.params, job::DType::kBf16);
  EXPECT_TRUE(r.whole_job);
  EXPECT_EQ(r.groups.at("family"), "llama");
  EXPECT_DOUBLE_EQ(*r.step_seconds, 0.5);
}

TEST(TrainerRecord, peaks_of_steps_and_evaluation_are_one_peak) {
  const Record r = only(kTrainer);
  EXPECT_EQ(r.peak_allocated, 1500);
  EXPECT_EQ(r.peak_reserved, 2000);
}

TEST(TrainerRecord, that_fit_would_refuse_says_why) {
  EXPECT_NE(only(with(kTrainer, "\"llama\"", "\"lama\"")).skip.find("lama"), std::string::npos);
  EXPECT_NE(only(with(kTrainer, "\"seq_length\": 512", "\"seq_length\": \"x\"")).skip.find("seq_length"),
            std::string::npos);
  EXPECT_NE(only(with(kTrainer, "\"gpus\": 1", "\"gpus\": 0")).skip, "");
}

TEST(TrainerRecord, of_a_slower_host_is_predicted_to_take_longer) {
  const auto seconds = [](const std::string& record) {
    RecordFile file = read_records("host.json", file_of(record)).value();
    return score(file, {.memory = false}).rows.at(0).predicted;
  };
  // Without checkpointing, whose hooks no launch is part of.
  const std::string usual = with(kTrainer, "\"gradient_checkpointing\": true", "\"gradient_checkpointing\": false");
  const std::string slow = with(usual, "\"gpus\": 1", "\"gpus\": 1, \"host_speed\": 0.5");
  EXPECT_DOUBLE_EQ(only(slow).host_speed, 0.5);
  EXPECT_GT(seconds(slow), 1.9 * seconds(usual));  // a small model: the host is all of it
  const auto refused = [](const char* speed) {
    const std::string record = with(kTrainer, "\"gpus\": 1", std::string("\"gpus\": 1, \"host_speed\": ") + speed);
    RecordFile file = read_records("host.json", file_of(record)).value();
    return score(file).skipped.at(0).reason;
  };
  EXPECT_NE(refused("0").find("host_speed is 0; wanted more than 0"), std::string::npos);
  EXPECT_NE(refused("-1").find("host_speed"), std::string::npos);
  EXPECT_NE(refused("\"fast\"").find("host_speed"), std::string::npos);
}

TEST(TrainerRecord, may_have_seconds_without_a_peak_but_not_neither) {
  const std::string without_peak = with(kTrainer, "\"peak_allocated\": 1000,", "");
  EXPECT_EQ(only(without_peak).skip, "");
  EXPECT_FALSE(only(without_peak).peak_allocated);
  EXPECT_NE(only(with(without_peak, "\"step_seconds\"", "\"seconds\"")).skip.find("neither peak_allocated"),
            std::string::npos);
}

TEST(RecordFile, a_record_of_no_known_kind_is_an_error_that_names_it) {
  const auto file = read_records("x.json", file_of(std::string(kMegatron) + R"(, {"hello": 1})"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message, "record 2 is of no known kind");
  EXPECT_NE(file.error().hint.find("golden_file"), std::string::npos);
  EXPECT_EQ(read_records("x.json", file_of("7")).error().message, "record 1 is of no known kind");
}

TEST(RecordFile, a_file_without_records_is_an_error) {
  for (const char* text : {"{}", "[]", "7", R"({"records": 7})", R"({"records": {}})"})
    EXPECT_EQ(read_records("x.json", text).error().message, "no list \"records\" in it") << text;
  EXPECT_FALSE(read_records("x.json", ""));
  EXPECT_TRUE(read_records("x.json", R"({"records": []})")->records.empty());
}

TEST(RecordFile, a_record_without_an_id_is_called_by_its_number) {
  EXPECT_EQ(only(with(kMegatron, R"("id": "small", )", "")).id, "record-1");
}

}  // namespace
}  // namespace plimsoll::truth
