// SPDX-License-Identifier: Apache-2.0
// What a price depends on beside the job. It travels as one argument into every price, so that no verb can answer with
// another machine in mind than the one next to it.
#pragma once

#include <utility>

#include "lever/learned.h"
#include "timing/calibration.h"

namespace plimsoll::lever {

struct World {
  timing::Calibration calibration = timing::built_in();
  Learned learned = {};
};

}  // namespace plimsoll::lever
