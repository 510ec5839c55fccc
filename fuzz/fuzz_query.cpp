// SPDX-License-Identifier: Apache-2.0
// What a page may ask: any bytes give a query within its limits or an error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "serve/query.h"
#include "serve/question.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto query = plimsoll::serve::parse_query({reinterpret_cast<const char*>(data), size});
  if (!query) return 0;
  if (query->columns < 1 || query->columns > plimsoll::serve::kMostColumns || query->rank < 0 || query->event < 0)
    std::abort();
  if (query->from && query->to && !(*query->from < *query->to)) std::abort();
  for (const auto& [key, value] : query->keys)
    if (key.empty() || key.find_first_of("-/. ") != std::string::npos) std::abort();
  static_cast<void>(plimsoll::serve::identity_of(*query));
  return 0;
}
