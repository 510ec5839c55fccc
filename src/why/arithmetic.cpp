// SPDX-License-Identifier: Apache-2.0
#include "why/arithmetic.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::why {

namespace {

// A context takes 0.3 to 0.9 GiB, NCCL and libraries of a multi-rank job about as much again (facts
// megatron-memory.md 10, rl-and-inference.md 4; measured 0.5 GiB on an H200). What is beyond these is somebody else's.
constexpr std::int64_t kOwnAlone = 3 * kGiB / 4;
constexpr std::int64_t kOwnOfMany = 2 * kGiB;

}  // namespace

namespace {

// In a container the driver's process numbers are not ours: the one that holds what we hold is we.
const ProcessUse* own_process(const OomNumbers& oom, const Arithmetic& sum, std::int64_t listed) {
  const auto own =
      std::min_element(oom.processes.begin(), oom.processes.end(), [&](const ProcessUse& a, const ProcessUse& b) {
        return std::abs(a.bytes - sum.reserved) < std::abs(b.bytes - sum.reserved);
      });
  // All of them beside what we hold would be more than the device has in use: we are one of them.
  const bool we_are_listed = sum.total > 0 && oom.free && own->bytes >= sum.reserved &&
                             listed + sum.reserved > sum.total - sum.device_free + kGiB / 4;
  const bool holds_as_much = own->bytes >= sum.reserved - sum.reserved / 50 && own->bytes <= sum.reserved + 4 * kGiB;
  return we_are_listed || holds_as_much ? &*own : nullptr;
}

// Who holds what lies outside of PyTorch.
void divide_outside(const OomNumbers& oom, bool ranks_share_node, Arithmetic& sum) {
  const std::int64_t outside =
      sum.total > 0 && oom.reserved ? std::max<std::int64_t>(0, sum.total - sum.reserved - sum.device_free) : 0;
  std::int64_t listed = 0;
  for (const ProcessUse& process : oom.processes) listed += process.bytes;
  // In some containers the driver counts nothing for any process.
  const bool counts_processes = oom.this_process.value_or(listed) > 0 || sum.reserved == 0;
  if (!counts_processes || (!oom.this_process && oom.processes.empty())) {
    sum.own_outside = std::min(outside, ranks_share_node ? kOwnOfMany : kOwnAlone);
    sum.others = outside - sum.own_outside;
    return;
  }
  if (oom.this_process) {
    sum.own_outside = std::max<std::int64_t>(0, *oom.this_process - sum.reserved);
    sum.others_listed = !oom.processes.empty();
    sum.others = sum.others_listed ? listed : std::max<std::int64_t>(0, outside - sum.own_outside - kGiB / 4);
    return;
  }
  // Whether the one process that is listed is this one cannot be told without what it reserved.
  if (oom.processes.size() == 1 && !oom.reserved) return;
  sum.others_listed = true;
  sum.others = listed;
  if (const ProcessUse* own = own_process(oom, sum, listed)) {
    sum.others -= own->bytes;
    sum.own_outside = std::max<std::int64_t>(0, own->bytes - sum.reserved);
    sum.own_pid = own->pid;
  }
}

// What could have served the request: what is free, what is cached, what others hold. A figure that is not printed
// is taken at its largest where only that rules something out.
void weigh_request(const OomNumbers& oom, Arithmetic& sum) {
  sum.defragmenting_could_serve = oom.reserved_unallocated && sum.request <= sum.free + sum.cached;
  const auto left_of_capacity = [&sum](std::int64_t taken) {
    return sum.capacity > 0 ? std::max<std::int64_t>(0, sum.capacity - taken) : sum.request;
  };
  const std::int64_t most_free = oom.free ? sum.free : left_of_capacity(sum.reserved);
  const std::int64_t most_cached = oom.reserved_unallocated ? sum.cached
                                   : oom.this_process ? std::max<std::int64_t>(0, *oom.this_process - sum.allocated)
                                                      : left_of_capacity(sum.allocated);
  sum.pieces_might_serve = sum.request <= most_free + most_cached;
  sum.fits_in_free = oom.free && sum.request <= sum.free;
  sum.without_others_would_fit = sum.request <= sum.free + sum.cached + sum.others;
  sum.shortfall = std::max<std::int64_t>(0, sum.request - sum.free);
}

}  // namespace

