// SPDX-License-Identifier: Apache-2.0
// Any bytes as YAML: a tree or an error with a message, never a crash or a hang. What is read as plain YAML is what all
// of YAML reads.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "document/node.h"
#include "document/plain_yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto node = plimsoll::document::parse_yaml({reinterpret_cast<const char*>(data), size});
  if (!node && node.error().message.empty()) std::abort();
  if (node) static_cast<void>(plimsoll::document::to_text(*node));
  const auto plain = plimsoll::document::parse_plain_yaml({reinterpret_cast<const char*>(data), size});
  constexpr std::size_t kBelowEveryBound = 1U << 14;  // of lists, nodes and repeats
  if (plain.root && size < kBelowEveryBound) {
    const auto whole = plimsoll::document::parse_whole_yaml({reinterpret_cast<const char*>(data), size});
    if (!whole || plimsoll::document::to_json(*whole) != plimsoll::document::to_json(*plain.root)) std::abort();
  }
  return 0;
}
