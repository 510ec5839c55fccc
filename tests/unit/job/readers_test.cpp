// SPDX-License-Identifier: Apache-2.0
// Every kind of file, read whole: what its keys become.
#include <algorithm>

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::read;
using test::read_text;
using test::text_of;
using test::warns;

TEST(Recognise, every_sample_is_told_by_its_content) {
  for (const auto& [name, kind] : test::samples()) {
    InputFile file = test::data_file(name);
    file.path = "file";

    const auto found = recognise(file);

    ASSERT_TRUE(found) << name << ": " << (found ? "" : to_string(found.error()));
    EXPECT_EQ(*found, kind) << name;
  }
}

TEST(Recognise, what_is_not_known_is_an_error_that_says_what_was_looked_for) {
  for (const char* text : {"{\"a\": 1}", "a: 1\n", "[other]\nx = 1\n", "just words", "[1, 2]", "- 1\n- 2\n", "42"}) {
    const auto kind = recognise({"file", text});
    ASSERT_FALSE(kind) << text;
    EXPECT_NE(kind.error().message.find("not recognised"), std::string::npos) << text << ": " << kind.error().message;
  }
  EXPECT_EQ(recognise({"file", " \n"}).error().message, "the file is empty");
  EXPECT_NE(recognise({"file", "{\"a\": "}).error().message.find("not valid JSON"), std::string::npos);
}

TEST(JobFile, the_design_example_is_the_job_that_it_says) {
  const auto job = read({"llama3-70b.toml"}, {});

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kMegatronBridge);
  EXPECT_EQ(job->model.name, "llama3-70b");
  EXPECT_EQ(job->parallel.tensor, 4);
  EXPECT_EQ(job->parallel.pipeline, 4);
  EXPECT_EQ(job->parallel.virtual_pipeline, 5);
  EXPECT_TRUE(job->parallel.sequence_parallel);
  EXPECT_TRUE(job->parallel.overlap_p2p);
  EXPECT_EQ(job->data_parallel, 2);
  EXPECT_EQ(job->micro_batches, 16);
  EXPECT_EQ(job->precision.params, DType::kBf16);
  EXPECT_TRUE(job->recompute.modules.core_attn);
  EXPECT_TRUE(job->warnings.empty());
}

TEST(JobFile, a_model_may_be_a_table_of_megatron_keys) {
  const auto job = read({"tiny.json"}, {});

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.depth(), 8);
  EXPECT_EQ(job->model.layer(0).attention.kv_heads, 4);
  EXPECT_TRUE(job->model.layer(0).ffn.gated);
  EXPECT_EQ(job->cluster.gpus, 8);
}

TEST(JobFile, a_model_may_be_a_path_a_config_table_or_a_changed_name) {
  const std::string rest = "\n[cluster]\ngpu = 'h100'\ngpus = 8\n[batch]\nseq_length = 512\nmicro_batch_size = 1\n";
  auto job =
      read_job({{test::data_path("some.toml"), "framework = 'fsdp2'\nmodel = 'small-llama/config.json'" + rest}}, {});
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.depth(), 22);
  EXPECT_EQ(job->precision.load_dtype, DType::kBf16);

  job = read_job({{test::data_path("some.toml"), "framework = 'fsdp2'\nmodel = 'small-llama'" + rest}}, {});
  ASSERT_TRUE(job) << text_of(job);

  job = read_text(
      "framework = 'fsdp2'\nmodel = {model_type = 'llama', hidden_size = 256, num_hidden_layers = 2, "
      "intermediate_size = 512, num_attention_heads = 4, vocab_size = 1000}" +
      rest);
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.hidden, 256);

  job = read_text("framework = 'megatron-lm'\nmodel = {name = 'llama3-8b', num_layers = 4}" + rest);
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.depth(), 4);
}

TEST(JobFile, keys_count_in_any_section_and_at_the_top) {
  const auto job = read_text(
      "framework = 'megatron-lm'\nmodel = 'llama3-8b'\nmicro_batch_size = 2\nbf16 = true\n"
      "[parallel]\nseq_length = 2048\ngpu = 'h100'\ngpus = 4\ntensor_model_parallel_size = 4\n");

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->batch.seq_length, 2048);
}

