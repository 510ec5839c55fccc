// SPDX-License-Identifier: Apache-2.0
// A launch script, or just the flags of a command: the script is followed, the command that trains is found, and its
// flags are read in the vocabulary of the program that it starts.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/jax/jax.h"
#include "framework/megatron_bridge/bridge.h"
#include "framework/megatron_lm/flags.h"
#include "framework/megatron_lm/tokenizer.h"
#include "framework/megatron_lm/tp_overlap.h"
#include "framework/tools/by_names.h"
#include "framework/tools/dialects.h"
#include "framework/tools/manifest.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/keys/table.h"
#include "job/readers/launch.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/readers/script_usage.h"
#include "job/readers/slurm.h"
#include "job/value.h"

namespace plimsoll::job {

namespace {

using document::Node;

struct Candidate {
  const ShellCommand* command = nullptr;
  Launch launch;
  FileKind kind = FileKind::kMegatronArgs;  // in whose vocabulary its flags are
  int known = 0;                            // flags that say something here
  bool by_file = false;                     // its settings are in a file, with overrides on the command line
};

bool takes_no_value(const std::string& key) {
  std::string canonical = key;
  if (const Alias* alias = find_alias(Framework::kMegatronLm, key); alias != nullptr) {
    if (alias->kind == AliasKind::kInverse) return true;
    if (alias->kind == AliasKind::kKey) canonical = alias->target;
  }
  const FoundKey found = find_key(canonical);
  return found.key != nullptr && type_name(*found.key) == "boolean";
}

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
          "chat",       "cli",       "quantize",   "app",        "webui",      "web"})
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
  if (!dialect && candidate.known <= 2 && names_settings_file(candidate.launch)) {
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

// Whether memory depends on the flag, as far as its name says.
bool matters(const std::string& key, const Draft& draft) {
  const Alias* alias = find_alias(draft.names, key);
  if (alias == nullptr && is_key(key)) return true;
  if (alias == nullptr) alias = find_alias(Framework::kMegatronLm, key);
  return alias == nullptr || alias->kind != AliasKind::kNoEffect;
}

// Words of older releases.
std::string current_word(const std::string& key, const std::string& word, Draft& draft) {
  if (key != "position_embedding_type") return word;
  if (word == "rotary") return "rope";
  if (word == "absolute") return "learned_absolute";
  if (word != "alibi") return word;
  draft.warnings.emplace_back("position_embedding_type: the biases of ALiBi are not counted");
  return "none";
}

void assign_megatron(const LaunchFlag& flag, Draft& draft) {
  const std::string key = key_of_flag(flag.written);
  // A value that cannot be known and does not matter is no problem; one that is known is stated, for rules.
  const bool is_known =
      std::all_of(flag.values.begin(), flag.values.end(), [](const ShellWord& word) { return word.unknown.empty(); });
  if (!is_known && !matters(key, draft)) return;
  // A tool's own word is no flag of Megatron-LM's, whose rules would judge it.
  const Alias* own = draft.read_as.empty() ? nullptr : find_alias(draft.names, key);
  if (own != nullptr && own->kind == AliasKind::kNoEffect) return;
  Node value = text_node("");
  // A switch that no table knows is on; nothing else would show that it is there.
  const bool is_known_key =
      is_key(key) || find_alias(draft.names, key) != nullptr || find_alias(Framework::kMegatronLm, key) != nullptr;
  if (flag.values.empty() && !is_known_key) value = bool_node(true);
  if (flag.values.size() == 1) value.text = current_word(key, flag.values.front().text, draft);
  if (flag.values.size() > 1) {
    value = Node{};
    value.kind = Node::Kind::kArray;
    for (const ShellWord& word : flag.values) value.items.push_back(text_node(word.text));
  }
  assign_flag(draft, flag.written, std::move(value));
  for (const ShellWord& word : flag.values)
    if (!word.unknown.empty())
      draft.assignments.back().problem =
          fmt::format("its value needs {}, which the script does not set", word.unknown.front());
}

void note_holes(const LaunchFlags& flags, Draft& draft) {
  for (const std::string& hole : flags.holes)
    draft.warnings.push_back(fmt::format("{}: not set in the script; flags that it may hold are not read", hole));
}

// Flags that stand in a YAML file instead; those of the command win.
Status add_flags_of_files(const Draft& draft, LaunchFlags& flags) {
  std::vector<std::string> names;
  for (const ShellWord& operand : flags.operands) names.push_back(operand.text);
  for (const LaunchFlag& flag : flags.flags)
    if (key_of_flag(flag.written) == "config" && flag.values.size() == 1) names.push_back(flag.values.front().text);
  std::erase_if(flags.flags, [](const LaunchFlag& flag) { return key_of_flag(flag.written) == "config"; });
  for (const std::string& name : names) {
    if (!name.ends_with(".yaml") && !name.ends_with(".yml")) continue;
    Node table;
    table.kind = Node::Kind::kObject;
    PLIMSOLL_TRY_STATUS(lay_over_file(name, table, draft));
    for (const auto& [key, value] : table.members) {
      const bool is_given =
          std::any_of(flags.flags.begin(), flags.flags.end(),
                      [&wanted = key](const LaunchFlag& flag) { return key_of_flag(flag.written) == wanted; });
      if (is_given || value.is_null() || value.is_object()) continue;
      LaunchFlag flag{"--" + key, {}};
      if (value.is_array()) {
        for (const Node& item : value.items) flag.values.push_back(ShellWord{document::to_text(item), {}});
      } else {
        flag.values.push_back(ShellWord{document::to_text(value), {}});
      }
      flags.flags.push_back(std::move(flag));
    }
  }
  return {};
}

Status read_megatron_command(const Candidate& candidate, const Shell& shell, Draft& draft) {
  draft.kind = FileKind::kLaunchScript;
  draft.launch_is_whole = true;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  if (const std::string_view reason = why_not_modelled(candidate.launch.program); !reason.empty())
    return bad_input(fmt::format("{}: {}", candidate.launch.program, reason));
  LaunchFlags flags = read_flags(candidate.launch.arguments, takes_no_value);
  note_holes(flags, draft);
  PLIMSOLL_TRY_STATUS(add_flags_of_files(draft, flags));
  PLIMSOLL_TRY_STATUS(use_megatron_dialect(flags, shell.files, draft));
  for (const LaunchFlag& flag : flags.flags) assign_megatron(flag, draft);
  take_model_class(candidate.launch.program, draft);
  for (const LaunchFlag& flag : flags.flags)
    if (key_of_flag(flag.written) == "tp_comm_overlap_cfg" && flag.values.size() == 1 &&
        flag.values.front().unknown.empty())
      PLIMSOLL_TRY_STATUS(read_overlap_file(flag.values.front().text, draft));
  std::string tokenizer;
  for (const LaunchFlag& flag : flags.flags)
    for (const std::string_view key : {"vocab_file", "tokenizer_model", "tokenizer_name_or_path", "tokenizer_path"})
      if (key_of_flag(flag.written) == key && flag.values.size() == 1) tokenizer = flag.values.front().text;
  take_class_of_vocabulary(candidate.launch.program, draft);
  PLIMSOLL_TRY_STATUS(refuse_towers(draft));
  take_vocabulary_of_tokenizer(tokenizer, draft);
  finish_megatron_dialect(draft);
  add_parser_defaults(draft);
  return {};
}

// Values that the script does not set: an error where they matter, unless a flag decides.
void note_unknown_values(const LaunchFlags& flags, Draft& draft) {
  for (const LaunchFlag& flag : flags.flags)
    for (const ShellWord& word : flag.values) {
      if (word.unknown.empty()) continue;
      const std::string key = key_of_flag(flag.written);
      const Alias* own = find_alias(draft.names, key);
      if (own != nullptr && own->kind == AliasKind::kNoEffect) continue;  // a value that nobody asks for
      for (Assignment& assignment : draft.assignments)
        if (assignment.where.ends_with(": " + key) || assignment.key == key)
          assignment.problem = fmt::format("its value needs {}, which the script does not set", word.unknown.front());
    }
}

// "--training.max_steps 25" is a key of the section that the file has.
void nest_dotted_keys(Node& table) {
  Node nested;
  nested.kind = Node::Kind::kObject;
  for (auto& [key, value] : table.members) put_path(nested, key, std::move(value));
  table = std::move(nested);
}

// "dpo.py", "train_orpo.py": what a program of the Trainer's kind does is in its name where no flag says it.
Status take_loop_of_program(std::string_view program, Node& table) {
  std::string name = lower(program.substr(program.rfind('/') + 1));
  name = replace(replace(replace(name, '.', '_'), '-', '_'), ' ', '_');
  for (const std::string_view part : split(name, '_')) {
    for (const std::string_view other : {"grpo", "ppo", "rloo", "gkd", "reinforce"})
      if (part == other)
        return bad_input(fmt::format("{}: the program trains by reinforcement or distillation", program),
                         "plimsoll rl reads runs of verl, OpenRLHF, NeMo-RL, prime-rl, slime, AReaL and TRL");
    if (part == "kd" || part == "distill" || part == "distillation")
      return bad_input(
          fmt::format("{}: the program distils a second model, whose weights and outputs are not modelled", program));
    if (part == "reward" || part == "rm" || part == "prm")
      return bad_input(
          fmt::format("{}: the program trains a reward model, whose head and loss are not modelled", program));
    if (table.has("loss_type")) continue;
    for (const std::string_view pairs : {"dpo", "mpo", "ipo"})
      if (part == pairs) table.members.emplace_back("loss_type", text_node("sigmoid"));
    if (part == "kto") table.members.emplace_back("loss_type", text_node("kto"));
    for (const std::string_view alone : {"orpo", "simpo", "cpo"})
      if (part == alone) table.members.emplace_back("loss_type", text_node("simpo"));
  }
  return {};
}

Status read_trainer_command(const Candidate& candidate, const Shell& shell, Draft& draft) {
  LaunchFlags flags = read_flags(candidate.launch.arguments, never);
  note_holes(flags, draft);
  // What is not known and no table knows either is nobody's business here.
  std::erase_if(flags.flags, [](const LaunchFlag& flag) {
    const std::string key = key_of_flag(flag.written);
    const Alias* alias = find_alias(Framework::kTransformers, key);
    const bool is_unknown = std::any_of(flag.values.begin(), flag.values.end(),
                                        [](const ShellWord& word) { return !word.unknown.empty(); });
    return is_unknown && alias != nullptr && alias->kind == AliasKind::kNoEffect;
  });
  Node table = table_of(flags);
  if (candidate.kind == FileKind::kOumi) nest_dotted_keys(table);
  // Flags over the file that the program is given.
  for (const ShellWord& operand : flags.operands) {
    const bool is_file = operand.text.ends_with(".yaml") || operand.text.ends_with(".yml") ||
                         operand.text.ends_with(".json") ||
                         (candidate.kind == FileKind::kXtuner && operand.text.ends_with(".py"));
    if (is_file) PLIMSOLL_TRY_STATUS(lay_over_file(operand.text, table, draft));
  }
  for (const std::string_view key : {"config", "c"})
    if (const Node* config = table.find(key); config != nullptr && config->is_string()) {
      const std::string name = config->text;
      std::erase_if(table.members, [key](const auto& member) { return member.first == key; });
      PLIMSOLL_TRY_STATUS(lay_over_file(name, table, draft));
    }
  take_lightning_config(candidate.command->environment, shell, table);
  write_here_documents(shell.files, table);
  if (candidate.kind == FileKind::kTrainingArguments || candidate.kind == FileKind::kByNames)
    PLIMSOLL_TRY_STATUS(take_loop_of_program(candidate.launch.program, table));
  PLIMSOLL_TRY_STATUS(read_dialect_tree(candidate.kind, table, draft));
  note_unknown_values(flags, draft);
  return add_accelerate_settings(candidate.launch, draft);
}

// The file that the command names, with the command's overrides in it, as if it had been given like that.
Status read_file_command(const Candidate& candidate, const ReadOptions& options, Draft& draft) {
  PLIMSOLL_TRY(configured, read_configured_command(candidate.launch.arguments, parent_folder(draft.path)));
  interpolate(configured.root);
  if (configured.path.empty()) configured.path = draft.path;
  auto inner = read_any(InputFile{configured.path, document::to_json(configured.root)}, options);
  if (!inner) return tl::make_unexpected(std::move(inner.error()).with_context(configured.path));
  for (const auto& [path, variable] : configured.unknown)
    for (Assignment& assignment : inner->assignments)
      if (assignment.where.ends_with(path))
        assignment.problem = fmt::format("its value needs {}, which the script does not set", variable);
  const std::vector<Assignment> launcher = std::move(draft.assignments);
  const std::string path = std::move(draft.path);
  draft = *std::move(inner);
  draft.path = path;
  draft.notes.push_back(fmt::format("{}: settings of {}", path, configured.path));
  for (const Assignment& given : launcher) {
    const bool is_said = std::any_of(draft.assignments.begin(), draft.assignments.end(),
                                     [&given](const Assignment& one) { return one.key == given.key; });
    if (!is_said) draft.assignments.push_back(given);
  }
  return {};
}

Status read_command(const Candidate& candidate, const Shell& shell, const ReadOptions& options, Draft& draft) {
  if (candidate.by_file) return read_file_command(candidate, options, draft);
  if (candidate.kind == FileKind::kBridgeConfig) return read_recipe_command(candidate.launch.arguments, draft);
  if (candidate.kind == FileKind::kMegatronArgs) return read_megatron_command(candidate, shell, draft);
  return read_trainer_command(candidate, shell, draft);
}

std::string shortened(std::vector<std::string> names) {
  constexpr std::size_t kShown = 6;
  const std::size_t more = names.size() > kShown ? names.size() - kShown : 0;
  names.resize(names.size() - more);
  return join(names, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

// A flag that a trainer happens to share is no training: something must say what is trained, or how.
bool says_what_is_trained(const Draft& draft) {
  if (!draft.parts.empty() || !draft.model.layers.empty() || !draft.unknown_model.empty()) return true;
  return std::any_of(draft.assignments.begin(), draft.assignments.end(), [&draft](const Assignment& given) {
    if (given.key == "gpus" || given.key == "gpus_per_node" || given.weak) return false;
    const Alias* own = find_alias(draft.names, given.key);
    const Alias* alias = own != nullptr ? own : find_alias(draft.vocabulary, given.key);
    return is_key(given.key) || (alias != nullptr && alias->kind != AliasKind::kNoEffect);
  });
}

}  // namespace

Result<Draft> read_launch_script(const InputFile& file, const ReadOptions& options) {
  Draft draft;
  draft.path = file.path;
  ShellOptions shell_options;
  shell_options.path = file.path;
  shell_options.arguments = options.script_args;
  const bool has_positions = std::all_of(options.script_args.begin(), options.script_args.end(),
                                         [](const std::string& word) { return word.find('=') == std::string::npos; });
  if (options.script_args.empty() || !has_positions) {
    const std::vector<std::string> usual = arguments_in_comment(file.text, file.path);
    shell_options.arguments.insert(shell_options.arguments.end(), usual.begin(), usual.end());
    if (!usual.empty())
      draft.notes.push_back(fmt::format("{}: started as its comment shows: {} (--script-args changes that)", file.path,
                                        join(usual, " ")));
  }
  PLIMSOLL_TRY(inside, script_in_yaml(file.text));
  shell_options.read_file = [&file, &inside](const std::string& path) -> std::optional<std::string> {
    const auto written = inside.files.find(path.substr(path.rfind('/') + 1));
    if (written != inside.files.end()) return written->second;
    const auto found = locate(path, parent_folder(file.path));
    if (!found) return std::nullopt;
    auto text = read_named_file(*found);
    return text ? std::optional(*std::move(text)) : std::nullopt;
  };
  const std::string& run = inside.text.empty() ? file.text : inside.text;
  PLIMSOLL_TRY(shell, read_shell(run, shell_options));
  // A script that only sets flags for another one is read as that command would be.
  const bool only_sets = shell.commands.empty() && !shell.unused.empty();
  if (only_sets) shell.commands.push_back(ShellCommand{shell.unused, 1, true, {}});
  auto found = find_training_command(shell, file.text, options);
  if (!found && !shell.commands.empty()) {
    // It may only start another script.
    shell_options.follows_scripts = true;
    if (auto whole = read_shell(run, shell_options); whole && whole->commands.size() > shell.commands.size()) {
      shell = *std::move(whole);
      found = find_training_command(shell, file.text, options);
    }
  }
  if (!found && inside.is_manifest && found.error().hint.empty())
    return bad_input("no container of the manifest starts a training whose flags are known",
                     "what it trains may be in a file or program that the container has: give that one");
  if (!found) return tl::make_unexpected(std::move(found.error()));
  const Candidate& candidate = *found;
  if (only_sets)
    draft.notes.push_back(fmt::format("{}: starts nothing; the flags in its variables are read", file.path));
  std::map<std::string, std::string> environment = shell.environment;
  for (const auto& [name, value] : candidate.command->environment) environment[name] = value;
  read_launcher(candidate.launch, shell.batch_options, environment, draft);
  PassedOn passed = pass_on(candidate.launch.launcher, shell.batch_options, file.text, std::move(environment));
  if (auto read = read_command(candidate, shell, options, draft); !read) {
    // A file whose name lacks a word may only lack an argument.
    const auto [variable, hint] = missing_argument(shell, file.text);
    if (!variable.empty() && read.error().code == Code::kMissing)
      read.error().hint = fmt::format("{} is not set; {}", variable, hint);
    return tl::make_unexpected(std::move(read.error()));
  }
  // The launcher of a replica knows its own GPUs alone.
  if (inside.gpus > 0) draft.assign("gpus", integer_node(inside.gpus), "resources.limits");
  if (!says_what_is_trained(draft))
    return bad_input(
        fmt::format("line {}: the command names no model, batch, length or parallel size", candidate.command->line),
        "what it trains is in another file: give that one, or say it with flags");
  passed.environment.merge(draft.environment);  // what the tool itself sets gives way
  draft.environment = std::move(passed.environment);
  if (!passed.lost.empty())
    draft.warnings.push_back(
        fmt::format("{}: the script exports what the program does not see: {}", passed.by, shortened(passed.lost)));
  draft.notes.insert(draft.notes.end(), shell.notes.begin(), shell.notes.end());
  if (!shell.assumed_unset.empty())
    draft.notes.push_back(fmt::format("{}: taken as not set in the environment: {} (--script-args NAME=value sets one)",
                                      file.path, join(shell.assumed_unset, ", ")));
  return draft;
}

}  // namespace plimsoll::job
