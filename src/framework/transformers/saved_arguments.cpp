// SPDX-License-Identifier: Apache-2.0
// training_args.bin, which the Trainer writes beside every checkpoint: TrainingArguments, or a descendant such as TRL's
// SFTConfig, pickled by torch.save. The file is read, never executed.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "base/zip.h"
#include "document/pickle.h"
#include "framework/transformers/include.h"
#include "framework/transformers/saved_arguments.h"
#include "job/format.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

const Node* at(const Node* table, std::string_view key) {
  const Node* value = table == nullptr || !table->is_object() ? nullptr : table->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

// Words in place of the list of options that the Trainer keeps.
void join_words(Node& value) {
  if (!value.is_array()) return;
  std::string words;
  for (const Node& item : value.items) words += (words.empty() ? "" : " ") + document::to_text(item);
  value = text_node(words);
}

// The configuration itself, which the arguments keep beside the name of its file.
const Node* deepspeed_table(const Node& state) {
  for (const Node* holder : {at(&state, "hf_deepspeed_config"), at(at(&state, "deepspeed_plugin"), "hf_ds_config"),
                             at(at(&state, "deepspeed_plugin"), "deepspeed_config")}) {
    if (const Node* config = at(holder, "config"); config != nullptr && config->is_object()) return config;
  }
  return nullptr;
}

// The processes of the run, where the arguments remember how they were started.
void read_processes(const Node& state, Draft& draft) {
  const Node* processes = at(at(&state, "distributed_state"), "num_processes");
  if (processes == nullptr || !processes->is_integer() || processes->integer < 1) return;
  draft.assign("gpus", *processes, "distributed_state.num_processes");
}

// Attributes that are no arguments: caches, plugins, what was derived.
bool is_argument(const std::string& name, const Node& value) {
  constexpr std::string_view kElsewhere[] = {"hf_deepspeed_config", "deepspeed_plugin", "distributed_state",
                                             "accelerator_config",  "mixed_precision",  "fsdp_plugin_args",
                                             "parallelism_config",  "xla_fsdp_config",  "local_rank"};
  if (name.empty() || name.front() == '_') return false;
  if (std::find(std::begin(kElsewhere), std::end(kElsewhere), name) != std::end(kElsewhere)) return false;
  return !value.is_null();
}

}  // namespace

bool is_saved_arguments(std::string_view bytes) { return is_zip(bytes); }

Result<Draft> read_saved_arguments(const InputFile& file) {
  constexpr std::size_t kLargest = 1U << 20;
  constexpr std::string_view kHint = "training_args.bin of a checkpoint is such a file; weights are not read";
  auto pickle = read_zip_entry(file.text, "data.pkl", kLargest);
  if (!pickle) return bad_input(pickle.error().message, std::string(kHint));
  auto object = document::parse_pickle(*pickle);
  if (!object) return tl::make_unexpected(std::move(object.error()).with_context("data.pkl"));
  const bool is_arguments = object->type.ends_with("Arguments") || object->type.ends_with("Config");
  if (!is_arguments || !object->state.is_object() || !object->state.has("per_device_train_batch_size"))
    return bad_input(fmt::format("holds {}; wanted the Trainer's arguments",
                                 object->type.empty() ? "plain data" : object->type.substr(0, 200)),
                     std::string(kHint));
  const Node& state = object->state;
  Node arguments;
  arguments.kind = Node::Kind::kObject;
  for (const auto& [name, value] : state.members)
    if (is_argument(name, value)) arguments.members.emplace_back(name, value);
  for (auto& [name, value] : arguments.members) {
    if (name == "fsdp") join_words(value);
    if (name == "deepspeed")
      if (const Node* table = deepspeed_table(state)) value = *table;
  }
  std::erase_if(arguments.members, [](const auto& member) {
    return member.first == "fsdp" && (member.second.text.empty() || is_off(member.second));
  });
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kTrainingArguments;
  draft.vocabulary = Framework::kTransformers;
  draft.framework = Framework::kTransformers;
  PLIMSOLL_TRY_STATUS(read_training_tree(arguments, draft));
  read_processes(state, draft);
  draft.notes.push_back(fmt::format("{}: the saved arguments of {}", file.path, object->type.substr(0, 200)));
  return draft;
}

}  // namespace plimsoll::job
