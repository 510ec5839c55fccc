// SPDX-License-Identifier: Apache-2.0
// The closed sets of choices in a run, with their spelling in files: one table per enum serves reading, printing and
// the "wanted one of" part of messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

template <class Enum>
[[nodiscard]] std::string_view name_of(Enum value);
template <class Enum>
[[nodiscard]] std::optional<Enum> from_name(std::string_view name);
// "sync, one-step-off, async": for messages.
template <class Enum>
[[nodiscard]] std::string choices();

}  // namespace plimsoll::rl
