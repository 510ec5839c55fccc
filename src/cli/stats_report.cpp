// SPDX-License-Identifier: Apache-2.0
#include "cli/stats_report.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

using snapshot::Figure;
using snapshot::Stat;

constexpr Stat kBytes[] = {Stat::kRequestedBytes, Stat::kAllocatedBytes, Stat::kActiveBytes, Stat::kReservedBytes,
                           Stat::kInactiveSplitBytes};

std::string shown(const std::optional<Figure>& figure) {
  if (!figure) return "";
  if (figure->precision == 1) return with_commas(figure->value);
  return fmt::format("{} (to {})", format_bytes(figure->value), format_bytes(figure->precision));
}

}  // namespace

std::string stats_report(const std::vector<snapshot::MemoryStats>& tables, const Console& console) {
  std::string text;
  for (const snapshot::MemoryStats& stats : tables) {
    if (!text.empty()) text += "\n";
    text += stats.device ? fmt::format("device {}: ", *stats.device) : std::string{};
    text += "counters only, no history to replay\n\n";
    Table table({{"bytes"}, {"now", Align::kRight}, {"peak", Align::kRight}});
    for (const Stat stat : kBytes) {
      const snapshot::Usage& usage = stats.of(stat).all;
      if (usage.current || usage.peak)
        table.add_row({std::string(snapshot::stat_name(stat)), shown(usage.current), shown(usage.peak)});
    }
    text += table.to_text(console.width, console.colour_out);
    if (const auto share = answer::fragmentation(stats))
      text += fmt::format("\nfragmentation: {:.1f} % of the peak reserved is above the peak allocated\n", 100 * *share);
    if (stats.num_ooms && stats.num_alloc_retries)
      text += fmt::format("out of memory: {}; releases of the whole cache to serve a request: {}\n", *stats.num_ooms,
                          *stats.num_alloc_retries);
  }
  return text;
}

}  // namespace plimsoll::cli
