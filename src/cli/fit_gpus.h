// SPDX-License-Identifier: Apache-2.0
// A model without a GPU: where it would fit, trained whole, with LoRA and with QLoRA.
#pragma once

#include "base/result.h"
#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/verb.h"
#include "job/request.h"

namespace plimsoll::cli {

// Whether nothing but a model was named.
[[nodiscard]] bool asks_for_gpus(const job::Request& request);

[[nodiscard]] Result<ExitCode> fit_common_gpus(const job::Request& request, const Arguments& arguments,
                                               const Console& console);

}  // namespace plimsoll::cli
