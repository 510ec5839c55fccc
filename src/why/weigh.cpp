// SPDX-License-Identifier: Apache-2.0
#include "why/weigh.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

bool in_load(const Circumstances& at) {
  return (at.root.marker == Phase::kLoad && at.root.bar_unfinished) ||
         (at.root.has_frames && at.root.frames.shard_load);
}

void weigh_host(const Circumstances& at, Weights& weights) {
  const bool loading = in_load(at);
  const bool announced = at.root.marker == Phase::kLoad;
  switch (at.root.signal.kind) {
    case SignalKind::kHostKill:
      weights.add(Cause::kHostRamKill, 9, "the kernel or the scheduler says so");
      if (loading || announced)
        weights.add(Cause::kModelLoadSpike, loading ? 4 : 1.5, "it happened while a model was loaded");
      break;
    case SignalKind::kHostAllocation:
      weights.add(Cause::kHostRamKill, 6.5, "an allocation of host memory was refused");
      if (loading || announced)
        weights.add(Cause::kModelLoadSpike, loading ? 3.5 : 1.2, "it happened while a model was loaded");
      break;
    case SignalKind::kSharedMemory:
      weights.add(Cause::kHostRamKill, 8, "shared memory (/dev/shm) ran out, or a page of it could not be had");
      break;
    default:
      weights.add(Cause::kHostRamKill, loading ? 3.2 : 4.5, "the process was killed from outside, without a traceback");
      weights.add(Cause::kNotMemory, loading ? 0.3 : 0.7, "somebody else may have sent the signal");
      if (loading)
        weights.add(Cause::kModelLoadSpike, 5.5, "it was killed in the middle of loading the checkpoint");
      else if (announced)
        weights.add(Cause::kModelLoadSpike, 2.5, "it was killed while the model was loaded");
      break;
  }
  if (at.phase == Phase::kEvaluate) weights.add(Cause::kEvalAccumulation, 1.2, "it happened in evaluation");
  if (at.phase == Phase::kSave) weights.add(Cause::kCheckpointSpike, 1.2, "it happened while saving");
  if (at.growth.rising && at.growth.is_host) weights.add(Cause::kMemoryLeak, 1.2, "host memory rose from step to step");
}

// "96 is not divisible by 64", "num_heads (52) must be divisible by mp_size (8)": whether the numbers bear it out.
bool division_fails(std::string_view message) {
  if (!has_text(message, "divisible")) return false;
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < message.size(); ++i)
    if (is_digit(message[i]) && (i == 0 || !is_word(message[i - 1])))
      if (const auto number = leading_integer(message.substr(i)); number && numbers.size() < 8) {
        numbers.push_back(*number);
        while (i + 1 < message.size() && is_digit(message[i + 1])) ++i;
      }
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i)
    if (numbers[i + 1] > 1 && numbers[i] % numbers[i + 1] != 0) return true;
  return false;
}

void weigh_config(const Circumstances& at, Weights& weights) {
  const Signal& signal = at.root.signal;
  const Phase frames = at.root.frames.phase;
  const bool computing = frames == Phase::kForward || frames == Phase::kBackward || frames == Phase::kOptimizerStep;
  double config = signal.message.empty() ? 0.4 : 2.6;
  std::string why = "the message states a constraint between options";
  if (!signal.rule.empty()) {
    config += 4;
    why = "the message is that of a known configuration rule";
  }
  if (division_fails(signal.message)) {
    config += 2.5;
    why = "the division in the message does not come out";
  }
  if (at.root.frames.checks_config) config += 2;
  if (at.root.steps_before > 1) config *= 0.25;
  if (computing && signal.rule.empty()) config *= 0.3;
  if (frames == Phase::kData && signal.rule.empty()) config *= 0.4;
  weights.add(Cause::kConfigConflict, config, why);
  weights.add(Cause::kNotMemory, 1.2, "an exception that names no memory");
  if (has_text(signal.message, "expandable"))
    weights.add(Cause::kExpandableInterop, 4, "the message names the allocator setting");
}

// A failure of the CUDA runtime that is no shortage, while expandable segments are on.
void weigh_odd(const Circumstances& at, double not_memory, Weights& weights) {
  const bool expandable = at.findings.has_expandable_segments();
  const bool custom = at.root.frames.custom_all_reduce ||
                      has_any(at.root.text, {"custom_all_reduce", "custom allreduce", "ipc", "pidfd"});
  if (expandable)
    weights.add(Cause::kExpandableInterop, custom ? 6.5 : 4.2, "expandable segments are on, and no memory is short");
  else if (custom)
    weights.add(Cause::kExpandableInterop, at.root.signal.kind == SignalKind::kInvalidArgument ? 4.0 : 1.5,
                "memory is shared between processes here, which that allocator setting breaks");
  weights.add(Cause::kNotMemory, expandable ? 1.2 : custom ? 1.8 : not_memory, "the message speaks of no shortage");
}

}  // namespace

Phase phase_of(const Event& event) {
  if (event.has_frames && event.frames.phase != Phase::kUnknown) {
    // Module-level code and start-up frames say less than a marker does.
    if (event.frames.phase == Phase::kStartup && event.marker != Phase::kUnknown) return event.marker;
    return event.frames.phase;
  }
  if (event.signal.kind == SignalKind::kDeviceOom && has_text(event.text, "capture") && has_text(event.text, "graph") &&
      find_word(event.text, "capture") < find_word(event.text, "out of memory"))
    return Phase::kGraphCapture;
  if (event.signal.kind == SignalKind::kDeviceOom && has_any(event.text, {"failed to clone", "state_dict"}))
    return Phase::kSave;
  return event.marker;
}

