// SPDX-License-Identifier: Apache-2.0
#include "capture/answer.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "cluster/cublas_workspace.h"
#include "memory/outside.h"
#include "memory/table.h"

namespace plimsoll::capture {

namespace {

// Nine in ten of the recorded steps lie within (docs/accuracy.md, captures): a share of the allocated bytes, and of
// what the allocator holds beyond them.
constexpr double kAllocatedShare = 0.01;
constexpr double kCachedShare = 0.5;
constexpr std::int64_t kLeast = 8 * kMiB;

std::vector<Holder> holders_at(const Capture& capture, const Recorded& recorded, std::uint32_t peak_event) {
  std::vector<std::int64_t> alive(recorded.makers.size());
  const auto& events = recorded.tape.events();
  for (std::size_t i = 0; i <= peak_event && i < events.size(); ++i)
    if (events[i].id < alive.size()) alive[events[i].id] += events[i].bytes;
  std::map<std::pair<std::string, std::string>, Holder> groups;
  for (std::size_t id = 0; id < alive.size(); ++id) {
    if (alive[id] <= 0) continue;
    const Origin origin = origin_of(capture, recorded.makers, static_cast<std::uint32_t>(id));
    Holder one{origin.operation, without_numbers(origin.place), 1, alive[id]};
    Holder& group =
        groups.try_emplace({one.operation, one.module}, Holder{one.operation, one.module, 0, 0}).first->second;
    ++group.count;
    group.bytes += one.bytes;
  }
  std::vector<Holder> holders;
  holders.reserve(groups.size());
  for (auto& [key, group] : groups) holders.push_back(std::move(group));
  std::stable_sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return holders;
}

void walk(const step::Tape& tape, const cluster::Gpu& gpu, const allocator::Settings& settings,
          memory::RankAnswer& rank) {
  job::Job alone;  // one GPU, no communicators
  alone.cluster.gpu = gpu;
  const std::vector<memory::OutsideItem> outside = memory::outside_torch(alone);
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (const memory::OutsideItem& item : outside) {
    rank.outside += item.bytes;
    low += item.low;
    high += item.high;
  }
  rank.capacity = gpu.capacity;
  const std::int64_t for_torch = rank.capacity - rank.outside;
  memory::Walk walked = memory::walk(tape, settings, for_torch, true, rank.capacity);
  rank.out_of_memory = walked.out_of_memory;
  if (walked.out_of_memory) walked = memory::walk(tape, settings, for_torch, false);
  rank.peak = walked.peak;
  rank.peak_requested = walked.peak.requested;
  rank.peak_allocated = walked.peak.allocated;
  rank.peak_reserved = walked.peak_reserved;
  rank.phases = walked.by_phase;
  rank.alive = memory::alive_at(tape, walked.peak.event);
  rank.device_used = rank.peak_reserved + rank.outside;
  rank.headroom = rank.capacity - rank.device_used;
  rank.fits = !rank.out_of_memory;
  rank.spread.allocated =
      std::max(kLeast, static_cast<std::int64_t>(kAllocatedShare * static_cast<double>(rank.peak_allocated)));
  rank.spread.reserved =
      rank.spread.allocated +
      static_cast<std::int64_t>(kCachedShare * static_cast<double>(rank.peak_reserved - rank.peak_allocated));
  rank.low = rank.peak_reserved - rank.spread.reserved + low;
  rank.high = rank.peak_reserved + rank.spread.reserved + high;
  rank.table = memory::make_table(rank, outside, 0);
}

}  // namespace

Recorded record_on(const Capture& capture, const cluster::Gpu& gpu) {
  Device device;
  if (gpu.rates.sms > 0) device.multiprocessors = gpu.rates.sms;
  // Of the environment of the run to come nothing is known; the release of PyTorch is the one that was captured.
  device.workspace = cluster::cublas_workspace(gpu.architecture, {}, leading_version(capture.torch));
  return record(capture, device);
}

Answer answer(const Capture& capture, const cluster::Gpu& gpu, const allocator::Settings& settings) {
  return answer(capture, record_on(capture, gpu), gpu, settings);
}

Answer answer(const Capture& capture, const Recorded& recorded, const cluster::Gpu& gpu,
              const allocator::Settings& settings) {
  Answer result;
  result.rank.parameters = capture.parameter_elements;
  walk(recorded.tape, gpu, settings, result.rank);
  const auto& events = recorded.tape.events();
  if (const std::uint32_t peak = result.rank.peak.event; peak < events.size()) {
    result.holders = holders_at(capture, recorded, peak);
    const Origin origin = origin_of(capture, recorded.makers, events[peak].id);
    result.peak_operation = origin.operation;
    result.peak_place = origin.place;
  }
  if (gpu.is_hopper_or_newer() != (capture.capability >= 90))
    result.warnings.push_back(fmt::format(
        "captured with the attention kernels of another generation of GPUs; plimsoll capture --gpu {} takes "
        "this one's",
        gpu.id));
  for (const std::string& assumed : capture.assumed)
    result.warnings.push_back(
        fmt::format("the step asked for a value that a capture does not have; assumed: {}", assumed));
  return result;
}

}  // namespace plimsoll::capture
