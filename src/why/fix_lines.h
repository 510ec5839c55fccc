// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "why/diagnosis.h"
#include "why/known_settings.h"

namespace plimsoll::why {

// Lines that take a figure of this log.
[[nodiscard]] std::string with_figures(std::string line, std::string_view id, const Diagnosis& diagnosis,
                                       const Findings& findings);

// "N/2" and "2N" stand for half and twice what the log shows of the option.
void fill_in(std::string& line, std::string_view id, const KnownSettings& known);

}  // namespace plimsoll::why