Weights weigh(const Circumstances& at) {
  Weights weights;
  const Signal& signal = at.root.signal;
  switch (signal.kind) {
    case SignalKind::kDeviceOom:
    case SignalKind::kSkippedBatch:
      weigh_device_oom(at, weights);
      break;
    case SignalKind::kEngineOom:
      weights.add(Cause::kRlColocation, 6, "the engine could not map its memory back");
      weights.add(Cause::kOtherProcess, 0.8, "somebody else holds the device");
      break;
    case SignalKind::kHostKill:
    case SignalKind::kHostAllocation:
    case SignalKind::kSharedMemory:
    case SignalKind::kKilled:
      weigh_host(at, weights);
      break;
    case SignalKind::kDiskFull:
      weights.add(Cause::kDiskFull, 9, "the system says that no space or no quota is left");
      break;
    case SignalKind::kDiskWrite:
      weights.add(Cause::kDiskFull, 6, "the checkpoint writer could not write");
      weights.add(Cause::kCheckpointSpike, 0.4, "it happened while saving");
      weights.add(Cause::kNotMemory, 0.4, "a write can fail for other reasons");
      break;
    case SignalKind::kConfig:
      weigh_config(at, weights);
      break;
    case SignalKind::kNoCacheBlocks:
    case SignalKind::kCacheTooShort:
      weights.add(Cause::kKvCacheTooSmall, 8, "the engine's own check of its cache failed");
      weights.add(Cause::kGenuineCapacity, 0.5, "weights may leave no room");
      break;
    case SignalKind::kNotFreeAtStart:
      weights.add(Cause::kOtherProcess, 5, "the device was in use before this engine took anything");
      weights.add(Cause::kKvCacheTooSmall, 1.5, "the wish may simply be too high");
      break;
    case SignalKind::kNcclMemory:
      weights.add(Cause::kNcclMemory, 7, "NCCL's own allocation failed");
      if (at.also_library) weights.add(Cause::kCublasCudnnAlloc, 0.9, "a library handle failed as well");
      if (at.root.marker == Phase::kResume || at.root.marker == Phase::kSave)
        weights.add(Cause::kCheckpointSpike, 1.1, "it happened while state was restored or saved");
      break;
    case SignalKind::kNcclRegister:
      weights.add(Cause::kNcclMemory, 4, "NCCL could not register its memory");
      if (at.findings.has_expandable_segments())
        weights.add(Cause::kExpandableInterop, 3, "expandable segments are on");
      break;
    case SignalKind::kLibraryAlloc: {
      const bool alloc = has_text(at.root.text, "alloc_failed");
      weights.add(Cause::kCublasCudnnAlloc,
                  at.also_addressing ? 0.8
                  : alloc            ? 6.5
                                     : 4.0,
                  "a library handle could not be made: the device is full");
      weights.add(Cause::kNotMemory,
                  at.also_addressing ? 5
                  : alloc            ? 0.3
                                     : 0.9,
                  "an earlier addressing error shows up as this one too");
      break;
    }
    case SignalKind::kInterop:
      weights.add(Cause::kExpandableInterop, 8, "the message names the allocator setting");
      weights.add(Cause::kConfigConflict, 0.5, "options that exclude each other");
      break;
    case SignalKind::kInvalidArgument:
      weigh_odd(at, 3, weights);
      break;
    case SignalKind::kAbort:
      weigh_odd(at, 3, weights);
      break;
    case SignalKind::kAddressing:
      weights.add(Cause::kNotMemory, signal.oom.is_impossible ? 7 : 6,
                  signal.oom.is_impossible ? "no tensor is that large: its size is garbage"
                                           : "an addressing error, not a shortage");
      if (at.findings.has_expandable_segments() && !signal.oom.is_impossible)
        weights.add(Cause::kExpandableInterop, 1.6, "expandable segments are on");
      break;
    case SignalKind::kException: {
      const bool odd = at.findings.has_expandable_segments() &&
                       has_any(at.root.text, {"cancelled", "canceled", "invalid argument", "ipc", "not supported",
                                              "driver error", "internal assert", "cumem", "symmetric"});
      if (odd)
        weigh_odd(at, 3, weights);
      else
        weights.add(Cause::kNotMemory, 4, "an exception that names no memory");
      break;
    }
    case SignalKind::kCaptureInvalid:
    case SignalKind::kKernelResources:
    case SignalKind::kTimeLimit:
    case SignalKind::kCollectiveTimeout:
    case SignalKind::kLibraryOther:
      weights.add(Cause::kNotMemory, 5, "the message names another reason");
      break;
    case SignalKind::kExit:
      weights.add(Cause::kNotMemory, 0.7, "a process failed, and what was given does not say why");
      break;
    case SignalKind::kPeerLost:
      weights.add(Cause::kNotMemory, 1.2, "only echoes of another rank's death are in this log");
      weights.add(Cause::kHostRamKill, 0.4, "a rank that vanishes without a word is often killed for host memory");
      break;
  }
  return weights;
}

}  // namespace plimsoll::why
