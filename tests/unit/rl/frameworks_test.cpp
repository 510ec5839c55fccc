// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "document/node.h"
#include "rl/frameworks/names.h"
#include "rl/frameworks/settings.h"
#include "rl/keys.h"

namespace plimsoll::rl {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Framework kAll[] = {Framework::kTelescope, Framework::kVerl,    Framework::kOpenRlhf,
                              Framework::kNemoRl,    Framework::kPrimeRl, Framework::kGeneric};

Settings base(Framework framework) {
  return {{"framework", std::string{name_of(framework)}},
          {"model", "qwen2.5-7b"},
          {"gpu", "h100"},
          {"gpus", "16"},
          {"group_size", "8"},
          {"prompts_batch_size_for_trainer", "64"},
          {"prompt_mean", "512"},
          {"prompt_max", "1024"},
          {"completion_mean", "1500"},
          {"completion_cv", "0.8"},
          {"max_tokens", "7000"},
          {"seq_len", "16384"},
          {"max_model_len", "8192"}};
}

Settings with(Settings settings, const Settings& more) {
  for (const auto& [key, value] : more) put_setting(settings, key, value);
  return settings;
}

Settings disaggregated(Framework framework) {
  return with(base(framework), {{"placement", "disaggregated"},
                                {"mode", "async"},
                                {"max_async_rollout", "1"},
                                {"trainer_num_workers", "8"},
                                {"inference_num_workers", "8"},
                                {"inference_tensor_parallel_size", "2"}});
}

Run run_of(const Settings& settings) {
  auto run = read_run(std::nullopt, settings);
  EXPECT_TRUE(run) << to_string(run.error());
  return *std::move(run);
}

void expect_round_trip(const Settings& settings) {
  const Run run = run_of(settings);
  const auto file = write_config(run);
  ASSERT_TRUE(file) << to_string(file.error());
  const auto again = read_config(run.framework, file->name, file->text);
  ASSERT_TRUE(again) << to_string(again.error()) << "\n" << file->text;
  EXPECT_EQ(settings_of(*again), settings_of(run)) << file->text;
  EXPECT_EQ(again->trainer_gpus, run.trainer_gpus);
  EXPECT_EQ(again->server.max_num_seqs, run.server.max_num_seqs);
}

TEST(Frameworks, settings_of_a_run_are_the_same_run) {
  for (const Framework framework : kAll) {
    const rl::Run run = run_of(disaggregated(framework));
    EXPECT_EQ(settings_of(run_of(settings_of(run))), settings_of(run)) << name_of(framework);
  }
}

TEST(Frameworks, a_disaggregated_run_reads_back_the_same_in_every_framework) {
  for (const Framework framework : kAll) {
    SCOPED_TRACE(name_of(framework));
    expect_round_trip(disaggregated(framework));
  }
}

TEST(Frameworks, a_colocated_run_reads_back_the_same_where_it_exists) {
  for (const Framework framework : {Framework::kVerl, Framework::kOpenRlhf, Framework::kNemoRl, Framework::kGeneric}) {
    SCOPED_TRACE(name_of(framework));
    expect_round_trip(with(base(framework), {{"placement", "colocated"}, {"mode", "sync"}, {"sleep_level", "1"}}));
  }
}

TEST(Frameworks, unusual_values_read_back_the_same) {
  for (const Framework framework : kAll) {
    SCOPED_TRACE(name_of(framework));
    expect_round_trip(with(disaggregated(framework), {{"number_of_minibatches", "4"},
                                                      {"max_num_seqs", "null"},
                                                      {"kv_cache_dtype", "fp8"},
                                                      {"engine_version", "0.21.0"},
                                                      {"enforce_eager", "true"},
                                                      {"enable_prefix_caching", "true"},
                                                      {"reference_pass", "true"},
                                                      {"logprob_pass", "true"},
                                                      {"packing", "true"},
                                                      {"reward_seconds", "2.5"},
                                                      {"gpu_memory_utilization", "0.85"},
                                                      {"max_concurrent_prompts_per_server", "24"},
                                                      {"weight_broadcast_bucket_mb", "512"}}));
  }
}

TEST(Frameworks, megatron_trainers_read_back_the_same) {
  for (const Framework framework : {Framework::kTelescope, Framework::kVerl, Framework::kNemoRl, Framework::kGeneric}) {
    SCOPED_TRACE(name_of(framework));
    expect_round_trip(with(disaggregated(framework), {{"trainer_framework", "megatron-lm"},
                                                      {"tensor_model_parallel_size", "2"},
                                                      {"pipeline_model_parallel_size", "2"}}));
  }
}

TEST(Frameworks, every_line_of_a_configuration_has_a_reason) {
  for (const Framework framework : kAll) {
    const ConfigFile file = write_config(run_of(disaggregated(framework))).value();
    std::size_t start = 0;
    for (std::size_t end = file.text.find('\n'); end != std::string::npos; end = file.text.find('\n', start)) {
      const std::string line = file.text.substr(start, end - start);
      start = end + 1;
      const bool is_setting =
          line.find(": ") != std::string::npos || line.find(" = ") != std::string::npos || line.starts_with("  ");
      const bool is_table = line.ends_with(':') || line.starts_with('[');
      if (is_setting && !is_table) {
        EXPECT_THAT(line, HasSubstr("# ")) << name_of(framework);
      }
    }
  }
}

TEST(Frameworks, a_given_reason_stands_beside_its_key) {
  const ConfigFile file = write_config(run_of(disaggregated(Framework::kVerl)),
                                       {{"inference_tensor_parallel_size", "leaves 31 GiB of cache"}})
                              .value();
  EXPECT_THAT(file.text, ContainsRegex("rollout.tensor_model_parallel_size=2 +# leaves 31 GiB of cache"));
  EXPECT_THAT(file.text, HasSubstr("python3 -m verl.experimental.fully_async_policy.fully_async_main"));
  EXPECT_TRUE(file.executable);
}

TEST(Frameworks, the_framework_sees_its_own_names_and_shapes) {
  const auto text = [](Framework framework) { return write_config(run_of(disaggregated(framework)))->text; };
  const auto telescope = document::parse_yaml(text(Framework::kTelescope)).value();
  EXPECT_EQ(telescope.find("inference_num_workers")->integer, 8) << "GPUs, not servers";
  EXPECT_EQ(telescope.find("weight_broadcast_mode")->text, "flattened_bucket");
  const auto nemo = document::parse_yaml(text(Framework::kNemoRl)).value();
  EXPECT_EQ(nemo.find("policy")->find("generation")->find("vllm_cfg")->find("tensor_parallel_size")->integer, 2);
  EXPECT_EQ(nemo.find("cluster")->find("num_nodes")->integer, 2);
  const auto prime = document::parse_toml(text(Framework::kPrimeRl)).value();
  EXPECT_EQ(prime.find("deployment")->find("num_infer_nodes")->integer, 1);
  EXPECT_EQ(prime.find("orchestrator")->find("batch_size")->integer, 512) << "samples, not prompts";
  EXPECT_THAT(text(Framework::kOpenRlhf), HasSubstr("--vllm.num_engines 4 "));
  EXPECT_THAT(text(Framework::kVerl), HasSubstr("rollout.n_gpus_per_node=8 "));
}

TEST(Frameworks, a_model_of_the_catalogue_is_named_as_the_hub_names_it) {
  const rl::Run run = run_of(disaggregated(Framework::kTelescope));
  const ConfigFile file = write_config(run).value();
  EXPECT_EQ(document::parse_yaml(file.text)->find("model")->text, "Qwen/Qwen2.5-7B");
  EXPECT_EQ(read_config(run.framework, file.name, file.text)->model_name, "qwen2.5-7b");
}

TEST(Frameworks, what_a_framework_cannot_do_is_refused_by_name) {
  rl::Run run = run_of(disaggregated(Framework::kTelescope));
  run.staleness.limit = 0.5;
  EXPECT_THAT(write_config(run).error().message, HasSubstr("max_async_rollout is 0.5"));
  run = run_of(disaggregated(Framework::kPrimeRl));
  run.server.pipeline = 2;
  EXPECT_THAT(write_config(run).error().message, HasSubstr("inference_pipeline_parallel_size"));
  run = run_of(disaggregated(Framework::kVerl));
  run.algorithm.minibatches = 7;
  EXPECT_THAT(write_config(run).error().message, HasSubstr("number_of_minibatches 7 does not divide"));
  run = run_of(with(disaggregated(Framework::kNemoRl),
                    {{"gpus", "24"}, {"inference_num_workers", "12"}, {"trainer_num_workers", "12"}}));
  EXPECT_THAT(write_config(run).error().message, HasSubstr("whole nodes"));
}

TEST(Frameworks, a_hostile_name_stays_data) {
  rl::Run run = run_of(disaggregated(Framework::kVerl));
  run.model_name = "$(touch x); 'a\" # b";
  const auto file = write_config(run);
  // The name is no model, so reading it back fails; what matters is that it is never handed out.
  ASSERT_FALSE(file);
}

TEST(Frameworks, a_users_own_script_is_read_with_continuations_quotes_and_plus) {
  const std::string script =
      "python3 -m verl.trainer.main_ppo \\\n  data.train_batch_size=512 \\\n"
      "  actor_rollout_ref.actor.ppo_mini_batch_size=128 \\\n  actor_rollout_ref.model.path=\"Qwen/Qwen2.5-7B\" \\\n"
      "  +actor_rollout_ref.rollout.max_model_len=9216 actor_rollout_ref.rollout.n=16 trainer.nnodes=2 \\\n"
      "  trainer.n_gpus_per_node=8 trainer.logger=['console'] # done\n";
  const ConfigSettings config = read_config_settings(Framework::kVerl, "run.sh", script).value();
  EXPECT_EQ(setting(config.settings, "prompts_batch_size_for_trainer"), "512");
  EXPECT_EQ(setting(config.settings, "number_of_minibatches"), "4");
  EXPECT_EQ(setting(config.settings, "model"), "Qwen/Qwen2.5-7B");
  EXPECT_EQ(setting(config.settings, "max_model_len"), "9216");
  EXPECT_EQ(setting(config.settings, "gpus"), "16");
  EXPECT_EQ(setting(config.settings, "placement"), "colocated");
  EXPECT_THAT(config.ignored, Contains("trainer.logger"));
}

TEST(Frameworks, a_flag_without_a_value_is_a_switch) {
  const ConfigSettings config =
      read_config_settings(Framework::kOpenRlhf, "run.sh",
                           "python3 -m openrlhf.cli.train_ppo_ray --train.colocate_all --vllm.num_engines 8 \\\n"
                           "  --vllm.tensor_parallel_size=2 --rollout.batch_size 128 --vllm.enable_sleep\necho done\n")
          .value();
  EXPECT_EQ(setting(config.settings, "placement"), "colocated");
  EXPECT_EQ(setting(config.settings, "inference_num_workers"), "16");
  EXPECT_EQ(setting(config.settings, "sleep_level"), "2");
  EXPECT_EQ(setting(config.settings, "packing"), "false") << "absent switches are off";
}

TEST(Frameworks, a_script_is_followed_as_the_shell_would) {
  const ConfigSettings config =
      read_config_settings(Framework::kVerl, "run.sh",
                           "N=4\nARGS=(actor_rollout_ref.rollout.n=$N)\nif [ $N -gt 2 ]; then\n"
                           "  ARGS+=(actor_rollout_ref.model.lora_rank=32)\nfi\necho python3 ${ARGS[@]}\n"
                           "python3 -m verl.trainer.main_ppo --config-name=ppo_megatron_trainer ${ARGS[@]} "
                           "data.max_prompt_length=512 data.max_response_length=1536 "
                           "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=3 trainer.logger=console \"$@\"\n")
          .value();
  EXPECT_EQ(setting(config.settings, "group_size"), "4");
  EXPECT_EQ(setting(config.settings, "lora_rank"), "32");
  EXPECT_EQ(setting(config.settings, "trainer_framework"), "megatron-lm");
  EXPECT_EQ(setting(config.settings, "seq_len"), "6144") << "three samples as long as they may be";
  EXPECT_EQ(setting(config.settings, "prompt_mean"), "256");
  EXPECT_EQ(config.assumed.size(), 3U) << "verl's own batch, and both means";
  EXPECT_EQ(setting(config.settings, "prompts_batch_size_for_trainer"), "1024");
  EXPECT_THAT(config.ignored, Contains("trainer.logger"));
}

TEST(Frameworks, what_decides_memory_and_is_read_by_nobody_is_an_error) {
  const auto config = read_config_settings(
      Framework::kVerl, "run.sh",
      "python3 -m verl.trainer.main_ppo actor_rollout_ref.rollout.n=4 actor_rollout_ref.actor.magic_parallel_size=2 "
      "actor_rollout_ref.actor.own_offload=True actor_rollout_ref.actor.other_parallel_size=1");
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message, HasSubstr("actor_rollout_ref.actor.magic_parallel_size"));
  EXPECT_THAT(config.error().message, HasSubstr("actor_rollout_ref.actor.own_offload"));
  EXPECT_THAT(config.error().message, Not(HasSubstr("other_parallel_size")));
}

