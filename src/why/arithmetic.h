// SPDX-License-Identifier: Apache-2.0
// What the figures of an out-of-memory message imply: who holds the device, and whether defragmenting
// could have served the request. Every statement of a diagnosis about bytes comes from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "why/oom_message.h"

namespace plimsoll::why {

struct Arithmetic {
  bool known = false;  // request and what is free are known
  std::int64_t request = 0;
  std::int64_t capacity = 0;  // of the device, or the limit of this process where that is less
  std::int64_t total = 0;
  std::int64_t free = 0;         // what this process may still take from the driver
  std::int64_t device_free = 0;  // as printed
  std::int64_t allocated = 0;
  std::int64_t cached = 0;  // reserved but unallocated
  std::int64_t reserved = 0;
  std::int64_t private_pools = 0;
  std::int64_t own_outside = 0;  // this process beside PyTorch: context, NCCL, libraries
  std::int64_t others = 0;       // other processes, as listed or as what is left over
  bool others_listed = false;
  std::optional<std::int64_t> own_pid;  // of this process among those that are listed
  bool holders_known = false;  // who holds the device follows from the figures, whether the request is known or not
  bool has_limit = false;
  bool defragmenting_could_serve = false;  // request <= free + cached, as printed
  // The same with what is not printed at its largest: only where this is false is fragmentation out of the question.
  bool pieces_might_serve = true;
  bool without_others_would_fit = false;  // request <= free + cached + others
  bool fits_in_free = false;              // request <= free, and yet it failed
  std::int64_t shortfall = 0;             // request - free, at least 0
};

// `ranks_share_node`: several ranks, so NCCL's buffers count as this process's own.
[[nodiscard]] Arithmetic arithmetic_of(const OomNumbers& oom, bool ranks_share_node);

// The message states a limit, and all that it counts against it comes to less than half: nothing ran out.
[[nodiscard]] bool is_far_below_limit(const OomNumbers& oom);

// ... or to nine tenths of it and more, as far as the message says.
[[nodiscard]] bool reaches_limit(const OomNumbers& oom);

// The sums in words, one line each, for people.
[[nodiscard]] std::vector<std::string> explain(const Arithmetic& sum);

}  // namespace plimsoll::why