TEST(JobFile, mistakes_are_named) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c :
       {Case{"framework = 'megatron'\nmodel = 'llama3-8b'\n[paralel]\ntp = 2\n", "did you mean [parallel]?"},
        Case{"framework = 'jax'\n", "wanted megatron-lm"},
        Case{"framework = 'fsdp2'\nmodel = 3\n", "wanted a name, a path or a table"},
        Case{"framework = 'fsdp2'\nmodel = 'llama9-8b'\n", "llama9-8b"},
        Case{"framework = 'fsdp2'\nmodel = 'missing.json'\n", "missing.json"},
        Case{"framework = 'fsdp2'\n[batch]\nmicro_batch = 1\n", "did you mean 'micro_batch_size'?"},
        Case{"framework = 'fsdp2'\nmicro_batch_size = 1\n[batch]\nmicro_batch_size = 1\n", "given twice"},
        Case{"framework = 'fsdp2'\nenvironment = 3\n", "wanted a table"},
        Case{"framework = 'fsdp2'\nmodel = {num_hidden_layers = 3}\n", "needs model_type"},
        Case{"model = 'llama3-8b'\n[cluster]\ngpu = 'h100'\ngpus = 1\n", "the framework is not known"},
        Case{"framework = 'megatron-lm'\nmodel = 'llama3-8b'\n", "the number of GPUs is not known"},
        Case{"framework = 'megatron-lm'\nmodel = 'llama3-8b'\ngpus = 1\n", "the GPU is not known"},
        Case{"framework = 'megatron-lm'\nmodel = 'llama3-8b'\ngpus = 1\ngpu = 'h100'\n",
             "micro-batch size is not given, or a batch size is not positive (R005)"},
        Case{"framework = 'torchtitan'\nmodel = 'qwen3-30b-a3b'\ngpus = 8\ngpu = 'h100'\nmicro_batch_size = 1\n"
             "expert_model_parallel_size = 3\n",
             "EP 3 does not divide the 8 ranks that share one pipeline stage (R291"}}) {
    const auto job = read_text(c.text);
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.text << " gave: " << text_of(job);
  }
}

TEST(Overrides, flags_overrule_keys_and_suggest) {
  auto job = read({"llama3-70b.toml"}, on("", std::nullopt, {{"micro-batch-size", "2"}, {"recompute_modules", "mlp"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->micro_batches, 8);
  EXPECT_TRUE(job->recompute.modules.mlp);
  EXPECT_FALSE(job->recompute.modules.core_attn);

  job = read({"llama3-70b.toml"}, on("", std::nullopt, {{"--micro-batch-sizes", "2"}}));
  EXPECT_NE(text_of(job).find("did you mean 'micro_batch_size'?"), std::string::npos) << text_of(job);

  job = read({"llama3-70b.toml"},
             on("a100", 64, {{"recompute-granularity", "none"}, {"virtual-pipeline-model-parallel-size", "10"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 64);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kNone);
  EXPECT_EQ(job->parallel.virtual_pipeline, 10);
}

TEST(Overrides, a_recipe_flag_replaces_the_files_precision) {
  const auto job = read({"bridge-overrides.py"}, on("h100", 32, {{"recipe", "bf16"}}));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->precision.fp8, Fp8Recipe::kNone);
}

TEST(MegatronArgs, a_recorded_run_is_read_with_its_world_and_vocabulary) {
  const auto job = read({"megatron-args.json"}, {});

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kMegatronLm);
  EXPECT_EQ(job->cluster.gpus, 8);
  EXPECT_TRUE(job->cluster.gpu.is_hopper_or_newer());
  EXPECT_EQ(job->data_parallel, 2);
  EXPECT_EQ(job->parallel.virtual_pipeline, 6);
  EXPECT_EQ(job->vocab_rows, 50432);
  EXPECT_FALSE(job->padded_vocab.has_value());
  EXPECT_EQ(job->kernels.attention, AttentionBackend::kUnfused);
  EXPECT_FALSE(job->kernels.gradient_accumulation_fusion);
  EXPECT_EQ(job->environment.at("NCCL_ALGO"), "Ring");
  EXPECT_TRUE(job->kernels.scales_queries_by_layer);
}

TEST(MegatronArgs, yaml_of_tests_and_plain_yaml_are_read) {
  auto job = read({"megatron-args.yaml"}, on("h100", 8));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_FALSE(job->model.layer(3).ffn.is_moe());
  EXPECT_EQ(job->model.layer(4).ffn.experts, 8);
  EXPECT_TRUE(job->moe.grouped_gemm);
  EXPECT_EQ(job->moe.dispatcher, DispatcherKind::kAllToAll);
  EXPECT_EQ(job->expert_data_parallel, 1);
  EXPECT_EQ(job->kernels.attention, AttentionBackend::kFused);  // NVTE_FLASH_ATTN=0

  job = read({"megatron-flat.yaml"}, on("a100"));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->cluster.gpus, 1);
  EXPECT_EQ(job->kernels.attention, AttentionBackend::kFlash);
}

TEST(MegatronArgs, the_program_says_which_model_is_trained) {
  const std::string flags =
      R"("args": {"--num-layers": 4, "--hidden-size": 256, "--num-attention-heads": 4, "--seq-length": 128,
         "--max-position-embeddings": 128, "--micro-batch-size": 2, "--bf16": true}})";
  auto bert = read_text(R"({"training_script": "examples/bert/pretrain_bert.py", )" + flags, on("h100", 8));
  ASSERT_TRUE(bert) << text_of(bert);
  EXPECT_EQ(bert->model.head, model::Head::kMasked);
  EXPECT_TRUE(bert->model.head_bias);
  EXPECT_EQ(bert->model.token_types, 2);
  EXPECT_EQ(bert->model.vocab, 30524);
  EXPECT_FALSE(bert->model.kinds.front().attention.causal);

  auto t5 = read_text(R"({"training_script": "pretrain_t5.py", )" + flags, on("h100", 8));
  ASSERT_TRUE(t5) << text_of(t5);
  EXPECT_EQ(t5->model.encoder_depth(), 4);
  EXPECT_EQ(t5->model.depth(), 8);  // the decoder has as many
  EXPECT_TRUE(t5->model.layer(7).cross_attention);

  ReadOptions options = on("h100", 8);
  options.overrides.emplace_back("vocab_size", "1000");
  auto gpt = read_text(R"({"training_script": "pretrain_gpt.py", )" + flags, options);
  ASSERT_TRUE(gpt) << text_of(gpt);
  EXPECT_EQ(gpt->model.encoder_depth(), 0);
}

