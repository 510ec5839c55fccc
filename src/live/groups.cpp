// SPDX-License-Identifier: Apache-2.0
#include "live/groups.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace plimsoll::live {

namespace {

double held(const RankComparison& row) { return row.allocated.measured.value_or(0); }

RankGroup make_group(const std::vector<RankComparison>& rows, std::vector<std::size_t> members, bool with_stage) {
  RankGroup group;
  std::vector<std::int64_t> ranks;
  group.fullest = members.front();
  for (const std::size_t member : members) {
    ranks.push_back(rows[member].rank);
    if (rows[member].reserved.measured.value_or(0) > rows[group.fullest].reserved.measured.value_or(0))
      group.fullest = member;
  }
  group.label = ranges(std::move(ranks));
  if (with_stage && rows[group.fullest].pp_rank)
    group.label += fmt::format(" (stage {})", *rows[group.fullest].pp_rank);
  group.rows = std::move(members);
  return group;
}

}  // namespace

std::string ranges(std::vector<std::int64_t> ranks, std::size_t most) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());  // a rank may have run twice
  std::string text;
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (pieces++ == most) return text + fmt::format(" and {} more", ranks.size() - i);
    text += (text.empty() ? "" : ", ") +
            (last == i ? std::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  return text;
}

std::vector<RankGroup> group_rows(const std::vector<RankComparison>& rows, std::size_t most_single, double same) {
  std::vector<RankGroup> groups;
  if (rows.size() <= most_single) {
    for (std::size_t i = 0; i < rows.size(); ++i) groups.push_back(make_group(rows, {i}, false));
    return groups;
  }
  std::map<std::int64_t, std::vector<std::size_t>> stages;
  for (std::size_t i = 0; i < rows.size(); ++i) stages[rows[i].pp_rank.value_or(0)].push_back(i);
  for (auto& [stage, members] : stages) {
    std::sort(members.begin(), members.end(),
              [&rows](std::size_t a, std::size_t b) { return held(rows[a]) < held(rows[b]); });
    const std::size_t first = groups.size();
    std::vector<std::size_t> open;
    for (const std::size_t member : members) {
      if (!open.empty() && held(rows[member]) > (1 + same) * held(rows[open.front()])) {
        groups.push_back(make_group(rows, std::move(open), stages.size() > 1));
        open.clear();
      }
      open.push_back(member);
    }
    groups.push_back(make_group(rows, std::move(open), stages.size() > 1));
    for (std::size_t i = first; i < groups.size(); ++i)
      groups[i].is_outlier = groups.size() - first > 1 && 10 * groups[i].rows.size() < members.size();
  }
  return groups;
}

}  // namespace plimsoll::live
