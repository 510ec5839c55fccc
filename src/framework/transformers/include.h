// SPDX-License-Identifier: Apache-2.0
// Tables that several files of the Transformers world hold or point at: a DeepSpeed configuration, the
// FSDP section of TrainingArguments and of accelerate, adapters, optimizers by name.
#pragma once

#include <string>

#include "job/draft.h"
#include "job/readers/resolve.h"

namespace plimsoll::job {

// TrainingArguments as a table, whatever file or command line they stand in.
[[nodiscard]] Status read_training_tree(const document::Node& root, Draft& draft);

// A DeepSpeed configuration given in place.
[[nodiscard]] Result<Draft> read_deepspeed_tree(const document::Node& root, const std::string& path);

// A DeepSpeed configuration given as a path relative to the file that names it.
[[nodiscard]] Result<Draft> include_deepspeed_file(const std::string& name, const std::string& folder);

// Keys of fsdp_config with or without the fsdp_ prefix. `default_version` is 1 in accelerate, 2 in Trainer.
struct FsdpOptions {
  int default_version = 1;
  bool wraps_by_default = false;
};
[[nodiscard]] Status read_fsdp_config(const document::Node& table, const FsdpOptions& options, Draft& draft);

// Trainer's optim: adamw_torch_fused, paged_adamw_8bit, ... (facts other-frameworks-memory.md 2.8, 4).
[[nodiscard]] Status read_optimizer_name(const document::Node& value, std::string_view written_as, Draft& draft);

// optim_args: "rank=64, update_proj_gap=100"; the rank of GaLore is read.
[[nodiscard]] Status read_optimizer_arguments(const document::Node& value, Draft& draft);

// target_modules: a list, one name, "all-linear", or null for PEFT's own choice.
[[nodiscard]] Status read_targets(const document::Node& value, std::string_view written_as, Draft& draft);

// task_type: PEFT trains a head of classes or scores whole.
void save_classifier(const document::Node* task, Draft& draft);

// Flags of `accelerate launch` that a file of arguments has in a table ("accelerate_launch_args").
[[nodiscard]] Status add_accelerate_table(const document::Node& table, Draft& draft);

}  // namespace plimsoll::job