Arithmetic arithmetic_of(const OomNumbers& oom, bool ranks_share_node) {
  Arithmetic sum;
  if (!oom.free && !oom.allocated && oom.processes.empty()) return sum;
  sum.known = oom.request && (oom.free || oom.allocated);
  sum.request = oom.request.value_or(0);
  sum.total = oom.total.value_or(0);
  sum.device_free = oom.free.value_or(0);
  sum.allocated = oom.allocated.value_or(0);
  sum.cached = oom.reserved_unallocated.value_or(0);
  sum.reserved = oom.reserved.value_or(sum.allocated + sum.cached);
  sum.private_pools = oom.private_pools.value_or(0);
  sum.has_limit = oom.allowed && (sum.total == 0 || *oom.allowed < sum.total);
  sum.capacity = sum.has_limit ? *oom.allowed : sum.total;
  sum.free = sum.device_free;
  if (sum.has_limit)
    sum.free = std::min(oom.free ? *oom.free : *oom.allowed, std::max<std::int64_t>(0, *oom.allowed - sum.reserved));
  divide_outside(oom, ranks_share_node, sum);
  sum.holders_known = sum.others_listed || (sum.total > 0 && oom.reserved && oom.free);
  if (sum.total == 0 && sum.others_listed)  // at least what the holders have together
    sum.total = sum.others + oom.this_process.value_or(sum.reserved) + sum.device_free;
  if (oom.request) weigh_request(oom, sum);
  return sum;
}

bool is_far_below_limit(const OomNumbers& oom) {
  if (!oom.allowed || !oom.request || !oom.allocated || !oom.elsewhere) return false;
  const std::int64_t half = *oom.allowed / 2;
  return *oom.request < half && *oom.allocated < half - *oom.request &&
         *oom.elsewhere < half - *oom.request - *oom.allocated;
}

bool reaches_limit(const OomNumbers& oom) {
  if (!oom.allowed || !oom.request || !oom.allocated) return false;
  const std::int64_t nearly = *oom.allowed / 10 * 9;
  return *oom.request >= nearly || *oom.allocated >= nearly - *oom.request ||
         oom.elsewhere.value_or(0) >= nearly - *oom.request - *oom.allocated;
}

std::vector<std::string> explain(const Arithmetic& sum) {
  std::vector<std::string> lines;
  if (!sum.known) return lines;
  const auto text = [](std::int64_t bytes) { return format_bytes(bytes); };
  lines.push_back(
      fmt::format("asked for {}, free for this process {}{}", text(sum.request), text(sum.free),
                  sum.has_limit ? fmt::format(" (limit {} of {})", text(sum.capacity), text(sum.total)) : ""));
  if (sum.reserved > 0)
    lines.push_back(
        fmt::format("held by PyTorch {}: {} in tensors{}, {} cached", text(sum.reserved), text(sum.allocated),
                    sum.private_pools > 0 ? fmt::format(" ({} of it in private pools)", text(sum.private_pools)) : "",
                    text(sum.cached)));
  if (sum.own_outside > 0 || sum.others > 0)
    lines.push_back(fmt::format("outside PyTorch: {} by this process, {} by others{}", text(sum.own_outside),
                                text(sum.others), sum.others_listed ? " (listed)" : ""));
  if (sum.capacity > 0 && sum.request > sum.capacity)
    lines.push_back(fmt::format("one request is larger than the {} itself", sum.has_limit ? "limit" : "device"));
  else if (sum.reserved > 0) {
    const bool crumbs = sum.capacity > 0 && (sum.free + sum.cached) * 40 < sum.capacity;
    lines.push_back(fmt::format("{} {} {} free + {} cached: defragmenting {}", text(sum.request),
                                sum.defragmenting_could_serve ? "<=" : ">", text(sum.free), text(sum.cached),
                                !sum.defragmenting_could_serve ? "cannot help"
                                : crumbs                       ? "could have served this request, and hardly another"
                                                               : "could have served it"));
  }
  return lines;
}

}  // namespace plimsoll::why
