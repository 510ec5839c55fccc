// SPDX-License-Identifier: Apache-2.0
// What a memory snapshot taken beside the log adds to a diagnosis: whether any free piece was large enough,
// and who held the device.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "why/diagnosis.h"

namespace plimsoll::answer {

// Sentences for the notes of the diagnosis.
[[nodiscard]] Result<std::vector<std::string>> snapshot_notes(const std::string& path, const why::Diagnosis& diagnosis);

}  // namespace plimsoll::answer
