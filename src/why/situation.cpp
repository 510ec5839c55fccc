// SPDX-License-Identifier: Apache-2.0
#include "why/situation.h"

#include <algorithm>
#include <cstdlib>

#include "base/bytes.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

std::optional<double> share(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Whether reserved memory grew by a tenth or more while allocated memory stood still.
bool cache_rises_alone(const Findings& findings) {
  for (const StepSeries& series : findings.series) {
    const StepPoint* first = nullptr;
    const StepPoint* last = nullptr;
    for (const StepPoint& point : series.points) {
      if (point.allocated == 0 || point.reserved == 0) continue;
      if (first == nullptr) first = &point;
      last = &point;
    }
    if (first == nullptr || last == first) continue;
    const std::int64_t grown = last->reserved - first->reserved;
    const std::int64_t moved = std::abs(last->allocated - first->allocated);
    if (grown * 10 >= first->reserved && moved * 4 <= grown) return true;
  }
  return false;
}

// "memory" without an owner: whose it is follows from what else the line and the frames speak of.
Resource resource_of_unclear(const Event& event) {
  if (event.frames.pins) return Resource::kPinned;
  if (event.signal.oom.free || event.signal.oom.total || event.frames.device_allocator) return Resource::kDevice;
  const Phase phase = event.frames.phase;
  if (phase == Phase::kForward || phase == Phase::kBackward || phase == Phase::kOptimizerStep) return Resource::kDevice;
  if (phase == Phase::kData) return Resource::kHost;
  if (has_any(event.text, {"tensor", "node", "layer", "kernel", "operator", "arena"})) return Resource::kDevice;
  return Resource::kUnknown;
}

Resource resource_of_device_oom(const Event& event) {
  const OomNumbers& oom = event.signal.oom;
  if (event.frames.pins && !oom.total) return Resource::kPinned;
  const bool empty = oom.allocated && oom.total && *oom.allocated * 20 < *oom.total;
  // Blocks of 4 GiB and more are refused by some drivers although the device is empty.
  if (oom.allocator == Allocator::kXpu && empty && oom.request && oom.total && *oom.request >= 4 * kGiB &&
      *oom.request < *oom.total)
    return Resource::kDriverLimit;
  if (oom.allocator == Allocator::kMps) return is_far_below_limit(oom) ? Resource::kNone : Resource::kCap;
  return Resource::kDevice;
}

}  // namespace

Phase phase_of(const Event& event) {
  const Phase frames = event.has_frames ? event.frames.phase : Phase::kUnknown;
  const bool says_little = frames == Phase::kUnknown || frames == Phase::kStartup || frames == Phase::kForward;
  if (event.node != Phase::kUnknown && says_little && event.marker != Phase::kEvaluate) return event.node;
  if (frames != Phase::kUnknown) {
    // Module-level code and start-up frames say less than a marker does.
    if (frames == Phase::kStartup && event.marker != Phase::kUnknown) return event.marker;
    // Forward inside a bar that counts evaluation batches is evaluation.
    const bool plain = frames == Phase::kForward || frames == Phase::kData || frames == Phase::kCollective;
    if (plain && event.marker == Phase::kEvaluate) return Phase::kEvaluate;
    return frames;
  }
  if (event.signal.kind == SignalKind::kDeviceOom && has_text(event.text, "captur") && has_text(event.text, "graph") &&
      find_word(event.text, "captur") < find_word(event.text, "out of memory"))
    return Phase::kGraphCapture;
  if (event.signal.kind == SignalKind::kDeviceOom && has_any(event.text, {"failed to clone", "state_dict"}))
    return Phase::kSave;
  return event.marker;
}

Resource resource_of(const Event& event) {
  switch (event.signal.kind) {
    case SignalKind::kDeviceOom:
      return resource_of_device_oom(event);
    case SignalKind::kSkippedBatch:
    case SignalKind::kNcclMemory:
    case SignalKind::kNcclRegister:
    case SignalKind::kNotFreeAtStart:
    case SignalKind::kEngineOom:
    case SignalKind::kManagedMemory:
    case SignalKind::kMaskedOom:
    case SignalKind::kConvWorkspace:
    case SignalKind::kLibraryAlloc:
      return Resource::kDevice;
    case SignalKind::kNoCacheBlocks:
    case SignalKind::kCacheTooShort:
    case SignalKind::kObjectStore:
      return Resource::kBudget;
    case SignalKind::kHostAllocation:
    case SignalKind::kHostKill:
    case SignalKind::kKilled:
      return Resource::kHost;
    case SignalKind::kPinnedMemory:
      return Resource::kPinned;
    case SignalKind::kSharedMemory:
      return Resource::kShared;
    case SignalKind::kDescriptors:
      return Resource::kDescriptors;
    case SignalKind::kDiskFull:
      return event.frames.semaphore ? Resource::kShared : Resource::kDisk;
    case SignalKind::kDiskWrite:
      return Resource::kDisk;
    case SignalKind::kBlockLimit:
      return Resource::kDriverLimit;
    case SignalKind::kUnclearMemory:
      return resource_of_unclear(event);
    case SignalKind::kInvalidArgument:
      // Registering pages that the driver will not lock fails with the same words as any wrong argument.
      return event.frames.pins ? Resource::kPinned : Resource::kNone;
    case SignalKind::kConfig:
    case SignalKind::kAddressing:
    case SignalKind::kCaptureInvalid:
    case SignalKind::kKernelResources:
    case SignalKind::kTimeLimit:
    case SignalKind::kInterrupted:
    case SignalKind::kAbort:
    case SignalKind::kInterop:
    case SignalKind::kException:
    case SignalKind::kCollectiveTimeout:
    case SignalKind::kLibraryOther:
      return Resource::kNone;
    case SignalKind::kUnclear:
    case SignalKind::kPeerLost:
    case SignalKind::kExit:
      return Resource::kUnknown;
  }
  return Resource::kUnknown;
}

