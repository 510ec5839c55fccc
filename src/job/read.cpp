// SPDX-License-Identifier: Apache-2.0
// Files -> request: every file is recognised and becomes a draft.
#include "job/read.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "document/repeated_keys.h"
#include "job/draft.h"
#include "job/readers/by_names.h"
#include "job/readers/resolve.h"
#include "job/request.h"

namespace plimsoll::job {

namespace {

Result<Draft> read_one(const InputFile& file, FileKind kind, std::string_view index, const ReadOptions& options) {
  switch (kind) {
    case FileKind::kJob:
      return read_job_file(file);
    case FileKind::kHfConfig:
      return read_hf_model(file, index);
    case FileKind::kSafetensorsIndex:
      return bad_input("this is the index of a checkpoint; it needs the model's config.json beside it",
                       "give config.json instead; the index beside it is read with it");
    case FileKind::kMegatronArgs:
      return read_megatron_args(file);
    case FileKind::kMegatronScript:
    case FileKind::kLaunchScript:
      return read_launch_script(file, options);
    case FileKind::kBridgeConfig:
      return read_bridge_config(file, options);
    case FileKind::kBridgeOverrides:
      return read_bridge_overrides(file);
    case FileKind::kTrainingArguments:
      return read_training_arguments(file);
    case FileKind::kAccelerateConfig:
      return read_accelerate_config(file);
    case FileKind::kDeepSpeedConfig:
      return read_deepspeed_config(file);
    case FileKind::kTorchtitanConfig:
      return read_torchtitan_config(file);
    case FileKind::kPeftConfig:
      return read_peft_config(file);
    case FileKind::kLlamaFactory:
    case FileKind::kAxolotl:
    case FileKind::kMsSwift:
    case FileKind::kOumi:
    case FileKind::kTorchtune:
      return read_trainer_dialect(file, kind);
    case FileKind::kNanotron:
      return read_nanotron_config(file);
    case FileKind::kGptNeox:
      return read_gpt_neox_config(file);
    case FileKind::kPrimus:
      return read_primus_config(file);
    case FileKind::kNemoRl:
      return read_nemo_rl_config(file);
    case FileKind::kTorchtitanPython:
      return read_torchtitan_python(file, options);
    case FileKind::kPrimeRl:
      return read_prime_rl_config(file);
    case FileKind::kVerlSft:
      return read_verl_sft_config(file);
    case FileKind::kTrainerState:
      return read_trainer_state(file);
    case FileKind::kWandbConfig:
      return read_wandb_config(file, options);
    case FileKind::kMegatronLog:
      return read_megatron_log(file);
    case FileKind::kByNames:
      return read_by_names(file);
  }
  return bad_input("unknown kind of file");
}

// The frameworks' own loaders take the last of them without a word.
void note_repeated_keys(const InputFile& file, FileKind kind, Draft& draft) {
  const bool is_program = kind == FileKind::kMegatronScript || kind == FileKind::kLaunchScript ||
                          kind == FileKind::kTorchtitanPython || kind == FileKind::kMegatronLog;
  const std::string_view start = trim(file.text);
  if (is_program || start.starts_with("PK") || start.starts_with("{") || start.starts_with("[")) return;
  for (const document::RepeatedKey& repeated : document::repeated_yaml_keys(file.text))
    draft.warnings.push_back(fmt::format("{}: '{}' is given twice; the value in line {} counts, as for the framework",
                                         file.path, repeated.key, repeated.line));
}

}  // namespace

Result<Draft> read_any(const InputFile& file, const ReadOptions& options) {
  PLIMSOLL_TRY(kind, recognise(file));
  return read_one(file, kind, {}, options);
}

Result<Request> read_request(std::vector<InputFile> files, const ReadOptions& options) {
  std::vector<FileKind> kinds;
  std::string_view index;
  for (const InputFile& file : files) {
    auto kind = recognise(file);
    if (!kind) return tl::make_unexpected(std::move(kind.error()).with_context(file.path));
    kinds.push_back(*kind);
    if (*kind == FileKind::kSafetensorsIndex) index = file.text;
  }
  const bool has_config = std::find(kinds.begin(), kinds.end(), FileKind::kHfConfig) != kinds.end();
  std::vector<Draft> drafts;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const InputFile& file = files[i];
    if (kinds[i] == FileKind::kSafetensorsIndex && has_config) continue;  // read with the config
    auto draft = read_one(file, kinds[i], index, options);
    if (!draft) return tl::make_unexpected(std::move(draft.error()).with_context(file.path));
    draft->path = file.path;
    note_repeated_keys(file, kinds[i], *draft);
    drafts.push_back(*std::move(draft));
  }
  Request request;
  request.files_ = std::make_shared<const std::vector<InputFile>>(std::move(files));
  request.drafts_ = std::make_shared<const std::vector<Draft>>(std::move(drafts));
  request.options_ = options;
  if (!options.model.empty()) {
    request.name_model(options.model);
    if (!*request.named_model()) return tl::make_unexpected(request.named_model()->error());
  }
  return request;
}

Result<Job> read_job(const std::vector<InputFile>& files, const ReadOptions& options) {
  PLIMSOLL_TRY(request, read_request(files, options));
  return resolve(request);
}

}  // namespace plimsoll::job
