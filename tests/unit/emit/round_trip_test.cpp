// SPDX-License-Identifier: Apache-2.0
// What is emitted reads back as the same job.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <stdlib.h>

#include "base/file.h"
#include "emit/emit.h"
#include "emit/settings.h"
#include "job/keys.h"
#include "job/read.h"
#include "lever/price.h"
#include "model/catalog.h"
#include "property/random_job.h"

namespace plimsoll::emit {
namespace {

std::string text_of(const Error& error) { return to_string(error); }

job::InputFile example(const std::string& name) {
  const std::string path = std::string(PLIMSOLL_SOURCE_DIR) + "/examples/" + name;
  return {path, read_file(path).value()};
}

job::Job read_examples(const std::vector<std::string>& names, const job::ReadOptions& options = {}) {
  std::vector<job::InputFile> files;
  files.reserve(names.size());
  for (const std::string& name : names) files.push_back(example(name));
  auto job = job::read_job(files, options);
  EXPECT_TRUE(job.has_value()) << (job ? "" : text_of(job.error()));
  return job ? *std::move(job) : job::Job{};
}

job::Job read_back(const std::vector<File>& files) {
  std::vector<job::InputFile> inputs;
  for (const std::string& name : readable_files(files))
    for (const File& file : files)
      if (file.name == name) inputs.push_back({file.name, file.text});
  auto job = job::read_job(inputs, {});
  EXPECT_TRUE(job.has_value()) << (job ? "" : text_of(job.error()));
  return job ? *std::move(job) : job::Job{};
}

std::string all_text(const std::vector<File>& files) {
  std::string text;
  for (const File& file : files) text += "== " + file.name + "\n" + file.text;
  return text;
}

// Every key of a plain field and all that the comparison of emit() itself looks at.
void expect_same(const job::Job& a, const job::Job& b, bool same_model_form) {
  EXPECT_EQ(differing_keys(a, b), std::vector<std::string>{});
  std::map<std::string, std::string> sections;
  for (const job::KeyInfo& info : job::key_table()) sections[info.name] = info.section;
  for (const std::string& key : job::key_names()) {
    if (sections[key] == "model" && !same_model_form) continue;
    if (!meant_value(a, key) || meant_value(a, key)->is_null()) continue;
    const auto left = job::value_of(a, key);
    const auto right = job::value_of(b, key);
    const bool is_compared_below =
        key == "sequence_parallel" || key == "expert_tensor_parallel_size" || key == "fp8_recipe";
    if (!left || left->is_null() || is_compared_below) continue;
    EXPECT_EQ(document::to_text(*left), document::to_text(*right)) << key;
  }
  EXPECT_EQ(a.parallel.sequence_parallel, b.parallel.sequence_parallel);
  EXPECT_EQ(a.expert_tensor(), b.expert_tensor());
  EXPECT_EQ(a.precision.fp8, b.precision.fp8);
  EXPECT_EQ(a.cluster.gpu.id, b.cluster.gpu.id);
  EXPECT_EQ(a.cluster.gpus, b.cluster.gpus);
  EXPECT_EQ(a.vocab_rows, b.vocab_rows);
  EXPECT_EQ(a.micro_batches, b.micro_batches);
  EXPECT_EQ(a.data_parallel, b.data_parallel);
  for (const auto& [name, value] : a.environment)
    EXPECT_TRUE(b.environment.contains(name) && b.environment.at(name) == value) << name;
}

void expect_same_price(const job::Job& a, const job::Job& b) {
  const auto left = lever::price(a, {});
  const auto right = lever::price(b, {});
  ASSERT_EQ(left.has_value(), right.has_value());
  if (!left) return;
  EXPECT_EQ(left->worst().device_used, right->worst().device_used);
  EXPECT_EQ(left->worst().peak_allocated, right->worst().peak_allocated);
  EXPECT_EQ(left->memory.peak_by_stage, right->memory.peak_by_stage);
  EXPECT_EQ(left->memory.host.bytes_per_node, right->memory.host.bytes_per_node);
  EXPECT_DOUBLE_EQ(left->time.seconds, right->time.seconds);
}

// A folder that goes away.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "plimsoll-emit-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The launch script as a user has it: a file beside the others, which it names. It does not say which GPU it runs on.
void expect_launch_reads_back(const job::Job& job, const std::vector<File>& files) {
  const auto launch =
      std::find_if(files.begin(), files.end(), [](const File& file) { return file.name == "launch.sh"; });
  if (launch == files.end()) return;
  const Folder folder;
  for (const File& file : files) std::ofstream(folder.file(file.name)) << file.text;
  std::vector<job::InputFile> inputs = {{folder.file("launch.sh"), launch->text}};
  // What no flag of the framework says stands in plimsoll.toml.
  for (const File& file : files)
    if (file.name == "plimsoll.toml") inputs.push_back({folder.file(file.name), file.text});
  const auto read = job::read_job(inputs, {});
  // Bridge has no recipe for every model: the script then says that one has to be named.
  if (launch->text.find("has no recipe") != std::string::npos) {
    ASSERT_FALSE(read.has_value());
    EXPECT_NE(text_of(read.error()).find("is not one of"), std::string::npos);
    return;
  }
  ASSERT_TRUE(read.has_value()) << "launch.sh: " << text_of(read.error());
  EXPECT_EQ(differing_keys(job, *read), std::vector<std::string>{}) << "launch.sh";
  expect_same_price(job, *read);
}

void expect_round_trip(const job::Job& job, Target target) {
  const auto files = emit(job, target, {});
  ASSERT_TRUE(files.has_value()) << text_of(files.error());
  SCOPED_TRACE(all_text(*files));
  const job::Job read = read_back(*files);
  expect_same(job, read, false);
  expect_same_price(job, read);
  expect_launch_reads_back(job, *files);
}

job::ReadOptions on(const std::string& gpu, std::int64_t gpus) {
  job::ReadOptions options;
  options.gpu = gpu;
  options.gpus = gpus;
  return options;
}

TEST(RoundTrip, job_file_example) {
  const job::Job job = read_examples({"llama3-70b.toml"});
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kMegatronLm);
  if (job.framework == job::Framework::kMegatronBridge) expect_round_trip(job, Target::kMegatronBridge);
}

TEST(RoundTrip, megatron_lm_example) {
  const job::Job job = read_examples({"megatron-lm/llama3-8b.sh"}, on("h100", 8));
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kMegatronLm);
  if (job.framework == job::Framework::kMegatronBridge) expect_round_trip(job, Target::kMegatronBridge);
}

