// SPDX-License-Identifier: Apache-2.0
// Tools that are read and not written: slime, AReaL, open-instruct, SkyRL, Trinity-RFT, and GRPO of TRL and of tools
// around it, and tools that are not known, by the names of their keys. Their runs are described with our own keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rl/frameworks/config.h"

namespace plimsoll::rl {

enum class Tool { kSlime, kAreal, kOpenInstruct, kSkyRl, kTrinity, kTrl, kByNames };

// Whose file this is, by keys that only one tool has.
[[nodiscard]] std::optional<Tool> recognise_tool(std::string_view text);

[[nodiscard]] Result<ConfigSettings> read_skyrl(const std::string& path, std::string_view text);
[[nodiscard]] Result<ConfigSettings> read_trinity(const std::string& path, std::string_view text);

// `given` are the keys that flags decide; GRPO of TRL counts its prompts by the number of GPUs.
[[nodiscard]] Result<ConfigSettings> read_tool_settings(Tool tool, const std::string& path, std::string_view text,
                                                        const Settings& given);

}  // namespace plimsoll::rl
