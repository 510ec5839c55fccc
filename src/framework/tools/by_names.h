// SPDX-License-Identifier: Apache-2.0
// Files and commands of tools that are not known here. Training programs share most of their words (max_seq_len,
// micro_batch_size, lora_r, ...), so what their keys are called says what they mean; the answer names the keys that
// were taken so. A key that speaks of memory in other words is refused as in every file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "document/node.h"
#include "job/common_words.h"
#include "job/draft.h"

namespace plimsoll::job {

// Whether a table describes a training job in such words: a model, and two or more of length, batch, optimizer,
// duration.
[[nodiscard]] bool speaks_of_training(const document::Node& root);

// How many of length, batch, optimizer and duration it names; a command may leave the model to its program.
[[nodiscard]] int signs_of_training(const document::Node& root);

// TrainingArguments out of the keys.
[[nodiscard]] Result<document::Node> from_names(const document::Node& root, Draft& draft);

// The model of the sizes that a table or command spells out, where it names none.
[[nodiscard]] Status build_of_sizes(const document::Node& root, Draft& draft);

// Sizes of a decoder in the words of its table, as a config.json of the family that has such layers.
[[nodiscard]] std::optional<document::Node> architecture_of_names(const document::Node& root);
[[nodiscard]] bool is_size_of_model(std::string_view path);
// The config.json that a class of Transformers in the table makes: "_target_: transformers.GPT2Config".
struct WrittenClass {
  std::string path;  // of the table, with its last point: "model.config."
  document::Node config;
};
[[nodiscard]] std::optional<WrittenClass> architecture_of_class(const document::Node& root);
// The table with the sizes that its lists of tables agree on; nothing where it has no such list.
[[nodiscard]] std::optional<document::Node> with_sizes_in_lists(const document::Node& root);
// Whether the table names layers of another kind: state spaces, recurrence.
[[nodiscard]] bool has_other_layers(const document::Node& root);

}  // namespace plimsoll::job
