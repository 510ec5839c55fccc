// SPDX-License-Identifier: Apache-2.0
#include "framework/tools/launch_choice.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/jax/jax.h"
#include "framework/megatron_bridge/bridge.h"
#include "framework/tools/by_names.h"
#include "framework/tools/dialects.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/script_usage.h"

namespace plimsoll::job {

namespace {

using document::Node;

bool never(const std::string& key) {
  static_cast<void>(key);
  return false;
}

// What only a training has: "internvl_chat_mpo.py --learning_rate 1e-5" trains, whatever its name holds.
bool has_training_flags(const Launch& launch) {
  return std::any_of(launch.arguments.begin(), launch.arguments.end(), [](const ShellWord& word) {
    const std::string key = is_flag(word.text) ? key_of_flag(word.text) : std::string{};
    return key == "learning_rate" || key == "per_device_train_batch_size" || key == "num_train_epochs" ||
           key.ends_with(".lr") || key.ends_with(".learning_rate");
  });
}

// Programs that use a trainer's flags for something else.
bool is_other_work(const Launch& launch) {
  const std::string_view program = launch.program;
  std::string name = lower(program.substr(program.rfind('/') + 1));
  std::replace(name.begin(), name.end(), '.', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  std::replace(name.begin(), name.end(), ' ', '_');
  for (const std::string_view part : split(name, '_'))
    for (const std::string_view word :
         {"convert",    "converter", "conversion", "preprocess", "eval",       "evaluate", "evaluation", "generate",
          "generation", "infer",     "inference",  "test",       "merge",      "export",   "serve",      "server",
          "deploy",     "rollout",   "sample",     "download",   "checkpoint", "ckpt",     "hf2mcore",   "mcore2hf",
          "label",      "annotate",  "chat",       "cli",        "quantize",   "app",      "webui",      "web"})
      if (part == word && name.find("llamafactory") == std::string::npos) return !has_training_flags(launch);
  return false;
}

// Reinforcement learning has a verb of its own.
bool is_reinforcement(const Launch& launch) {
  for (const std::string_view part : {"sft", "train_dpo", "train_kto", "train_rm", "train_prm", "train_kd"})
    if (launch.program.find(part) != std::string::npos) return false;
  for (const std::string_view part : {"verl.", "main_ppo", "openrlhf", "train_ppo", "nemo_rl", "slime", "train_async"})
    if (launch.program.find(part) != std::string::npos) return true;
  return std::any_of(launch.arguments.begin(), launch.arguments.end(), [](const ShellWord& word) {
    return word.text.rfind("--actor-num-nodes", 0) == 0 || word.text.rfind("--rollout-", 0) == 0 ||
           word.text.rfind("actor_rollout_ref.", 0) == 0 || word.text.rfind("trainer.policy_mini_batch_size", 0) == 0;
  });
}

// "--config run.yaml a.b=c", "@ run.toml --a.b c": a file of settings under what the command says.
bool names_settings_file(const Launch& launch) {
  const auto is_file = [](std::string_view name) {
    return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".toml");
  };
  const std::vector<ShellWord>& words = launch.arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const std::size_t equals = word.find('=');
    const std::string_view flag = std::string_view(word).substr(0, equals);
    if (word.size() > 1 && word.front() == '@' && is_file(word)) return true;
    if (flag == "model.partial_pretrain") return true;  // verl's SFT trainer, whose file holds its defaults alone
    bool names = false;
    for (const std::string_view known : {"--config", "--config-file", "--config_file", "@", "--job.config_file"})
      names = names || flag == known;
    if (!names) continue;
    if (equals != std::string::npos ? is_file(word) : i + 1 < words.size() && is_file(words[i + 1].text)) return true;
  }
  return false;
}

// Hydra's words: "train.py --config-name sft model=llama ++lr=1e-5", with a tree of files below them.
bool overrides_settings(const Launch& launch) {
  if (launch.program.empty()) return false;
  std::ptrdiff_t overrides = 0;
  bool names = false;
  for (const ShellWord& word : launch.arguments) {
    const std::string_view flag = std::string_view(word.text).substr(0, word.text.find('='));
    names = names || flag == "--config-name" || flag == "--config-path" || flag == "--config_name";
    if (!word.text.starts_with("-") && !split_override(word.text).path.empty()) ++overrides;
  }
  constexpr std::ptrdiff_t kSeveral = 3;
  return overrides >= kSeveral || (names && overrides > 0);
}

// A program of neither Megatron-LM nor the Trainer, whose flags say all the same what is trained and how.
bool speaks_in_common_words(const Launch& launch) {
  if (launch.program.empty() || names_trainer(launch)) return false;
  const std::string name = launch.program.substr(launch.program.rfind('/') + 1);
  const Node table = table_of(read_flags(launch.arguments, never));
  if (name.starts_with("pretrain_") && !table.has("max_epochs")) return false;
  if (table.has("hidden_width") || table.has("hidden_dim")) return signs_of_training(table) >= 2;
  // Megatron-LM has no layers without their width.
  if (table.has("num_layers") && (table.has("hidden_size") || table.has("num_attention_heads"))) return false;
  for (const std::string_view flag :
       {"tensor_model_parallel_size", "pipeline_model_parallel_size", "encoder_seq_length", "use_checkpoint_args"})
    if (table.has(flag)) return false;
  // Megatron-LM has these too, but none of its releases has what it calls recomputation and accumulates by the batch.
  const bool is_others = std::any_of(table.members.begin(), table.members.end(), [](const auto& member) {
    const std::string_view meaning = meaning_of(member.first);
    return meaning == "gradient_checkpointing" || meaning == "gradient_accumulation_steps";
  });
  for (const std::string_view flag : {"micro_batch_size", "global_batch_size", "train_iters"})
    if (table.has(flag) && !is_others) return false;
  return signs_of_training(table) >= 2;
}

Candidate examine(const ShellCommand& command) {
  Candidate candidate{&command, split_command(command), FileKind::kMegatronArgs, 0};
  int megatron = 0;
  int trainer = 0;
  for (const ShellWord& word : candidate.launch.arguments) {
    if (!is_flag(word.text)) continue;
    const std::string key = key_of_flag(word.text);
    if (is_key(key) || find_alias(Framework::kMegatronLm, key) != nullptr) ++megatron;
    if (is_key(key) || find_alias(Framework::kTransformers, key) != nullptr) ++trainer;
  }
  const std::optional<FileKind> dialect = dialect_of_program(candidate.launch);
  candidate.known = std::max(megatron, trainer);
  if (names_bridge_recipe(candidate.launch.program, candidate.launch.arguments)) {
    candidate.kind = FileKind::kBridgeConfig;
    candidate.known = std::max(candidate.known, 1);
    return candidate;
  }
  const bool is_tree = !dialect && candidate.known == 0 && overrides_settings(candidate.launch);
  if (is_tree || (!dialect && candidate.known <= 2 && names_settings_file(candidate.launch))) {
    candidate.by_file = true;
    candidate.known = std::max(candidate.known, 1);
    return candidate;
  }
  const std::string& program = candidate.launch.program;
  if (program == "megatron sft" || program == "megatron pt" ||
      program == "megatron rlhf") {  // ms-swift's; its flags may all be in a file
    candidate.known = std::max(candidate.known, 1);
    return candidate;
  }
  if (dialect) {
    candidate.kind = *dialect;
    candidate.known = std::max(candidate.known, 1);
  } else if (speaks_in_common_words(candidate.launch)) {
    candidate.kind = FileKind::kByNames;
    candidate.known = std::max(candidate.known, 1);
  } else if (trainer > megatron || names_trainer(candidate.launch)) {
    candidate.kind = FileKind::kTrainingArguments;
  }
  return candidate;
}

std::string shown_command(const Candidate& candidate) {
  return fmt::format("line {} ({})", candidate.command->line,
                     candidate.launch.program.empty() ? "flags" : candidate.launch.program.substr(0, 60));
}

}  // namespace

