// SPDX-License-Identifier: Apache-2.0
#include "job/readers/launch.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "job/format.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool ends_with_py(std::string_view word) { return word.size() > 3 && word.ends_with(".py"); }

// Programs of tools that have a command of their own.
bool is_tool(std::string_view name) {
  return std::any_of(tool_commands().begin(), tool_commands().end(),
                     [name](const Command& command) { return command.program == name; });
}

// "oumi distributed torchrun ...": the command is behind it.
bool is_wrapper(std::string_view name, std::string_view verb) {
  return std::any_of(tool_commands().begin(), tool_commands().end(), [name, verb](const Command& command) {
    return command.program == name && !command.wraps.empty() && command.wraps == verb;
  });
}

std::optional<std::int64_t> number(std::string_view text) {
  const Node value = document::parse_scalar(text);
  if (!value.is_integer() || value.integer < 1 || value.integer > (1 << 24)) return std::nullopt;
  return value.integer;
}

// "0,1,2,3" of CUDA_VISIBLE_DEVICES.
std::optional<std::int64_t> count_devices(std::string_view list) {
  list = trim(list);
  if (list.empty() || list.find_first_not_of("0123456789, ") != std::string_view::npos) return std::nullopt;
  return static_cast<std::int64_t>(split(list, ',').size());
}

}  // namespace

bool is_flag(std::string_view word) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return word.size() > 2 && word.substr(0, 2) == "--" && is_letter(word[2]);
}

std::string key_of_flag(std::string_view flag) {
  std::string_view bare = flag.substr(0, flag.find('='));
  while (bare.substr(0, 1) == "-") bare.remove_prefix(1);
  return replace(bare, '-', '_');
}

namespace {

// "submit.py --nodes 2 -- accelerate launch train.py": the program that runs is behind the last bare "--" that
// something to run follows.
std::size_t start_of_inner(const std::vector<ShellWord>& words) {
  for (std::size_t i = words.size(); i-- > 1;) {
    if (words[i].text != "--") continue;
    for (std::size_t j = i + 1; j < words.size(); ++j)
      if (ends_with_py(words[j].text) || is_one_of(words[j].text, {"torchrun", "accelerate", "deepspeed", "python"}))
        return i + 1;
  }
  return 0;
}

// "python gaudi_spawn.py --world_size 8 train.py --bf16": a program whose name says that it starts another, which
// follows.
bool is_python_launcher(const std::vector<ShellWord>& words, std::size_t at) {
  const std::string_view name = file_name(words[at].text);
  if (name.find("spawn") == std::string_view::npos && name.find("launch") == std::string_view::npos) return false;
  for (std::size_t i = at + 1; i < words.size(); ++i)
    if (ends_with_py(words[i].text)) return true;
  return false;
}

}  // namespace

Launch split_command(const ShellCommand& command) {
  Launch launch;
  const std::vector<ShellWord>& words = command.words;
  const auto take = [&](std::size_t program, std::size_t rest, std::string name) {
    launch.program = std::move(name);
    launch.launcher.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(program));
    launch.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(rest), words.end());
  };
  for (std::size_t i = start_of_inner(words); i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const bool is_module = (word == "-m" || word == "--module") && i + 1 < words.size();
    if (is_module) {
      const std::string& module = words[i + 1].text;
      if (is_one_of(module, {"torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic",
                             "accelerate.commands.launch", "deepspeed.launcher.runner"}))
        continue;
      const bool has_verb = is_tool(module) && i + 2 < words.size() && !is_flag(words[i + 2].text);
      take(i, i + (has_verb ? 3 : 2), has_verb ? fmt::format("{} {}", module, words[i + 2].text) : module);
      break;
    }
    if (ends_with_py(word)) {
      if (is_python_launcher(words, i)) continue;
      take(i, i + 1, word);
      break;
    }
    // "oumi distributed torchrun -m oumi train": a launcher before the command.
    if (i + 1 < words.size() && is_wrapper(word, words[i + 1].text)) continue;
    if (is_tool(file_name(word)) && (i == 0 || words[i - 1].text.substr(0, 2) != "--")) {
      const bool has_verb = i + 1 < words.size() && !is_flag(words[i + 1].text);
      take(i, i + (has_verb ? 2 : 1),
           has_verb ? fmt::format("{} {}", file_name(word), words[i + 1].text) : std::string(file_name(word)));
      break;
    }
  }
  if (launch.program.empty()) launch.arguments = words;
  const auto take_config = [&launch](const ShellWord& word, std::string name) {
    launch.accelerate_config = std::move(name);
    launch.config_needs = word.unknown.empty() ? "" : word.unknown.front();
  };
  for (std::size_t i = 0; i + 1 < launch.launcher.size(); ++i) {
    const std::string& word = launch.launcher[i].text;
    if (word == "--config_file" || word == "--config-file")
      take_config(launch.launcher[i + 1], launch.launcher[i + 1].text);
  }
  for (const ShellWord& word : launch.launcher)
    if (word.text.substr(0, 14) == "--config_file=") take_config(word, word.text.substr(14));
  return launch;
}

