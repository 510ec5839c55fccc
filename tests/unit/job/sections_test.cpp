// SPDX-License-Identifier: Apache-2.0
// Tools that keep Megatron's or Transformers' settings in sections of their own, harnesses, and trainers on JAX.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::read_text;
using test::text_of;
using testing::AllOf;
using testing::HasSubstr;

void expect_small_gpt(const Result<Job>& job) {
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kMegatronLm);
  EXPECT_EQ(job->cluster.gpus, 16);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->parallel.pipeline, 2);
  EXPECT_TRUE(job->parallel.sequence_parallel);
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.global_batch, 64);
  EXPECT_EQ(job->model.depth(), 8);
  EXPECT_EQ(job->model.kinds.front().ffn.width, 2816);
  EXPECT_TRUE(job->model.kinds.front().ffn.gated);
  EXPECT_TRUE(job->asked.bf16);
}

TEST(Sections, nemo_before_2_is_read_as_megatrons_arguments) {
  const auto job = test::read({"nemo-megatron.yaml"}, on("h100"));
  expect_small_gpt(job);
  ASSERT_TRUE(job);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_TRUE(job->optimizer.distributed);
  EXPECT_FALSE(job->optimizer.grad_reduce_in_fp32);
}

TEST(Sections, flagscale_is_read_as_megatrons_arguments) {
  expect_small_gpt(test::read({"flagscale.yaml"}, on("h100", 16)));
}

constexpr std::string_view kAutomodel =
    "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
    "step_scheduler: {global_batch_size: 64, local_batch_size: 2, max_steps: 10}\n"
    "model:\n  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
    "  pretrained_model_name_or_path: Qwen/Qwen2.5-7B\n"
    "distributed: {strategy: fsdp2, dp_size: none, tp_size: 2, cp_size: 1, sequence_parallel: false}\n"
    "dataset: {_target_: some.data, seq_length: 2048}\n"
    "packed_sequence: {packed_sequence_size: 0}\n"
    "optimizer: {_target_: torch.optim.Adam, lr: 1e-5}\n"
    "lr_scheduler: {lr_decay_style: cosine}\n";

TEST(Sections, automodel_is_transformers_under_fsdp2_with_weights_as_the_checkpoint_has_them) {
  const auto job = read_text(std::string(kAutomodel), on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp2);
  EXPECT_EQ(job->precision.load_dtype, DType::kBf16);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.global_batch, 64);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->batch.seq_length, 2048);
}

TEST(Sections, automodels_adapters_are_read) {
  const auto job = read_text(std::string(kAutomodel) +
                                 "peft:\n  _target_: nemo_automodel.components._peft.lora.PeftConfig\n"
                                 "  match_all_linear: true\n  dim: 16\n  alpha: 32\n",
                             on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.rank, 16);
}

TEST(Sections, eight_bit_floats_that_are_switched_on_are_not_passed_over) {
  const auto job =
      read_text(std::string(kAutomodel) + "fp8: {enabled: true, recipe_name: tensorwise}\n", on("h100", 8));
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, HasSubstr("fp8"));
}

TEST(Sections, olmos_width_counts_gate_and_value) {
  const auto job = read_text(
      "run_name: x\nmodel: {d_model: 4096, n_heads: 32, n_layers: 32, mlp_hidden_size: 22016, activation_type: swiglu, "
      "attention_layer_norm: true, weight_tying: false, vocab_size: 100278, embedding_size: 100352, "
      "max_sequence_length: 4096}\noptimizer: {name: adamw, learning_rate: 3e-4}\nglobal_train_batch_size: 1024\n"
      "device_train_microbatch_size: 2\nprecision: amp_bf16\nmax_duration: 1ep\n"
      "fsdp: {wrapping_strategy: by_block, precision: mixed}\nddp: {grad_sync_mode: batch}\n",
      on("h100", 64));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.kinds.front().ffn.width, 11008);
  EXPECT_EQ(job->model.vocab, 100352);
  EXPECT_EQ(job->batch.micro_batch, 2);
}

TEST(Sections, the_performance_harness_names_a_model_and_its_sizes) {
  const auto job = read_text(
      "#!/bin/bash\ntorchrun --nproc-per-node=4 --nnodes=64 scripts/performance/run_script.py --model_family_name "
      "llama "
      "--model_recipe_name llama31_405b --gpu gb300 --num_gpus 256 --gpus_per_node 4 --compute_dtype fp8_mx "
      "--seq_length 8192 --global_batch_size 1536 --micro_batch_size 1 --tensor_model_parallel_size 2 "
      "--pipeline_model_parallel_size 8 --virtual_pipeline_model_parallel_size 4 --context_parallel_size 2\n",
      {});
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kMegatronBridge);
  EXPECT_EQ(job->cluster.gpus, 256);
  EXPECT_EQ(job->parallel.tensor, 2);
  EXPECT_EQ(job->parallel.pipeline, 8);
  EXPECT_EQ(job->parallel.context, 2);
  EXPECT_EQ(job->asked.fp8_recipe, Fp8Recipe::kMxfp8);
}