// The first argument or variable that the script compares with words of its own and nobody gives, and what to do.
std::pair<std::string, std::string> missing_argument(const Shell& shell, std::string_view text) {
  for (const std::string& variable : shell.assumed_unset) {
    const bool is_position = variable.starts_with("$");
    const std::vector<std::string> words = known_words(text, std::string_view(variable).substr(is_position ? 1 : 0));
    if (words.empty()) continue;
    return {variable, fmt::format("it knows {}: give --script-args {}{}, say", join(words, ", "),
                                  is_position ? "" : variable + "=", words.front())};
  }
  return {};
}

namespace {

// A script that starts nothing may only want an argument.
tl::unexpected<Error> nothing_starts(const Shell& shell, std::string_view text) {
  if (const auto [variable, hint] = missing_argument(shell, text); !variable.empty())
    return bad_input(fmt::format("the script starts no training where {} is not set", variable), hint);
  return bad_input("no command with Megatron-LM flags (--num-layers, ...) or Trainer arguments is in the script");
}

// "a.b=c" words as a table.
Node table_of_overrides(const std::vector<ShellWord>& words) {
  Node table;
  table.kind = Node::Kind::kObject;
  for (const ShellWord& word : words) {
    const std::size_t equals = word.text.find('=');
    if (equals == std::string::npos || !word.unknown.empty()) continue;
    table.members.emplace_back(word.text.substr(0, equals), document::parse_scalar(word.text.substr(equals + 1)));
  }
  return table;
}

}  // namespace

