// SPDX-License-Identifier: Apache-2.0
// The user buffers of TP overlap: one table per product (qkv_fprop, fc2_dgrad, ...), in Bridge's tp_comm_overlap_cfg
// and in the YAML that Megatron-LM's --tp-comm-overlap-cfg names.
#pragma once

#include <string_view>

#include "job/draft.h"

namespace plimsoll::job {

// Of each knob the value that a rule would object to stands for all. `where`: what holds the tables.
void read_overlap_products(const document::Node& products, std::string_view where, Draft& draft);

// The file that --tp-comm-overlap-cfg names, beside the script; one that is not here is a note.
[[nodiscard]] Status read_overlap_file(const std::string& name, Draft& draft);

}  // namespace plimsoll::job
