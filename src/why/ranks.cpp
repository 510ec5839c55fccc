// SPDX-License-Identifier: Apache-2.0
#include "why/ranks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kMostUnlike = 8;

bool is_echo(SignalKind kind) {
  return kind == SignalKind::kPeerLost || kind == SignalKind::kCollectiveTimeout || kind == SignalKind::kExit;
}

// The largest figure that a rank printed, of the gauge that most ranks print.
std::map<int, std::int64_t> peaks(const Findings& findings) {
  std::map<int, std::int64_t> most;
  for (const StepSeries& series : findings.series) {
    if (!series.rank) continue;
    std::int64_t& peak = most[*series.rank];
    for (const StepPoint& point : series.points) {
      const std::int64_t here = std::max({point.peak, point.allocated, point.used});
      peak = std::max(peak, here);
    }
    if (peak == 0) most.erase(*series.rank);
  }
  return most;
}

template <typename T>
T median_of(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void add_unlike(int rank, std::string says, RankStory& story) {
  for (UnlikeRank& one : story.unlike)
    if (one.rank == rank) {
      one.says += ", " + says;
      return;
    }
  if (story.unlike.size() < kMostUnlike) story.unlike.push_back({rank, std::move(says)});
}

// A rank unlike the others: more than a tenth off their middle, where the others lie within a twentieth of it.
void add_unlike_memory(const Findings& findings, RankStory& story) {
  const std::map<int, std::int64_t> most = peaks(findings);
  if (most.size() < 3) return;
  std::vector<std::int64_t> values;
  for (const auto& [rank, bytes] : most) values.push_back(bytes);
  const std::int64_t middle = median_of(values);
  std::int64_t low = middle;
  std::int64_t high = middle;
  std::vector<int> off;
  for (const auto& [rank, bytes] : most)
    if (std::abs(bytes - middle) * 10 > middle) {
      off.push_back(rank);
    } else {
      low = std::min(low, bytes);
      high = std::max(high, bytes);
    }
  if (off.empty() || (off.size() > 1 && off.size() * 4 > most.size())) return;  // halves of a pipeline differ by design
  for (const int rank : off)
    add_unlike(rank,
               fmt::format("held {} at most, the others {}{}", format_bytes(most.at(rank)), format_bytes(low),
                           high > low ? fmt::format(" to {}", format_bytes(high)) : ""),
               story);
}

// A rank that is steps behind the others is the one that they waited for.
void add_unlike_steps(const Findings& findings, RankStory& story) {
  if (findings.last_steps.size() < 3) return;
  std::vector<std::int64_t> values;
  for (const auto& [rank, step] : findings.last_steps) values.push_back(step);
  const std::int64_t middle = median_of(values);
  std::vector<int> behind;
  for (const auto& [rank, step] : findings.last_steps)
    if (step < middle) behind.push_back(rank);
  if (behind.empty() || behind.size() * 4 > findings.last_steps.size()) return;
  for (const int rank : behind)
    add_unlike(rank,
               fmt::format("stopped after step {}, the others after step {}", findings.last_steps.at(rank), middle),
               story);
}

// Where all others gave up waiting, the one that did not is the one that they waited for.
void add_silent(const Findings& findings, const std::set<int>& heard, RankStory& story) {
  const auto gave_up = findings.failing.find(SignalKind::kCollectiveTimeout);
  if (gave_up == findings.failing.end() || gave_up->second.size() < 2) return;
  std::vector<int> silent;
  for (const int rank : heard)
    if (!gave_up->second.contains(rank)) silent.push_back(rank);
  if (silent.empty() || silent.size() * 4 > heard.size()) return;
  for (const int rank : silent) add_unlike(rank, "did not report the timeout that the others did", story);
}

}  // namespace

RankStory ranks_of(const Findings& findings, const Diagnosis& diagnosis) {
  RankStory story;
  std::set<int> heard;
  for (const LogFile& file : findings.files)
    if (file.rank) heard.insert(*file.rank);
  for (const auto& [rank, step] : findings.last_steps) heard.insert(rank);
  for (const StepSeries& series : findings.series)
    if (series.rank) heard.insert(*series.rank);
  std::set<int> direct;
  std::set<int> echoing;
  for (const auto& [kind, ranks] : findings.failing) {
    heard.insert(ranks.begin(), ranks.end());
    (is_echo(kind) ? echoing : direct).insert(ranks.begin(), ranks.end());
  }
  story.heard = static_cast<int>(heard.size());
  story.first = diagnosis.rank;
  story.alike = diagnosis.same;
  const bool root_is_echo = diagnosis.root != nullptr && is_echo(diagnosis.root->signal.kind);
  for (const int rank : echoing)
    if (!direct.contains(rank) && !root_is_echo) story.echoes.push_back(rank);
  add_unlike_memory(findings, story);
  add_unlike_steps(findings, story);
  add_silent(findings, heard, story);
  return story;
}

std::string rank_list(const std::vector<int>& ranks, std::size_t most) {
  std::vector<std::string> runs;
  std::size_t told = 0;
  for (std::size_t i = 0; i < ranks.size() && runs.size() < most;) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i > 2) {
      runs.push_back(fmt::format("{} to {}", ranks[i], ranks[end - 1]));
      told += end - i;
      i = end;
    } else {
      runs.push_back(std::to_string(ranks[i]));
      ++told;
      ++i;
    }
  }
  std::string text;
  const bool rest = told < ranks.size();
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += (i == 0 ? "" : i + 1 == runs.size() && !rest ? " and " : ", ") + runs[i];
  return rest ? fmt::format("{} and {} more", text, ranks.size() - told) : text;
}

}  // namespace plimsoll::why
