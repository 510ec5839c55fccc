// SPDX-License-Identifier: Apache-2.0
// Device memory ran out for somebody who says so in words of its own: NCCL, cuBLAS and cuDNN, an engine, a loop.
#include "why/rules.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

using S = const Situation&;

// The library's word for a start that failed, whatever it failed for.
bool only_uninitialised(S s) {
  return has_text(s.root.text, "not_initialized") && !has_any(s.root.text, {"alloc_failed", "memory"});
}

// In backward the libraries had served forward.
bool nothing_ran_before(S s) { return !s.trained() && s.phase != Phase::kBackward && s.phase != Phase::kOptimizerStep; }

const Rule kRules[] = {
    {Cause::kLongestBatch, 8.0, [](S s) { return s.is(SignalKind::kSkippedBatch); },
     "the loop skipped this batch and went on: other batches fit"},
    {Cause::kActivationBound, 4.0, [](S s) { return s.is(SignalKind::kSkippedBatch); }, "a batch did not fit"},
    {Cause::kManagedMemory, 6.5, [](S s) { return s.is(SignalKind::kManagedMemory); },
     "memory that host and device share was asked for"},
    {Cause::kNcclMemory, 7.5, [](S s) { return s.is(SignalKind::kNcclMemory); }, "NCCL's own allocation failed"},
    {Cause::kNcclMemory, 5.5, [](S s) { return s.is(SignalKind::kNcclRegister); },
     "NCCL could not register its memory"},
    {Cause::kExpandableInterop, 4.8,
     [](S s) { return s.is(SignalKind::kNcclRegister) && s.findings.has_expandable_segments(); },
     "expandable segments are on"},
    {Cause::kCheckpointSpike, 5.0,
     [](S s) {
       return s.is(SignalKind::kNcclMemory) && (s.root.marker == Phase::kResume || s.root.marker == Phase::kSave);
     },
     "it happened while state was restored or saved"},
    {Cause::kRlColocation, 4.6, [](S s) { return s.is(SignalKind::kNcclMemory) && s.findings.engine_in_trainer; },
     "a rollout engine shares the device"},
    {Cause::kCublasCudnnAlloc, 7.0,
     [](S s) { return s.is(SignalKind::kLibraryAlloc) && !s.also_addressing && !only_uninitialised(s); },
     "a library handle could not be made: the device is full"},
    // Thirteen of fifteen such answers at first sight were right; the others did not suit the driver.
    {Cause::kNotMemory, 4.9,
     [](S s) {
       return s.is(SignalKind::kLibraryAlloc) && !s.also_addressing && !only_uninitialised(s) && nothing_ran_before(s);
     },
     "nothing had run before it: a library that does not suit the driver fails here too"},
    {Cause::kCublasCudnnAlloc, 5.0,
     [](S s) { return s.is(SignalKind::kLibraryAlloc) && !s.also_addressing && only_uninitialised(s); },
     "a library could not start: the device is likely full"},
    {Cause::kNotMemory, 5.3,
     [](S s) {
       return s.is(SignalKind::kLibraryAlloc) && !s.also_addressing && only_uninitialised(s) && nothing_ran_before(s);
     },
     "nothing had run before it: a library that does not suit the driver says the same, and no figure speaks of "
     "memory"},
    {Cause::kNotMemory, 3.6,
     [](S s) {
       return s.is(SignalKind::kLibraryAlloc) && !s.also_addressing && only_uninitialised(s) && !nothing_ran_before(s);
     },
     "a library that does not suit the driver says the same"},
    {Cause::kCublasCudnnAlloc, 5.2, [](S s) { return s.is(SignalKind::kNcclMemory) && s.also_library; },
     "a library handle failed as well"},
    {Cause::kNotMemory, 6.0, [](S s) { return s.is(SignalKind::kLibraryAlloc) && s.also_addressing; },
     "an addressing error is in the log: it shows up as this one too"},
    {Cause::kConvWorkspace, 6.0, [](S s) { return s.is(SignalKind::kConvWorkspace); },
     "no algorithm of the convolution found the workspace that it needs"},
    {Cause::kCublasCudnnAlloc, 3.4, [](S s) { return s.is(SignalKind::kConvWorkspace); },
     "the library could not start on a full device"},
    {Cause::kMaskedOom, 6.0, [](S s) { return s.is(SignalKind::kMaskedOom); },
     "the allocator failed while it was wording its own out-of-memory message"},
    {Cause::kRlColocation, 6.5, [](S s) { return s.is(SignalKind::kEngineOom); },
     "memory could not be mapped back while the other side held it"},
    {Cause::kOtherProcess, 6.0, [](S s) { return s.is(SignalKind::kNotFreeAtStart); },
     "the device was in use before this engine took anything"},
    {Cause::kKvCacheTooSmall, 4.0, [](S s) { return s.is(SignalKind::kNotFreeAtStart); },
     "the wish may simply be too high"},
};

}  // namespace

std::span<const Rule> special_rules() { return kRules; }

}  // namespace plimsoll::why
