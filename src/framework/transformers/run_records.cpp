// SPDX-License-Identifier: Apache-2.0
// What a run leaves behind: the config.yaml of Weights & Biases, and trainer_state.json of Transformers' Trainer.
#include <algorithm>

#include <fmt/format.h>

#include "job/format.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

// {key: {desc: ..., value: ...}} beside _wandb or wandb_version.
bool is_wandb_config(const Node& root) {
  if (!root.has("_wandb") && !root.has("wandb_version")) return false;
  return std::any_of(root.members.begin(), root.members.end(),
                     [](const auto& member) { return member.second.is_object() && member.second.has("value"); });
}

namespace {

// The values alone.
Node unwrap_wandb(const Node& root) {
  Node plain;
  plain.kind = Node::Kind::kObject;
  for (const auto& [key, value] : root.members) {
    if (key.starts_with("_") || key == "wandb_version" || !value.is_object()) continue;
    const Node* inner = value.find("value");
    if (inner != nullptr && !inner->is_null()) plain.members.emplace_back(key, *inner);
  }
  return plain;
}

}  // namespace

bool is_trainer_state(const Node& root) {
  return root.has("log_history") && root.has("global_step") && (root.has("max_steps") || root.has("train_batch_size"));
}

Result<Draft> read_wandb_config(const InputFile& file, const ReadOptions& options) {
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  const Node plain = unwrap_wandb(root);
  if (plain.members.empty()) return bad_input("no key has a value");
  auto draft = read_any(InputFile{file.path, document::to_json(plain)}, options);
  if (!draft) return draft;
  draft->notes.push_back(fmt::format("{}: settings of a run that Weights & Biases recorded", file.path));
  return draft;
}

Result<Draft> read_trainer_state(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kTrainerState;
  draft.vocabulary = Framework::kTransformers;
  draft.framework = Framework::kTransformers;
  draft.read_as = "the state of a Transformers run";
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  const Node* batch = root.find("train_batch_size");
  if (batch != nullptr && batch->is_integer()) draft.assign("per_device_train_batch_size", *batch, "train_batch_size");
  draft.notes.push_back(fmt::format(
      "{}: holds the micro-batch alone; model, length and sharding are in config.json and training arguments",
      file.path));
  return draft;
}

}  // namespace plimsoll::job
