// SPDX-License-Identifier: Apache-2.0
#include "cli/stats_report.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/json_writer.h"
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

std::optional<double> fragmentation(const snapshot::MemoryStats& stats) {
  const auto& allocated = stats.of(Stat::kAllocatedBytes).all.peak;
  const auto& reserved = stats.of(Stat::kReservedBytes).all.peak;
  if (!allocated || !reserved || reserved->value == 0) return std::nullopt;
  return 1 - static_cast<double>(allocated->value) / static_cast<double>(reserved->value);
}

void write_figure(JsonWriter& json, const char* name, const std::optional<Figure>& figure) {
  if (!figure) return;
  json.key(name).begin_object(Layout::kInline).member("value", figure->value).member("precision", figure->precision);
  json.end_object();
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
    if (const auto share = fragmentation(stats))
      text += fmt::format("\nfragmentation: {:.1f} % of the peak reserved is above the peak allocated\n", 100 * *share);
    if (stats.num_ooms && stats.num_alloc_retries)
      text += fmt::format("out of memory: {}; releases of the whole cache to serve a request: {}\n", *stats.num_ooms,
                          *stats.num_alloc_retries);
  }
  return text;
}

std::string stats_json(const std::vector<snapshot::MemoryStats>& tables) {
  JsonWriter json;
  json.begin_object().member("schema", 1).member("events", 0).member("reproduced", 0);
  json.key("counters").begin_array();
  for (const snapshot::MemoryStats& stats : tables) {
    json.begin_object().member("device", stats.device);
    for (const Stat stat : kBytes) {
      const snapshot::Usage& usage = stats.of(stat).all;
      if (!usage.current && !usage.peak) continue;
      json.key(snapshot::stat_name(stat)).begin_object(Layout::kInline);
      write_figure(json, "current", usage.current);
      write_figure(json, "peak", usage.peak);
      json.end_object();
    }
    json.member("fragmentation", fragmentation(stats))
        .member("ooms", stats.num_ooms)
        .member("retries", stats.num_alloc_retries)
        .end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::cli
