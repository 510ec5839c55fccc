// SPDX-License-Identifier: Apache-2.0
#include "framework/transformers/teacher.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

bool names_teacher(std::string_view key) {
  // teacher_model_name_or_path, kd_teacher_ckpt, ...: a teacher, and beside it only words for what a model is found by.
  constexpr std::string_view kWords[] = {"teacher", "model", "name", "or", "path",     "ckpt",      "checkpoint",
                                         "id",      "hf",    "dir",  "kd", "pretrain", "pretrained"};
  const std::vector<std::string_view> words = split(key, '_');
  return std::find(words.begin(), words.end(), "teacher") != words.end() &&
         std::all_of(words.begin(), words.end(), [&kWords](std::string_view word) {
           return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
         });
}

bool take_teacher(Node& root, Draft& draft) {
  const Node* name = nullptr;
  std::string key;
  for (const auto& [written, value] : root.members) {
    if (!names_teacher(written) || !value.is_string() || value.text.empty()) continue;
    // "ckpt_name" beside a path is what the program calls it; the path says more.
    if (name != nullptr && !key.ends_with("_name")) continue;
    name = &value;
    key = written;
  }
  if (name == nullptr) return false;
  draft.assign("teacher_model", *name, key);
  draft.assign("loss", text_node("unfused"), key, true);
  draft.notes.push_back(
      fmt::format("{}: {}: a teacher's weights, its logits and their softmax stand beside the model that is trained",
                  draft.path, key));
  if (root.has("lmbda"))
    draft.notes.push_back(
        fmt::format("{}: lmbda: answers that the model writes for itself are not counted", draft.path));
  std::erase_if(root.members, [](const auto& member) {
    const std::string& word = member.first;
    for (const std::string_view one : {"lmbda", "beta", "temperature", "kd_ratio", "kd_temperature", "kd_alpha",
                                       "kd_loss", "distill_loss", "distillation_loss", "seq_kd", "max_new_tokens"})
      if (word == one) return true;
    return word.find("teacher") != std::string::npos;
  });
  return true;
}

}  // namespace plimsoll::job
