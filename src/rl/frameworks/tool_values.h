// SPDX-License-Identifier: Apache-2.0
// What the readers of tools share: rows of names, numbers within reason, the flags of a script's command.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rl/frameworks/config.h"
#include "rl/frameworks/items.h"

namespace plimsoll::rl {

constexpr std::int64_t kMost = 1 << 20;

struct Row {
  std::string_view name;  // of the tool
  std::string_view key;
};

void take_rows(std::span<const Row> rows, Values& values, Settings& settings);
// 0 where the setting is none.
[[nodiscard]] std::int64_t integer(const Settings& settings, std::string_view key);
[[nodiscard]] std::int64_t take_count(Values& values, std::string_view path, std::int64_t otherwise);
void take_model(const std::string& word, Settings& settings);

// The flags of the command with most of the wanted ones, with what its launcher and accelerate's file say.
[[nodiscard]] Result<Values> flags_of_script(std::string_view text, const std::string& path,
                                             std::span<const std::string_view> wanted);

// What accelerate's file says of sharding and processes: train_backend, zero_stage, launched_gpus.
void read_accelerate_file(const std::string& name, const std::string& folder, Values& values);

// GRPO of TRL and of tools that take its arguments.
[[nodiscard]] Result<ConfigSettings> read_trl(const std::string& path, std::string_view text, const Settings& given);

}  // namespace plimsoll::rl
