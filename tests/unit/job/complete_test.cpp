// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::llama_8b;
using test::text_of;

std::string refusal(Job job, const std::function<void(Job&)>& change) {
  change(job);
  return text_of(complete(job));
}

// A job as read_job() leaves it: fields that no key gives follow the framework's rules.
Job derived(Framework framework, std::vector<std::pair<std::string, std::string>> keys) {
  Job job = llama_8b(framework);
  job.derives = true;
  for (const auto& [key, value] : keys)
    EXPECT_EQ(text_of(set_key(job, key, document::parse_scalar(value))), "no error");
  return job;
}

TEST(Complete, ranks_micro_batches_and_vocabulary_are_derived) {
  Job job = llama_8b();
  job.parallel.tensor = 4;
  job.parallel.pipeline = 2;
  job.parallel.context = 2;

  ASSERT_EQ(text_of(complete(job)), "no error");

  EXPECT_EQ(job.data_parallel, 4);
  EXPECT_EQ(job.micro_batches, 32);
  EXPECT_EQ(job.vocab_rows, 128512);  // 128256 in steps of 128 * 4
  EXPECT_EQ(job.tokens(), 2048);
}

TEST(Complete, completing_twice_changes_nothing) {
  Job once = derived(Framework::kMegatronLm, {{"bf16", "true"}, {"sequence_parallel", "true"}});
  ASSERT_EQ(text_of(complete(once)), "no error");
  Job twice = once;

  ASSERT_EQ(text_of(complete(twice)), "no error");

  for (const std::string& key : key_names()) {
    const auto a = value_of(once, key);
    if (!a) continue;
    EXPECT_EQ(document::to_text(*a), document::to_text(*value_of(twice, key))) << key;
  }
  EXPECT_EQ(once.warnings, twice.warnings);
}

TEST(Complete, experts_have_their_own_data_parallel_size) {
  Job job = llama_8b();
  job.model = *model::find_model("mixtral-8x7b");
  job.parallel.tensor = 2;
  job.parallel.expert = 4;

  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_EQ(job.expert_data_parallel, 8);  // ETP follows TP

  job.parallel.expert_tensor = 1;
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_EQ(job.expert_data_parallel, 16);
}