Result<Candidate> find_training_command(const Shell& shell, std::string_view text, const ReadOptions& options) {
  std::vector<Candidate> candidates;
  int most = 0;
  bool has_certain = false;
  bool trains_by_reinforcement = false;
  for (const ShellCommand& command : shell.commands) {
    Candidate candidate = examine(command);
    if (is_reinforcement(candidate.launch)) trains_by_reinforcement = true;
    if (candidate.known == 0 || is_other_work(candidate.launch)) continue;
    most = std::max(most, candidate.known);
    candidates.push_back(std::move(candidate));
  }
  std::erase_if(candidates, [most](const Candidate& candidate) { return 2 * candidate.known < most; });
  for (const Candidate& candidate : candidates) has_certain = has_certain || candidate.command->is_certain;
  if (has_certain) std::erase_if(candidates, [](const Candidate& c) { return !c.command->is_certain; });
  // The same command twice (a second try) is one.
  for (std::size_t i = 1; i < candidates.size();) {
    const bool repeats =
        std::any_of(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Candidate& c) { return c.command->words == candidates[i].command->words; });
    if (repeats) {
      candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (candidates.empty()) {
    for (const ShellCommand& command : shell.commands) {
      const Launch launch = split_command(command);
      if (const std::string_view tool = jax_tool_of_program(launch.program); !tool.empty())
        return not_xla(tool, table_of_overrides(launch.arguments));
    }
    if (trains_by_reinforcement)
      return bad_input("the script starts reinforcement learning", "plimsoll rl reads it: plimsoll rl FILE");
    return nothing_starts(shell, text);
  }
  if (trains_by_reinforcement && is_reinforcement(candidates.front().launch))
    return bad_input("the script starts reinforcement learning", "plimsoll rl reads it: plimsoll rl FILE");
  if (options.command > 0) {
    if (static_cast<std::size_t>(options.command) > candidates.size())
      return bad_input(
          fmt::format("--command {}: the script has {} training commands", options.command, candidates.size()));
    return candidates[static_cast<std::size_t>(options.command) - 1];
  }
  if (candidates.size() > 1) {
    std::string list;
    for (std::size_t i = 0; i < candidates.size() && i < 6; ++i)
      list += fmt::format("{}{} {}", i == 0 ? "" : ", ", i + 1, shown_command(candidates[i]));
    if (candidates.size() > 6) list += ", ...";
    return bad_input(fmt::format("line {} is not the only training command of the script: {}",
                                 candidates.front().command->line, list),
                     "choose one with --command 1, say");
  }
  return candidates.front();
}

}  // namespace plimsoll::job