TEST(MegatronArgs, other_models_are_refused_with_the_reason) {
  auto job = read_text(R"({"training_script": "pretrain_vlm.py", "args": {"--bf16": true}})", on("h100", 8));
  EXPECT_NE(text_of(job).find("trains more than a decoder"), std::string::npos) << text_of(job);

  job = read_text(R"({"args": {"--hybrid-layer-pattern": "M-MD"}})", on("h100", 8));
  EXPECT_NE(text_of(job).find("sparse attention"), std::string::npos) << text_of(job);

  job = read_text(R"({"args": {"--num-layerz": 12}})", on("h100", 8));
  EXPECT_NE(text_of(job).find("did you mean 'num_layers'?"), std::string::npos) << text_of(job);
}

TEST(MegatronArgs, query_groups_count_only_with_their_switch) {
  const std::string rest =
      R"("--num-layers": 2, "--hidden-size": 64, "--num-attention-heads": 8, "--vocab-size": 100, "--seq-length": 16,
         "--max-position-embeddings": 16, "--micro-batch-size": 1}})";
  auto job = read_text(R"({"args": {"--num-query-groups": 2, )" + rest, on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.layer(0).attention.kv_heads, 8);
  EXPECT_TRUE(warns(*job, "num_query_groups: has no effect"));

  job = read_text(R"({"args": {"--num-query-groups": 2, "--group-query-attention": true, )" + rest, on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.layer(0).attention.kv_heads, 2);
}

TEST(Bridge, a_dumped_configuration_is_read) {
  const auto job = read({"bridge.yaml"}, on("h100", 16));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kMegatronBridge);
  EXPECT_EQ(job->model.layer(0).attention.kv_heads, 8);
  EXPECT_EQ(job->model.layer(0).ffn.activation, model::Activation::kSilu);
  EXPECT_EQ(job->model.norm, model::NormKind::kRms);
  EXPECT_EQ(job->kernels.attention, AttentionBackend::kFused);
  EXPECT_EQ(job->kernels.loss, LossKind::kTe);
  EXPECT_FALSE(job->optimizer.grad_reduce_in_fp32) << "mixed_precision overrules ddp";
  EXPECT_TRUE(job->optimizer.overlap_grad_reduce) << "null of comm_overlap says nothing";
  EXPECT_EQ(job->precision.fp8, Fp8Recipe::kNone);
  EXPECT_EQ(job->batch.seq_length, 8192);
  EXPECT_TRUE(job->warnings.empty()) << job->warnings.front();
}

TEST(Bridge, override_lines_are_read_over_the_recipes_model) {
  const auto job = read({"bridge-overrides.py"}, on("h100", 32));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3-70b");
  EXPECT_TRUE(std::any_of(job->notes.begin(), job->notes.end(), [](const std::string& note) {
    return note.find("over Megatron-Bridge's recipe llama3_70b_pretrain") != std::string::npos;
  }));
  EXPECT_EQ(job->batch.seq_length, 8192);
  EXPECT_EQ(job->batch.global_batch, 128);
  EXPECT_TRUE(job->recompute.modules.core_attn && job->recompute.modules.mlp);
  EXPECT_EQ(job->precision.fp8, Fp8Recipe::kTensorwise);
  EXPECT_TRUE(job->precision.fp8_param_gather);
  EXPECT_EQ(job->adapter.kind, AdapterKind::kLora);
  EXPECT_EQ(job->adapter.rank, 16);
  EXPECT_EQ(job->adapter.targets.size(), 4U);
}