TEST(Sections, the_short_flags_of_the_harness_find_its_own_recipe) {
  const auto job = read_text(
      "uv run python scripts/performance/run_script.py \\\n  -m llama -mr llama3_8b --task pretrain -g h100 -c bf16 "
      "-ng 8 "
      "--recompute_modules core_attn,layernorm -a account -p partition -i image -vb true\n",
      {});
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 8);
  EXPECT_EQ(job->parallel.context, 2);  // llama3_8b_pretrain_8gpu_h100_bf16_config
  EXPECT_EQ(*job->batch.global_batch, 128);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kSelective);  // set by the flag for the modules
  EXPECT_TRUE(job->warnings.empty());

  const auto tuned = read_text(
      "python scripts/performance/setup_experiment.py -m llama -mr llama3_70b --task sft -g h100 -c fp8_cs -ng 32\n",
      {});
  ASSERT_TRUE(tuned) << text_of(tuned);
  EXPECT_EQ(tuned->parallel.tensor, 4);
  EXPECT_EQ(tuned->parallel.virtual_pipeline, 5);
  EXPECT_EQ(tuned->precision.fp8, Fp8Recipe::kTensorwise);
  EXPECT_TRUE(tuned->optimizer.distributed);
}

TEST(Sections, the_harness_scales_the_batch_to_other_gpus_and_says_what_it_does_not_know) {
  const auto scaled =
      read_text("python run_script.py -m llama -mr llama3_70b --task pretrain -g h100 -c bf16 -ng 128 -rl 2\n", {});
  ASSERT_TRUE(scaled) << text_of(scaled);
  EXPECT_EQ(*scaled->batch.global_batch, 512);  // 256 on the recipe's 64
  EXPECT_EQ(scaled->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_FALSE(
      read_text("python run_script.py -m llama -mr llama3_70b --task pretrain -g h100 -ng 9000000000000000000\n", {}));
  const auto unknown = read_text(
      "#!/bin/bash\npython run_script.py -m llama -mr llama3_70b -g a100 -ng 64 -tp 8 -pp 2 -gb 64 -mb 1 -sl 4096\n",
      {});
  ASSERT_TRUE(unknown) << text_of(unknown);
  EXPECT_TRUE(unknown->parallel.sequence_parallel);
  EXPECT_THAT(unknown->warnings, testing::Contains(HasSubstr("the harness's own recipe for llama3_70b")));
}

// The recipe's own fields that decide memory: how the model is made, what its precision keeps, which kernels fuse.
TEST(Sections, the_harness_reads_how_its_recipes_make_and_keep_weights) {
  const auto of = [](const std::string& words) {
    return read_text("python run_script.py --task pretrain " + words + "\n", {});
  };
  const auto sharded = of("-m llama -mr llama31_405b -g gb300 -ng 256 -c bf16");
  ASSERT_TRUE(sharded) << text_of(sharded);
  EXPECT_EQ(sharded->sharding.kind, ShardingKind::kMegatronFsdp);
  EXPECT_TRUE(sharded->sharding.meta_init);

  const auto asked = of("-m llama -mr llama3_8b -g h100 -ng 8 -c bf16 --use_megatron_fsdp true");
  ASSERT_TRUE(asked) << text_of(asked);
  EXPECT_TRUE(asked->sharding.meta_init);
  EXPECT_TRUE(asked->kernels.gradient_accumulation_fusion);

  const auto without_flex = of("-m qwen -mr qwen3_30b_a3b -g gb200 -ng 8 -c bf16 --moe_flex_dispatcher_backend None");
  ASSERT_TRUE(without_flex) << text_of(without_flex);
  EXPECT_FALSE(without_flex->asked.flex_dispatcher);

  const auto four_bits = of("-m llama -mr llama31_405b -g b200 -ng 128 -c nvfp4");
  ASSERT_TRUE(four_bits) << text_of(four_bits);
  EXPECT_TRUE(four_bits->precision.fp4_param_gather);

  const auto hybrid = of("-m nemotronh -mr nemotron_3_super -g b300 -ng 64 -c nvfp4");
  ASSERT_TRUE(hybrid) << text_of(hybrid);
  EXPECT_FALSE(hybrid->precision.fp4_param_gather);
  EXPECT_TRUE(hybrid->precision.first_last_layers_bf16);
  EXPECT_EQ(hybrid->precision.bf16_layers_at_start, 0);
  EXPECT_EQ(hybrid->precision.bf16_layers_at_end, 14);
  EXPECT_TRUE(hybrid->kernels.weighted_squared_relu_fusion);

  const auto ultra = of("-m nemotronh -mr nemotron_3_ultra -g gb300 -ng 256 -c fp8_mx");
  ASSERT_TRUE(ultra) << text_of(ultra);
  EXPECT_TRUE(ultra->offload.modules.fused_group_mlp);
  EXPECT_EQ(ultra->offload.min_tensor_elements, 500'000'000);
  EXPECT_TRUE(ultra->sharding.outer_optim);
}

TEST(Sections, trainers_on_jax_are_named_with_the_question_that_can_be_answered) {
  for (const char* text :
       {"model: {type: llama, seq_len: 4096}\ntrainer: {mp: \"p=f32,c=bfloat16\", train_batch_size: 128}\n"
        "optimizer: {learning_rate: 1e-4}\n",
        "model_name: gemma2-2b\nper_device_batch_size: 2\nmax_target_length: 4096\nremat_policy: full\n"
        "ici_fsdp_parallelism: -1\nsteps: 10\n"}) {
    const auto job = read_text(text, on("h100", 8));
    ASSERT_FALSE(job);
    EXPECT_THAT(job.error().message, HasSubstr("JAX"));
    EXPECT_THAT(job.error().hint, AllOf(HasSubstr("--framework fsdp2"), HasSubstr("--seq-length 4096")));
  }
}

TEST(Sections, the_batch_says_how_many_gpus_there_are_where_nothing_else_does) {
  const auto job = read_text(
      "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: full\ncutoff_len: 16384\n"
      "global_batch_size: 96\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 3\nbf16: true\n",
      on("h100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 32);
}

}  // namespace
}  // namespace plimsoll::job
