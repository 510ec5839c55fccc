// SPDX-License-Identifier: Apache-2.0
// What `accelerate launch` is told on its command line instead of in a file: the flags are the keys of the file, some
// of them inside its tables (accelerate/commands/launch.py).
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/tools/dialects.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

Node& table_in(Node& root, std::string_view name) {
  for (auto& [key, value] : root.members)
    if (key == name) return value;
  Node table;
  table.kind = Node::Kind::kObject;
  root.members.emplace_back(std::string(name), std::move(table));
  return root.members.back().second;
}

void take_flag(const std::string& key, const Node& value, Node& root) {
  const auto put = [&root](std::string_view name, Node what) {
    root.members.emplace_back(std::string(name), std::move(what));
  };
  if (key == "use_deepspeed") put("distributed_type", text_node("DEEPSPEED"));
  if (key == "use_fsdp") put("distributed_type", text_node("FSDP"));
  if (key == "multi_gpu") put("distributed_type", text_node("MULTI_GPU"));
  if (key == "mixed_precision") put(key, value);
  for (const std::string_view plugin :
       {"deepspeed_config_file", "zero_stage", "offload_optimizer_device", "offload_param_device"})
    if (key == plugin) table_in(root, "deepspeed_config").members.emplace_back(key, value);
  if (key.starts_with("fsdp_")) table_in(root, "fsdp_config").members.emplace_back(key, value);
  if (key == "dynamo_backend") table_in(root, "dynamo_config").members.emplace_back(key, value);
}

}  // namespace

Status add_accelerate_table(const Node& table, Draft& draft) {
  Node said;
  said.kind = Node::Kind::kObject;
  for (const auto& [key, value] : table.members) {
    if (value.is_bool() && !value.boolean) continue;
    if (key == "num_processes" || key == "num_machines" || key == "distributed_type")
      said.members.emplace_back(key, value);
    take_flag(key, value, said);
  }
  if (said.members.empty()) return {};
  PLIMSOLL_TRY(part, read_accelerate_config(InputFile{draft.path, document::to_json(said)}, {}));
  draft.parts.push_back(std::move(part));
  return {};
}

namespace {

// What the name of a file that is not here says of it: "fsdp_8gpu.yaml", "deepspeed_zero3.yaml", "multi_gpu.yaml".
// Nothing where it says nothing.
std::optional<Node> settings_in_name(std::string_view path, Draft& draft) {
  const std::string name = lower(path.substr(path.rfind('/') + 1));
  const auto says = [&name](std::string_view word) { return name.find(word) != std::string::npos; };
  Node root;
  root.kind = Node::Kind::kObject;
  std::string what;
  if (says("fsdp")) {
    root.members.emplace_back("distributed_type", text_node("FSDP"));
    what = "FSDP that shards everything";
  } else if (says("ddp") || says("multi_gpu") || says("multigpu")) {
    root.members.emplace_back("distributed_type", text_node("MULTI_GPU"));
    what = "data parallelism";
  } else {
    return std::nullopt;
  }
  draft.warnings.push_back(fmt::format("{}: the file is not here; {} is taken from its name", path, what));
  return root;
}

}  // namespace

Status add_accelerate_settings(const Launch& launch, Draft& draft) {
  std::size_t start = 0;
  for (std::size_t i = 0; i + 1 < launch.launcher.size(); ++i) {
    const std::string& word = launch.launcher[i].text;
    const bool is_accelerate = word == "accelerate" || word.ends_with("/accelerate");
    if ((is_accelerate && launch.launcher[i + 1].text == "launch") ||
        launch.launcher[i + 1].text == "accelerate.commands.launch")
      start = i + 2;
  }
  Node said;
  said.kind = Node::Kind::kObject;
  if (start > 0) {
    const std::vector<ShellWord> words(launch.launcher.begin() + static_cast<std::ptrdiff_t>(start),
                                       launch.launcher.end());
    LaunchFlags flags = read_flags(words, [](const std::string& key) {
      return key == "use_deepspeed" || key == "use_fsdp" || key == "multi_gpu";
    });
    // A value that the script does not set is not known here either.
    std::erase_if(flags.flags,
                  [](const LaunchFlag& flag) { return !flag.values.empty() && !flag.values.front().unknown.empty(); });
    const Node table = table_of(flags);
    for (const auto& [key, value] : table.members) take_flag(key, value, said);
  }
  std::string path = draft.path;
  if (!launch.accelerate_config.empty()) {
    const auto found = locate(launch.accelerate_config, parent_folder(draft.path));
    if (found) {
      PLIMSOLL_TRY(text, read_named_file(*found));
      auto file = parse_json_or_yaml(text);
      if (!file) return tl::make_unexpected(std::move(file.error()).with_context(*found));
      lay_over(said, *file);
      said = *std::move(file);
      path = *found;
    } else if (auto named = settings_in_name(launch.accelerate_config, draft)) {
      lay_over(said, *named);
      said = *std::move(named);
    } else if (auto engine = include_deepspeed_file(launch.accelerate_config, parent_folder(draft.path));
               engine && !engine->warnings.empty()) {  // its name says the stage
      draft.framework = Framework::kDeepSpeed;
      draft.parts.push_back(*std::move(engine));
    } else if (!launch.config_needs.empty()) {
      return bad_input(fmt::format("--config_file {}: its name needs {}, which the script does not set",
                                   launch.accelerate_config, launch.config_needs),
                       "give the words that the script is started with (--script-args)");
    } else {
      return tl::make_unexpected(found.error());
    }
  }
  if (!said.is_object() || said.members.empty()) return {};
  auto part = read_accelerate_config(InputFile{path, document::to_json(said)}, {});
  if (!part) return tl::make_unexpected(std::move(part.error()).with_context(path));
  draft.parts.push_back(*std::move(part));
  return {};
}

}  // namespace plimsoll::job
