// SPDX-License-Identifier: Apache-2.0
// A launch script of Megatron-LM, or just its flags: the command that holds Megatron's flags is found
// after the script's variables are filled in; torchrun's, srun's and #SBATCH's own options give the GPUs.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "job/draft.h"
#include "job/keys.h"
#include "job/keys/table.h"
#include "job/readers/megatron_flags.h"
#include "job/readers/shell.h"
#include "job/value.h"

namespace plimsoll::job {

namespace {

using document::Node;

bool is_flag(std::string_view word) {
  return word.size() > 2 && word.substr(0, 2) == "--" &&
         ((word[2] >= 'a' && word[2] <= 'z') || (word[2] >= 'A' && word[2] <= 'Z'));
}

bool is_program(std::string_view word) { return word.size() > 3 && word.substr(word.size() - 3) == ".py"; }

std::string key_of(std::string_view flag) {
  std::string_view bare = flag.substr(0, flag.find('='));
  while (bare.substr(0, 1) == "-") bare.remove_prefix(1);
  return replace(bare, '-', '_');
}

// Whether memory depends on the flag, as far as its name says.
bool matters(const std::string& key) {
  if (is_key(key)) return true;
  const Alias* alias = find_alias(Framework::kMegatronLm, key);
  return alias == nullptr || alias->kind != AliasKind::kNoEffect;
}

bool takes_no_value(const std::string& key) {
  std::string canonical = key;
  if (const Alias* alias = find_alias(Framework::kMegatronLm, key); alias != nullptr) {
    if (alias->kind == AliasKind::kInverse) return true;
    if (alias->kind == AliasKind::kKey) canonical = alias->target;
  }
  const FoundKey found = find_key(canonical);
  return found.key != nullptr && type_name(*found.key) == "boolean";
}

// Words before the program belong to the launcher.
std::size_t start_of_flags(const ShellCommand& command) {
  const auto program = std::find_if(command.words.begin(), command.words.end(),
                                    [](const ShellWord& word) { return is_program(word.text); });
  return program == command.words.end() ? 0 : static_cast<std::size_t>(program - command.words.begin()) + 1;
}

int count_known_flags(const ShellCommand& command) {
  int known = 0;
  for (std::size_t i = start_of_flags(command); i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    if (!is_flag(word)) continue;
    const std::string key = key_of(word);
    if (is_key(key) || find_alias(Framework::kMegatronLm, key) != nullptr) ++known;
  }
  return known;
}

Result<const ShellCommand*> find_training_command(const Shell& shell) {
  const ShellCommand* best = nullptr;
  int best_flags = 0;
  bool tie = false;
  for (const ShellCommand& command : shell.commands) {
    const int flags = count_known_flags(command);
    if (flags == 0) continue;
    tie = flags == best_flags;
    if (flags <= best_flags) continue;
    best = &command;
    best_flags = flags;
  }
  if (best == nullptr) return bad_input("no command with Megatron-LM flags (--num-layers, ...) is in the script");
  if (tie)
    return bad_input(fmt::format("line {} is not the only training command of the script", best->line),
                     "keep one command, or give its flags in a file of their own");
  return best;
}

std::optional<std::int64_t> number(std::string_view text) {
  const Node value = document::parse_scalar(text);
  if (!value.is_integer() || value.integer < 1 || value.integer > (1 << 24)) return std::nullopt;
  return value.integer;
}

// GPUs that the launcher's options ask for: nodes times processes per node.
void read_launcher(const std::vector<ShellWord>& words, Draft& draft) {
  std::optional<std::int64_t> nodes;
  std::optional<std::int64_t> per_node;
  std::string per_node_flag;
  const auto take = [&](const std::string& key, std::string_view value) {
    if (key == "nnodes" || key == "nodes" || key == "num_nodes" || key == "N")
      nodes = number(value.substr(0, value.find(':')));
    if (key == "nproc_per_node" || key == "gpus_per_node" || key == "num_gpus" || key == "ntasks_per_node") {
      // Tasks per node are GPUs only where nothing else says how many.
      if (key == "ntasks_per_node" && per_node) return;
      per_node = number(value);
      per_node_flag = key;
    }
    if (key == "gres" && value.substr(0, 4) == "gpu:") {
      per_node = number(value.substr(value.rfind(':') + 1));
      per_node_flag = key;
    }
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (!is_flag(word) && word != "-N") continue;
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      take(key_of(word), std::string_view(word).substr(equals + 1));
    } else if (i + 1 < words.size()) {
      take(key_of(word), words[i + 1].text);
    }
  }
  if (!per_node) return;
  const auto gpus = checked_mul(*per_node, nodes.value_or(1));
  draft.assign("gpus", integer_node(*gpus), per_node_flag);
  if (per_node_flag != "ntasks_per_node") draft.assign("gpus_per_node", integer_node(*per_node), per_node_flag, true);
}

struct Flag {
  std::string written;
  std::vector<ShellWord> values;
};

void assign(const Flag& flag, Draft& draft) {
  const std::string key = key_of(flag.written);
  if (!matters(key)) return;
  Node value = text_node("");
  if (flag.values.size() == 1) value.text = flag.values.front().text;
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

void read_flags(const ShellCommand& command, std::size_t at, Draft& draft) {
  std::vector<Flag> flags;
  for (; at < command.words.size(); ++at) {
    const ShellWord& word = command.words[at];
    if (is_flag(word.text)) {
      const std::size_t equals = word.text.find('=');
      Flag flag{word.text.substr(0, equals), {}};
      if (equals != std::string::npos) flag.values.push_back(ShellWord{word.text.substr(equals + 1), word.unknown});
      flags.push_back(std::move(flag));
      continue;
    }
    // An unknown word after a flag that has all it needs may hold more flags.
    const bool is_hole =
        word.text.empty() && !word.unknown.empty() &&
        (flags.empty() || !flags.back().values.empty() || takes_no_value(key_of(flags.back().written)));
    if (is_hole) {
      draft.warnings.push_back(
          fmt::format("{}: not set in the script; flags that it may hold are not read", word.unknown.front()));
    } else if (!flags.empty()) {
      flags.back().values.push_back(word);
    }
  }
  for (const Flag& flag : flags) assign(flag, draft);
}

}  // namespace

Result<Draft> read_megatron_script(const InputFile& file) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kMegatronScript;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  PLIMSOLL_TRY(shell, read_shell(file.text));
  PLIMSOLL_TRY(command, find_training_command(shell));
  const std::size_t flags = start_of_flags(*command);
  if (flags > 0) {
    const std::string& program = command->words[flags - 1].text;
    if (const std::string_view reason = why_not_modelled(program); !reason.empty())
      return bad_input(fmt::format("{}: {}", program, reason));
  }
  std::vector<ShellWord> launcher;
  for (const std::string& option : shell.batch_options) launcher.push_back(ShellWord{option, {}});
  launcher.insert(launcher.end(), command->words.begin(),
                  command->words.begin() + static_cast<std::ptrdiff_t>(flags == 0 ? 0 : flags - 1));
  read_launcher(launcher, draft);
  read_flags(*command, flags, draft);
  add_parser_defaults(draft);
  draft.environment = std::move(shell.environment);
  return draft;
}

}  // namespace plimsoll::job
