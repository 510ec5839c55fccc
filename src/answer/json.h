// SPDX-License-Identifier: Apache-2.0
// JSON of answers. Every answer is an object with "schema", which is raised when a member changes its meaning or goes
// away; new members do not raise it. `to_json` of an answer is the whole text, `describe` writes one part of it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "document/json_writer.h"

namespace plimsoll::answer {

using document::json_quoted;
using document::JsonWriter;
using document::Layout;

inline constexpr int kSchema = 1;

// "name": ["text", ...]
void write_texts(JsonWriter& json, std::string_view name, const std::vector<std::string>& texts,
                 Layout layout = Layout::kLines);

// "settings": {"key": "value", ...}
void write_settings(JsonWriter& json, const std::vector<std::pair<std::string, std::string>>& settings,
                    Layout layout = Layout::kLines);

}  // namespace plimsoll::answer
