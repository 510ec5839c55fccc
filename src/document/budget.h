// SPDX-License-Identifier: Apache-2.0
// How large a tree may become. A list of zeros needs sixty times its text as nodes; a configuration needs a few
// times its own size, so what goes beyond a fixed amount and the size of the text is no configuration.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll::document {

inline constexpr std::string_view kTooManyNodes = "it holds more values than any configuration";

class NodeBudget {
 public:
  explicit NodeBudget(std::size_t text_bytes) : left_((24U << 20U) + text_bytes / 2) {}

  // Whether this many bytes of nodes are still allowed.
  [[nodiscard]] bool take(std::size_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

 private:
  std::size_t left_;
};

}  // namespace plimsoll::document
