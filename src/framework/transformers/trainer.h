// SPDX-License-Identifier: Apache-2.0
// What the targets around Transformers' Trainer share: training_args.json, which TRL's sft program reads with
// --config, the model, plimsoll.toml, and README.md with the reasons that JSON has no room for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "emit/model_source.h"
#include "emit/targets.h"

namespace plimsoll::emit {

// A JSON file under construction, with the reason of every key.
class Reasoned {
 public:
  Reasoned(std::string name, const std::vector<Reason>& reasons) : name_(std::move(name)), reasons_(reasons) {}

  // "a.b" is key b of table a; `key` is the canonical key whose reason it has.
  void say(std::string_view path, document::Node value, std::string_view key);
  [[nodiscard]] const document::Node& root() const { return root_; }
  [[nodiscard]] File file() const;
  [[nodiscard]] const std::string& rows() const { return rows_; }  // of README.md's table

 private:
  std::string name_;
  const std::vector<Reason>& reasons_;
  document::Node root_;
  std::string rows_;
};

struct Trainer {
  Reasoned arguments;
  std::vector<File> files;  // config.json where the model has no name on the Hub, plimsoll.toml
};

// The arguments and files that all three targets have; precision is the caller's.
[[nodiscard]] Result<Trainer> start_trainer(const Order& order, job::Framework framework);

// dtype is what Transformers loads; bf16 and fp16 switch autocast or mixed precision on.
void say_precision(const job::Job& job, job::DType loaded, std::optional<job::DType> mixed, Reasoned& out);
[[nodiscard]] std::optional<job::DType> half_of(job::DType type);

// All files: what was written, launch.sh around `launcher` and its options, README.md.
[[nodiscard]] std::vector<File> finish_trainer(const Order& order, Trainer trainer, const std::vector<File>& more,
                                               std::string_view rows, std::string_view launcher,
                                               std::string_view options);

}  // namespace plimsoll::emit
