// SPDX-License-Identifier: Apache-2.0
#include "live/fates.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "answer/log_facts.h"
#include "base/text.h"
#include "live/groups.h"

namespace plimsoll::live {

namespace {

constexpr std::size_t kMostText = 160;  // of an error's message

bool has_vanished(const RankRun& rank) { return !rank.ended && !rank.failed(); }

bool is_echo(const RankRun& rank) {
  return !rank.oom && answer::echoes_another_rank(rank.error_type + ": " + rank.error);
}

std::string where(const RankRun& rank) {
  return rank.host.empty() ? fmt::format("rank {}", rank.rank) : fmt::format("rank {} on {}", rank.rank, rank.host);
}

std::string after(const RankRun& rank) {
  return rank.steps_done > 0 ? fmt::format("after step {}", rank.steps_done) : "before its first step was done";
}

// "ranks 8-15 (all of n2)": a machine that went takes all of its ranks along.
std::string named(const std::vector<const RankRun*>& some, const std::vector<RankRun>& all) {
  std::vector<std::int64_t> numbers;
  std::set<std::string> hosts;
  for (const RankRun* rank : some) {
    numbers.push_back(rank->rank);
    hosts.insert(rank->host);
  }
  std::string text = (some.size() == 1 ? "rank " : "ranks ") + ranges(std::move(numbers));
  const auto on_these = std::count_if(all.begin(), all.end(), [&](const RankRun& r) { return hosts.contains(r.host); });
  if (hosts.contains("") || hosts.size() > 3) return text;
  const bool whole = some.size() > 1 && static_cast<std::size_t>(on_these) == some.size() && some.size() < all.size();
  return text + (whole ? " (all of " : " (on ") + join(std::vector<std::string>(hosts.begin(), hosts.end()), ", ") +
         ")";
}

}  // namespace

std::vector<RankRun> take_last_start(std::vector<RankRun> all, std::vector<RankRun>& earlier) {
  std::int64_t last = 0;
  for (const RankRun& rank : all) last = std::max(last, rank.restart);
  std::vector<RankRun> ranks;
  for (RankRun& rank : all) (rank.restart == last ? ranks : earlier).push_back(std::move(rank));
  return ranks;
}

std::vector<std::string> fates(const std::vector<RankRun>& ranks, Over over) {
  std::vector<std::string> said;
  if (ranks.size() < 2) return said;
  const RankRun* first = nullptr;
  std::size_t failed = 0;
  std::size_t echoes = 0;
  std::vector<const RankRun*> vanished;
  for (const RankRun& rank : ranks) {
    if (has_vanished(rank)) vanished.push_back(&rank);
    if (rank.error.empty()) continue;
    ++failed;
    if (is_echo(rank))
      ++echoes;
    else if (first == nullptr || rank.error_time < first->error_time)
      first = &rank;
  }
  if (first != nullptr) {
    // Ranks that end without a word after it are ended by the launcher.
    said.push_back(fmt::format(
        "{} failed first, {}: {}: {}{}", where(*first), after(*first), first->error_type,
        printable(first->error, kMostText),
        failed > 1 ? fmt::format("; {} more failed, {} of them only because another was lost", failed - 1, echoes)
                   : ""));
    return said;
  }
  if (vanished.empty() || std::any_of(ranks.begin(), ranks.end(), [](const RankRun& r) { return r.oom.has_value(); }))
    return said;
  if (over == Over::kPerhaps && echoes == 0) return said;
  if (vanished.size() == ranks.size()) {
    said.push_back(
        fmt::format("all {} ranks ended without an error of their own: from outside, or in native code", ranks.size()));
    return said;
  }
  const auto fewest = *std::min_element(vanished.begin(), vanished.end(), [](const RankRun* a, const RankRun* b) {
    return a->steps_done < b->steps_done;
  });
  said.push_back(fmt::format(
      "{} vanished without an error, {}{}: killed, ended in native code, or the machine went{}", named(vanished, ranks),
      vanished.size() > 1 ? "the first " : "", after(*fewest),
      echoes > 0 ? fmt::format("; {} only lost a peer", echoes == 1 ? "another" : fmt::format("{} others", echoes))
                 : ""));
  return said;
}

std::string earlier_starts(const std::vector<RankRun>& earlier) {
  std::map<std::int64_t, std::vector<RankRun>> starts;
  for (const RankRun& rank : earlier) starts[rank.restart].push_back(rank);
  if (starts.empty()) return {};
  std::vector<std::string> ends;
  for (const auto& [restart, ranks] : starts) {
    const auto ran_out = std::find_if(ranks.begin(), ranks.end(), [](const RankRun& r) { return r.oom.has_value(); });
    if (ran_out != ranks.end()) {
      ends.push_back(fmt::format("in start {} rank {} ran out in {} {}", restart + 1, ran_out->rank,
                                 ran_out->oom->phase, after(*ran_out)));
      continue;
    }
    const std::vector<std::string> said = fates(ranks);
    if (!said.empty()) ends.push_back(fmt::format("in start {} {}", restart + 1, said.front()));
    if (ends.size() == 3) break;
  }
  return fmt::format("the launcher started the ranks {} times; shown are those of the last start{}", starts.size() + 1,
                     ends.empty() ? "" : "; " + join(ends, "; "));
}

}  // namespace plimsoll::live
