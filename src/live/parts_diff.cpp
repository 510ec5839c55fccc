// SPDX-License-Identifier: Apache-2.0
#include "live/parts_diff.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "document/json_writer.h"

namespace plimsoll::live {

namespace {

using document::JsonWriter;
using document::Layout;

using ByRank = std::map<std::int64_t, const RankFacts*>;

ByRank readable(const Part& part) {
  ByRank ranks;
  for (const RankFacts& facts : part.rows) {
    if (!facts.problem.empty() || (facts.is_log && facts.reserved <= 0)) continue;
    const RankFacts*& known = ranks[facts.rank];  // a rank may have two logs: the one that shows more
    if (known == nullptr || !facts.is_log || facts.reserved > known->reserved) known = &facts;
  }
  return ranks;
}

std::optional<double> positive(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

void write(JsonWriter& json, std::string_view name, const Quantity& quantity) {
  if (!quantity.measured || !quantity.predicted) return;
  json.key(name).begin_object(Layout::kInline);
  json.member("before", *quantity.predicted).member("after", *quantity.measured).end_object();
}

}  // namespace

bool RanksDiff::within(const answer::GrowthLimit& limit) const {
  return std::none_of(rows.begin(), rows.end(), [&limit](const RankComparison& row) {
    return limit.exceeded(static_cast<std::int64_t>(row.reserved.predicted.value_or(0)),
                          static_cast<std::int64_t>(row.reserved.measured.value_or(0)));
  });
}

Result<RanksDiff> compare_parts(const Part& before, const Part& after) {
  RanksDiff diff;
  const ByRank first = readable(before);
  const ByRank second = readable(after);
  diff.not_read = not_read(before);
  for (std::string& file : not_read(after)) diff.not_read.push_back(std::move(file));
  for (const auto& [rank, facts] : first)
    if (!second.contains(rank)) diff.alone.push_back(rank);
  for (const auto& [rank, facts] : second) {
    const auto same = first.find(rank);
    if (same == first.end()) {
      diff.alone.push_back(rank);
      continue;
    }
    RankComparison row;
    row.rank = rank;
    row.host = facts->host;
    row.allocated.measured = static_cast<double>(facts->allocated);
    row.allocated.predicted = static_cast<double>(same->second->allocated);
    row.reserved.measured = static_cast<double>(facts->reserved);
    row.reserved.predicted = static_cast<double>(same->second->reserved);
    row.seconds.measured = positive(facts->seconds);
    row.seconds.predicted = positive(same->second->seconds);
    diff.rows.push_back(std::move(row));
  }
  if (diff.rows.empty()) {
    const char* reason = first.empty() || second.empty() ? "no file of one of the folders shows what a rank held"
                                                         : "the folders have no rank in common";
    return bad_input(diff.not_read.empty() ? reason : diff.not_read.front(),
                     "plimsoll map FOLDER shows what each holds");
  }
  return diff;
}

std::string to_json(const RanksDiff& diff, bool within) {
  JsonWriter json;
  json.begin_object().member("schema", 1).member("kind", "ranks").member("within_limit", within);
  json.key("ranks").begin_array();
  for (const RankComparison& row : diff.rows) {
    json.begin_object(Layout::kInline).member("rank", row.rank);
    write(json, "allocated_bytes", row.allocated);
    write(json, "reserved_bytes", row.reserved);
    write(json, "step_seconds", row.seconds);
    json.end_object();
  }
  json.end_array().key("alone").begin_array(Layout::kInline);
  for (const std::int64_t rank : diff.alone) json.value(rank);
  json.end_array().key("not_read").begin_array();
  for (const std::string& file : diff.not_read) json.value(file);
  json.end_array().end_object();
  return json.take() + "\n";
}

}  // namespace plimsoll::live
