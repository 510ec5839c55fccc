// SPDX-License-Identifier: Apache-2.0
#include "replay/advice.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"

namespace plimsoll::replay {

std::vector<std::string> advise(const allocator::Settings& settings, std::int64_t largest_request) {
  using allocator::Version;
  std::vector<std::string> advice;
  const bool limited = settings.fraction && *settings.fraction < 1;
  if (settings.gc_threshold > 0 && !limited && !(settings.fraction && settings.torch < Version{2, 9}))
    advice.emplace_back(
        "garbage_collection_threshold does nothing without a memory fraction below 1: set "
        "torch.cuda.set_per_process_memory_fraction() too, or leave it out");
  if (settings.throws_at_limit && !limited)
    advice.emplace_back("throw_on_cudamalloc_oom acts only at a memory fraction below 1");
  const bool splits = settings.max_split_size != allocator::kUnlimited;
  if (settings.expandable_segments && splits)
    advice.emplace_back(
        "expandable_segments together with max_split_size_mb: free blocks from the limit up are never reused for "
        "smaller "
        "requests, so reserved memory grows (PyTorch #193400); use one of the two");
  if (settings.expandable_segments) {
    if (settings.torch < Version{2, 5})
      advice.emplace_back(
          "expandable_segments before PyTorch 2.5: sharing a CUDA tensor with another process (CUDA IPC) fails");
    if (settings.torch < Version{2, 11})
      advice.emplace_back(
          "expandable_segments before PyTorch 2.11: NCCL user buffers (nccl_ub) are refused together with it");
    advice.emplace_back(
        "expandable_segments with CUDA graphs of Transformer Engine: NCCL_GRAPH_REGISTER=0 has to be set");
  }
  if (!settings.ignored.empty())
    advice.push_back(fmt::format("no effect on where memory lies: {}", join(settings.ignored, ", ")));
  const std::int64_t rounded = largest_request > 0 ? allocator::round_size(settings, largest_request) : 0;
  if (rounded > largest_request + largest_request / 20 && rounded - largest_request > 64 * kMiB)
    advice.push_back(fmt::format("roundup_power2_divisions turns the largest request of {} into {}",
                                 format_bytes(largest_request), format_bytes(rounded)));
  return advice;
}

std::vector<std::string> advise(const Run& run) {
  std::vector<std::string> advice;
  if (run.oom && run.oom->would_hit)
    advice.emplace_back(
        "the request that failed would be served if it were simply repeated: PyTorch does not search its cache again "
        "after it released memory (PyTorch #189504)");
  if (run.stats.retries > 0 && !run.oom)
    advice.push_back(fmt::format(
        "{} times the whole cache was given back to serve a request; each costs a synchronisation of the device",
        run.stats.retries));
  return advice;
}

}  // namespace plimsoll::replay
