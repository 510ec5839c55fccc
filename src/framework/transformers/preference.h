// SPDX-License-Identifier: Apache-2.0
// Preference training (DPO, KTO, ORPO, ...): a sample is a chosen and a rejected answer, and a frozen copy of the model
// may stand beside the one that is trained.
#pragma once

#include <optional>
#include <string_view>

#include "document/node.h"
#include "framework/tools/dialect_rows.h"
#include "job/draft.h"

namespace plimsoll::job {

struct Preference {
  bool pairs = true;        // both answers are sequences of one micro-batch
  bool reference = true;    // a frozen copy, unless adapters are trained: their base is the reference then
  bool scores = false;      // a reward model: one score in place of the vocabulary
  bool mismatches = false;  // KTO: answers to other questions are judged, too, without gradients
  bool chosen = false;      // cross-entropy of the chosen answers beside the comparison
};

// What a tool's word for its kind of training means: nothing for plain and supervised training, an error for
// reinforcement learning and distillation.
[[nodiscard]] Result<std::optional<Preference>> preference_named(std::string_view key, std::string_view word);

// Puts it into TrainingArguments under construction; their batch is twice as many sequences.
void put_preference(const Preference& preference, Translation& to, Draft& draft);

// TRL's own arguments: what DPOConfig has and SFTConfig has not. `root` becomes plain TrainingArguments.
[[nodiscard]] Status take_trl_preference(document::Node& root, Draft& draft);

}  // namespace plimsoll::job
