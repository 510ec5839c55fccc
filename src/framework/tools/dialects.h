// SPDX-License-Identifier: Apache-2.0
// Tools around Transformers' Trainer and around Megatron-LM that have names of their own for the same things: their
// files and command lines are translated into TrainingArguments or Megatron's flags and read as those.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "document/node.h"
#include "job/format.h"
#include "job/readers/launch.h"

namespace plimsoll::job {

// A tool around the Trainer; its keys are known by a sign of framework/list.h.
struct Dialect {
  FileKind kind;
  std::string_view name;  // as answers name it
  bool (*starts)(std::string_view program);
  bool (*has_flags)(const Launch& launch);  // by which its command is known where another program starts it, or none
  // TrainingArguments out of the tool's own keys.
  Result<document::Node> (*translate)(const document::Node& root, Draft& draft);
  std::span<const Command> commands;
};
#define PLIMSOLL_ROW(kind, name) extern const Dialect name##_dialect;
PLIMSOLL_DIALECTS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW

// The value of a flag of a command; empty where it is not given.
[[nodiscard]] std::string flag_value(const Launch& launch, std::string_view wanted);

// The tool whose program a command starts.
[[nodiscard]] std::optional<FileKind> dialect_of_program(const Launch& launch);

// Whether a command has the flags of a Trainer program.
[[nodiscard]] bool names_trainer(const Launch& launch);

// Translates the keys and reads them as TrainingArguments.
[[nodiscard]] Status read_dialect_tree(FileKind kind, const document::Node& root, Draft& draft);

// Keys of a YAML or JSON file that a command names; what the command itself says stays.
[[nodiscard]] Status lay_over_file(const std::string& name, document::Node& table, const Draft& draft);

// A DeepSpeed configuration that the script writes itself takes the place of its name.
void write_here_documents(const std::map<std::string, std::string>& files, document::Node& table);

// Lightning's strategy "deepspeed..." reads the file that PL_DEEPSPEED_CONFIG_PATH names, and nothing else then.
void take_lightning_config(const std::map<std::string, std::string>& environment, const Shell& shell,
                           document::Node& table);

// What `accelerate launch` is given: its file, and its flags over it.
[[nodiscard]] Status add_accelerate_settings(const Launch& launch, Draft& draft);

// Megatron-DeepSpeed and the Megatron of its time: names and habits of their own, before and after the flags are read.
[[nodiscard]] Status use_megatron_dialect(const LaunchFlags& flags, const std::map<std::string, std::string>& files,
                                          Draft& draft);
void finish_megatron_dialect(Draft& draft);

}  // namespace plimsoll::job