TEST(Bridge, mistakes_are_named) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c :
       {Case{"ddp: {}\nmodel: {num_layer: 3}\n", "did you mean 'num_layers'?"},
        Case{"ddp: {}\nmodle: {num_layers: 3}\n", "did you mean 'model'?"},
        Case{"model: {seq_length: 4096}\ndataset: {seq_length: 2048}\n",
             "sequence length configuration in model config"},
        Case{"mixed_precision: fp99\n", "recipe"}, Case{"ddp: 3\n", "wanted a table"},
        Case{"cfg.model.seq_length = 4096\nrun()\n", "line 2: only assignments"},
        Case{"cfg.model.seq_length = [1, 2\n", "brackets are not closed"},
        Case{"cfg.model.seq_length = 4096 +\n", "wanted a number"}, Case{"cfg.model.seq_length = 'a\n", "not closed"},
        Case{"cfg.model..x = 1\n", "is not a field"}, Case{"cfg.model = 1\ncfg.model.x = 2\n", "has no fields"},
        Case{"cfg.peft = LoRA(8)\n", "keyword arguments only"}}) {
    const auto job = read_text(c.text, on("h100", 8));
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.text << " gave: " << text_of(job);
  }
}

TEST(TrainingArguments, trainer_keys_become_ours) {
  const auto job = read({"training-arguments.json"}, on("a100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kTransformers);
  EXPECT_EQ(job->model.name, "llama3.2-1b");
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->micro_batches, 8);
  EXPECT_EQ(job->batch.seq_length, 2048);
  EXPECT_EQ(job->batch.eval_micro_batch, 4);
  EXPECT_TRUE(job->precision.autocast);
  EXPECT_EQ(job->optimizer.impl, OptimizerImpl::kForeach);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_TRUE(warns(*job, "gpus: not given"));
}

TEST(TrainingArguments, trl_files_use_trls_defaults_and_qlora) {
  const auto job = read({"sft.yaml"}, on("a100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "qwen2.5-7b");
  EXPECT_TRUE(job->batch.packed);
  EXPECT_EQ(job->batch.seq_length, 8192);
  EXPECT_TRUE(job->asked.bf16);
  EXPECT_EQ(job->kernels.loss, LossKind::kChunked);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
  EXPECT_EQ(job->adapter.kind, AdapterKind::kLora);
  EXPECT_TRUE(job->adapter.quantized_base && job->adapter.double_quant);
  EXPECT_EQ(job->optimizer.kind, OptimizerKind::kAdam8bit);
  EXPECT_TRUE(job->optimizer.paged);
  EXPECT_TRUE(warns(*job, "TRL"));
}

TEST(TrainingArguments, fsdp_makes_an_fsdp2_job_with_a_config_beside_it) {
  const auto job = read({"training-fsdp.json", "small-llama/config.json"}, on("a100", 8, {{"seq-length", "2048"}}));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kFsdp2);
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp2);
  EXPECT_EQ(job->sharding.units, FsdpUnits::kAccelerate);
  EXPECT_EQ(job->sharding.stored, DType::kFp32);
  EXPECT_EQ(job->sharding.reduce, DType::kBf16);
  EXPECT_FALSE(job->sharding.sync_each_micro_batch);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kFull);
}

TEST(TrainingArguments, a_deepspeed_table_may_be_inside) {
  const auto job = read_text(
      R"({"per_device_train_batch_size": 4, "bf16": true, "deepspeed": {"zero_optimization": {"stage": 3,
          "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
          "stage3_param_persistence_threshold": "auto"}, "bf16": {"enabled": "auto"},
          "train_micro_batch_size_per_gpu": "auto"}, "model_name_or_path": "llama3-8b"})",
      on("h100", 8, {{"seq-length", "1024"}}));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kDeepSpeed);
  EXPECT_EQ(job->batch.micro_batch, 4);
  EXPECT_EQ(job->precision.params, DType::kBf16);
  EXPECT_EQ(job->sharding.reduce_bucket, 4096 * 4096);
  EXPECT_EQ(job->sharding.prefetch_bucket, 4096 * 4096 * 9 / 10);
  EXPECT_EQ(job->sharding.param_persistence, 40960);
}

TEST(TrainingArguments, every_modelled_optimizer_name_is_known) {
  struct Case {
    const char* name;
    OptimizerKind kind;
    OptimizerImpl impl;
  };
  for (const Case& c : {Case{"adamw_torch_fused", OptimizerKind::kAdam, OptimizerImpl::kFused},
                        Case{"adamw_torch", OptimizerKind::kAdam, OptimizerImpl::kForeach},
                        Case{"OptimizerNames.ADAMW_TORCH", OptimizerKind::kAdam, OptimizerImpl::kForeach},
                        Case{"adafactor", OptimizerKind::kAdafactor, OptimizerImpl::kLoop},
                        Case{"sgd", OptimizerKind::kSgd, OptimizerImpl::kForeach},
                        Case{"adamw_bnb_8bit", OptimizerKind::kAdam8bit, OptimizerImpl::kFused},
                        Case{"lion_32bit", OptimizerKind::kLion, OptimizerImpl::kFused}}) {
    const auto job =
        read_text(std::string(R"({"output_dir": "o", "max_length": 128, "model_name_or_path": "gpt2", "optim": ")") +
                      c.name + "\"}",
                  on("a100"));
    ASSERT_TRUE(job) << c.name << ": " << text_of(job);
    EXPECT_EQ(job->optimizer.kind, c.kind) << c.name;
    EXPECT_EQ(job->optimizer.impl, c.impl) << c.name;
  }
}