TEST(RoundTrip, megatron_bridge_example) {
  const job::Job job = read_examples({"megatron-bridge/overrides.py"}, on("h100", 64));
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kMegatronLm);
  if (job.framework == job::Framework::kMegatronBridge) expect_round_trip(job, Target::kMegatronBridge);
}

TEST(RoundTrip, transformers_example) {
  const job::Job job =
      read_examples({"transformers/config.json", "transformers/training_args.json"}, on("a100-sxm-80gb", 8));
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kTransformers);
}

TEST(RoundTrip, deepspeed_example) {
  const job::Job job = read_examples(
      {"transformers/config.json", "transformers/training_args.json", "transformers/ds_zero3.json"}, on("h100", 8));
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kDeepSpeed);
}

TEST(RoundTrip, fsdp_example) {
  const job::Job job = read_examples(
      {"transformers/config.json", "transformers/training_args.json", "transformers/accelerate_fsdp.yaml"},
      on("h100", 8));
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kFsdp2);
}

TEST(RoundTrip, torchtitan_example) {
  const job::Job job = read_examples({"torchtitan/llama3-8b.toml"}, on("h100", 8));
  expect_round_trip(job, Target::kJob);
  expect_round_trip(job, Target::kTorchtitan);
}

// Random draws whose model Megatron's keys can describe.
std::optional<job::Job> expressible(std::uint64_t seed) {
  auto job = testing::random_megatron_job(seed);
  if (!job) return std::nullopt;
  job->model.embedding_dropout = job->model.hidden_dropout;
  for (model::Layer& kind : job->model.kinds) {
    if (kind.ffn.is_moe()) kind.ffn.width = 0;
    if (!kind.ffn.gated) kind.ffn.activation = model::Activation::kGelu;
  }
  if (!job->optimizer.distributed) job->optimizer.overlap_param_gather = false;
  if (!job::complete(*job)) return std::nullopt;
  return job;
}

