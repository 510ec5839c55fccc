// SPDX-License-Identifier: Apache-2.0
// What the files hold beside the job: reasons, the environment, launchers; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emit/emit.h"
#include "emit/text.h"
#include "job/read.h"

namespace plimsoll::emit {
namespace {

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

TEST(LaunchScript, one_hardware_queue_before_blackwell_only) {
  EXPECT_THAT(text_of(emitted(megatron(), Target::kMegatronLm), "launch.sh"),
              HasSubstr("export CUDA_DEVICE_MAX_CONNECTIONS=1  # "));
  EXPECT_THAT(text_of(emitted(megatron({}, "b200"), Target::kMegatronLm), "launch.sh"),
              Not(HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS")));
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
