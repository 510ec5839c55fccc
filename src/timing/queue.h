// SPDX-License-Identifier: Apache-2.0
// The host as a queue: it launches kernels one after the other, the GPU runs them in that order, and the host runs
// ahead until something makes it wait. The queue itself simulates; what prices a search are its closed forms, which a
// property test holds to it.
#pragma once

#include <algorithm>
#include <span>

namespace plimsoll::timing {

// A launch, or several that belong together: seconds of the host, then seconds of the GPU.
struct Launch {
  double host = 0;
  double gpu = 0;
};

class Queue {
 public:
  void issue(const Launch& launch) {
    host_ += launch.host;
    gpu_ = std::max(gpu_, host_) + launch.gpu;
  }
  // A copy that the host waits for: everything issued is done before it goes on.
  void drain(double latency) {
    host_ = std::max(host_, gpu_) + latency;
    gpu_ = host_;
  }
  // When the last of all is done.
  [[nodiscard]] double seconds() const { return std::max(host_, gpu_); }

 private:
  double host_ = 0;
  double gpu_ = 0;
};

// From one drain to the next: with both idle at first, the longest way through launches and then kernels.
[[nodiscard]] double drained_seconds(std::span<const Launch> launches);

// What a drain of every layer costs beside the slower of host and GPU.
[[nodiscard]] double lost_to_drain(std::span<const Launch> launches, double latency);

// Without drains the host's lead evens out everything: the slower of the two.
[[nodiscard]] inline double free_running_seconds(double host, double gpu) { return std::max(host, gpu); }

}  // namespace plimsoll::timing
