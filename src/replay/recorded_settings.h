// SPDX-License-Identifier: Apache-2.0
// The allocator settings that a snapshot was recorded under: the string that the user gave, corrected by the values
// that were in force (they differ where a program changed them at run time).
#pragma once

#include <string>
#include <vector>

#include "allocator/settings.h"
#include "base/result.h"
#include "snapshot/snapshot.h"

namespace plimsoll::replay {

struct RecordedSettings {
  allocator::Settings settings;
  std::string text;                // as in PYTORCH_CUDA_ALLOC_CONF
  std::vector<std::string> notes;  // what the file contradicts or does not say
};

[[nodiscard]] RecordedSettings recorded_settings(const snapshot::Snapshot& snapshot, allocator::Version torch);

}  // namespace plimsoll::replay
