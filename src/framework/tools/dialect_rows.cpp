// SPDX-License-Identifier: Apache-2.0
#include "framework/tools/dialect_rows.h"

#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "job/keys.h"
#include "job/value.h"
#include "model/catalog.h"

namespace plimsoll::job {

using document::Node;

Translation::Translation(const Node& source) : source_(source) { result_.kind = Node::Kind::kObject; }

const Node* Translation::take(std::string_view key) {
  taken_.emplace_back(key);
  const Node* found = source_.find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool Translation::takes_true(std::string_view key) {
  const Node* value = take(key);
  return value != nullptr && !is_off(*value) && !(value->is_string() && value->text.empty());
}

std::string Translation::takes_word(std::string_view key) {
  const Node* value = take(key);
  if (value == nullptr || value->is_object() || value->is_array()) return {};
  return lower(document::to_text(*value));
}

void Translation::put(std::string_view key, Node value, std::string_view from) {
  if (!from.empty()) names_[std::string(key)] = from;
  std::erase_if(result_.members, [key](const auto& member) { return member.first == key; });
  result_.members.emplace_back(std::string(key), std::move(value));
}

void Translation::rename(std::string_view key, std::string_view target) {
  if (const Node* value = take(key)) put(target, *value, key);
}

const Node* Translation::peek(std::string_view target) const {
  const Node* found = result_.find(target);
  if (found == nullptr) found = source_.find(target);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string Translation::name_of(std::string_view target) const {
  const auto found = names_.find(target);
  return found == names_.end() ? std::string(target) : found->second;
}

Node Translation::finish(Draft& draft) {
  draft.written_names = std::move(names_);
  std::set<std::string, std::less<>> done(taken_.begin(), taken_.end());  // Node::has would make it quadratic
  for (const auto& member : result_.members) done.insert(member.first);
  for (const auto& [key, value] : source_.members)
    if (!done.contains(key)) result_.members.emplace_back(key, value);
  return std::move(result_);
}

std::optional<Node> deepspeed_preset(std::string_view name) {
  const std::string spelled = lower(name);
  if (spelled.size() < 5 || spelled.substr(0, 4) != "zero" || spelled[4] < '0' || spelled[4] > '3') return std::nullopt;
  const std::string_view rest = std::string_view(spelled).substr(5);
  if (!rest.empty() && rest != "_offload") return std::nullopt;
  Node zero;
  zero.kind = Node::Kind::kObject;
  zero.members.emplace_back("stage", integer_node(spelled[4] - '0'));
  if (rest == "_offload") {
    Node device;
    device.kind = Node::Kind::kObject;
    device.members.emplace_back("device", text_node("cpu"));
    zero.members.emplace_back("offload_optimizer", device);
    if (spelled[4] == '3') zero.members.emplace_back("offload_param", device);
  }
  Node root;
  root.kind = Node::Kind::kObject;
  root.members.emplace_back("zero_optimization", std::move(zero));
  return root;
}

bool may_have_tower(const Node* name) {
  if (name == nullptr || !name->is_string()) return false;
  auto known = model::find_model(name->text);
  if (!known) known = model::find_model(name->text.substr(name->text.rfind('/') + 1));
  return !known || known->vision != nullptr;
}

Status allow_fake_quantisation(std::string_view key, const Translation& to, Draft& draft) {
  const Node* recomputes = to.peek("gradient_checkpointing");
  if (recomputes == nullptr || is_off(*recomputes))
    return bad_input(
        fmt::format("{}: quantisation-aware training keeps a fake-quantised copy of every weight until "
                    "backward where layers are not recomputed, which is not modelled",
                    key));
  draft.warnings.push_back(
      fmt::format("{}: fake-quantised copies of the weights of the layer that is recomputed are not counted", key));
  return {};
}

Status refuse_other_training(std::string_view key, std::string_view value) {
  for (const std::string_view fine :
       {"", "sft", "pt", "full", "pretrain", "none", "null", "false", "trl_sft", "hf", "oumi"})
    if (value == fine) return {};
  return bad_input(fmt::format("{}: '{}' is neither supervised nor preference training; reinforcement learning, reward "
                               "models and distillation hold other models and batches, which are not modelled here",
                               key, value),
                   "plimsoll rl sizes GRPO and PPO runs of verl, OpenRLHF, NeMo-RL, prime-rl, slime, AReaL and TRL, "
                   "or of flags: plimsoll rl --help");
}

}  // namespace plimsoll::job
