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
#include "framework/tools/launch_choice.h"
#include "framework/tools/manifest.h"
#include "framework/transformers/include.h"
#include "framework/transformers/teacher.h"
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

bool takes_no_value(const std::string& key) {
  std::string canonical = key;
  if (const Alias* alias = find_alias(Framework::kMegatronLm, key); alias != nullptr) {
    if (alias->kind == AliasKind::kInverse) return true;
    if (alias->kind == AliasKind::kKey) canonical = alias->target;
  }
  const FoundKey found = find_key(canonical);
  return found.key != nullptr && type_name<Job>(found.key->field) == "boolean";
}

bool never(const std::string& key) {
  static_cast<void>(key);
  return false;
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

// Preference and reward training by a word of a name; nothing where the flags say a loss.
void take_loop_of_word(std::string_view part, Node& table) {
  if (part == "reward" || part == "rm" || part == "prm") {  // whatever it calls its loss
    std::erase_if(table.members, [](const auto& member) { return member.first == "loss_type"; });
    table.members.emplace_back("loss_type", text_node(part == "prm" ? "prm" : "reward"));
  }
  if (table.has("loss_type")) return;
  for (const std::string_view pairs : {"dpo", "mpo", "ipo"})
    if (part == pairs) table.members.emplace_back("loss_type", text_node("sigmoid"));
  if (part == "kto") table.members.emplace_back("loss_type", text_node("kto"));
  for (const std::string_view alone : {"orpo", "simpo", "cpo"})
    if (part == alone) table.members.emplace_back("loss_type", text_node("simpo"));
}

std::vector<std::string> words_of_name(std::string_view path) {
  std::string name = lower(path.substr(path.rfind('/') + 1));
  name = replace(replace(replace(name, '.', '_'), '-', '_'), ' ', '_');
  std::vector<std::string> words;
  for (const std::string_view word : split(name, '_')) words.emplace_back(word);
  return words;
}

// "rm_stage/train.py", "run_orpo.sh" that starts main.py: a program whose name says nothing is told apart by its folder
// or by the script's name.
void take_loop_of_place(std::string_view program, std::string_view script, Node& table) {
  const std::string_view file = program.substr(program.rfind('/') + 1);
  const bool says_nothing = file == "train.py" || file == "main.py" || file == "run.py" || file == "finetune.py";
  if (!says_nothing || table.has("loss_type")) return;
  const std::size_t slash = program.rfind('/');
  for (const std::string_view place :
       {slash == std::string_view::npos ? std::string_view{} : program.substr(0, slash), script}) {
    const std::vector<std::string> words = words_of_name(place);
    if (std::find(words.begin(), words.end(), "sft") != words.end()) return;
    for (const std::string& word : words) take_loop_of_word(word, table);
    if (table.has("loss_type")) return;
  }
}

// "dpo.py", "train_orpo.py": what a program of the Trainer's kind does is in its name where no flag says it.
Status take_loop_of_program(std::string_view program, Node& table, Draft& draft) {
  for (const std::string& part : words_of_name(program)) {
    for (const std::string_view other : {"grpo", "ppo", "rloo", "reinforce"})
      if (part == other)
        return bad_input(fmt::format("{}: the program trains by reinforcement", program),
                         "plimsoll rl reads runs of verl, OpenRLHF, NeMo-RL, prime-rl, slime, AReaL and TRL");
    if (part == "rotation" || part == "rotations")
      return bad_input(
          fmt::format("{}: the program trains rotations over frozen weights, which is not modelled", program));
    const bool has_teacher = std::any_of(table.members.begin(), table.members.end(),
                                         [](const auto& member) { return names_teacher(member.first); });
    if ((part == "kd" || part == "gkd" || part == "distill" || part == "distillation") && !has_teacher)
      draft.notes.push_back(
          fmt::format("{}: {} may distil a second model, which no flag names; none is counted (--teacher-model)",
                      draft.path, program));
    take_loop_of_word(part, table);
  }
  take_loop_of_place(program, draft.path, table);
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
  // Under accelerate a bare --deepspeed is the program's own switch: the launcher's file says how it is set up.
  if (const Node* on = table.find("deepspeed");
      on != nullptr && on->is_bool() && !candidate.launch.accelerate_config.empty() && !table.has("zero_stage"))
    std::erase_if(table.members, [](const auto& member) { return member.first == "deepspeed"; });
  if (candidate.kind == FileKind::kTrainingArguments || candidate.kind == FileKind::kByNames)
    PLIMSOLL_TRY_STATUS(take_loop_of_program(candidate.launch.program, table, draft));
  PLIMSOLL_TRY_STATUS(read_dialect_tree(candidate.kind, table, draft));
  note_unknown_values(flags, draft);
  return add_accelerate_settings(candidate.launch, draft);
}

// The file that the command names, with the command's overrides in it, as if it had been given like that.
Status read_file_command(const Candidate& candidate, const ReadOptions& options, Draft& draft) {
  PLIMSOLL_TRY(configured, read_configured_command(candidate.launch.arguments, parent_folder(draft.path),
                                                   candidate.launch.program));
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
  if (draft.vocabulary != Framework::kTransformers) return {};
  return add_accelerate_settings(candidate.launch, draft);
}

// A manifest whose container starts a program of its image, with the settings in the one file that it mounts.
Result<Draft> read_mounted_file(const std::string& path, const ScriptInYaml& inside, const ReadOptions& options) {
  const auto& [name, text] = *inside.files.begin();
  auto draft = read_any(InputFile{path, text}, options);
  if (!draft) return tl::make_unexpected(std::move(draft.error()).with_context(name));
  draft->notes.push_back(fmt::format("{}: settings of {}, which the manifest mounts", path, name));
  if (inside.gpus > 0) draft->assign("gpus", integer_node(inside.gpus), "resources.limits");
  return draft;
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
  if (inside.is_manifest && inside.text.empty()) return read_mounted_file(file.path, inside, options);
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