// How many of the random jobs a target carries; each one that it does not must name a key.
void expect_random_round_trips(Target target, int at_least) {
  int carried = 0;
  int drawn = 0;
  std::map<std::string, int> refused;
  for (std::uint64_t seed = 1; drawn < 60; ++seed) {
    const auto job = expressible(seed);
    if (!job) continue;
    // The launcher of Bridge has an environment of its own, which a job of Megatron-LM does not.
    if (target == Target::kMegatronBridge && job->framework != job::Framework::kMegatronBridge) continue;
    ++drawn;
    const auto files = emit(*job, target, {});
    if (!files) {
      ++refused[text_of(files.error())];
      continue;
    }
    ++carried;
    SCOPED_TRACE(all_text(*files));
    expect_same(*job, read_back(*files), false);
  }
  std::string why;
  for (const auto& [message, count] : refused) why += std::to_string(count) + " x " + message + "\n";
  EXPECT_GE(carried, at_least) << why;
}

TEST(RoundTrip, random_megatron_jobs_as_job_files) { expect_random_round_trips(Target::kJob, 50); }
TEST(RoundTrip, random_megatron_jobs_as_bridge_overrides) { expect_random_round_trips(Target::kMegatronBridge, 45); }
TEST(RoundTrip, random_megatron_jobs_as_launch_scripts) { expect_random_round_trips(Target::kMegatronLm, 25); }

job::Job read_keys(const std::string& toml) {
  auto job = job::read_job({{"job.toml", toml}}, {});
  EXPECT_TRUE(job.has_value()) << (job ? "" : text_of(job.error()));
  return job ? *std::move(job) : job::Job{};
}

TEST(RoundTrip, megatron_jobs_with_many_knobs) {
  const std::string experts =
      "model = 'deepseek-v3'\n[cluster]\ngpu='h100'\ngpus=256\n[parallel]\ntensor_model_parallel_size=2\n"
      "sequence_parallel=true\npipeline_model_parallel_size=8\nexpert_model_parallel_size=32\n"
      "expert_tensor_parallel_size=1\n"
      "pipeline_model_parallel_layout='Et*4|(tttt|)*14tmL'\n[batch]\nseq_length=4096\nmicro_batch_size=1\n"
      "global_batch_size=512\n[recompute]\nrecompute_granularity='selective'\n"
      "recompute_modules=['mla_up_proj','layernorm','moe_act']\n[precision]\nfp8='e4m3'\nfp8_recipe='blockwise'\n"
      "bf16=true\n[moe]\nmoe_grouped_gemm=true\nmoe_token_dispatcher_type='flex'\nmoe_router_dtype='fp32'\n"
      "[optimizer]\nuse_distributed_optimizer=true\nuse_precision_aware_optimizer=true\nexp_avg_dtype='bf16'\n"
      "exp_avg_sq_dtype='bf16'\nmain_grads_dtype='bf16'\n";
  for (const char* framework : {"megatron-bridge", "megatron-lm"}) {
    const job::Job job = read_keys(std::string("framework = '") + framework + "'\n" + experts);
    expect_round_trip(job, Target::kJob);
    expect_round_trip(job, *target_from(framework));
  }
}

TEST(RoundTrip, every_model_of_the_catalogue_that_megatron_can_train) {
  int carried = 0;
  for (const model::CatalogEntry& entry : model::catalog_entries()) {
    job::ReadOptions options = on("h100", 8);
    options.model = entry.name;
    options.framework = job::Framework::kMegatronLm;
    options.overrides = {{"seq_length", "1024"}, {"micro_batch_size", "1"}, {"bf16", "true"}};
    const auto job = job::read_job({}, options);
    if (!job) continue;  // more positions than the model has, say
    const auto files = emit(*job, Target::kMegatronLm, {});
    if (!files) {
      EXPECT_NE(text_of(files.error()).find("cannot express"), std::string::npos) << entry.name;
      continue;
    }
    ++carried;
    EXPECT_EQ(differing_keys(*job, read_back(*files)), std::vector<std::string>{}) << entry.name;
    const auto named = emit(*job, Target::kJob, {});
    ASSERT_TRUE(named.has_value()) << entry.name;
    EXPECT_NE(named->front().text.find("model = "), std::string::npos) << entry.name;
  }
  EXPECT_GT(carried, 50);
}