LaunchFlags read_flags(const std::vector<ShellWord>& words, bool (*takes_no_value)(const std::string& key)) {
  LaunchFlags read;
  for (const ShellWord& word : words) {
    if (is_flag(word.text)) {
      const std::size_t equals = word.text.find('=');
      LaunchFlag flag{word.text.substr(0, equals), {}};
      if (equals != std::string::npos) flag.values.push_back(ShellWord{word.text.substr(equals + 1), word.unknown});
      read.flags.push_back(std::move(flag));
      continue;
    }
    const bool has_all = read.flags.empty() || !read.flags.back().values.empty() ||
                         takes_no_value(key_of_flag(read.flags.back().written));
    // An unknown word after a flag that has all it needs may hold more flags.
    if (word.text.empty() && !word.unknown.empty() && has_all) {
      if (read.holes.size() < 100) read.holes.push_back(word.unknown.front());
    } else if (read.flags.empty()) {
      read.operands.push_back(word);
    } else {
      read.flags.back().values.push_back(word);
    }
  }
  return read;
}

void read_launcher(const Launch& launch, const std::vector<std::string>& batch_options,
                   const std::map<std::string, std::string>& environment, Draft& draft) {
  std::optional<std::int64_t> nodes;
  std::optional<std::int64_t> per_node;
  std::optional<std::int64_t> total;
  std::string per_node_flag;
  bool asks = false;  // the launcher has a flag for it, whatever its value
  const auto take = [&](const std::string& key, std::string_view value, bool is_known) {
    if (is_one_of(key, {"nnodes", "nodes", "num_nodes", "N"})) {
      nodes = is_known ? number(value.substr(0, value.find(':'))) : std::nullopt;
      if (!nodes) asks = true;
    }
    if (is_one_of(key, {"nproc_per_node", "gpus_per_node", "num_gpus", "ntasks_per_node", "npernode"})) {
      // Tasks per node are GPUs only where nothing else says how many.
      if (key == "ntasks_per_node" && (per_node || asks)) return;
      per_node = is_known ? number(value.substr(value.rfind(':') + 1)) : std::nullopt;
      per_node_flag = key;
      if (!per_node) asks = true;
    }
    if (key == "gres" && value.substr(0, 4) == "gpu:") {
      per_node = number(value.substr(value.rfind(':') + 1));
      per_node_flag = key;
    }
    if (key == "num_processes" || key == "np" || key == "world_size") {
      total = is_known ? number(value) : std::nullopt;
      if (!total) asks = true;
    }
    if (key == "include" && value.find(':') != std::string_view::npos) {
      per_node = count_devices(value.substr(value.find(':') + 1));
      per_node_flag = key;
    }
  };
  std::vector<ShellWord> words;
  for (const std::string& option : batch_options) words.push_back(ShellWord{option, {}});
  words.insert(words.end(), launch.launcher.begin(), launch.launcher.end());
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (!is_flag(word) && !is_one_of(word.substr(0, 2), {"-N"}) && word != "-np") continue;
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      take(key_of_flag(word), std::string_view(word).substr(equals + 1), words[i].unknown.empty());
    } else if (i + 1 < words.size()) {
      take(key_of_flag(word), words[i + 1].text, words[i + 1].unknown.empty());
    }
  }
  const auto variable = [&](std::initializer_list<const char*> names) -> std::optional<std::int64_t> {
    for (const char* name : names)
      if (const auto found = environment.find(name); found != environment.end()) return number(found->second);
    return std::nullopt;
  };
  if (!asks && !per_node && !total) {
    per_node = variable({"NPROC_PER_NODE", "GPUS_PER_NODE", "NUM_GPUS"});
    per_node_flag = "NPROC_PER_NODE";
    if (!nodes && per_node) nodes = variable({"NNODES"});
  }
  if (!asks && !per_node && !total) {
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"})
      if (const auto found = environment.find(name); found != environment.end())
        per_node = count_devices(found->second);
    per_node_flag = "CUDA_VISIBLE_DEVICES";
  }
  if (total && !per_node) draft.assign("gpus", integer_node(*total), "num_processes");
  if (!per_node || asks) return;
  const auto gpus = checked_mul(*per_node, nodes.value_or(1));
  // What is visible gives way to the file that says how many processes run.
  const bool is_weak = per_node_flag == "CUDA_VISIBLE_DEVICES" && !launch.accelerate_config.empty();
  draft.assign("gpus", integer_node(*gpus), per_node_flag, is_weak);
  if (per_node_flag != "ntasks_per_node" && !is_weak)
    draft.assign("gpus_per_node", integer_node(*per_node), per_node_flag, true);
}

Node table_of(const LaunchFlags& read) {
  Node table;
  table.kind = Node::Kind::kObject;
  for (const LaunchFlag& flag : read.flags) {
    Node value = bool_node(true);
    if (flag.values.size() == 1) value = document::parse_scalar(flag.values.front().text);
    if (flag.values.size() > 1) {
      value = Node{};
      value.kind = Node::Kind::kArray;
      for (const ShellWord& word : flag.values) value.items.push_back(document::parse_scalar(word.text));
    }
    // A flag that is given again counts as last given.
    const std::string key = key_of_flag(flag.written);
    std::erase_if(table.members, [&key](const auto& member) { return member.first == key; });
    table.members.emplace_back(key, std::move(value));
  }
  return table;
}

}  // namespace plimsoll::job
