// SPDX-License-Identifier: Apache-2.0
#include "rl/choices.h"

namespace plimsoll::rl {

namespace {

constexpr Spelling<Framework> kFrameworks[] = {
    {Framework::kTelescope, "telescope"},       {Framework::kVerl, "verl"},
    {Framework::kOpenRlhf, "openrlhf"},         {Framework::kNemoRl, "nemo-rl", "nemorl nemo"},
    {Framework::kPrimeRl, "prime-rl", "prime"}, {Framework::kGeneric, "generic"},
};
constexpr Spelling<Placement> kPlacements[] = {
    {Placement::kColocated, "colocated", "colocate hybrid"},
    {Placement::kDisaggregated, "disaggregated", "separate non-colocated split"},
};
constexpr Spelling<Mode> kModes[] = {
    {Mode::kSync, "sync", "synchronous on-policy"},
    {Mode::kOneStepOff, "one-step-off", "one-step-off-policy"},
    {Mode::kAsync, "async", "asynchronous"},
};
constexpr Spelling<SyncMode> kSyncModes[] = {
    {SyncMode::kFlattenedBucket, "flattened-bucket", "bucket"},
    {SyncMode::kPerTensor, "per-tensor", "tensor"},
    {SyncMode::kCheckpointEngine, "checkpoint-engine"},
    {SyncMode::kShared, "shared", "ipc cuda-ipc"},
};
constexpr Spelling<RayStrategy> kRayStrategies[] = {
    {RayStrategy::kPack, "PACK"},
    {RayStrategy::kSpread, "SPREAD"},
    {RayStrategy::kStrictPack, "STRICT_PACK"},
    {RayStrategy::kStrictSpread, "STRICT_SPREAD"},
};
constexpr Spelling<SleepLevel> kSleepLevels[] = {
    {SleepLevel::kNone, "none", "0"},
    {SleepLevel::kLevel1, "1"},
    {SleepLevel::kLevel2, "2"},
};

}  // namespace

std::span<const Spelling<Framework>> spellings_of(Framework) { return kFrameworks; }
std::span<const Spelling<Placement>> spellings_of(Placement) { return kPlacements; }
std::span<const Spelling<Mode>> spellings_of(Mode) { return kModes; }
std::span<const Spelling<SyncMode>> spellings_of(SyncMode) { return kSyncModes; }
std::span<const Spelling<RayStrategy>> spellings_of(RayStrategy) { return kRayStrategies; }
std::span<const Spelling<SleepLevel>> spellings_of(SleepLevel) { return kSleepLevels; }

}  // namespace plimsoll::rl
