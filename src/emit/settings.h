// SPDX-License-Identifier: Apache-2.0
// What a job means, key by key, apart from how it came to mean it: the batch is sequences per step whether it
// was given as that or as accumulation steps, and a key that its switch leaves without effect means nothing.
// Two jobs with the same meaning are the same job.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "job/job.h"

namespace plimsoll::emit {

struct Setting {
  std::string key;  // canonical
  document::Node value;
};

// The value of a canonical key as the job's fields hold it, also of keys that value_of() does not know; nothing
// for keys that only stand for others (recipe, gradient_checkpointing, ...).
[[nodiscard]] std::optional<document::Node> held_value(const job::Job& job, std::string_view key);

// The same after derivation: null where the key has no effect on this job, nothing where others say it all.
[[nodiscard]] std::optional<document::Node> meant_value(const job::Job& job, std::string_view key);

// The linears that the job's adapter trains, by the names that its framework has for them. A job that names none
// trains the framework's choice, which is what memory counts: all four of Bridge, PEFT's of the model's family.
[[nodiscard]] std::vector<std::string> lora_targets(const job::Job& job);

// Canonical keys that differ in meaning, in the order of the key table; the model's own as model_difference().
[[nodiscard]] std::vector<std::string> differing_keys(const job::Job& wanted, const job::Job& found);

// The key of the first dimension in which two models differ; empty where they are the same. What only
// Transformers' modules do with a model (fused projections) is compared where `by_hub_modules`. With a sequence
// length, windows that no sequence fills count as none.
[[nodiscard]] std::string model_difference(const model::Architecture& a, const model::Architecture& b,
                                           bool by_hub_modules, std::int64_t seq_length = 0);

// The model in Megatron's keys, without its vocabulary. Shapes that Megatron has no keys for are left out;
// reading back finds them.
[[nodiscard]] std::vector<Setting> model_settings(const model::Architecture& model, std::int64_t seq_length);
// The same with where a hybrid model's pattern cuts the pipeline.
[[nodiscard]] std::vector<Setting> model_settings(const job::Job& job);

// Settings that make defaults_for(framework) the job: those that a file or flag gave, those that differ from
// the defaults, and those in `always`. A key that `carries` refuses is left out.
struct Choice {
  job::Framework framework;
  bool (*carries)(std::string_view key);
  std::vector<std::string> always;
  std::vector<Setting> model;    // how the target gives the model
  model::Architecture base;      // the model that it names; without layers where `model` is all
  std::vector<Setting> instead;  // settings that say in the target's keys what others mean
  bool keeps_idle = false;       // also keys that were given and have no effect
};
[[nodiscard]] std::vector<Setting> chosen_settings(const job::Job& job, const Choice& choice);

}  // namespace plimsoll::emit
