// SPDX-License-Identifier: Apache-2.0
// A captured step as the memory history that a GPU would have recorded of it, so that whatever reads recordings
// (replay, view, diff) reads captures: event by event, with the operation, module and phase behind each as its stack.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "snapshot/snapshot.h"

namespace plimsoll::answer {

// `gpu` is a name of the catalogue; "" takes the typical one whose kernels the capture has.
[[nodiscard]] Result<std::unique_ptr<snapshot::Snapshot>> recording_of_capture(const std::string& path,
                                                                               const std::string& gpu);

}  // namespace plimsoll::answer
