// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "job/draft.h"

namespace plimsoll::job {

[[nodiscard]] Result<Draft> read_saved_arguments(const InputFile& file);

}  // namespace plimsoll::job
