// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

[[nodiscard]] const std::vector<Alias>& torchtitan_aliases();

// torchtitan's sections as a tree, whatever file they stand in.
// quantise.cpp: converters of linears. Whether a key is one of theirs, which become keys of precision.
[[nodiscard]] bool is_of_quantisation(std::string_view key);
[[nodiscard]] Status read_torchtitan_quantisation(const document::Node& root, Draft& draft);

[[nodiscard]] Status read_torchtitan_tree(const document::Node& root, Draft& draft);

}  // namespace plimsoll::job
