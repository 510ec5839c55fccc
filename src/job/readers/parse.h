// SPDX-License-Identifier: Apache-2.0
// Which of the three document formats a text is in, by its content.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "document/node.h"

namespace plimsoll::job {

// JSON where the text starts like JSON, TOML where its first line does, YAML otherwise.
[[nodiscard]] Result<document::Node> parse_document(std::string_view text);

// JSON or YAML; what frameworks that have no TOML write.
[[nodiscard]] Result<document::Node> parse_json_or_yaml(std::string_view text);

// Calls back with "a.b.c" and the value for every leaf; lists are leaves.
void for_each_leaf(const document::Node& table,
                   const std::function<void(const std::string& path, const document::Node& value)>& visit,
                   const std::string& prefix = {});

}  // namespace plimsoll::job
