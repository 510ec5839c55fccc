// SPDX-License-Identifier: Apache-2.0
// The closed sets of choices in a run.
#pragma once

#include <cstdint>
#include <span>

#include "base/choices.h"

namespace plimsoll::rl {

enum class Framework : std::uint8_t { kTelescope, kVerl, kOpenRlhf, kNemoRl, kPrimeRl, kGeneric };
enum class Placement : std::uint8_t { kColocated, kDisaggregated };
enum class Mode : std::uint8_t {
  kSync,        // generate, then train, then generate
  kOneStepOff,  // whole batches; the next one is generated while this one is trained
  kAsync,       // generation never waits for a batch to end
};
enum class SyncMode : std::uint8_t {
  kFlattenedBucket,   // one rank broadcasts flat buckets to every inference GPU
  kPerTensor,         // one message per tensor
  kCheckpointEngine,  // verl: flat buckets, gather and broadcast overlapped
  kShared,            // colocated: handed over inside the GPU
};
enum class RayStrategy : std::uint8_t { kPack, kSpread, kStrictPack, kStrictSpread };
enum class SleepLevel : std::uint8_t {
  kNone,    // the server keeps weights and cache
  kLevel1,  // weights go to the host, the cache is dropped
  kLevel2,  // both are dropped
};

// Their spelling in the files of a run (base/choices.h).
[[nodiscard]] std::span<const Spelling<Framework>> spellings_of(Framework value);
[[nodiscard]] std::span<const Spelling<Placement>> spellings_of(Placement value);
[[nodiscard]] std::span<const Spelling<Mode>> spellings_of(Mode value);
[[nodiscard]] std::span<const Spelling<SyncMode>> spellings_of(SyncMode value);
[[nodiscard]] std::span<const Spelling<RayStrategy>> spellings_of(RayStrategy value);
[[nodiscard]] std::span<const Spelling<SleepLevel>> spellings_of(SleepLevel value);
using plimsoll::choices;
using plimsoll::from_name;
using plimsoll::name_of;

}  // namespace plimsoll::rl