TEST(TrainingArguments, mistakes_are_named) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (
      const Case& c :
      {Case{R"({"output_dir": "o", "model_name_or_path": "gpt2"})", "--seq-length"},
       Case{R"({"output_dir": "o", "optim": "galore_adafactor"})", "'galore_adafactor' is not modelled"},
       Case{R"({"output_dir": "o", "per_device_train_batchsize": 3})", "did you mean 'per_device_train_batch_size'?"},
       Case{R"({"output_dir": "o", "num_generations": 8})", "plimsoll rl reads its runs"},
       Case{R"({"output_dir": "o", "loss_type": "dft"})", "only nll and chunked_nll"},
       Case{R"({"output_dir": "o", "fsdp": "hybrid_shard", "fsdp_config": {"version": 2}})",
            "only available with FSDP1"},
       Case{R"({"output_dir": "o", "fsdp": "some_shard"})", "'some_shard' is not one of"},
       Case{R"({"output_dir": "o", "fsdp": true, "fsdp_config": {"forward_prefetch": true}})", "no forward prefetch"},
       Case{R"({"output_dir": "o", "fsdp": true, "fsdp_config": {"reshard_after_forwrd": true}})",
            "unknown key 'reshard_after_forwrd'"},
       Case{
           R"({"output_dir": "o", "fsdp": true, "gradient_checkpointing": true, "fsdp_config": {"activation_checkpointing": true}})",
           "is on twice"},
       Case{R"({"output_dir": "o", "fsdp": true, "deepspeed": {"zero_optimization": {"stage": 2}}})", "both given"},
       Case{R"({"output_dir": "o", "deepspeed": "missing-file.json"})", "missing-file.json"},
       Case{R"({"output_dir": "o", "bf16": true, "fp16": true, "max_length": 8, "model_name_or_path": "gpt2"})",
            "At most one of fp16 and bf16"},
       Case{R"({"output_dir": "o", "load_in_4bit": true, "max_length": 8, "model_name_or_path": "gpt2"})",
            "purely quantized"}}) {
    const auto job = read_text(c.text, on("h100", 8));
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.text << " gave: " << text_of(job);
  }
}

TEST(Accelerate, fsdp_yaml_gives_gpus_precision_and_units) {
  const auto job = read({"accelerate-fsdp.yaml", "small-llama/config.json", "training-arguments.json"}, [] {
    ReadOptions options = on("h100");
    options.model = "llama3-8b";
    return options;
  }());

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kFsdp2);
  EXPECT_EQ(job->cluster.gpus, 16);
  EXPECT_EQ(job->cluster.gpus_per_node, 8);
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp2);
  EXPECT_EQ(job->batch.micro_batch, 2);
  EXPECT_EQ(job->model.name, "llama3-8b");
}

TEST(Accelerate, a_deepspeed_file_is_found_beside_it) {
  const auto job = read({"accelerate-deepspeed.yaml", "training-arguments.json"}, on("a100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kDeepSpeed);
  EXPECT_EQ(job->sharding.zero_stage, 3);
  EXPECT_EQ(job->sharding.offload_optimizer, OffloadTarget::kCpu);
  EXPECT_EQ(job->sharding.reduce_bucket, 2048 * 2048);
  EXPECT_EQ(job->precision.params, DType::kBf16);
  EXPECT_EQ(job->batch.micro_batch, 2);
}

TEST(Accelerate, versions_and_strategies_of_fsdp_differ) {
  const auto with = [](const std::string& config) {
    return read_text("distributed_type: FSDP\nnum_processes: 16\nmixed_precision: bf16\nfsdp_config:\n" + config, [] {
      ReadOptions options = on("h100", std::nullopt, {{"seq-length", "512"}});
      options.model = "llama3-8b";
      return options;
    }());
  };

  auto job = with("  fsdp_sharding_strategy: SHARD_GRAD_OP\n");
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.kind, ShardingKind::kFsdp1);
  EXPECT_FALSE(job->sharding.reshard_after_forward);
  EXPECT_EQ(job->sharding.units, FsdpUnits::kWholeModel);

  job = with("  fsdp_sharding_strategy: HYBRID_SHARD\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n");
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->sharding.replicas, 2);

  job = with("  fsdp_reshard_after_forward: perhaps\n");
  EXPECT_NE(text_of(job).find("wanted FULL_SHARD"), std::string::npos) << text_of(job);
}

