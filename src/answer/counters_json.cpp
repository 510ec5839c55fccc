// SPDX-License-Identifier: Apache-2.0
// What PyTorch's own counters say, from memory_stats() or a pasted memory_summary(): no history to replay, but peaks,
// fragmentation and how often memory ran out.
#include "answer/json.h"
#include "answer/replay.h"

namespace plimsoll::answer {

using snapshot::Figure;
using snapshot::Stat;

namespace {

constexpr Stat kBytes[] = {Stat::kRequestedBytes, Stat::kAllocatedBytes, Stat::kActiveBytes, Stat::kReservedBytes,
                           Stat::kInactiveSplitBytes};

void write_figure(JsonWriter& json, const char* name, const std::optional<Figure>& figure) {
  if (!figure) return;
  json.key(name).begin_object(Layout::kInline).member("value", figure->value).member("precision", figure->precision);
  json.end_object();
}

}  // namespace

std::optional<double> fragmentation(const snapshot::MemoryStats& stats) {
  const auto& allocated = stats.of(Stat::kAllocatedBytes).all.peak;
  const auto& reserved = stats.of(Stat::kReservedBytes).all.peak;
  if (!allocated || !reserved || reserved->value == 0) return std::nullopt;
  return 1 - static_cast<double>(allocated->value) / static_cast<double>(reserved->value);
}

std::string to_json(const std::vector<snapshot::MemoryStats>& counters) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("events", 0).member("reproduced", 0);
  json.key("counters").begin_array();
  for (const snapshot::MemoryStats& stats : counters) {
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

}  // namespace plimsoll::answer