// Pattern, pipeline segments, experts at a latent width and repeated MTP depths.
TEST(RoundTrip, hybrid_models_of_megatron) {
  for (const auto& [pattern, pipeline] : {std::pair{"MEM*E", "1"}, {"ME|M*|E-|MM/*E/*E", "2"}}) {
    job::ReadOptions options = on("h100", 8);
    options.framework = job::Framework::kMegatronLm;
    options.overrides = {{"hybrid_layer_pattern", pattern},
                         {"pipeline_model_parallel_size", pipeline},
                         {"hidden_size", "1024"},
                         {"num_attention_heads", "16"},
                         {"group_query_attention", "true"},
                         {"num_query_groups", "2"},
                         {"vocab_size", "32000"},
                         {"position_embedding_type", "none"},
                         {"num_moe_experts", "8"},
                         {"moe_router_topk", "2"},
                         {"moe_ffn_hidden_size", "512"},
                         {"moe_latent_size", "256"},
                         {"squared_relu", "true"},
                         {"mamba_num_heads", "32"},
                         {"mtp_use_repeated_layer", "true"},
                         {"seq_length", "1024"},
                         {"micro_batch_size", "1"},
                         {"global_batch_size", "32"},
                         {"add_bias_linear", "false"},
                         {"normalization", "RMSNorm"},
                         {"hidden_dropout", "0"},
                         {"attention_dropout", "0"},
                         {"expert_model_parallel_size", "2"},
                         {"bf16", "true"}};
    const auto job = job::read_job({}, options);
    ASSERT_TRUE(job) << text_of(job.error());
    for (const Target target : {Target::kMegatronLm, Target::kJob}) {
      const auto files = emit(*job, target, {});
      ASSERT_TRUE(files) << pattern << ": " << text_of(files.error());
      EXPECT_EQ(differing_keys(*job, read_back(*files)), std::vector<std::string>{}) << pattern;
      if (target == Target::kMegatronLm) {
        EXPECT_NE(files->front().text.find("pretrain_hybrid.py"), std::string::npos);
      }
    }
  }
}

TEST(RoundTrip, adapters_of_transformers_and_bridge) {
  const std::string keys =
      "model='llama3-8b'\n[cluster]\ngpu='a100-sxm-80gb'\ngpus=2\n[batch]\nseq_length=2048\nmicro_batch_size=2\n"
      "[adapter]\npeft='lora'\nlora_rank=16\nlora_dropout=0.05\n";
  expect_round_trip(read_keys("framework='transformers'\n" + keys +
                              "lora_target_modules=['q_proj','v_proj']\nload_in_4bit=true\n[recompute]\n"
                              "gradient_checkpointing=true\n[precision]\nbf16=true\nload_dtype='bf16'\n"
                              "[optimizer]\noptimizer='adam8bit'\npaged_optimizer=true\n"),
                    Target::kTransformers);
  expect_round_trip(
      read_keys("framework='megatron-bridge'\n" + keys + "lora_target_modules=['linear_qkv']\nadapter_dtype='bf16'\n"),
      Target::kMegatronBridge);
}

TEST(RoundTrip, deepspeed_stages_and_offload) {
  for (const char* stage : {"0", "1", "2", "3"}) {
    std::string keys = std::string("framework='deepspeed'\nmodel='qwen2.5-7b'\n[cluster]\ngpu='h100'\ngpus=16\n") +
                       "[batch]\nseq_length=4096\nmicro_batch_size=1\ngradient_accumulation_steps=4\n" +
                       "[precision]\nbf16=true\n[sharding]\nzero_stage=" + stage + "\n";
    if (stage[0] == '3') keys += "offload_param_device='nvme'\noffload_optimizer_device='nvme'\n";
    expect_round_trip(read_keys(keys), Target::kDeepSpeed);
    expect_round_trip(read_keys(keys), Target::kJob);
  }
}

TEST(RoundTrip, torchtitan_with_all_parallelisms) {
  const job::Job job = read_keys(
      "framework='torchtitan'\nmodel='llama3.1-405b'\n[cluster]\ngpu='h100'\ngpus=256\n[parallel]\n"
      "tensor_model_parallel_size=8\nsequence_parallel=true\npipeline_model_parallel_size=2\n"
      "pipeline_schedule='1f1b'\ncontext_parallel_size=2\ncp_comm_type='all_gather'\n[batch]\nseq_length=8192\n"
      "micro_batch_size=1\ngradient_accumulation_steps=8\n[recompute]\nrecompute_granularity='full'\n"
      "recompute_every_nth_layer=0\n[kernels]\ntorch_compile=true\n[sharding]\nreshard_after_forward=false\n");
  expect_round_trip(job, Target::kTorchtitan);
  expect_round_trip(job, Target::kJob);
}

}  // namespace
}  // namespace plimsoll::emit