TEST(DeepSpeed, the_micro_batch_follows_from_the_whole_batch) {
  const auto job = read({"zero2.json", "small-llama/config.json"}, on("a100", 4, {{"seq-length", "1024"}}));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kDeepSpeed);
  EXPECT_EQ(job->sharding.zero_stage, 2);
  EXPECT_EQ(job->sharding.reduce_bucket, 50'000'000);
  EXPECT_EQ(job->batch.micro_batch, 4);
  EXPECT_EQ(job->micro_batches, 4);
}

TEST(DeepSpeed, mistakes_are_named) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c :
       {Case{R"({"train_batch_size": 8, "zero_optimization": {"stage": 4}})", "from 0 to 3"},
        Case{R"({"train_batch_size": 8, "zero_optimization": {"stag": 3}})", "did you mean 'zero_optimization.stage'?"},
        Case{R"({"zero_optimization": {"stage": 2}})", "train_micro_batch_size_per_gpu is given (R270"},
        Case{R"({"train_micro_batch_size_per_gpu": "auto"})", "filled in from TrainingArguments"},
        Case{R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2})",
             "train_batch_size is not equal to"},
        Case{R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2})",
             "train_batch_size is not equal to"},
        Case{R"({"train_batch_size": 8, "fp16": {"enabled": true}, "bf16": {"enabled": true}})",
             "bfloat16 and fp16 modes cannot be simultaneously enabled"},
        Case{R"({"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}})", "'OneBitAdam' is not modelled"},
        Case{R"({"train_batch_size": 8, "amp": {"enabled": true}})", "Amp and ZeRO"}}) {
    ReadOptions options = on("h100", 8, {{"seq-length", "128"}});
    options.model = "gpt2";
    const auto job = read_text(c.text, options);
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.text << " gave: " << text_of(job);
  }
  const auto job = read_text(
      R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}})",
      on("h100", 8, {{"seq-length", "128"}}));
  EXPECT_NE(text_of(job).find("needs the hidden size"), std::string::npos) << text_of(job);
}

TEST(Torchtitan, toml_gives_model_gpus_and_checkpointing) {
  const auto job = read({"torchtitan.toml"}, on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->framework, Framework::kTorchtitan);
  EXPECT_EQ(job->model.name, "llama3-8b");
  EXPECT_EQ(job->cluster.gpus, 16);
  EXPECT_EQ(job->data_parallel, 8);
  EXPECT_TRUE(job->parallel.sequence_parallel);
  EXPECT_EQ(job->recompute.granularity, RecomputeGranularity::kSelectiveOps);
  EXPECT_TRUE(job->sharding.reshard_after_forward);
  EXPECT_EQ(job->precision.compute, DType::kBf16);
  EXPECT_TRUE(job->warnings.empty());
}

TEST(Torchtitan, a_pipeline_cuts_the_local_batch) {
  const auto job = read_text(
      "[model]\nname = 'llama3'\nflavor = '70B'\n[training]\nlocal_batch_size = 16\nseq_len = 4096\n"
      "[parallelism]\npipeline_parallel_degree = 4\ndata_parallel_shard_degree = 2\n"
      "pipeline_parallel_schedule = 'Interleaved1F1B'\npipeline_parallel_layers_per_stage = 10\n"
      "[activation_checkpoint]\nmode = 'full'\n[optimizer]\nimplementation = 'fused_opt_states_bf16'\n",
      on("h100"));

  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 1);
  EXPECT_EQ(job->micro_batches, 16);
  EXPECT_EQ(job->parallel.virtual_pipeline, 2);
  EXPECT_FALSE(job->sharding.reshard_after_forward);
  EXPECT_EQ(job->recompute.every_nth_layer, 0);
  EXPECT_EQ(job->optimizer.exp_avg, DType::kBf16);
}

TEST(Torchtitan, mistakes_are_named) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c :
       {Case{"[parallelism]\ntensor_parallel_degre = 2\n", "did you mean 'parallelism.tensor_parallel_degree'?"},
        Case{"[model]\nname = 'llama3'\nflavor = '9B'\n", "is not in the catalogue"},
        Case{"[parallelism]\ndata_parallel_shard_degree = 0\n", "Parallelism degree should be >= 1"},
        Case{"[parallelism]\nfsdp_reshard_after_forward = 'often'\n", "Invalid reshard_after_forward_policy"},
        Case{"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = 'ZBVZeroBubble'\n",
             "is not modelled"},
        Case{"[activation_checkpoint]\nmode = 'some'\n", "wanted none, full, selective"},
        Case{"[activation_checkpoint]\nselective_ac_option = 'layers'\n", "wanted op or a number"},
        Case{"[parallelism]\ntensor_parallel_degree = 'x'\n", "parallelism.tensor_parallel_degree"}}) {
    const auto job = read_text(c.text, on("h100", 8));
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.text << " gave: " << text_of(job);
  }
}