TEST(Frameworks, yaml_values_that_name_others_are_filled_in) {
  const ConfigSettings config =
      read_config_settings(Framework::kNemoRl, "run.yaml",
                           "grpo:\n  num_prompts_per_step: 8\n  num_generations_per_prompt: 4\npolicy:\n"
                           "  max_total_sequence_length: 2048\n  train_micro_batch_size: 2\n  generation:\n"
                           "    max_new_tokens: ${policy.max_total_sequence_length}\n")
          .value();
  EXPECT_EQ(setting(config.settings, "max_tokens"), "2048");
  EXPECT_EQ(setting(config.settings, "seq_len"), "4096");
}

TEST(Frameworks, shell_variables_are_an_error_not_a_number) {
  const auto run = read_config(Framework::kVerl, "run.sh", "actor_rollout_ref.rollout.n=${N}", base(Framework::kVerl));
  ASSERT_TRUE(run) << "the override wins";
  const auto alone = read_config(Framework::kVerl, "run.sh", "actor_rollout_ref.rollout.n=${N}");
  ASSERT_FALSE(alone);
  EXPECT_THAT(to_string(alone.error()), HasSubstr("actor_rollout_ref.rollout.n: its value needs N"));
}

TEST(Frameworks, broken_files_are_errors_and_cut_ones_never_crash) {
  EXPECT_FALSE(read_config_settings(Framework::kTelescope, "a.yaml", "a: [1\n"));
  EXPECT_FALSE(read_config_settings(Framework::kPrimeRl, "a.toml", "[x"));
  for (const Framework framework : kAll) {
    if (framework == Framework::kGeneric) continue;
    const ConfigFile file = write_config(run_of(disaggregated(framework))).value();
    for (std::size_t size = 0; size <= file.text.size(); size += 3)
      static_cast<void>(read_config_settings(framework, file.name, std::string_view{file.text}.substr(0, size)));
  }
}

