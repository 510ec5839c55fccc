// SPDX-License-Identifier: Apache-2.0
// Arguments that a program adds to the Trainer's, in words that training programs share.
#pragma once

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// The arguments with such words as the Trainer's own, where it has the thing and the file does not say it already.
[[nodiscard]] document::Node in_words_of_trainer(const document::Node& root, Draft& draft);

// Whether a file has one.
[[nodiscard]] bool has_common_words(const document::Node& root);

}  // namespace plimsoll::job