std::optional<double> Situation::others_share() const {
  if (!sum.holders_known) return std::nullopt;
  return share(sum.others, sum.total);
}

std::optional<double> Situation::cached_share() const {
  if (!oom().reserved_unallocated || !oom().reserved) return std::nullopt;
  return share(*oom().reserved_unallocated, *oom().reserved);
}

std::optional<double> Situation::live_share() const {
  if (!oom().allocated) return std::nullopt;
  return share(*oom().allocated, sum.capacity);
}

std::optional<double> Situation::request_share() const {
  if (!oom().request) return std::nullopt;
  return share(*oom().request, sum.capacity > 0 ? sum.capacity : oom().total.value_or(0));
}

bool Situation::in_step() const {
  return phase == Phase::kForward || phase == Phase::kBackward || phase == Phase::kTrain || phase == Phase::kUnknown;
}

bool Situation::several_steps() const {
  constexpr std::int64_t kSeveral = 3;
  return root.steps_before >= kSeveral || (root.steps_before == 2 && root.step.value_or(0) > kSeveral);
}

bool Situation::trained() const {
  if (root.steps_before > 0 || findings.steps > 0) return true;
  const std::vector<Phase>& stack = root.frames.stack;
  return std::find(stack.begin(), stack.end(), Phase::kTrain) != stack.end();
}

bool Situation::is_loading() const {
  return (root.marker == Phase::kLoad && root.bar_unfinished) || (root.has_frames && root.frames.shard_load);
}

bool Situation::is_full_of_own() const {
  const auto live = live_share();
  const auto wanted = request_share();
  return live && *live >= 0.86 && wanted && *wanted <= 0.03 && (in_step() || phase == Phase::kLoad);
}

bool Situation::has_no_figures() const {
  return !oom().request && !oom().needed && !oom().total && !oom().free && !oom().allocated;
}

// PyTorch checks every call of the runtime in these words. Its allocator has named what it was asked for since 1.1, so
// what failed is a call around it: a context, a handle, the first touch of the device.
bool Situation::is_below_allocator() const {
  return is(SignalKind::kDeviceOom) && has_no_figures() &&
         has_any(root.text, {"cuda error: out of memory", "hip error: out of memory"});
}

bool Situation::is_crumbs() const {
  if (sum.capacity <= 0 || !oom().free || !oom().reserved_unallocated) return false;
  return (sum.free + sum.cached) * 40 < sum.capacity;
}

double Situation::steady_share() const {
  std::int64_t most = 0;
  for (const StepSeries& series : findings.series)
    for (const StepPoint& point : series.points) most = std::max({most, point.allocated, point.used, point.peak});
  return most > 0 && sum.total > 0 ? static_cast<double>(most) / static_cast<double>(sum.total) : 0;
}

namespace {

// An exception often repeats without figures what a line before it said with them.
OomNumbers figures_of(const Findings& findings, const Event& root) {
  const OomNumbers& own = root.signal.oom;
  if (root.signal.kind != SignalKind::kDeviceOom || own.request || own.needed) return own;
  for (const Event& event : findings.events) {
    const bool same = event.signal.kind == SignalKind::kDeviceOom && event.attempt == root.attempt &&
                      (!event.rank || !root.rank || *event.rank == *root.rank);
    const OomNumbers& other = event.signal.oom;
    if (same && (other.request || other.needed || other.allocator == Allocator::kTensorFlow)) return other;
  }
  return own;
}

}  // namespace

Situation situation_of(const Findings& findings, const Event& root, const Growth& growth) {
  Situation at{.findings = findings, .root = root, .figures = figures_of(findings, root), .sum = {}, .growth = growth};
  at.sum = arithmetic_of(at.figures, findings.is_multi_rank());
  at.resource = resource_of(root);
  at.phase = phase_of(root);
  at.reserved_rises_alone = cache_rises_alone(findings) && at.cached_share().value_or(0.1) >= 0.1;
  for (const Event& event : findings.events) {
    if (event.signal.kind == SignalKind::kLibraryAlloc) at.also_library = true;
    if (event.signal.kind == SignalKind::kAddressing) at.also_addressing = true;
    if (event.signal.kind == SignalKind::kTimeLimit) at.also_time_limit = true;
  }
  std::int64_t same_step = 0;
  std::int64_t other_step = 0;
  for (const Event& event : findings.events)
    if (event.signal.kind == SignalKind::kDeviceOom && event.step && root.step && event.attempt != root.attempt)
      (std::abs(*event.step - *root.step) <= 1 ? same_step : other_step) += 1;
  at.restarts_at_same_step = same_step > 0 && other_step == 0;
  return at;
}

}  // namespace plimsoll::why
