// SPDX-License-Identifier: Apache-2.0
// The translators of dialects.cpp, one per tool, and what they share.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// TrainingArguments out of a tool's own keys. What the table of TrainingArguments does not know of them either is in
// draft.names, or unknown.
// Programs that add a few arguments to the Trainer's: FastChat, LLaVA, Qwen, DeepSpeed-Chat.
[[nodiscard]] Result<document::Node> from_trainer_script(const document::Node& root, Draft& draft);

// A table under construction, with the questions that every translator asks.
class Translation {
 public:
  explicit Translation(const document::Node& source);

  // The value of a key that the tool gives, or nullptr; the key is then done with.
  [[nodiscard]] const document::Node* take(std::string_view key);
  [[nodiscard]] bool takes_true(std::string_view key);
  [[nodiscard]] std::string takes_word(std::string_view key);  // in lower case; empty where it is not given

  // `from` is the tool's own key, where one decides the value.
  void put(std::string_view key, document::Node value, std::string_view from = {});
  // `key` of the tool is `target` of TrainingArguments.
  void rename(std::string_view key, std::string_view target);
  [[nodiscard]] bool has(std::string_view target) const { return result_.has(target); }
  // What `target` is so far, put or as the tool gives it; nullptr where nothing says.
  [[nodiscard]] const document::Node* peek(std::string_view target) const;
  // The tool's own key that decided `target`, or `target`.
  [[nodiscard]] std::string name_of(std::string_view target) const;

  // The keys that were not taken stand as they are. The draft learns the tool's names.
  [[nodiscard]] document::Node finish(Draft& draft);

 private:
  const document::Node& source_;
  document::Node result_;
  std::vector<std::string> taken_;
  std::map<std::string, std::string, std::less<>> names_;
};

// DeepSpeed configurations that tools know by name ("zero3_offload").
[[nodiscard]] std::optional<document::Node> deepspeed_preset(std::string_view name);

// Whether a model of this name may have a tower for images: one that the catalogue knows without it has none.
[[nodiscard]] bool may_have_tower(const document::Node* name);

// Quantisation-aware training keeps a fake-quantised copy of every weight from forward to backward. Where layers are
// recomputed that is one layer's, which is told; where they are not it is the whole model's, which is not modelled.
[[nodiscard]] Status allow_fake_quantisation(std::string_view key, const Translation& to, Draft& draft);

// An answer for preference and reinforcement training, which hold other models and batches.
[[nodiscard]] Status refuse_other_training(std::string_view key, std::string_view value);

}  // namespace plimsoll::job
