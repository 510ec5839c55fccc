// SPDX-License-Identifier: Apache-2.0
// What Python and PyTorch cost the host of this machine: a small program (python/plimsoll_host.py) times passes of
// plain modules in the user's own Python.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::measure {

struct HostTime {
  std::string python;  // versions
  std::string torch;
  double launches = 0;  // operations of one pass, forward and backward, that launch a kernel
  double weights = 0;
  double forward = 0;  // seconds, medians
  double backward = 0;
  double spread = 0;  // between the middle half of the passes, as a share of the median

  [[nodiscard]] double seconds() const { return forward + backward; }
};

// `python` is a program on the path or a file; `seconds`: how long passes are timed.
[[nodiscard]] Result<HostTime> time_host(const std::string& python, int device, double seconds);

// What the program prints.
[[nodiscard]] Result<HostTime> read_host_time(std::string_view text);

}  // namespace plimsoll::measure
