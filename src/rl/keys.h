// SPDX-License-Identifier: Apache-2.0
// Every key that a run can be described with. Reading, flags, suggestions and the reference use this table. A key
// whose section is "trainer" is Telescope's name for keys of the training job.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "job/key_engine.h"
#include "job/value.h"
#include "rl/run.h"

namespace plimsoll::rl {

using Custom = job::CustomField<Run>;
using Field = job::FieldOf<Run, std::int64_t, std::optional<std::int64_t>, bool, double, std::optional<double>,
                           std::string, Placement, Mode, SyncMode, RayStrategy, SleepLevel, inference::Engine,
                           inference::WeightType, inference::KvType>;

struct Key {
  std::string_view name;
  std::string_view section;
  Field field;
  std::string_view doc;
  job::Range range = {0, 0};
  std::string_view aliases = {};  // separated by spaces
};

[[nodiscard]] std::span<const Key> key_table();

// The row of a name or alias, with dashes or underscores; nullptr where there is none.
[[nodiscard]] const Key* find_key(std::string_view name);

[[nodiscard]] std::string type_name(const Key& key);

// Sections of a run's file, in order.
[[nodiscard]] std::vector<std::string> section_names();

// Sets one key and records it in run.given. A name that is no key of a run is tried as a key of the trainer's job,
// where job::read_job() judges its value; unknown ones are an error with the nearest name.
[[nodiscard]] Status set_key(Run& run, std::string_view name, const document::Node& value);

// The same where only the trainer's keys are meant: the [trainer] table.
[[nodiscard]] Status set_trainer_key(Run& run, std::string_view name, const document::Node& value);

// Of a key of the trainer's job: as given, else as the completed job has it.
[[nodiscard]] std::string trainer_value(const Run& run, std::string_view canonical);

// The current value as a person would write it; "" for keys that have no single field.
[[nodiscard]] std::string value_text(const Run& run, std::string_view name);

}  // namespace plimsoll::rl
