// SPDX-License-Identifier: Apache-2.0
// Something else than device memory ran out: host, pinned and shared memory, disks, descriptors, budgets.
#include <algorithm>

#include "base/bytes.h"
#include "why/rules.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

using S = const Situation&;

bool announced_load(S s) { return s.root.marker == Phase::kLoad || s.phase == Phase::kLoad; }
// Killed from outside, and nobody says why. In none of the labelled logs that say no more had anybody but the kernel
// sent the signal.
bool bare_kill(S s) { return s.is(SignalKind::kKilled); }
// "exited with code 137": a script may end so by itself, and who stops a container has it end so.
bool only_a_number(S s) {
  return bare_kill(s) && has_text(s.root.text, "137") &&
         !has_any(s.root.text, {"kill", "signal", "container", "pod ", "command terminated"});
}
bool beyond_any_host(S s) {
  constexpr std::int64_t kAnyHost = 2048 * kGiB;
  return s.is(SignalKind::kHostAllocation) && s.root.signal.bytes > kAnyHost;
}
bool only_bus_error(S s) { return s.resource == Resource::kShared && s.root.signal.is_guessed; }
// Ranks and loaders' workers hand each other what they have in shared memory.
bool shares_pages(S s) { return s.findings.is_multi_rank() || s.phase == Phase::kData; }
bool shared_memory_failed(S s) {
  return std::any_of(s.findings.events.begin(), s.findings.events.end(), [](const Event& event) {
    return event.signal.kind == SignalKind::kSharedMemory && !event.signal.is_guessed;
  });
}
bool denied(S s) { return bare_kill(s) && s.findings.denies_oom; }

