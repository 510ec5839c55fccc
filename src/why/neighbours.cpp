// SPDX-License-Identifier: Apache-2.0
#include "why/neighbours.h"

#include "why/words.h"

namespace plimsoll::why {

namespace {

using S = const Situation&;

struct Row {
  Cause first;
  Cause second;
  bool (*holds)(const Situation&);
  std::string_view because;
};

bool always(S) { return true; }
bool saving(S s) { return s.phase == Phase::kSave || s.root.marker == Phase::kSave || s.is(SignalKind::kDiskWrite); }
bool evaluating(S s) { return s.phase == Phase::kEvaluate || s.root.marker == Phase::kEvaluate; }
bool late(S s) { return s.root.steps_before >= 10; }
bool before_steps(S s) { return !s.trained(); }
bool in_forward(S s) { return s.phase == Phase::kForward || s.phase == Phase::kBackward; }
// A class of exceptions that checks of options raise.
bool checks(S s) {
  return s.root.steps_before == 0 &&
         has_any(s.root.signal.exception, {"valueerror", "assertionerror", "notimplementederror", "typeerror"});
}
bool waits(S s) { return s.is(SignalKind::kCollectiveTimeout) || s.is(SignalKind::kInterrupted); }

// In order of how often the one was meant where the other was said, over the labelled logs and those of first sight
// (docs/accuracy.md); the first row that holds counts.
const Row kRows[] = {
    {Cause::kHostRamKill, Cause::kEvalAccumulation, evaluating, "evaluation was running"},
    {Cause::kHostRamKill, Cause::kCheckpointSpike, saving, "a checkpoint was being written"},
    {Cause::kHostRamKill, Cause::kMemoryLeak, late, "steps were done before it: something may have piled up"},
    {Cause::kHostRamKill, Cause::kModelLoadSpike, before_steps,
     "no step was done: a model may have been on its way in"},
    {Cause::kHostRamKill, Cause::kMemoryLeak, always, "something may have piled up"},
    {Cause::kModelLoadSpike, Cause::kHostRamKill, always, "the host may be short of memory without it"},
    {Cause::kObjectStore, Cause::kHostRamKill, always, "the store lies in host memory"},
    {Cause::kDiskFull, Cause::kCheckpointSpike, saving, "a checkpoint was being written"},
    {Cause::kDiskFull, Cause::kHostRamKill, always, "the volume may be one that lies in memory"},
    {Cause::kFdLimit, Cause::kHostRamKill, always, "a limit of the host is close"},
    {Cause::kKvCacheTooSmall, Cause::kGenuineCapacity, before_steps, "the weights may leave no room"},
    {Cause::kKvCacheTooSmall, Cause::kServingHeadroom, always, "the cache and what runs beside it share the device"},
    {Cause::kCublasCudnnAlloc, Cause::kActivationBound, in_forward, "the device is full in the middle of a step"},
    {Cause::kCublasCudnnAlloc, Cause::kGenuineCapacity, always, "the device is full"},
    {Cause::kConvWorkspace, Cause::kActivationBound, always, "the device is full in the middle of a step"},
    {Cause::kNcclMemory, Cause::kGenuineCapacity, always, "the device is full"},
    {Cause::kMaskedOom, Cause::kGenuineCapacity, always, "the device is full"},
    {Cause::kManagedMemory, Cause::kOptimizerStateBound, always, "paged states are the optimizer's"},
    {Cause::kRlColocation, Cause::kOtherProcess, always, "the engine is another process"},
    {Cause::kOtherProcess, Cause::kGenuineCapacity, always, "the device is full"},
    {Cause::kExpandableInterop, Cause::kNotMemory, always, "the message speaks of no shortage"},
    {Cause::kConfigConflict, Cause::kNotMemory, always, "an exception that names no memory"},
    {Cause::kNotMemory, Cause::kConfigConflict, checks, "options may have been refused"},
    {Cause::kNotMemory, Cause::kHostRamKill, waits, "a rank that vanishes is waited for in vain"},
};

}  // namespace

std::optional<Neighbour> neighbour_of(Cause first, const Situation& at) {
  for (const Row& row : kRows)
    if (row.first == first && row.holds(at)) return Neighbour{row.second, row.because};
  return std::nullopt;
}

}  // namespace plimsoll::why
