// SPDX-License-Identifier: Apache-2.0
// Tools that are known by their sections, beside those that are read by the names of their keys alone.
#pragma once

#include <string_view>

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// For a reader that picks its keys by name: the others that speak of what decides memory stay in the draft under their
// paths, where the table of unknown keys refuses them. `known` are last parts of names, `elsewhere` sections that are
// about something else; both separated by blanks.
void keep_unread(const document::Node& root, std::string_view known, std::string_view elsewhere, Draft& draft);

// NeMo before 2.0: trainer, exp_manager, and a model in Megatron's words.
[[nodiscard]] bool is_nemo_megatron(const document::Node& root);
[[nodiscard]] Result<Draft> read_nemo_megatron(const InputFile& file);

// FlagScale: system, model and data.
[[nodiscard]] bool is_flagscale(const document::Node& root);
[[nodiscard]] Result<Draft> read_flagscale(const InputFile& file);

}  // namespace plimsoll::job
