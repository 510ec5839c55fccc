// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "job/draft.h"

namespace plimsoll::job {

// Megatron takes the vocabulary from the tokenizer: where a known one is named and no size is given, its size counts.
// `name` is the path or Hub name that the command gives the tokenizer, or empty.
void take_vocabulary_of_tokenizer(const std::string& name, Draft& draft);

}  // namespace plimsoll::job
