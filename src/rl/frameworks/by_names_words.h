// SPDX-License-Identifier: Apache-2.0
// The words of by_names.h: what keys of post-training runs mean by their names, and which part of a run a path is in.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "rl/frameworks/items.h"

namespace plimsoll::rl {

enum class Part { kNone, kTrainer, kServer, kOther };

// The part that a segment of a path names, by one of its words: "actor_train", "policy_trainer", "ref_policy".
[[nodiscard]] Part part_of_segment(std::string_view segment);

// "group", "prompts", "max_tokens", ...; empty where the name says nothing of a run.
[[nodiscard]] std::string_view meaning_in_run(std::string_view path);

// What a job would understand (job/common_words.h); "actor_gradient_checkpointing" names its part itself.
[[nodiscard]] std::string_view meaning_in_job(std::string_view path);

[[nodiscard]] std::string last_of(std::string_view path);

// The settings and flags of the command with most of them, over the file that it names.
[[nodiscard]] Result<Values> values_of_script(std::string_view text, const std::string& path);

}  // namespace plimsoll::rl
