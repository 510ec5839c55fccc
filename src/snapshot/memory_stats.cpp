// SPDX-License-Identifier: Apache-2.0
#include "snapshot/memory_stats.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "document/node.h"

namespace plimsoll::snapshot {

namespace {

using document::Node;

constexpr std::string_view kStatNames[kStatCount] = {
    "allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes", "inactive_split_bytes",
    "allocation",      "active",       "segment",         "inactive_split"};

constexpr std::pair<std::string_view, Usage StatUsage::*> kPools[] = {
    {"all", &StatUsage::all}, {"large_pool", &StatUsage::large_pool}, {"small_pool", &StatUsage::small_pool}};

constexpr std::pair<std::string_view, std::optional<Figure> Usage::*> kMetrics[] = {
    {"current", &Usage::current}, {"peak", &Usage::peak}, {"allocated", &Usage::allocated}, {"freed", &Usage::freed}};

constexpr std::pair<std::string_view, Usage MemoryStats::*> kOversize[] = {
    {"oversize_allocations", &MemoryStats::oversize_allocations},
    {"oversize_segments", &MemoryStats::oversize_segments}};

constexpr std::pair<std::string_view, std::optional<std::int64_t> MemoryStats::*> kCounts[] = {
    {"num_ooms", &MemoryStats::num_ooms},
    {"num_alloc_retries", &MemoryStats::num_alloc_retries},
    {"num_sync_all_streams", &MemoryStats::num_sync_all_streams},
    {"num_device_alloc", &MemoryStats::num_device_alloc},
    {"num_device_free", &MemoryStats::num_device_free},
    {"num_oom_rejections", &MemoryStats::num_oom_rejections}};

// The member under "a.b.c", written flat or nested.
const Node* find(const Node& root, std::string_view path) {
  if (const Node* flat = root.find(path)) return flat;
  const Node* at = &root;
  while (at != nullptr && at->is_object()) {
    const std::size_t dot = path.find('.');
    at = at->find(path.substr(0, dot));
    if (dot == std::string_view::npos) return at;
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

Result<std::optional<std::int64_t>> read_count(const Node& root, const std::string& path) {
  const Node* node = find(root, path);
  if (node == nullptr) return std::nullopt;
  if (!node->is_integer() || node->integer < 0)
    return bad_input(fmt::format(
        "{}: found {}; wanted an integer of 0 or more", path,
        node->is_integer() ? fmt::format("{}", node->integer) : std::string(document::kind_name(node->kind))));
  return node->integer;
}

Status read_usage(const Node& root, const std::string& path, Usage& usage) {
  for (const auto& [name, metric] : kMetrics) {
    PLIMSOLL_TRY(count, read_count(root, fmt::format("{}.{}", path, name)));
    if (count) usage.*metric = Figure{*count, 1};
  }
  return {};
}

Result<MemoryStats> read(std::string_view json) {
  PLIMSOLL_TRY(root, document::parse_json(json));
  if (!root.is_object())
    return bad_input(
        fmt::format("found {}; wanted the object of torch.cuda.memory_stats()", document::kind_name(root.kind)));
  MemoryStats stats;
  for (std::size_t i = 0; i < kStatCount; ++i)
    for (const auto& [name, pool] : kPools)
      PLIMSOLL_TRY_STATUS(read_usage(root, fmt::format("{}.{}", kStatNames[i], name), stats.stats[i].*pool));
  for (const auto& [name, usage] : kOversize) PLIMSOLL_TRY_STATUS(read_usage(root, std::string(name), stats.*usage));
  for (const auto& [name, count] : kCounts) {
    PLIMSOLL_TRY(found, read_count(root, std::string(name)));
    stats.*count = found;
  }
  if (const Node* limit = root.find("max_split_size")) {
    // Some version gives no limit as an unsigned maximum (facts snapshot-format.md 1), which is a real number here.
    const bool is_unsigned = limit->kind == Node::Kind::kReal && limit->real >= 9.2e18;
    if (!is_unsigned && (!limit->is_integer() || limit->integer < -1))
      return bad_input("max_split_size: wanted a number of bytes, or -1 for no limit");
    stats.max_split_size = is_unsigned || limit->integer == INT64_MAX ? -1 : limit->integer;
  }
  PLIMSOLL_TRY_STATUS(check_memory_stats(stats));
  return stats;
}

Status check_usage(const std::string& where, const Usage& usage) {
  if (!usage.current || !usage.peak || usage.current->value < usage.peak->value + usage.peak->precision) return {};
  return bad_input(fmt::format("{}: current {} is above peak {}; wanted it at or below", where, usage.current->value,
                               usage.peak->value));
}

}  // namespace

std::string_view stat_name(Stat stat) { return kStatNames[static_cast<std::size_t>(stat)]; }

bool looks_like_memory_stats(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' &&
         text.find("\"allocated_bytes") != std::string_view::npos;
}

Status check_memory_stats(const MemoryStats& stats) {
  for (const Stat stat : {Stat::kAllocatedBytes, Stat::kReservedBytes})
    if (!stats.of(stat).all.current || !stats.of(stat).all.peak)
      return bad_input(fmt::format("{}.all: current or peak is missing; wanted both", stat_name(stat)),
                       "give all that torch.cuda.memory_stats() or memory_summary() returned");
  for (std::size_t i = 0; i < kStatCount; ++i)
    for (const auto& [name, pool] : kPools)
      PLIMSOLL_TRY_STATUS(check_usage(fmt::format("{}.{}", kStatNames[i], name), stats.stats[i].*pool));
  for (const auto& [name, usage] : kOversize) PLIMSOLL_TRY_STATUS(check_usage(std::string(name), stats.*usage));
  return {};
}

Result<MemoryStats> read_memory_stats(std::string_view name, std::string_view json) {
  auto stats = read(json);
  if (!stats) return tl::make_unexpected(std::move(stats.error()).with_context(std::string(name)));
  return stats;
}

}  // namespace plimsoll::snapshot