TEST(Peft, an_adapter_config_trains_on_its_base_or_a_given_model) {
  auto job = read({"adapter_config.json"}, on("a100", std::nullopt, {{"seq-length", "1024"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.name, "llama3.2-1b");
  EXPECT_EQ(job->adapter.kind, AdapterKind::kLora);
  EXPECT_EQ(job->adapter.rank, 16);
  EXPECT_DOUBLE_EQ(job->adapter.dropout, 0.05);
  EXPECT_EQ(job->adapter.targets, (std::vector<std::string>{"q_proj", "v_proj"}));

  job = read({"adapter_config.json", "small-llama/config.json"}, on("a100", std::nullopt, {{"seq-length", "1024"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->model.depth(), 22);
}

TEST(BridgeOverrides, precision_recipes_keep_what_they_are_when_a_field_is_set) {
  for (const char* recipe :
       {"bf16_with_fp8_current_scaling_mixed()", "get_mixed_precision_config(\"bf16_with_fp8_current_scaling_mixed\")",
        "\"bf16_with_fp8_current_scaling_mixed\""}) {
    const auto job = read_text(std::string("cfg = llama3_8b_pretrain_config(tensor_model_parallel_size=2)\n"
                                           "cfg.mixed_precision = ") +
                                   recipe +
                                   "\ncfg.mixed_precision.grad_reduce_in_fp32 = False\n"
                                   "cfg.model.cp_comm_type = ['p2p'] * 32\ncfg.model.seq_length = 4096\n"
                                   "cfg.train.micro_batch_size = 1\ncfg.train.global_batch_size = 8\n",
                               on("h100", 8));
    ASSERT_TRUE(job) << text_of(job);
    EXPECT_EQ(job->precision.fp8, Fp8Recipe::kTensorwise) << recipe;
    EXPECT_FALSE(job->optimizer.grad_reduce_in_fp32);
    EXPECT_EQ(job->parallel.tensor, 2);
  }
}

TEST(Peft, other_adapters_and_patterns_are_refused) {
  auto job = read_text(R"({"peft_type": "IA3"})", on("a100"));
  EXPECT_NE(text_of(job).find("only LORA is modelled"), std::string::npos) << text_of(job);

  job = read_text(R"({"peft_type": "LORA", "target_modules": "(?=mlp).*"})", on("a100"));
  EXPECT_NE(text_of(job).find("is a pattern"), std::string::npos) << text_of(job);

  job = read_text(
      R"({"peft_type": "LORA", "base_model_name_or_path": "llama3-8b", "target_modules": ".*\\.(q|v)_proj|.*up_proj"})",
      on("a100", 1, {{"seq-length", "64"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.targets, (std::vector<std::string>{R"(.*\.(q|v)_proj|.*up_proj)"}));

  job = read_text(
      R"({"peft_type": "LORA", "base_model_name_or_path": "llama3-8b", "target_modules": "^(?!.*vision).*(q|v)_proj"})",
      on("a100", 1, {{"seq-length", "64"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.targets, (std::vector<std::string>{"q_proj", "v_proj"})) << "the names, where it looks ahead";

  job = read_text(
      R"({"peft_type": "LORA", "base_model_name_or_path": "llama3-8b", "target_modules": ".*q_proj", "layers_to_transform": [1]})",
      on("a100", 1, {{"seq-length", "64"}}));
  EXPECT_NE(text_of(job).find("PEFT takes no layers"), std::string::npos) << text_of(job);

  job = read_text(
      R"({"peft_type": "LORA", "use_dora": true, "base_model_name_or_path": "gpt2", "bias": "all", "target_modules": "all-linear"})",
      on("a100", std::nullopt, {{"seq-length", "512"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->adapter.kind, AdapterKind::kDora);
  EXPECT_EQ(job->adapter.bias, AdapterBias::kAll);
}

TEST(Peft, what_is_trained_beside_the_low_rank_pair_is_read) {
  const auto job = read_text(
      R"({"peft_type": "LORA", "base_model_name_or_path": "llama3-8b", "target_modules": ["q_proj", "v_proj"], "r": 8,
          "modules_to_save": ["lm_head", "embed_tokens"], "rank_pattern": {"v_proj": 64}, "alpha_pattern": {"v_proj": 4},
          "layers_to_transform": [0, 3], "layers_pattern": "layers", "exclude_modules": ["layers.3.self_attn.q_proj"],
          "bias": "lora_only", "lora_bias": true, "ensure_weight_tying": false, "task_type": "SEQ_CLS"})",
      on("a100", 1, {{"seq-length", "64"}}));
  ASSERT_TRUE(job) << text_of(job);
  const Adapter& a = job->adapter;
  EXPECT_EQ(a.saved_modules, (std::vector<std::string>{"lm_head", "embed_tokens", "classifier", "score"}));
  EXPECT_EQ(a.ranks.at("v_proj"), 64);
  EXPECT_EQ(a.layers, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(a.excluded, (std::vector<std::string>{"layers.3.self_attn.q_proj"}));
  EXPECT_EQ(a.bias, AdapterBias::kAdapted);
  EXPECT_TRUE(a.own_bias);
  for (const std::string& warning : job->warnings)
    for (const char* key : {"modules_to_save", "rank_pattern", "layers_to_transform", "layers_pattern", "bias"})
      EXPECT_FALSE(warning.starts_with(key)) << warning;
}

TEST(Peft, lora_bias_of_programs_is_the_bias_of_peft) {
  for (const auto& [word, bias] : {std::pair{"none", AdapterBias::kNone}, std::pair{"all", AdapterBias::kAll}}) {
    const auto job = read_text(
        std::string(
            R"({"output_dir": "o", "use_peft": true, "max_length": 8, "model_name_or_path": "gpt2", "lora_bias": ")") +
            word + R"("})",
        on("h100", 1));
    ASSERT_TRUE(job) << text_of(job);
    EXPECT_EQ(job->adapter.bias, bias);
    EXPECT_FALSE(job->adapter.own_bias);
  }
}

TEST(LlamaFactory, galore_is_an_optimizer_of_its_own) {
  const std::string start =
      R"({"model_name_or_path": "gpt2", "stage": "sft", "finetuning_type": "full", "cutoff_len": 64,
    "bf16": true, "galore_rank": 32, "galore_target": "c_attn,mlp")";
  auto job = read_text(start + R"(, "use_galore": true})", on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->optimizer.projection_rank, 32);
  EXPECT_EQ(job->optimizer.projected, (std::vector<std::string>{"c_attn", "mlp"}));
  job = read_text(start + R"(, "use_galore": false})", on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->optimizer.projection_rank, 0);
  job = read_text(start + R"(, "use_galore": true, "galore_layerwise": true, "gradient_accumulation_steps": 1})",
                  on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->optimizer.in_backward);
  job = read_text(start + R"(, "use_galore": true, "galore_layerwise": true, "gradient_accumulation_steps": 2})",
                  on("h100", 1));
  EXPECT_NE(text_of(job).find("gradient accumulation"), std::string::npos);
  job = read_text(start + R"(, "use_apollo": true, "apollo_rank": 8})", on("h100", 1));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->optimizer.random_projection);
  EXPECT_EQ(job->optimizer.projection_rank, 8);
}

TEST(Peft, token_indices_are_counted) {
  const auto rows = [](const std::string& value) {
    const auto job =
        read_text(R"({"peft_type": "LORA", "base_model_name_or_path": "llama3-8b", "target_modules": ["q_proj"],
                                   "trainable_token_indices": )" +
                      value + "}",
                  on("a100", 1, {{"seq-length", "64"}}));
    return job ? std::to_string(job->adapter.trained_tokens) : text_of(job);
  };
  EXPECT_EQ(rows("[5, 6, 7]"), "3");
  EXPECT_EQ(rows(R"({"embed_tokens": [128000, 128001]})"), "2");
  EXPECT_EQ(rows("[]"), "0");
  EXPECT_NE(rows(R"({"embed_tokens": [1], "lm_head": [1]})").find("2 modules"), std::string::npos);
  EXPECT_NE(rows(R"(["x"])").find("found"), std::string::npos);
}

TEST(Peft, contradictions_are_named) {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c :
       {Case{R"("rank_pattern": {"q_proj": 0})", "rank_pattern"}, Case{R"("rank_pattern": ["q"])", "table of names"},
        Case{R"("rank_pattern": {"(": 4})", "without its ')'"}, Case{R"("layers_to_transform": [-1])", "layers_to"},
        Case{R"("exclude_modules": ["*"])", "nothing to repeat"},
        Case{R"("trainable_token_indices": [1], "modules_to_save": ["embed_tokens"])", "both name the embedding"},
        Case{R"("bias": "some")", "none, all, lora_only"}}) {
    const auto job = read_text(
        std::string(R"({"peft_type": "LORA", "base_model_name_or_path": "llama3-8b", "target_modules": ["q_proj"], )") +
            c.text + "}",
        on("a100", 1, {{"seq-length", "64"}}));
    EXPECT_NE(text_of(job).find(c.message), std::string::npos) << c.text << " gave: " << text_of(job);
  }
}

TEST(HfConfig, quantized_checkpoints_are_read_as_far_as_they_are_modelled) {
  const std::string start =
      R"({"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "intermediate_size": 512,
      "num_attention_heads": 4, "vocab_size": 1000, "quantization_config": )";
  auto job = read_text(
      start + R"({"load_in_4bit": true, "bnb_4bit_use_double_quant": true, "bnb_4bit_compute_dtype": "bfloat16"}})",
      on("a100", 1, {{"seq-length", "128"}, {"peft", "lora"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(job->adapter.quantized_base && job->adapter.double_quant);

  job = read_text(start + R"({"quant_method": "gptq"}})", on("a100", 1, {{"seq-length", "128"}}));
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_TRUE(warns(*job, "gptq weights are counted"));
}

}  // namespace
}  // namespace plimsoll::job
