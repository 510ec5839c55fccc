// SPDX-License-Identifier: Apache-2.0
// Layers that have something in common: Zamba 2's blocks of attention, Gemma 3n's keys and residual streams. What a
// step of them takes is held against recordings (tests/data/truth/models-h200.json); here, what must follow from it.
#include <algorithm>

#include <gtest/gtest.h>

#include "document/node.h"
#include "model/hf_config.h"
#include "model/parameters.h"
#include "step/transformers/rank.h"

namespace plimsoll::step::transformers {
namespace {

job::Job job_of(const std::string& config) {
  job::Job job;
  job.framework = job::Framework::kTransformers;
  job.kernels.implementation = job::Implementation::kTransformers;
  job.kernels.loss = job::LossKind::kTransformers;
  const auto model = model::read_hf_config(*document::parse_json(config));
  EXPECT_TRUE(model) << to_string(model.error());
  if (model) job.model = *model;
  job.vocab_rows = job.model.vocab;
  job.batch.seq_length = 256;
  job.batch.micro_batch = 2;
  job.cluster.gpu.architecture = cluster::Architecture::kHopper;
  return job;
}

job::Job zamba2() {
  return job_of(R"({"model_type": "zamba2", "hidden_size": 256, "num_hidden_layers": 4, "vocab_size": 1024,
                    "intermediate_size": 512, "num_attention_heads": 4, "n_mamba_heads": 8, "mamba_d_state": 16,
                    "adapter_rank": 8, "chunk_size": 64, "use_mem_rope": true,
                    "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]})");
}

job::Job gemma3n() {
  return job_of(R"({"model_type": "gemma3n_text", "hidden_size": 256, "num_hidden_layers": 4, "vocab_size": 1024,
                    "vocab_size_per_layer_input": 1024, "hidden_size_per_layer_input": 16, "intermediate_size": 512,
                    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 64, "num_kv_shared_layers": 2,
                    "laurel_rank": 8, "sliding_window": 128, "activation_sparsity_pattern": [0.9, 0, 0, 0],
                    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})");
}

struct Ran {
  std::int64_t parameters = 0;
  std::int64_t peak = 0;
};

Ran run(const job::Job& job) {
  Tape tape(true);
  Ran ran;
  ran.parameters = run_rank(job, tape, false).parameters;
  std::int64_t live = 0;
  for (const auto& event : tape.events()) {
    live += event.bytes;
    ran.peak = std::max(ran.peak, live);
  }
  EXPECT_GT(live, 0);
  return ran;
}

TEST(TransformersShared, a_block_that_two_layers_run_is_there_once) {
  for (const job::Job& job : {zamba2(), gemma3n()})
    EXPECT_EQ(run(job).parameters, model::count_parameters(job.model).total) << job.model.model_type;
}

TEST(TransformersShared, checkpointing_takes_less_and_goes_back_through_shared_keys_and_blocks) {
  for (job::Job job : {zamba2(), gemma3n()}) {
    const std::int64_t plain = run(job).peak;
    job.recompute.granularity = job::RecomputeGranularity::kFull;
    EXPECT_LT(run(job).peak, plain) << job.model.model_type;
  }
}

TEST(TransformersShared, under_autocast_the_streams_are_fp32) {
  job::Job job = gemma3n();
  const std::int64_t narrow = run(job).peak;
  job.precision.autocast = true;
  EXPECT_GT(run(job).peak, narrow);
}

TEST(TransformersShared, adapters_stand_beside_every_product) {
  for (job::Job job : {zamba2(), gemma3n()}) {
    job.adapter.kind = job::AdapterKind::kLora;
    job.adapter.rank = 4;
    job.adapter.targets = {"all-linear"};
    EXPECT_GT(run(job).parameters, model::count_parameters(job.model).total) << job.model.model_type;
  }
}

}  // namespace
}  // namespace plimsoll::step::transformers
