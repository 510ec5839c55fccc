// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/by_names_words.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "job/common_words.h"
#include "rl/frameworks/by_names.h"

namespace plimsoll::rl {

namespace {

struct PartName {
  std::string_view word;
  Part part;
};

constexpr PartName kParts[] = {
    {"ref", Part::kOther},         {"reference", Part::kOther},  {"critic", Part::kOther},
    {"reward", Part::kOther},      {"rewards", Part::kOther},    {"rm", Part::kOther},
    {"judge", Part::kOther},       {"value", Part::kOther},      {"validation", Part::kOther},
    {"val", Part::kOther},         {"eval", Part::kOther},       {"evaluation", Part::kOther},
    {"env", Part::kOther},         {"envs", Part::kOther},       {"tokenizer", Part::kOther},
    {"teacher", Part::kOther},     {"data", Part::kOther},       {"dataset", Part::kOther},
    {"infer", Part::kServer},      {"inference", Part::kServer}, {"rollout", Part::kServer},
    {"generation", Part::kServer}, {"generator", Part::kServer}, {"generate", Part::kServer},
    {"vllm", Part::kServer},       {"sglang", Part::kServer},    {"gen", Part::kServer},
    {"sampling", Part::kServer},   {"actor", Part::kTrainer},    {"trainer", Part::kTrainer},
    {"train", Part::kTrainer},     {"training", Part::kTrainer}, {"learner", Part::kTrainer},
};

struct Word {
  std::string_view meaning;
  std::string_view names;  // separated by blanks
};

constexpr Word kWords[] = {
    {"group",
     "num_return_sequences_in_group num_inference_per_prompt num_generations n_samples_per_prompt "
     "num_samples_per_prompt samples_per_prompt group_size rollout_n num_generations_per_prompt num_return_sequences "
     "n_rollouts_per_prompt rollouts_per_prompt num_rollouts_per_prompt n_samples num_samples n_generation "
     "num_generation num_responses_per_prompt responses_per_prompt num_response_per_task n_responses num_responses"},
    {"prompts",
     "rollout_batch_size prompts_per_step num_prompts_per_step prompt_batch_size num_prompts prompts_per_batch"},
    {"prompts_of_gpu", "per_device_prompt_batch_size prompt_batch_size_per_device per_gpu_prompt_batch_size"},
    {"samples", "sample_per_episode samples_per_episode num_rollouts samples_per_step episodes_per_step"},
    {"prompt_max",
     "prompt_length max_prompt_length max_prompt_tokens_length maxlen_prompt prompt_max_len max_prompt_len "
     "max_prompt_tokens prompt_max_length max_prompt_token_length max_input_length query_len query_length "
     "max_query_len max_query_length"},
    {"max_tokens",
     "response_length response_len max_response_tokens_length max_response_length max_new_tokens max_completion_length "
     "maxlen_res "
     "generate_max_len max_gen_len max_generate_length completion_length max_answer_len max_completion_tokens "
     "max_response_tokens max_response_len max_episode_length max_output_length generate_max_length"},
    {"longest",
     "max_model_len sequence_length seq_length max_length model_max_length max_seq_len max_seq_length max_len"},
    {"share", "gpu_memory_utilization mem_fraction_static gpu_memory_util gpu_utilization vllm_gpu_ratio"},
    {"places", "device_mapping"},
    {"part_gpus", "num_gpu num_gpus gpus"},
    {"epochs", "ppo_epochs num_ppo_epochs update_epochs inner_epochs update_iters n_epochs"},
    {"kl", "kl_coef kl_coeff init_kl_coef kl_loss_coef kl_penalty_weight kl_ctl kl_beta target_kl"},
    {"use_kl", "use_kl_loss add_token_level_kl enable_reference"},
    {"estimator", "adv_estimator advantage_estimator"},
    {"no_recompute", "disable_gradient_checkpointing"},
    {"bin",
     "max_token_in_packing max_tokens_per_microbatch ppo_max_token_len_per_gpu max_tokens_per_gpu "
     "max_token_len_per_gpu max_tokens_per_mb max_packed_sequence_length"},
    {"ahead", "async_generation_ratio max_async_rollout max_staleness staleness_threshold"},
    {"offload", "cpu_offload param_offload optimizer_offload offload_optimizer"},
    {"backend", "strategy_name train_backend rollout_backend backend engine inference_engine rollout_engine strategy"},
};

bool holds(std::string_view names, std::string_view word) {
  const std::vector<std::string_view> all = split(names, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

}  // namespace

std::string last_of(std::string_view path) {
  return lower(path.substr(path.rfind('.') == std::string_view::npos ? 0 : path.rfind('.') + 1));
}

std::string_view meaning_in_run(std::string_view path) {
  const std::string last = last_of(path);
  for (const Word& word : kWords)
    if (holds(word.names, last)) return word.meaning;
  return {};
}

Part part_of_segment(std::string_view segment) {
  const std::string word = lower(segment);
  for (const PartName& name : kParts)
    for (const std::string_view piece : split(word, '_'))
      if (piece == name.word) return name.part;
  return Part::kNone;
}

std::string_view meaning_in_job(std::string_view path) {
  const std::string_view means = job::meaning_of(path);
  if (!means.empty()) return means;
  const std::string last = last_of(path);
  for (const std::string_view part : {"actor_", "policy_"})
    if (last.starts_with(part)) return job::meaning_of(last.substr(part.size()));
  return {};
}

bool speaks_of_run(std::string_view text) {
  if (text.find("[model]") != std::string_view::npos || text.find("[algorithm]") != std::string_view::npos)
    return false;
  bool samples = false, answers = false, rate = false, loop = false, batch = false, is_policy_loop = false;
  // Words of the text that are keys: before a colon, behind dashes, or the end of a path before "=".
  std::string word;
  const auto note = [&] {
    if (word.empty()) return;
    const std::string_view meaning = meaning_in_run(word);
    samples =
        samples || meaning == "group" || meaning == "prompts" || meaning == "samples" || meaning == "prompts_of_gpu";
    answers = answers || meaning == "max_tokens" || meaning == "longest";
    loop = loop || meaning == "kl" || meaning == "use_kl" || meaning == "estimator" || word == "ppo_epochs" ||
           word.find("rollout") != std::string::npos || word.find("reward") != std::string::npos;
    rate = rate || job::meaning_of(word) == "rate" || word == "critic_lr" || word == "actor_lr";
    batch = batch || job::meaning_of(word) == "batch" || job::meaning_of(word) == "per_device_train_batch_size";
    is_policy_loop = is_policy_loop || word == "ppo_epochs" || word == "grpo_epochs" || word == "kl_coef" ||
                     word == "kl_coeff" || word == "init_kl_coef" || word == "target_kl";
  };
  constexpr std::size_t kLooked = 1 << 18;
  for (const char c : text.substr(0, kLooked)) {
    const bool is_part = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (is_part) {
      word += c;
      continue;
    }
    if (c == ':' || c == '=' || c == ' ' || c == '.' || c == '\n' || c == '\\' || c == '"') note();
    word.clear();
  }
  note();
  // Keys of PPO's own loop say enough: batches are its prompts, and how long answers get is asked for.
  return rate && ((samples && answers && loop) || (is_policy_loop && (samples || (batch && answers))));
}

}  // namespace plimsoll::rl