TEST(Complete, bf16_forces_fp32_gradients_in_megatron_lm) {
  Job job = derived(Framework::kMegatronLm, {{"bf16", "true"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_EQ(job.precision.params, DType::kBf16);
  EXPECT_TRUE(job.optimizer.grad_reduce_in_fp32);

  job = derived(Framework::kMegatronLm, {{"bf16", "true"}, {"grad_reduce_in_bf16", "true"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_FALSE(job.optimizer.grad_reduce_in_fp32);

  job = derived(Framework::kMegatronLm, {{"fp16", "true"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_FALSE(job.optimizer.grad_reduce_in_fp32);

  job = derived(Framework::kMegatronLm, {{"bf16", "true"},
                                         {"use_distributed_optimizer", "true"},
                                         {"use_precision_aware_optimizer", "true"},
                                         {"main_grads_dtype", "bf16"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_FALSE(job.optimizer.grad_reduce_in_fp32);
}

TEST(Complete, without_a_precision_megatron_lm_trains_in_fp32) {
  Job job = derived(Framework::kMegatronLm, {});

  ASSERT_EQ(text_of(complete(job)), "no error");

  EXPECT_EQ(job.precision.params, DType::kFp32);
  EXPECT_EQ(job.precision.compute, DType::kFp32);
  EXPECT_EQ(job.kernels.attention, AttentionBackend::kUnfused);
}

TEST(Complete, sequence_parallelism_needs_tensor_parallelism_and_returns_with_it) {
  Job job = derived(Framework::kMegatronLm, {{"sequence_parallel", "true"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_FALSE(job.parallel.sequence_parallel);

  ASSERT_TRUE(set_key(job, "tensor_model_parallel_size", document::parse_scalar("2")));
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_TRUE(job.parallel.sequence_parallel);
}

TEST(Complete, p2p_overlap_follows_virtual_stages) {
  Job job = derived(Framework::kMegatronLm, {{"pipeline_model_parallel_size", "4"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_FALSE(job.parallel.overlap_p2p);

  job = derived(Framework::kMegatronLm,
                {{"pipeline_model_parallel_size", "4"}, {"num_layers_per_virtual_pipeline_stage", "2"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_EQ(job.parallel.virtual_pipeline, 4);
  EXPECT_TRUE(job.parallel.overlap_p2p);
}

TEST(Complete, fields_that_code_sets_are_kept) {
  Job job = llama_8b();
  job.parallel.pipeline = 4;
  job.parallel.virtual_pipeline = 2;
  job.parallel.overlap_p2p = false;
  job.precision.params = job.precision.compute = DType::kBf16;
  job.kernels.attention = AttentionBackend::kFlash;

  ASSERT_EQ(text_of(complete(job)), "no error");

  EXPECT_FALSE(job.parallel.overlap_p2p);
  EXPECT_EQ(job.precision.params, DType::kBf16);
  EXPECT_EQ(job.kernels.attention, AttentionBackend::kFlash);
}

TEST(Complete, transformers_precision_follows_the_load_dtype) {
  Job job = derived(Framework::kTransformers, {{"bf16", "true"}, {"load_dtype", "float32"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_EQ(job.precision.params, DType::kFp32);
  EXPECT_EQ(job.precision.compute, DType::kBf16);
  EXPECT_TRUE(job.precision.autocast);
  EXPECT_EQ(job.sharding.kind, ShardingKind::kDdp);

  job = derived(Framework::kTransformers, {{"bf16", "true"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_EQ(job.precision.params, DType::kBf16);
  EXPECT_TRUE(job.precision.autocast) << "16-bit weights need no casts, but norms still run in fp32";
  EXPECT_TRUE(test::warns(job, "load_dtype: not given"));

  job = derived(Framework::kTransformers, {{"load_dtype", "bfloat16"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_FALSE(job.precision.autocast);
}

TEST(Complete, deepspeed_without_a_half_precision_section_is_fp32) {
  Job job = derived(Framework::kDeepSpeed, {});

  ASSERT_EQ(text_of(complete(job)), "no error");

  EXPECT_EQ(job.precision.params, DType::kFp32);
}

TEST(Complete, selective_recompute_defaults_to_core_attention) {
  Job job = derived(Framework::kMegatronLm, {{"recompute_granularity", "selective"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_TRUE(job.recompute.modules.core_attn);

  job = derived(Framework::kMegatronLm, {{"recompute_granularity", "selective"}, {"recompute_modules", "[]"}});
  ASSERT_EQ(text_of(complete(job)), "no error");
  EXPECT_TRUE(test::warns(job, "recomputes nothing"));
}

TEST(Complete, an_optimizer_offload_multiplies_switch_and_fraction) {
  Job job = derived(Framework::kMegatronLm, {{"bf16", "true"},
                                             {"use_distributed_optimizer", "true"},
                                             {"use_precision_aware_optimizer", "true"},
                                             {"optimizer_cpu_offload", "true"},
                                             {"optimizer_offload_fraction", "0.5"}});

  ASSERT_EQ(text_of(complete(job)), "no error");

  EXPECT_DOUBLE_EQ(job.optimizer.cpu_offload_fraction, 0.5);
}

TEST(Complete, what_megatron_refuses_is_refused_in_its_words) {
  struct Case {
    const char* message;
    std::function<void(Job&)> change;
  };
  const Case cases[] = {
      {"no model is given", [](Job& j) { j.model = {}; }},
      {"gpus = 0", [](Job& j) { j.cluster.gpus = 0; }},
      {"is not divisible by total_model_size", [](Job& j) { j.parallel.tensor = 3; }},
      {"is not divisible by total_model_size",
       [](Job& j) { j.parallel.tensor = j.parallel.pipeline = j.parallel.context = 1 << 24; }},
      {"num_moe_experts must be non None", [](Job& j) { j.parallel.expert = 2; }},
      {"is not divisible by micro batch size", [](Job& j) { j.batch.global_batch = 100; }},
      {"a batch of 128 is not 1 per GPU * 7 steps * 64", [](Job& j) { j.batch.accumulation = 7; }},
      {"sequence length is not known", [](Job& j) { j.batch.seq_length = 0; }},
      {"attention heads cannot be split over TP 64 (R015",
       [](Job& j) {
         j.parallel.tensor = 64;
         j.batch.global_batch = 1;
       }},
      {"multiple of 2 * context-parallel-size",
       [](Job& j) {
         j.parallel.context = 8;
         j.batch.seq_length = 4100;
       }},
      {"splits the",
       [](Job& j) {
         j.parallel.tensor = 8;
         j.parallel.sequence_parallel = true;
         j.batch.seq_length = 4100;
       }},
      {"should be greater than 1 with interleaved", [](Job& j) { j.parallel.virtual_pipeline = 2; }},
      {"should be divisible by the pipeline-model-parallel size",
       [](Job& j) {
         j.parallel.pipeline = 64;
         j.batch.global_batch = 1;
       }},
      {"should range in [PP=",
       [](Job& j) {
         j.parallel.pipeline = 8;
         j.parallel.virtual_pipeline = 2;
         j.batch.global_batch = 32;
       }},
      {"The remainder of M",
       [](Job& j) {
         j.parallel.pipeline = 4;
         j.parallel.virtual_pipeline = 2;
         j.parallel.microbatch_group_size = 7;
       }},
      {"cannot be set with other pipeline layout",
       [](Job& j) {
         j.parallel.layout = "Et*32L";
         j.parallel.account_for_loss = true;
       }},
      {"virtual_pipeline_model_parallel_size conflicts with",
       [](Job& j) {
         j.parallel.layout = "Et*32L";
         j.parallel.virtual_pipeline = 2;
         j.given.insert("virtual_pipeline_model_parallel_size");
       }},
      {"No more than one of the following arguments",
       [](Job& j) {
         j.parallel.layers_per_virtual_stage = 2;
         j.parallel.pipeline = 2;
         j.parallel.virtual_pipeline = 4;
         j.given.insert("virtual_pipeline_model_parallel_size");
       }},
      {"please use --num-virtual-stages-per-pipeline-rank",
       [](Job& j) {
         j.parallel.layers_per_virtual_stage = 2;
         j.parallel.pipeline = 4;
         j.parallel.layers_in_first_stage = 2;
       }},
      {"must be divisible number of layers per virtual",
       [](Job& j) {
         j.parallel.layers_per_virtual_stage = 3;
         j.parallel.pipeline = 4;
       }},
      {"Cannot defer embedding wgrad", [](Job& j) { j.parallel.defer_embedding_wgrad = true; }},
      {"no support for Pipeline parallelism with CPU offloading",
       [](Job& j) {
         j.offload.activations = true;
         j.parallel.pipeline = 2;
       }},
      {"CPU offloading does not work when activation recomputation",
       [](Job& j) {
         j.offload.activations = true;
         j.recompute.granularity = RecomputeGranularity::kFull;
       }},
      {"CPU offloading can be done only for layers less than",
       [](Job& j) {
         j.offload.activations = true;
         j.offload.activation_layers = 32;
       }},
      {"cannot be enabled with cpu_offloading", [](Job& j) { j.offload.activations = j.offload.fine_grained = true; }},
      {"attn_proj cannot be set", [](Job& j) { j.offload.fine_grained = j.offload.modules.attn_proj = true; }},
      {"fine-grained offloading of no module (R120)", [](Job& j) { j.offload.fine_grained = true; }},
      {"only supported with moe_grouped_gemm",
       [](Job& j) {
         j.recompute.granularity = RecomputeGranularity::kSelective;
         j.recompute.modules.moe_act = true;
       }},
      {"mla_up_proj in recompute_modules",
       [](Job& j) {
         j.recompute.granularity = RecomputeGranularity::kSelective;
         j.recompute.modules.mla_up_proj = true;
       }},
      {"must be false when sequence parallel",
       [](Job& j) {
         j.parallel.tensor = 2;
         j.parallel.sequence_parallel = j.recompute.distribute_saved = true;
       }},
      {"can distribute recomputed activations only across", [](Job& j) { j.recompute.distribute_saved = true; }},
      {"fp4 and fp8 cannot be used",
       [](Job& j) {
         j.precision.fp4 = true;
         j.precision.fp8 = Fp8Recipe::kMxfp8;
       }},
      {"fp8_param must be used together", [](Job& j) { j.precision.fp8_param_gather = true; }},
      {"first / last layer in BF16",
       [](Job& j) {
         j.precision.fp8 = Fp8Recipe::kDelayed;
         j.precision.first_last_layers_bf16 = true;
       }},
      {"Only one of self.fp16",
       [](Job& j) {
         j.asked.bf16 = j.asked.fp16 = true;
         j.given = {"bf16", "fp16"};
       }},
      {"only supported with distributed optimizer", [](Job& j) { j.optimizer.precision_aware = true; }},
      {"only supported with adam",
       [](Job& j) {
         j.optimizer.precision_aware = j.optimizer.distributed = true;
         j.optimizer.kind = OptimizerKind::kSgd;
       }},
      {"can only be fp32 when not using precision-aware", [](Job& j) { j.optimizer.exp_avg = DType::kBf16; }},
      {"must be used in conjunction with `--use-precision-aware-optimizer`",
       [](Job& j) { j.optimizer.cpu_offload_fraction = 0.5; }},
      {"partial DistOpt shard factor", [](Job& j) { j.optimizer.instances = 3; }},
      {"dp_replicate 3", [](Job& j) { j.sharding.replicas = 3; }},
      {"purely quantized models", [](Job& j) { j.adapter.quantized_base = true; }},
      {"padded_vocab_size 100 is smaller", [](Job& j) { j.padded_vocab = 100; }},
      {"Length of cp_comm_type", [](Job& j) { j.parallel.cp_comm_type.assign(5, CpCommType::kP2p); }},
      {"more than any machine holds",
       [](Job& j) {
         j.batch.seq_length = 1 << 27;
         j.batch.micro_batch = 1 << 20;
         j.batch.global_batch.reset();
       }},
  };
  for (const Case& c : cases) {
    const std::string text = refusal(llama_8b(), c.change);
    EXPECT_NE(text.find(c.message), std::string::npos) << c.message << " <- " << text;
  }
}

TEST(Complete, full_recompute_needs_a_method_and_a_number_where_keys_are_read) {
  Job job = derived(Framework::kMegatronLm, {{"recompute_granularity", "full"}});
  EXPECT_NE(text_of(complete(job)).find("recompute_method must be \"block\" or \"uniform\""), std::string::npos);

  ASSERT_TRUE(set_key(job, "recompute_method", document::parse_scalar("block")));
  EXPECT_NE(text_of(complete(job)).find("recompute_num_layers must be between"), std::string::npos);

  ASSERT_TRUE(set_key(job, "recompute_num_layers", document::parse_scalar("1")));
  EXPECT_EQ(text_of(complete(job)), "no error");
}

TEST(Complete, selective_recompute_takes_no_method_and_no_number) {
  Job job = derived(Framework::kMegatronLm, {{"recompute_granularity", "selective"}, {"recompute_num_layers", "1"}});
  EXPECT_NE(text_of(complete(job)).find("recompute_num_layers must be None"), std::string::npos);

  job = derived(Framework::kMegatronLm, {{"recompute_granularity", "selective"}, {"recompute_method", "block"}});
  EXPECT_NE(text_of(complete(job)).find("recompute method is not yet supported"), std::string::npos);

  job = derived(Framework::kMegatronLm, {{"recompute_modules", "mlp"}});
  EXPECT_EQ(text_of(complete(job)), "no error");
  EXPECT_TRUE(test::warns(job, "has no effect without recompute_granularity selective"));
}

TEST(Complete, query_groups_may_be_fewer_than_tensor_parallel_ranks) {
  Job job = llama_8b();
  job.parallel.tensor = 16;
  job.batch.global_batch = 4;

  EXPECT_EQ(text_of(complete(job)), "no error");  // 8 groups, 16 ranks
}

TEST(Complete, deepspeed_refuses_what_its_engine_refuses) {
  const Job job = llama_8b(Framework::kDeepSpeed);

  EXPECT_NE(refusal(job,
                    [](Job& j) {
                      j.sharding.offload_optimizer = OffloadTarget::kCpu;
                      j.sharding.offload_ratio = 0.5;
                      j.sharding.zero_stage = 2;
                    })
                .find("Partial offloading only supported for ZeRO Stage 3"),
            std::string::npos);
  EXPECT_NE(refusal(job,
                    [](Job& j) {
                      j.parallel.pipeline = 2;
                      j.sharding.zero_stage = 2;
                    })
                .find("incompatible with pipeline"),
            std::string::npos);
  Job warned = job;
  warned.sharding.zero_stage = 2;
  warned.sharding.offload_param = OffloadTarget::kCpu;
  EXPECT_EQ(text_of(complete(warned)), "no error");
  EXPECT_TRUE(test::warns(warned, "weights are offloaded by ZeRO-3 only; stage 2 ignores"));
}

}  // namespace
}  // namespace plimsoll::job
