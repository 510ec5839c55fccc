// SPDX-License-Identifier: Apache-2.0
// Any bytes as the JSON of memory_stats() and as the table of memory_summary(): refused with a message, or complete
// and no current use above its peak.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "snapshot/memory_summary.h"

using namespace plimsoll;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto stats = snapshot::read_memory_stats("fuzz", text))
    check(snapshot::check_memory_stats(*stats).has_value());
  else
    check(!stats.error().message.empty());
  const auto tables = snapshot::read_memory_summaries("fuzz", text);
  if (!tables) {
    check(!tables.error().message.empty());
    return 0;
  }
  check(!tables->empty());
  for (const snapshot::MemoryStats& table : *tables) check(snapshot::check_memory_stats(table).has_value());
  return 0;
}
