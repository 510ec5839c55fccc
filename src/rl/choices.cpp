// SPDX-License-Identifier: Apache-2.0
// The first word of a row is the name that is printed; the words after it are other frameworks' for the same thing.
// Case, '-' and '_' do not matter on reading.
#include "rl/choices.h"

#include <span>
#include <vector>

#include "base/text.h"
#include "inference/server.h"

namespace plimsoll::rl {

namespace {

template <class Enum>
struct Spelling {
  Enum value;
  std::string_view name;
  std::string_view aliases = {};  // separated by spaces
};

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
constexpr Spelling<inference::Engine> kEngines[] = {
    {inference::Engine::kVllm, "vllm"},
    {inference::Engine::kSglang, "sglang"},
};
constexpr Spelling<inference::WeightType> kWeightTypes[] = {
    {inference::WeightType::kBf16, "bf16", "bfloat16 fp16 float16"},
    {inference::WeightType::kFp32, "fp32", "float32"},
    {inference::WeightType::kFp8, "fp8"},
    {inference::WeightType::kInt8, "int8", "w8a8"},
    {inference::WeightType::kInt4, "int4", "awq gptq w4a16"},
};
constexpr Spelling<inference::KvType> kKvTypes[] = {
    {inference::KvType::kAuto, "auto"},
    {inference::KvType::kBf16, "bf16", "bfloat16 fp16 float16"},
    {inference::KvType::kFp32, "fp32", "float32"},
    {inference::KvType::kFp8, "fp8", "fp8_e4m3 fp8_e5m2"},
    {inference::KvType::kInt8, "int8"},
    {inference::KvType::kInt4, "int4"},
    {inference::KvType::kNvfp4, "nvfp4"},
};

template <class Enum>
std::span<const Spelling<Enum>> table();
template <>
std::span<const Spelling<Framework>> table() {
  return kFrameworks;
}
template <>
std::span<const Spelling<Placement>> table() {
  return kPlacements;
}
template <>
std::span<const Spelling<Mode>> table() {
  return kModes;
}
template <>
std::span<const Spelling<SyncMode>> table() {
  return kSyncModes;
}
template <>
std::span<const Spelling<RayStrategy>> table() {
  return kRayStrategies;
}
template <>
std::span<const Spelling<SleepLevel>> table() {
  return kSleepLevels;
}
template <>
std::span<const Spelling<inference::Engine>> table() {
  return kEngines;
}
template <>
std::span<const Spelling<inference::WeightType>> table() {
  return kWeightTypes;
}
template <>
std::span<const Spelling<inference::KvType>> table() {
  return kKvTypes;
}

std::string plain(std::string_view text) { return replace(lower(trim(text)), '_', '-'); }

}  // namespace

template <class Enum>
std::string_view name_of(Enum value) {
  for (const auto& row : table<Enum>())
    if (row.value == value) return row.name;
  return "?";
}

template <class Enum>
std::optional<Enum> from_name(std::string_view name) {
  const std::string wanted = plain(name);
  for (const auto& row : table<Enum>()) {
    if (plain(row.name) == wanted) return row.value;
    for (const std::string_view alias : split(row.aliases, ' '))
      if (!alias.empty() && plain(alias) == wanted) return row.value;
  }
  return std::nullopt;
}

template <class Enum>
std::string choices() {
  std::vector<std::string> names;
  for (const auto& row : table<Enum>()) names.emplace_back(row.name);
  return join(names, ", ");
}

#define PLIMSOLL_RL_CHOICE(Enum)                                  \
  template std::string_view name_of<Enum>(Enum);                  \
  template std::optional<Enum> from_name<Enum>(std::string_view); \
  template std::string choices<Enum>()
PLIMSOLL_RL_CHOICE(Framework);
PLIMSOLL_RL_CHOICE(Placement);
PLIMSOLL_RL_CHOICE(Mode);
PLIMSOLL_RL_CHOICE(SyncMode);
PLIMSOLL_RL_CHOICE(RayStrategy);
PLIMSOLL_RL_CHOICE(SleepLevel);
PLIMSOLL_RL_CHOICE(inference::Engine);
PLIMSOLL_RL_CHOICE(inference::WeightType);
PLIMSOLL_RL_CHOICE(inference::KvType);
#undef PLIMSOLL_RL_CHOICE

}  // namespace plimsoll::rl