TEST(Frameworks, a_file_is_recognised_by_its_keys) {
  for (const Framework framework : kAll) {
    if (framework == Framework::kGeneric) continue;
    EXPECT_EQ(recognise_config(write_config(run_of(disaggregated(framework)))->text), framework) << name_of(framework);
  }
  EXPECT_EQ(recognise_config("framework = \"verl\"\nmodel = \"x\"\n"), std::nullopt);
}

TEST(Frameworks, every_named_key_exists) {
  for (const Framework framework : kAll)
    for (const KeyName& name : key_names_in(framework))
      EXPECT_NE(find_key(name.key), nullptr) << name_of(framework) << " " << name.key;
}

constexpr std::string_view kNemoPolicy =
    "policy:\n  model_name: qwen2.5-7b\n  train_global_batch_size: 64\n  train_micro_batch_size: 1\n"
    "  max_total_sequence_length: 4096\n  dtensor_cfg: {enabled: true, tensor_parallel_size: 2}\n"
    "  generation: {backend: vllm, max_new_tokens: 2048}\ncluster: {gpus_per_node: 8, num_nodes: 1}\n";

TEST(NemoRlLoops, ppo_is_read_as_its_grpo_with_a_value_model) {
  const std::string text =
      "ppo:\n  num_prompts_per_step: 32\n  num_generations_per_prompt: 4\n  async_ppo: {enabled: false}\n"
      "value: {model_name: qwen2.5-7b}\n" +
      std::string{kNemoPolicy};
  const auto read = read_config_settings(Framework::kNemoRl, "run.yaml", text, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(setting(read->settings, "critic"), "true");
  EXPECT_EQ(setting(read->settings, "group_size"), "4");
  EXPECT_THAT(read->assumed, Contains(HasSubstr("value model")));
}

TEST(NemoRlLoops, distillation_names_its_teacher_and_leaves_its_pass_out) {
  const std::string text =
      "distillation: {num_prompts_per_step: 128, num_generations_per_prompt: 1}\n"
      "teacher: {model_name: Qwen/Qwen3-32B, megatron_cfg: {tensor_model_parallel_size: 8}}\n" +
      std::string{kNemoPolicy};
  const auto read = read_config_settings(Framework::kNemoRl, "run.yaml", text, {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(setting(read->settings, "prompts_batch_size_for_trainer"), "128");
  EXPECT_EQ(setting(read->settings, "reference_pass"), "false");
  EXPECT_THAT(read->assumed, Contains(HasSubstr("Qwen/Qwen3-32B")));
}

TEST(NemoRlLoops, a_file_without_a_loop_says_who_reads_it) {
  const auto read =
      read_config_settings(Framework::kNemoRl, "run.yaml", "sft: {x: 1}\n" + std::string{kNemoPolicy}, {});
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().hint, HasSubstr("plimsoll fit"));
}

}  // namespace
}  // namespace plimsoll::rl
