// SPDX-License-Identifier: Apache-2.0
// What the page asks: a JSON object with a small set of members, each within limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace plimsoll::serve {

inline constexpr std::size_t kLargestQuery = std::size_t{1} << 20;  // bytes
inline constexpr std::int64_t kMostColumns = 8192;                  // of one picture: two screens of 4K

struct Query {
  std::vector<std::string> files;                         // ids of the shelf
  std::vector<std::pair<std::string, std::string>> keys;  // turned knobs, in order
  std::vector<std::string> flags;                         // switches of the verb: "changes", "knobs"
  std::int64_t rank = 0;
  std::int64_t event = 0;
  std::int64_t columns = 1000;
  std::optional<double> from;  // of the axis; absent: its beginning
  std::optional<double> to;
  std::optional<double> low;  // of the other axis
  std::optional<double> high;
  std::string axis;  // "events", "time"
  std::string by;    // what is told apart: "category", "module", "stack"
  std::string setting;
  std::string ask;     // the asker's name for the question, to give it up by
  std::string cancel;  // of "/api/cancel": the name of the question that is given up

  [[nodiscard]] bool has(std::string_view flag) const;
};

// An error names the member and what was wanted.
[[nodiscard]] Result<Query> parse_query(std::string_view body);

}  // namespace plimsoll::serve
