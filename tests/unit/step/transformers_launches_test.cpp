// SPDX-License-Identifier: Apache-2.0
// What the graph says it launches, against what PyTorch's profiler counted for layers of tiny models on an H200
// (tests/data/timing/kernels-h200-2.json, part host: kernels of 12 layers less those of 4).
#include "step/transformers/launches.h"

#include <gtest/gtest.h>

#include "job/read.h"

namespace plimsoll::step::transformers {
namespace {

job::Job tiny(const std::string& config, const std::string& arguments) {
  job::ReadOptions options;
  options.framework = job::Framework::kTransformers;
  options.gpu = "h200-sxm-141gb";
  options.gpus = 1;
  options.overrides.emplace_back("seq_length", "64");
  return job::read_job({{"config.json", config}, {"training_args.json", arguments}}, options).value();
}

constexpr const char* kLlama =
    R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":128,"intermediate_size":256,)"
    R"("num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":1000,"torch_dtype":")";
constexpr const char* kQwen3 =
    R"({"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_size":128,"intermediate_size":256,)"
    R"("num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,"vocab_size":1000,)"
    R"("torch_dtype":")";
constexpr const char* kGpt2 =
    R"({"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_embd":128,"n_layer":4,"n_head":4,)"
    R"("vocab_size":1000,"n_positions":256,"torch_dtype":")";
constexpr const char* kBatch = R"("per_device_train_batch_size":1,"output_dir":"out"})";

double kernels(const Launches& l) {
  return static_cast<double>(l.products.size() + l.attention.size() + l.streams.size());
}

struct Counted {
  const char* name;
  const char* config;
  const char* weights;
  bool autocast;
  double forward;
  double backward;
};

TEST(TransformersLaunches, a_layer_launches_about_as_many_kernels_as_the_profiler_counted) {
  const Counted counted[] = {
      {"llama bf16", kLlama, "bfloat16", false, 39, 80},  {"llama autocast", kLlama, "float32", true, 49, 96},
      {"qwen3 bf16", kQwen3, "bfloat16", false, 55, 112}, {"qwen3 autocast", kQwen3, "float32", true, 65, 126},
      {"gpt2 bf16", kGpt2, "bfloat16", false, 21, 36},    {"gpt2 autocast", kGpt2, "float32", true, 33, 52},
  };
  for (const Counted& c : counted) {
    SCOPED_TRACE(c.name);
    const std::string arguments = std::string(c.autocast ? R"({"bf16":true,)" : R"({"bf16":false,)") + kBatch;
    const StepLaunches step = launches_of(tiny(std::string(c.config) + c.weights + "\"}", arguments));
    ASSERT_EQ(step.kinds.size(), 1U);
    EXPECT_NEAR(kernels(step.kinds[0].forward), c.forward, 0.15 * c.forward);
    EXPECT_NEAR(kernels(step.kinds[0].backward), c.backward, 0.25 * c.backward);
  }
}

TEST(TransformersLaunches, every_linear_is_three_products_of_the_same_work) {
  const StepLaunches step = launches_of(tiny(std::string(kLlama) + "bfloat16\"}", std::string("{") + kBatch));
  const auto work = [](const Launches& l) {
    double sum = 0;
    for (const Product& p : l.products) sum += p.rows * p.columns * p.depth * p.count;
    return sum;
  };
  const PartLaunches& layer = step.kinds[0];
  EXPECT_EQ(layer.forward.products.size(), 7U);  // q, k, v, o, gate, up, down
  EXPECT_EQ(layer.backward.products.size(), 14U);
  EXPECT_DOUBLE_EQ(work(layer.backward), 2 * work(layer.forward));
  const double tokens = 64;
  EXPECT_DOUBLE_EQ(work(layer.forward), tokens * (128 * 128 * 2 + 128 * 64 * 2 + 3 * 128 * 256));
  EXPECT_EQ(layer.forward.attention.size(), 1U);
  EXPECT_EQ(layer.backward.attention.size(), 1U);
}

// The last of four layers is trained: those below go forward only. Where the first is trained alone, those above pass
// the gradient on.
TEST(TransformersLaunches, layers_below_what_is_trained_do_not_go_back) {
  job::Job job = tiny(std::string(kLlama) + "bfloat16\"}", std::string("{") + kBatch);
  const auto part = [&job](std::size_t layer) {
    const StepLaunches step = launches_of(job);
    return step.kinds[step.of_layer[layer]];
  };
  job.trainable_layers = 1;
  EXPECT_TRUE(part(0).backward.products.empty());
  EXPECT_EQ(part(0).forward.products.size(), 7U);
  EXPECT_EQ(part(3).backward.products.size(), 14U);  // its first norm has a weight, so q, k and v bring it a gradient
  job.trainable_layers = -1;
  EXPECT_EQ(part(0).backward.products.size(), 14U);
  EXPECT_EQ(part(3).backward.products.size(), 7U);
  job.trainable_layers = 0;
  EXPECT_EQ(launches_of(job).of_layer, (std::vector<std::size_t>{0, 0, 0, 0}));
}

TEST(TransformersLaunches, a_vocabulary_that_is_no_multiple_of_eight_is_loaded_in_smaller_pieces) {
  const std::string arguments = std::string("{") + kBatch;
  const auto head_of = [&](const char* vocabulary) {
    std::string config = std::string(kLlama) + "bfloat16\"}";
    config.replace(config.find("1000"), 4, vocabulary);
    return launches_of(tiny(config, arguments)).ends.forward.products.front();
  };
  EXPECT_EQ(head_of("1000").alignment, 8);
  EXPECT_EQ(head_of("1004").alignment, 4);
  EXPECT_EQ(head_of("1002").alignment, 2);
  EXPECT_EQ(head_of("1001").alignment, 1);
}

// What checkpointing packs and unpacks: calls of torch.autograd.graph.saved_tensors_hooks in a forward pass, of one
// layer more (PyTorch 2.6, Transformers 5, no GPU).
TEST(TransformersLaunches, a_layer_saves_about_as_many_tensors_as_hooks_were_called_for) {
  const auto saved = [](const char* config) {
    return launches_of(tiny(std::string(config) + "bfloat16\"}", std::string("{") + kBatch)).kinds[0].forward.saved;
  };
  EXPECT_NEAR(saved(kLlama), 38, 2);
  EXPECT_NEAR(saved(kQwen3), 50, 2);
  EXPECT_NEAR(saved(kGpt2), 30, 4);
}

// SDPA has no kernel for them: groups are repeated and scores written out inside one function, causal mask included.
TEST(TransformersLaunches, grouped_heads_in_fp32_write_their_scores_out) {
  const StepLaunches step = launches_of(tiny(std::string(kLlama) + "float32\"}", std::string("{") + kBatch));
  const PartLaunches& layer = step.kinds[0];
  EXPECT_TRUE(layer.forward.attention.empty());
  EXPECT_EQ(layer.forward.products.size(), 9U);
  EXPECT_EQ(layer.backward.products.size(), 18U);
  EXPECT_EQ(layer.forward.inner, 7);  // of the mask, and of rows that are masked whole
}

TEST(TransformersLaunches, fp32_weights_without_autocast_multiply_in_fp32) {
  const StepLaunches step = launches_of(tiny(std::string(kLlama) + "float32\"}", std::string("{") + kBatch));
  for (const Product& p : step.kinds[0].forward.products) EXPECT_EQ(p.width, 4);
}

}  // namespace
}  // namespace plimsoll::step::transformers
