// SPDX-License-Identifier: Apache-2.0
#include "timing/queue.h"

namespace plimsoll::timing {

double drained_seconds(std::span<const Launch> launches) {
  Queue queue;
  for (const Launch& launch : launches) queue.issue(launch);
  return queue.seconds();
}

double lost_to_drain(std::span<const Launch> launches, double latency) {
  double host = 0;
  double gpu = 0;
  for (const Launch& launch : launches) {
    host += launch.host;
    gpu += launch.gpu;
  }
  return drained_seconds(launches) - free_running_seconds(host, gpu) + latency;
}

}  // namespace plimsoll::timing
