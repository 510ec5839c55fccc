// SPDX-License-Identifier: Apache-2.0
// What the files hold beside the job: reasons, the environment, launchers; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emit/emit.h"
#include "emit/settings.h"
#include "emit/text.h"
#include "job/read.h"

namespace plimsoll::emit {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

job::Job read_keys(const std::string& toml) {
  auto job = job::read_job({{"job.toml", toml}}, {});
  EXPECT_TRUE(job.has_value()) << (job ? "" : to_string(job.error()));
  return job ? *std::move(job) : job::Job{};
}

job::Job megatron(const std::string& more = {}, const std::string& gpu = "h100") {
  return read_keys("framework='megatron-lm'\nmodel='llama3-8b'\n[cluster]\ngpu='" + gpu +
                   "'\ngpus=32\n[parallel]\ntensor_model_parallel_size=4\npipeline_model_parallel_size=2\n"
                   "[batch]\nseq_length=4096\nmicro_batch_size=1\nglobal_batch_size=64\n[precision]\nbf16=true\n" +
                   more);
}

std::string text_of(const std::vector<File>& files, const std::string& name) {
  for (const File& file : files)
    if (file.name == name) return file.text;
  return "no file " + name;
}

std::vector<File> emitted(const job::Job& job, Target target, const std::vector<Reason>& reasons = {}) {
  auto files = emit(job, target, reasons);
  EXPECT_TRUE(files.has_value()) << (files ? "" : to_string(files.error()));
  return files ? *std::move(files) : std::vector<File>{};
}

std::string refusal(const job::Job& job, Target target) {
  const auto files = emit(job, target, {});
  return files ? "no error" : to_string(files.error());
}

TEST(Targets, names_are_those_of_the_flag_and_lead_back) {
  for (const std::string& name : target_names()) EXPECT_TRUE(target_from(name).has_value()) << name;
  EXPECT_EQ(target_names().size(), 7U);
  EXPECT_FALSE(target_from("slurm").has_value());
}

TEST(LaunchScript, flags_carry_their_reason_or_their_meaning) {
  const auto files =
      emitted(megatron(), Target::kMegatronLm, {{"tensor_model_parallel_size", "smallest that fits 80 GiB"}});
  EXPECT_THAT(text_of(files, "launch.sh"), HasSubstr("--tensor-model-parallel-size 4    # smallest that fits 80 GiB"));
  EXPECT_THAT(text_of(files, "launch.sh"), HasSubstr("# PP: ranks that share the depth"));
}

TEST(LaunchScript, reason_with_a_line_break_stays_one_comment) {
  const auto files = emitted(megatron(), Target::kMegatronLm, {{"seq_length", "first\nrm -rf /"}});
  EXPECT_THAT(text_of(files, "launch.sh"), HasSubstr("# first rm -rf /\n"));
}

// A job of one model on one node, with the keys that the claim is about.
job::Job of_model(const std::string& framework, const std::string& model, const std::string& more = {},
                  const std::string& gpu = "h100") {
  return read_keys("framework='" + framework + "'\nmodel='" + model + "'\n[cluster]\ngpu='" + gpu +
                   "'\ngpus=8\n[batch]\nseq_length=4096\nmicro_batch_size=1\nglobal_batch_size=64\n[precision]\n"
                   "bf16=true\n" +
                   more);
}

std::string launch_of(const std::string& model, const std::string& more = {}) {
  return text_of(emitted(of_model("megatron-lm", model, more), Target::kMegatronLm), "launch.sh");
}

TEST(LaunchScript, what_is_off_has_no_flag_where_the_parser_knows_no_off) {
  const std::string text = launch_of("llama3-8b",
                                     "[recompute]\nrecompute_granularity='none'\n[parallel]\n"
                                     "virtual_pipeline_model_parallel_size=1\npipeline_model_parallel_size=1\n");
  EXPECT_THAT(text, Not(HasSubstr("--recompute-granularity")));
  EXPECT_THAT(text, Not(HasSubstr("--num-virtual-stages-per-pipeline-rank")));
  EXPECT_THAT(
      launch_of("llama3-8b",
                "[parallel]\npipeline_model_parallel_size=2\nvirtual_pipeline_model_parallel_size="
                "2\n[recompute]\nrecompute_granularity='selective'\n"),
      AllOf(HasSubstr("--num-virtual-stages-per-pipeline-rank 2 "), HasSubstr("--recompute-granularity selective ")));
}

TEST(LaunchScript, positions_and_norms_are_those_of_the_model) {
  const std::string llama = launch_of("llama3-8b");
  EXPECT_THAT(llama, HasSubstr("--rotary-base 500000 "));
  EXPECT_THAT(llama, Not(HasSubstr("--norm-epsilon")));
  EXPECT_THAT(llama, Not(HasSubstr("--use-rope-scaling")));
  EXPECT_THAT(llama, Not(HasSubstr("config.json")));
  EXPECT_THAT(launch_of("llama3.1-8b"), AllOf(HasSubstr("--rotary-base 500000 "), HasSubstr("--use-rope-scaling "),
                                              HasSubstr("--rope-scaling-factor 8 ")));
  EXPECT_THAT(launch_of("qwen3-8b"), AllOf(HasSubstr("--rotary-base 1000000 "), HasSubstr("--norm-epsilon 1e-06 "),
                                           HasSubstr("--qk-layernorm ")));
  EXPECT_THAT(launch_of("llama2-7b"), Not(HasSubstr("--rotary-base")));  // Megatron's own default
}

TEST(LaunchScript, what_the_catalogue_does_not_know_of_the_model_is_named) {
  EXPECT_THAT(launch_of("yi-6b"), HasSubstr("\n  # not known here, take from the model's config.json: rope_theta "
                                            "(--rotary-base), the epsilon of the norms "
                                            "(--norm-epsilon)\n"));
  EXPECT_THAT(launch_of("mixtral-8x7b"), HasSubstr("config.json: how its router scores, groups and balances"));
  EXPECT_THAT(launch_of("deepseek-v3"), HasSubstr("rope_scaling of type yarn"));
}

TEST(LaunchScript, positions_that_a_file_of_the_job_gave_pass_through) {
  job::Job job = of_model("megatron-lm", "llama3-8b");
  job.stated["rotary_base"] = "70000";
  job.stated["norm_epsilon"] = "1e-6; rm x";
  EXPECT_THAT(text_of(emitted(job, Target::kMegatronLm), "launch.sh"),
              AllOf(HasSubstr("--rotary-base 70000 "), HasSubstr("--norm-epsilon '1e-6; rm x' ")));
}

TEST(LaunchScript, variables_that_lint_asks_for_are_set_as_the_prediction_counts) {
  const std::string hopper = launch_of("llama3-8b");
  EXPECT_THAT(hopper, HasSubstr("export TORCH_NCCL_AVOID_RECORD_STREAMS=1 "));
  EXPECT_THAT(hopper, HasSubstr("export NCCL_NVLS_ENABLE=2 "));  // memory counts its buffers
  EXPECT_THAT(
      text_of(emitted(of_model("megatron-lm", "llama3-8b", {}, "a100-sxm-80gb"), Target::kMegatronLm), "launch.sh"),
      HasSubstr("export NCCL_NVLS_ENABLE=0 "));
}

TEST(Overrides, layout_and_number_of_chunks_never_come_from_the_recipe) {
  const std::string sizes = text_of(emitted(of_model("megatron-bridge", "llama3-8b",
                                                     "[parallel]\npipeline_model_parallel_size=2\n"
                                                     "virtual_pipeline_model_parallel_size=2\n"),
                                            Target::kMegatronBridge),
                                    "overrides.yaml");
  EXPECT_THAT(sizes, HasSubstr("virtual_pipeline_model_parallel_size: 2 "));
  EXPECT_THAT(sizes, HasSubstr("pipeline_model_parallel_layout: null "));
  const auto files = emitted(of_model("megatron-bridge", "llama3-8b",
                                      "[parallel]\npipeline_model_parallel_size=2\n"
                                      "pipeline_model_parallel_layout='Et*8|t*8|t*8|t*8L'\n"),
                             Target::kMegatronBridge);
  EXPECT_THAT(text_of(files, "overrides.yaml"), AllOf(HasSubstr("virtual_pipeline_model_parallel_size: null "),
                                                      HasSubstr("pipeline_model_parallel_layout: \"Et*8|")));
  EXPECT_THAT(text_of(files, "launch.sh"), HasSubstr("model.virtual_pipeline_model_parallel_size=null "));
}

TEST(Overrides, positions_of_a_model_without_a_name_are_not_those_of_the_recipe) {
  const auto job = read_keys(
      "framework='megatron-bridge'\n[model]\nnum_layers=4\nhidden_size=512\nnum_attention_heads=8\nvocab_size=1000\n"
      "position_embedding_type='rope'\n[cluster]\ngpu='h100'\ngpus=1\n[batch]\nseq_length=512\n"
      "micro_batch_size=1\n");
  EXPECT_THAT(text_of(emitted(job, Target::kMegatronBridge), "overrides.yaml"), HasSubstr("rotary_base: 10000 "));
}

TEST(Adapters, without_named_linears_those_that_are_counted_are_written) {
  const std::string lora = "[adapter]\npeft='lora'\n";
  EXPECT_THAT(
      text_of(emitted(of_model("megatron-bridge", "llama3-8b", lora), Target::kMegatronBridge), "overrides.yaml"),
      HasSubstr("target_modules: [\"linear_qkv\", \"linear_proj\", \"linear_fc1\", \"linear_fc2\"]"));
  EXPECT_THAT(
      text_of(emitted(of_model("transformers", "llama3-8b", lora), Target::kTransformers), "training_args.json"),
      HasSubstr("\"lora_target_modules\": [\"q_proj\", \"v_proj\"]"));
  EXPECT_THAT(
      text_of(emitted(of_model("transformers", "falcon-7b", lora), Target::kTransformers), "training_args.json"),
      HasSubstr("\"lora_target_modules\": [\"query_key_value\"]"));
  EXPECT_THAT(text_of(emitted(of_model("transformers", "llama3-8b", lora + "lora_target_modules=['all-linear']\n"),
                              Target::kTransformers),
                      "training_args.json"),
              HasSubstr("\"lora_target_modules\": [\"all-linear\"]"));
}

TEST(Comments, an_off_switch_is_described_as_off) {
  const std::string text =
      text_of(emitted(of_model("megatron-bridge", "llama3-8b",
                               "[parallel]\naccount_for_loss_in_pipeline_split=false\n[recompute]\n"
                               "recompute_granularity='none'\n"),
                      Target::kMegatronBridge),
              "overrides.yaml");
  EXPECT_THAT(text, ContainsRegex("virtual_pipeline_model_parallel_size: null +# one model chunk per pipeline rank"));
  EXPECT_THAT(text, ContainsRegex("account_for_loss_in_pipeline_split: false +# off: the loss counts as a layer"));
  EXPECT_THAT(text, ContainsRegex("sequence_parallel: false +# off: "));
  EXPECT_THAT(text, ContainsRegex("recompute_granularity: null +# nothing is recomputed in backward"));
}

TEST(Torchtitan, experts_of_qwen3_have_flavors) {
  for (const auto& [name, flavor] : {std::pair{"qwen3-30b-a3b", "30B-A3B"}, std::pair{"qwen3-235b-a22b", "235B-A22B"}})
    EXPECT_THAT(text_of(emitted(read_keys(std::string("framework='torchtitan'\nmodel='") + name +
                                          "'\n[cluster]\ngpu='h100'\ngpus=64\n[batch]\nseq_length=4096\n"
                                          "micro_batch_size=1\n"),
                                Target::kTorchtitan),
                        "train.toml"),
                HasSubstr(std::string("flavor = \"") + flavor + "\""));
}

TEST(LaunchScript, one_hardware_queue_before_blackwell_only) {
  EXPECT_THAT(text_of(emitted(megatron(), Target::kMegatronLm), "launch.sh"),
              HasSubstr("export CUDA_DEVICE_MAX_CONNECTIONS=1 "));
  EXPECT_THAT(text_of(emitted(megatron({}, "b200"), Target::kMegatronLm), "launch.sh"),
              Not(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));
}

TEST(LaunchScript, ranks_start_next_to_their_gpu_when_asked) {
  const auto files = emitted(megatron(), Target::kMegatronLm);
  EXPECT_THAT(text_of(files, "launch.sh"), HasSubstr("if [[ -n ${NUMA:-} ]]; then PYTHON=(--no-python bash "));
  EXPECT_THAT(text_of(files, "numa.sh"), HasSubstr("node=$((LOCAL_RANK / 4))\n"));  // eight GPUs, two sockets
  const auto grace = [](const char* gpu) {
    return text_of(emitted(of_model("megatron-lm", "llama3-8b", {}, gpu), Target::kMegatronLm), "numa.sh");
  };
  EXPECT_THAT(grace("gb200"), HasSubstr("/ 2))\n"));
  EXPECT_THAT(grace("gh200"), HasSubstr("/ 1))\n"));
}

TEST(LaunchScript, all_ranks_collect_garbage_together) {
  EXPECT_THAT(text_of(emitted(megatron(), Target::kMegatronLm), "launch.sh"), HasSubstr("--manual-gc-interval 100 "));
}

TEST(LaunchScript, a_profiler_is_a_switch_that_changes_nothing_of_the_job) {
  const auto job = megatron();
  const auto files = emitted(job, Target::kMegatronLm);
  for (const char* profile : {"", "timeline", "memory"}) {
    job::ReadOptions options;
    options.script_args = {std::string("PROFILE=") + profile};
    const auto again = job::read_job(
        {{"launch.sh", text_of(files, "launch.sh")}, {"plimsoll.toml", text_of(files, "plimsoll.toml")}}, options);
    ASSERT_TRUE(again.has_value()) << to_string(again.error());
    EXPECT_EQ(differing_keys(job, *again), std::vector<std::string>{}) << profile;
  }
}

TEST(LaunchScript, variables_of_the_job_win_over_those_that_are_demanded) {
  const auto job = megatron("[environment]\nCUDA_DEVICE_MAX_CONNECTIONS='8'\n");
  EXPECT_THAT(text_of(emitted(job, Target::kMegatronLm), "launch.sh"),
              HasSubstr("export CUDA_DEVICE_MAX_CONNECTIONS=8"));
}

TEST(LaunchScript, hostile_values_of_variables_are_quoted) {
  const auto job = megatron("[environment]\nEVIL=\"a'; touch x; echo $(id) \\\"`\"\n");
  EXPECT_THAT(text_of(emitted(job, Target::kMegatronLm), "launch.sh"),
              HasSubstr("export EVIL='a'\\''; touch x; echo $(id) \"`'"));
}

TEST(LaunchScript, names_that_no_shell_can_export_are_refused) {
  EXPECT_THAT(refusal(megatron("[environment]\n\"A;rm -rf /\"='1'\n"), Target::kMegatronLm),
              HasSubstr("cannot be exported"));
}

TEST(SlurmScript, nodes_follow_from_gpus) {
  const std::string text = text_of(emitted(megatron(), Target::kMegatronLm), "slurm.sbatch");
  EXPECT_THAT(text, HasSubstr("#SBATCH --nodes=4\n"));
  EXPECT_THAT(text, HasSubstr("#SBATCH --gpus-per-node=8\n"));
  EXPECT_THAT(text, HasSubstr("#SBATCH --ntasks-per-node=1\n"));
}

TEST(SlurmScript, gpus_that_nodes_cannot_share_are_refused) {
  job::Job job = megatron();
  job.cluster.gpus_per_node = 5;
  EXPECT_THAT(refusal(job, Target::kMegatronLm), HasSubstr("gpus = 32"));
}

TEST(Refusal, names_the_key_that_a_target_cannot_express) {
  EXPECT_THAT(refusal(megatron(), Target::kDeepSpeed), HasSubstr("deepspeed cannot express"));
  EXPECT_THAT(refusal(megatron(), Target::kTorchtitan), HasSubstr("torchtitan cannot express"));
  EXPECT_THAT(refusal(megatron("[adapter]\npeft='lora'\n"), Target::kMegatronLm),
              HasSubstr("megatron-lm cannot express peft = lora"));
  EXPECT_THAT(refusal(megatron("[kernels]\nlogit_dtype='fp32'\n"), Target::kMegatronLm),
              HasSubstr("cannot express logit_dtype = fp32"));
}

TEST(Refusal, plain_fsdp_is_told_what_accelerate_can_do) {
  const auto job = read_keys(
      "framework='fsdp2'\nmodel='llama3-8b'\n[cluster]\ngpu='h100'\ngpus=8\n[batch]\nseq_length=4096\n"
      "micro_batch_size=1\n[precision]\nbf16=true\n");
  EXPECT_THAT(refusal(job, Target::kFsdp2), HasSubstr("fsdp_units = layers-and-root"));
}

TEST(Readme, holds_the_reasons_of_json_files) {
  const auto job = read_keys(
      "framework='transformers'\nmodel='llama3-8b'\n[cluster]\ngpu='h100'\ngpus=1\n[batch]\nseq_length=2048\n"
      "micro_batch_size=1\n[precision]\nbf16=true\nload_dtype='bf16'\n");
  const auto files = emitted(job, Target::kTransformers, {{"micro_batch_size", "two run out of memory"}});
  EXPECT_THAT(text_of(files, "README.md"),
              HasSubstr("| training_args.json | `per_device_train_batch_size` | two run out of memory |"));
}

TEST(Quoting, shell_words_and_strings_hold_any_text) {
  EXPECT_EQ(shell_word("a-b.c"), "a-b.c");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(quoted("a\"b\\c\n\x7f"), "\"a\\\"b\\\\c\\u000a\\u007f\"");
}

}  // namespace
}  // namespace plimsoll::emit
