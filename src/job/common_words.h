// SPDX-License-Identifier: Apache-2.0
// What the keys of training programs mean by their names alone, whoever reads them.
#pragma once

#include <string_view>

namespace plimsoll::job {

// What a key says, in the words of TrainingArguments (max_length, per_device_train_batch_size, ...) or one of the
// meanings that need more than a name ("precision", "model", "fsdp"). Empty where the name says nothing.
[[nodiscard]] std::string_view meaning_of(std::string_view path);

}  // namespace plimsoll::job
