// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "job/draft.h"

namespace plimsoll::job {

// A vocabulary of word pieces is BERT's or T5's: Megatron-LM's flags look much the same for these and for a decoder.
// `program` may be empty; one that trains a GPT may use word pieces, too.
void take_class_of_vocabulary(std::string_view program, Draft& draft);

// Megatron takes the vocabulary from the tokenizer: where a known one is named and no size is given, its size counts.
// `name` is the path or Hub name that the command gives the tokenizer, or empty.
void take_vocabulary_of_tokenizer(const std::string& name, Draft& draft);

}  // namespace plimsoll::job
