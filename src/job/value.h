// SPDX-License-Identifier: Apache-2.0
// One conversion from what a file or flag holds to a typed value, so that every key of every framework
// refuses the same wrong things with the same words. Messages do not name the key; the caller does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "document/node.h"

namespace plimsoll::job {

struct Range {
  double min = 0;
  double max = 0;
};

// 4, "4", 5e8 and "5e8" are integers; true and 1.5 are not.
[[nodiscard]] Result<std::int64_t> to_integer(const document::Node& value, const Range& range);
[[nodiscard]] Result<double> to_real(const document::Node& value, const Range& range);
// true, "true", "yes", 1; an empty string is a flag without a value and means true.
[[nodiscard]] Result<bool> to_bool(const document::Node& value);
[[nodiscard]] Result<std::string> to_word(const document::Node& value);
// A size with or without a unit: 85899345920, "80GiB".
[[nodiscard]] Result<std::int64_t> to_bytes(const document::Node& value);
// ["a", "b"], "a b", "a,b" and "[a b]" are all a and b.
[[nodiscard]] Result<std::vector<std::string>> to_words(const document::Node& value);

// The value as text short enough for a message.
[[nodiscard]] std::string shown(const document::Node& value);

[[nodiscard]] document::Node text_node(std::string text);
[[nodiscard]] document::Node bool_node(bool value);
[[nodiscard]] document::Node integer_node(std::int64_t value);
[[nodiscard]] document::Node real_node(double value);

// Whether two values mean the same, so that 8 and "8", true and "True" do not contradict each other.
[[nodiscard]] bool same_value(const document::Node& a, const document::Node& b);

}  // namespace plimsoll::job