const Rule kRules[] = {
    {Cause::kHostRamKill, 6.5, [](S s) { return s.is(SignalKind::kHostKill); },
     "the kernel, the container or the scheduler says so"},
    {Cause::kHostRamKill, 5.6, [](S s) { return s.is(SignalKind::kHostAllocation); },
     "an allocation of host memory was refused"},
    {Cause::kNotMemory, 6.0, [](S s) { return beyond_any_host(s) && s.phase != Phase::kEvaluate; },
     "no host has room for that: the size itself is wrong"},
    // Samples times positions times vocabulary: what an evaluation gathers does come to that.
    {Cause::kNotMemory, 3.0, [](S s) { return beyond_any_host(s) && s.phase == Phase::kEvaluate; },
     "no host has room for that: the size itself may be wrong"},
    {Cause::kHostRamKill, 6.2, [](S s) { return s.resource == Resource::kShared && !s.root.signal.is_guessed; },
     "shared memory (/dev/shm) ran out, or a page of it could not be had"},
    {Cause::kHostRamKill, 3.9, only_bus_error, "a page of a mapping could not be had: often one of /dev/shm"},
    {Cause::kHostRamKill, 1.6, [](S s) { return only_bus_error(s) && shared_memory_failed(s); },
     "shared memory failed in this log too"},
    {Cause::kHostRamKill, 0.6, [](S s) { return only_bus_error(s) && shares_pages(s) && !shared_memory_failed(s); },
     "processes of this job share pages, and /dev/shm is where they lie"},
    {Cause::kNotMemory, 2.4, [](S s) { return only_bus_error(s) && !shared_memory_failed(s); },
     "a file that shrinks under its mapping and a driver raise the same signal"},
    {Cause::kHostRamKill, 4.0, bare_kill, "the process was killed from outside, without a traceback"},
    {Cause::kNotMemory, 1.2, [](S s) { return bare_kill(s) && !s.is_loading(); },
     "somebody else may have sent the signal"},
    {Cause::kModelLoadSpike, 1.7,
     [](S s) { return bare_kill(s) && !s.is_loading() && !announced_load(s) && !s.trained(); },
     "no step was done: a model may have been on its way in"},
    {Cause::kUnknown, 2.4,
     [](S s) { return bare_kill(s) && has_any(s.root.text, {"container", "command terminated", "pod "}); },
     "a container is killed for its probes and its node too"},
    {Cause::kUnknown, 2.0, only_a_number, "a shell's number for a signal says less than the word for it"},
    {Cause::kNotMemory, 1.0, [](S s) { return bare_kill(s) && has_text(s.root.text, "srun:"); },
     "the scheduler kills tasks for other reasons too"},
    {Cause::kHostRamKill, -1.4, denied, "the container's record has another reason for its end"},
    {Cause::kUnknown, 3.8, denied, "the container's record says that its memory limit was not the reason"},
    {Cause::kNotMemory, 4.0, [](S s) { return bare_kill(s) && s.also_time_limit; }, "the scheduler ended the job"},
    {Cause::kModelLoadSpike, 5.0, [](S s) { return bare_kill(s) && s.is_loading(); },
     "it was killed in the middle of loading the checkpoint"},
    {Cause::kModelLoadSpike, 4.3, [](S s) { return bare_kill(s) && !s.is_loading() && announced_load(s); },
     "it was killed while the model was loaded"},
    {Cause::kModelLoadSpike, 4.4, [](S s) { return s.is(SignalKind::kHostAllocation) && s.is_loading(); },
     "it happened while a checkpoint was read"},
    {Cause::kModelLoadSpike, 3.8, [](S s) { return s.is(SignalKind::kHostKill) && announced_load(s); },
     "it happened while a model was loaded"},
    {Cause::kEvalAccumulation, 3.2, [](S s) { return s.phase == Phase::kEvaluate; }, "it happened in evaluation"},
    {Cause::kCheckpointSpike, 3.0, [](S s) { return s.phase == Phase::kSave; }, "it happened while saving"},
    {Cause::kMemoryLeak, 3.4, [](S s) { return s.growth.rising && s.growth.is_host; },
     "host memory rose from step to step"},
    {Cause::kOptimizerStateBound, 2.6, [](S s) { return s.phase == Phase::kOptimizerInit; },
     "optimizer states were being made in host memory"},

    {Cause::kPinnedHost, 6.0, [](S s) { return s.resource == Resource::kPinned; },
     "page-locked host memory was refused: a limit of the driver, of WSL or of memlock"},
    {Cause::kHostRamKill, 3.4,
     [](S s) { return s.resource == Resource::kPinned && !s.is(SignalKind::kInvalidArgument); },
     "the host may be short of memory"},
    {Cause::kNotMemory, 4.6, [](S s) { return s.is(SignalKind::kInvalidArgument); },
     "the message speaks of no shortage"},
    {Cause::kDiskFull, 7.0, [](S s) { return s.is(SignalKind::kDiskFull) && s.resource == Resource::kDisk; },
     "the system says that no space or no quota is left"},
    {Cause::kDiskFull, 4.4, [](S s) { return s.is(SignalKind::kDiskFull) && s.resource == Resource::kShared; },
     "the system says that no space is left, and not where"},
    {Cause::kDiskFull, 4.8, [](S s) { return s.is(SignalKind::kDiskWrite); }, "the checkpoint could not be written"},
    {Cause::kNotMemory, 2.6, [](S s) { return s.is(SignalKind::kDiskWrite); }, "a write can fail for other reasons"},
    {Cause::kCheckpointSpike, 1.6, [](S s) { return s.is(SignalKind::kDiskWrite); }, "it happened while saving"},
    {Cause::kFdLimit, 7.0, [](S s) { return s.resource == Resource::kDescriptors; },
     "the system says that too many files are open"},
    {Cause::kNotMemory, 2.5, [](S s) { return s.resource == Resource::kDescriptors; }, "no memory was short"},
    {Cause::kHostRamKill, 5.8,
     [](S s) { return s.resource == Resource::kDescriptors && has_text(s.root.text, "shared memory object"); },
     "shared memory could not be opened, and no error number says why"},
    {Cause::kObjectStore, 7.0, [](S s) { return s.is(SignalKind::kObjectStore); },
     "the object store says that it is full"},
    {Cause::kHostRamKill, 3.0, [](S s) { return s.is(SignalKind::kObjectStore); }, "the store lies in host memory"},
    {Cause::kKvCacheTooSmall, 6.5,
     [](S s) { return s.is(SignalKind::kNoCacheBlocks) || s.is(SignalKind::kCacheTooShort); },
     "the engine's own check of its cache failed"},
    {Cause::kGenuineCapacity, 3.0, [](S s) { return s.is(SignalKind::kNoCacheBlocks); }, "weights may leave no room"},
    {Cause::kDriverLimit, 6.0, [](S s) { return s.resource == Resource::kDriverLimit; },
     "one block is more than this driver hands out"},
    {Cause::kActivationBound, 2.6,
     [](S s) { return s.resource == Resource::kDriverLimit && s.frames().attention_scores; },
     "it failed making attention scores or their mask"},
    {Cause::kUnifiedLimit, 2.4, [](S s) { return s.resource == Resource::kDriverLimit; },
     "the device may share the system's memory"},
};

}  // namespace

std::span<const Rule> host_rules() { return kRules; }

}  // namespace plimsoll::why
