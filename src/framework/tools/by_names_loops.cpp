// SPDX-License-Identifier: Apache-2.0
// What a file of a tool that is not known trains by: preference, rewards, a teacher, or a loop that is not read here.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/by_names.h"
#include "framework/tools/by_names_sayings.h"
#include "framework/transformers/draft_heads.h"
#include "framework/transformers/teacher.h"
#include "job/unknown.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

// "loss: {name: dpo}", "method: dpo", "dpo_config: {beta: 0.1}": pairs of answers, in the Trainer's words. A file of
// several stages names no one of them.
Status read_preference(Sayings& sayings) {
  constexpr std::pair<std::string_view, std::string_view> kLosses[] = {
      {"dpo", "sigmoid"},         {"ipo", "ipo"},       {"kto", "kto"},
      {"orpo", "simpo"},          {"simpo", "simpo"},   {"cpo", "simpo"},
      {"reward_model", "reward"}, {"reward", "reward"}, {"rm", "reward"}};
  std::string_view loss;
  bool is_said = false;  // a word that chooses, not a table that may stand unused
  for (const Said& said : sayings.said()) {
    const std::vector<std::string_view> parts = split(said.path, '.');
    const std::string_view last = parts.back() == "name" && parts.size() > 1 ? parts[parts.size() - 2] : parts.back();
    const std::string word = said.value.is_string() ? lower(said.value.text) : std::string{};
    bool chooses = false;
    for (const std::string_view one :
         {"loss", "loss_fn", "method", "stage", "task", "algorithm", "algo", "algorithm_type", "trainer_type",
          "training_type", "train_method", "objective", "trainer", "mode", "loss_type"})
      chooses = chooses || last == one;
    for (const auto& [name, meaning] : kLosses)
      if (chooses && (word == name || word == std::string(name) + "_trainer")) {
        loss = meaning;
        is_said = true;
      }
    if (chooses && (word == "sft" || word == "pretrain" || word == "pt")) return {};
  }
  for (const auto& [name, meaning] : kLosses)
    if (!is_said && meaning != "reward" && sayings.any_segment(name)) loss = meaning;
  if (loss.empty()) {
    sayings.pass("prompt_cut");
    return {};
  }
  if (!is_said && sayings.any_segment("sft"))
    return bad_input("the file holds a supervised and a preference stage, and no key says which one runs",
                     "give the keys of one stage in a file of their own");
  for (Said& said : sayings.said())
    if (said.path.ends_with("loss_type")) said.done = true;
  sayings.put("loss_type", text_node(std::string(loss)), {});
  return {};
}

namespace {

// "algo: SFT", "algorithm_type: sft": a program of many loops is told which one to run.
bool is_told_to_imitate(Sayings& sayings) {
  for (const Said& said : sayings.said()) {
    const std::string_view last = std::string_view(said.path).substr(said.path.rfind('.') + 1);
    const bool chooses = last == "algo" || last == "algorithm" || last == "algorithm_type" || last == "trainer_type";
    if (chooses && said.value.is_string() && lower(said.value.text) == "sft") return true;
  }
  return false;
}

// "teacher: {model_name: ...}", "models: {teacher: ..., student: ...}": the model that is learnt from, by its name;
// what else is said of it is passed over.
Status read_teacher(Sayings& sayings) {
  const auto is_of_teacher = [](std::string_view path) {
    const std::vector<std::string_view> parts = split(path, '.');
    return std::any_of(parts.begin(), parts.end(), [](std::string_view part) { return part.starts_with("teacher"); });
  };
  bool found = false;
  for (Said& said : sayings.said()) {
    if (said.done || !is_of_teacher(said.path)) continue;
    const std::string_view last = std::string_view(said.path).substr(said.path.rfind('.') + 1);
    const bool names = names_teacher(last) || (!last.starts_with("teacher") && meaning_of(said.path) == "model");
    said.done = true;
    if (!names || !said.value.is_string() || said.value.text.empty() || found) continue;
    sayings.put("teacher_model", said.value, said.path);
    found = true;
  }
  for (Said& said : sayings.said()) {
    const std::vector<std::string_view> parts = split(said.path, '.');
    const bool about = std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
      return part == "distillation" || part == "kd" || part == "distill";
    });
    if (!found && about && !is_off(said.value))
      return bad_input(
          fmt::format("{}: distillation holds a second model beside the one that is trained, which no key names",
                      said.path),
          "give --teacher-model and take these keys out of the file");
    if (found && about && subject_of(said.path).empty()) said.done = true;
  }
  return {};
}

// A reward model that a key names or switches on: pairs of answers, and a score in place of the vocabulary. Settings of
// one that nobody names say nothing.
Status read_rewards(Sayings& sayings) {
  for (Said& said : sayings.said()) {
    const std::vector<std::string_view> parts = split(said.path, '.');
    if (!std::any_of(parts.begin(), parts.end(),
                     [](std::string_view part) { return part.starts_with("reward_model"); }))
      continue;
    const bool is_name = meaning_of(said.path) == "model" || parts.back().find("path") != std::string_view::npos ||
                         parts.back() == "reward_model" || parts.back() == "name";
    const bool names_one = said.value.is_bool() || (said.value.is_string() && !said.value.text.empty() && is_name);
    said.done = true;
    if (!names_one || is_off(said.value)) continue;
    if (said.value.is_string())
      return bad_input(
          fmt::format("{}: a second model that scores answers belongs to a loop that is not known", said.path),
          "plimsoll rl reads runs of verl, OpenRLHF, NeMo-RL and others");
    sayings.put("loss_type", text_node("reward"), said.path);
  }
  return {};
}

}  // namespace

Status refuse_other_loops(Sayings& sayings) {
  if (is_told_to_imitate(sayings)) {
    for (Said& said : sayings.said())
      if (contains_any(said.path, {"rollout", "critic", "buffer"})) said.done = true;
    return {};
  }
  for (const Said& said : sayings.said()) {
    Node one;
    one.kind = Node::Kind::kObject;
    one.members.emplace_back(said.path, said.value);
    PLIMSOLL_TRY_STATUS(refuse_draft_heads(one));
  }
  PLIMSOLL_TRY_STATUS(read_teacher(sayings));
  PLIMSOLL_TRY_STATUS(read_rewards(sayings));
  for (const std::string_view word : {"ppo", "grpo", "rollout", "critic", "reward_funcs"})
    if (sayings.any_segment(word))
      return bad_input(
          fmt::format("{}: preference and reinforcement training of a tool that is not known is not read", word),
          "plimsoll rl reads verl, OpenRLHF, NeMo-RL, prime-rl, slime, AReaL and TRL");
  return {};
}

}  // namespace plimsoll::job
