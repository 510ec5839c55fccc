// SPDX-License-Identifier: Apache-2.0
// The rows behind key_table(): a canonical name, the field of the job that it sets, its allowed range; key_engine.h
// does the rest. A Custom row brings its own setter.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"
#include "job/key_engine.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

template <class T>
using Ref = FieldRef<Job, T>;
using Custom = CustomField<Job>;
using Field = FieldOf<Job, std::int64_t, std::optional<std::int64_t>, int, bool, std::optional<bool>, double,
                      std::optional<double>, std::string, std::vector<std::string>, DType, std::optional<DType>,
                      Fp8Recipe, PipelineSchedule, OptimizerKind, OptimizerImpl, ShardingKind, FsdpUnits, OffloadTarget,
                      MegatronFsdpStrategy, RecomputeGranularity, RecomputeMethod, AdapterKind, AdapterBias, StateDict,
                      Implementation, LossKind, DispatcherKind, CudaGraphs>;

// Sizes of models, batches and buffers; no table needs more, and products of three stay in 63 bits
// after the checks of complete().
inline constexpr Range kSize{1, 1LL << 40};
inline constexpr Range kSizeOrZero{0, 1LL << 40};
inline constexpr Range kRanks{1, 1 << 24};
inline constexpr Range kFraction{0, 1};
inline constexpr Range kAny{-1e300, 1e300};

struct Key {
  std::string_view name;
  Moves moves;  // in some job at least; tests/unit/answer/key_classes_test.cpp turns each
  Field field;
  std::string_view doc;
  Range range = kSize;
};

struct Section {
  std::string_view name;
  std::span<const Key> keys;
  bool describes_model = false;  // its keys are ModelKeys: the architecture follows them
};

// Defined one per file of this folder.
[[nodiscard]] std::span<const Key> model_key_rows();
[[nodiscard]] std::span<const Key> vocabulary_key_rows();
[[nodiscard]] std::span<const Key> cluster_key_rows();
[[nodiscard]] std::span<const Key> parallel_key_rows();
[[nodiscard]] std::span<const Key> batch_key_rows();
[[nodiscard]] std::span<const Key> precision_key_rows();
[[nodiscard]] std::span<const Key> recompute_key_rows();
[[nodiscard]] std::span<const Key> optimizer_key_rows();
[[nodiscard]] std::span<const Key> sharding_key_rows();
[[nodiscard]] std::span<const Key> offload_key_rows();
[[nodiscard]] std::span<const Key> moe_key_rows();
[[nodiscard]] std::span<const Key> adapter_key_rows();
[[nodiscard]] std::span<const Key> kernel_key_rows();

struct FoundKey {
  const Key* key = nullptr;
  const Section* section = nullptr;
};
[[nodiscard]] FoundKey find_key(std::string_view canonical);

// Sets a canonical key and records it in job.given.
[[nodiscard]] Status set_canonical(Job& job, const FoundKey& found, const document::Node& value);

// For a row of a table of names whose target is no key.
[[nodiscard]] Error bad_target(std::string_view name, std::string_view target);

}  // namespace plimsoll::job

// A field of the job as a function from job to reference.
#define PLIMSOLL_FIELD(member) (+[](::plimsoll::job::Job& job) -> auto& { return job.member; })
