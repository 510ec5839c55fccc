// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "job/draft.h"

namespace plimsoll::job {

// Whether the bytes begin as those that torch.save writes.
[[nodiscard]] bool is_saved_arguments(std::string_view bytes);
[[nodiscard]] Result<Draft> read_saved_arguments(const InputFile& file);

}  // namespace plimsoll::job
