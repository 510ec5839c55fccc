// SPDX-License-Identifier: Apache-2.0
// Readable inputs for the tests of job/: files of tests/data/job, small models, jobs that complete.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "document/node.h"
#include "job/job.h"
#include "job/keys.h"
#include "job/read.h"
#include "model/catalog.h"

namespace plimsoll::job::test {

inline std::string data_path(const std::string& name) {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/job/" + name;
}

inline InputFile data_file(const std::string& name) {
  auto text = read_file(data_path(name));
  EXPECT_TRUE(text) << name;
  return InputFile{data_path(name), text ? *text : ""};
}

// Every file of tests/data/job that recognise() must know, with the kind that it must find.
inline const std::vector<std::pair<std::string, FileKind>>& samples() {
  static const std::vector<std::pair<std::string, FileKind>> all = {
      {"llama3-70b.toml", FileKind::kJob},
      {"tiny.json", FileKind::kJob},
      {"small-llama/config.json", FileKind::kHfConfig},
      {"launch.sh", FileKind::kLaunchScript},
      {"megatron-args.yaml", FileKind::kMegatronArgs},
      {"megatron-args.json", FileKind::kMegatronArgs},
      {"megatron-flat.yaml", FileKind::kMegatronArgs},
      {"bridge.yaml", FileKind::kBridgeConfig},
      {"bridge-overrides.py", FileKind::kBridgeOverrides},
      {"training-arguments.json", FileKind::kTrainingArguments},
      {"training-fsdp.json", FileKind::kTrainingArguments},
      {"sft.yaml", FileKind::kTrainingArguments},
      {"accelerate-fsdp.yaml", FileKind::kAccelerateConfig},
      {"accelerate-deepspeed.yaml", FileKind::kAccelerateConfig},
      {"zero2.json", FileKind::kDeepSpeedConfig},
      {"zero3.json", FileKind::kDeepSpeedConfig},
      {"torchtitan.toml", FileKind::kTorchtitanConfig},
      {"adapter_config.json", FileKind::kPeftConfig},
      {"trainer.sh", FileKind::kLaunchScript},
      {"axolotl.yaml", FileKind::kAxolotl},
      {"llama-factory.yaml", FileKind::kLlamaFactory},
      {"ms-swift.yaml", FileKind::kMsSwift},
      {"oumi.yaml", FileKind::kOumi},
      {"torchtune.yaml", FileKind::kTorchtune},
      {"nanotron.yaml", FileKind::kNanotron},
      {"gpt-neox.yml", FileKind::kGptNeox},
      {"primus.yaml", FileKind::kPrimus},
      {"nemo-rl.yaml", FileKind::kNemoRl},
      {"nemo-rl-dpo.yaml", FileKind::kNemoRl},
      {"prime-rl-sft.toml", FileKind::kPrimeRl},
      {"verl-sft.yaml", FileKind::kVerlSft},
      {"llama3/config_registry.py", FileKind::kTorchtitanPython},
      {"trainer_state.json", FileKind::kTrainerState},
      {"training_args.bin", FileKind::kTrainingArguments},
      {"wandb.yaml", FileKind::kWandbConfig},
      {"megatron.log", FileKind::kMegatronLog},
      {"by-names.yaml", FileKind::kByNames},
      {"by-names-tables.yaml", FileKind::kByNames},
      {"hydra/train.sh", FileKind::kLaunchScript},
      {"commands.yml", FileKind::kLaunchScript},
      {"nemo-megatron.yaml", FileKind::kByNames},
      {"flagscale.yaml", FileKind::kByNames},
      {"xtuner.py", FileKind::kPythonConfig},
      {"internevo.py", FileKind::kPythonConfig},
      {"manifest.yaml", FileKind::kLaunchScript},
      {"llava-pretrain.sh", FileKind::kLaunchScript},
      {"reward.sh", FileKind::kLaunchScript},
      {"distil.yaml", FileKind::kByNames},
  };
  return all;
}

// Options that fill in what no file says: a GPU, and a model where it is asked for.
inline ReadOptions on(std::string gpu, std::optional<std::int64_t> gpus = std::nullopt,
                      std::vector<std::pair<std::string, std::string>> overrides = {}) {
  ReadOptions options;
  options.gpu = std::move(gpu);
  options.gpus = gpus;
  options.overrides = std::move(overrides);
  return options;
}

inline Result<Job> read(const std::vector<std::string>& names, const ReadOptions& options) {
  std::vector<InputFile> files;
  for (const std::string& name : names) files.push_back(data_file(name));
  return read_job(files, options);
}

inline Result<Job> read_text(std::string text, const ReadOptions& options = {}) {
  return read_job({InputFile{"input", std::move(text)}}, options);
}

inline std::string text_of(const Result<Job>& result) {
  return result ? "no error"
                : to_string(result.error()) + (result.error().hint.empty() ? "" : "; " + result.error().hint);
}
inline std::string text_of(const Status& status) {
  return status ? "no error"
                : to_string(status.error()) + (status.error().hint.empty() ? "" : "; " + status.error().hint);
}

// A job whose fields may be changed and completed: Llama 3 8B on 64 GPUs.
inline Job llama_8b(Framework framework = Framework::kMegatronLm) {
  Job job = defaults_for(framework);
  auto model = model::find_model("llama3-8b");
  EXPECT_TRUE(model);
  if (model) job.model = *model;
  job.cluster.gpus = 64;
  job.batch.seq_length = 4096;
  job.batch.micro_batch = 1;
  job.batch.global_batch = 128;
  return job;
}

inline bool warns(const Job& job, std::string_view part) {
  for (const std::string& warning : job.warnings)
    if (warning.find(part) != std::string::npos) return true;
  return false;
}

inline bool notes(const Job& job, std::string_view part) {
  for (const std::string& note : job.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace plimsoll::job::test
