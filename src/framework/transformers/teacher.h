// SPDX-License-Identifier: Apache-2.0
// Distillation: a second model, which is not trained, sees the same tokens, and the loss compares the logits of both.
#pragma once

#include <string_view>

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// Whether the name is a word of training programs for the teacher of a distillation ("teacher_model_path").
[[nodiscard]] bool names_teacher(std::string_view key);

// Takes the teacher out of a table of arguments and gives it to the draft; whether there was one.
[[nodiscard]] bool take_teacher(document::Node& root, Draft& draft);

}  // namespace plimsoll::job
