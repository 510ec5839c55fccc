// SPDX-License-Identifier: Apache-2.0
// Any bytes as TOML: a tree or an error with a message, never a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "document/node.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto node = plimsoll::document::parse_toml({reinterpret_cast<const char*>(data), size});
  if (!node && node.error().message.empty()) std::abort();
  if (node) static_cast<void>(plimsoll::document::to_text(*node));
  return 0;
}
