// SPDX-License-Identifier: Apache-2.0
#include "replay/whatif.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/crew.h"

namespace plimsoll::replay {

namespace {

constexpr std::int64_t kSplitsMiB[] = {0, 20, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
constexpr std::int64_t kDivisions[] = {0, 2, 4, 8, 16, 32, 64};
constexpr std::int64_t kLargeSegmentsMiB[] = {20, 32, 64, 128};

struct Choice {
  bool expandable = false;
  std::int64_t split = 0;      // MiB; 0: unlimited
  std::int64_t divisions = 0;  // 0: off
  std::int64_t segment = 20;   // MiB

  [[nodiscard]] std::string text() const {
    std::string text;
    const auto add = [&text](std::string_view name, const auto& value) {
      text += fmt::format("{}{}:{}", text.empty() ? "" : ",", name, value);
    };
    if (expandable) add("expandable_segments", "True");
    if (split > 0) add("max_split_size_mb", split);
    if (divisions > 0) add("roundup_power2_divisions", divisions);
    if (segment != 20) add("large_segment_size_mb", segment);
    return text;
  }
};

// Expandable segments together with a split limit hit a defect of PyTorch (#193400) and are left out.
bool allowed(const Choice& choice, allocator::Version torch) {
  if (choice.expandable && choice.split > 0) return false;
  return choice.segment == 20 || torch >= allocator::Version{2, 11};
}

std::vector<Choice> all_choices(allocator::Version torch) {
  std::vector<Choice> choices;
  for (const bool expandable : {false, true})
    for (const std::int64_t split : kSplitsMiB)
      for (const std::int64_t divisions : kDivisions)
        for (const std::int64_t segment : kLargeSegmentsMiB)
          if (const Choice choice{expandable, split, divisions, segment}; allowed(choice, torch))
            choices.push_back(choice);
  return choices;
}

// Choices that differ from one in a single setting.
std::vector<Choice> neighbours(const Choice& from, allocator::Version torch) {
  std::vector<Choice> choices;
  const auto add = [&](Choice choice) {
    if (choice.expandable) choice.split = 0;
    if (allowed(choice, torch)) choices.push_back(choice);
  };
  Choice choice = from;
  choice.expandable = !from.expandable;
  add(choice);
  choice = from;
  if (!from.expandable)
    for (const std::int64_t split : kSplitsMiB) add((choice.split = split, choice));
  choice = from;
  for (const std::int64_t divisions : kDivisions) add((choice.divisions = divisions, choice));
  choice = from;
  for (const std::int64_t segment : kLargeSegmentsMiB) add((choice.segment = segment, choice));
  return choices;
}

auto goodness(const WhatIf& answer) {
  return std::make_tuple(answer.runs_out(), answer.run.stats.peak_reserved, answer.run.stats.driver_calls(),
                         answer.setting.size());
}

}  // namespace

Result<Conditions> conditions_of(const std::string& setting, const Surroundings& surroundings) {
  PLIMSOLL_TRY(settings, allocator::parse_settings(setting, surroundings.torch));
  if (!settings.native)
    return tl::make_unexpected(Error{Code::kMissing,
                                     "backend:cudaMallocAsync cannot be simulated: its policy is the driver's",
                                     {},
                                     "leave the setting out to replay PyTorch's own allocator"});
  if (!settings.fraction) settings.fraction = surroundings.fraction;
  Conditions conditions;
  conditions.settings = std::move(settings);
  conditions.capacity = surroundings.capacity;
  conditions.total = surroundings.total;
  return conditions;
}

Result<std::vector<WhatIf>> replay_settings(const History& history, const std::vector<std::string>& settings,
                                            const Surroundings& surroundings) {
  std::vector<Conditions> conditions;
  for (const std::string& setting : settings) {
    PLIMSOLL_TRY(one, conditions_of(setting, surroundings));
    conditions.push_back(std::move(one));
  }
  std::vector<WhatIf> answers(settings.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&](unsigned) {
    for (std::size_t i = next++; i < settings.size(); i = next++) {
      answers[i].setting = settings[i];
      answers[i].run = run(history, conditions[i]);
      Conditions otherwise = conditions[i];
      otherwise.placement = allocator::Placement::kAscending;
      answers[i].reserved_if_placed_otherwise = run(history, otherwise).stats.peak_reserved;
    }
  };
  share_work(0, work);
  return answers;
}

std::vector<std::string> sensible_settings(const Surroundings& surroundings) {
  std::vector<std::string> settings = {
      "",
      "expandable_segments:True",
      "max_split_size_mb:64",
      "max_split_size_mb:128",
      "max_split_size_mb:256",
      "max_split_size_mb:512",
      "roundup_power2_divisions:4",
      "roundup_power2_divisions:8",
      "roundup_power2_divisions:16",
      "expandable_segments:True,roundup_power2_divisions:8",
      "max_split_size_mb:128,roundup_power2_divisions:8",
  };
  if (surroundings.torch >= allocator::Version{2, 11}) settings.emplace_back("large_segment_size_mb:64");
  if (surroundings.fraction) {
    settings.emplace_back("garbage_collection_threshold:0.8");
    settings.emplace_back("garbage_collection_threshold:0.6");
  }
  return settings;
}

void rank(std::vector<WhatIf>& answers) {
  std::stable_sort(answers.begin(), answers.end(),
                   [](const WhatIf& a, const WhatIf& b) { return goodness(a) < goodness(b); });
}

Result<Tuned> tune(const History& history, const Surroundings& surroundings,
                   const std::function<void(std::size_t, std::size_t)>& progress) {
  constexpr std::size_t kMostOpsForAll = 200'000;  // then all settings take a few seconds
  constexpr std::size_t kKept = 5;
  Tuned result;
  std::map<std::string, bool> seen;
  const auto try_all = [&](const std::vector<Choice>& choices) -> Status {
    std::vector<std::string> settings;
    for (const Choice& choice : choices)
      if (seen.emplace(choice.text(), true).second) settings.push_back(choice.text());
    constexpr std::size_t kBatch = 16;
    for (std::size_t first = 0; first < settings.size(); first += kBatch) {
      const auto from = settings.begin() + static_cast<std::ptrdiff_t>(first);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kBatch, settings.size() - first));
      PLIMSOLL_TRY(answers, replay_settings(history, {from, from + count}, surroundings));
      result.tried += answers.size();
      progress(result.tried, result.exhaustive ? settings.size() : 0);
      for (WhatIf& answer : answers) result.best.push_back(std::move(answer));
      rank(result.best);
      if (result.best.size() > kKept) result.best.resize(kKept);
    }
    return {};
  };
  result.exhaustive = history.ops.size() <= kMostOpsForAll;
  if (result.exhaustive) {
    PLIMSOLL_TRY_STATUS(try_all(all_choices(surroundings.torch)));
    return result;
  }
  for (Choice start : {Choice{}, Choice{true, 0, 0, 20}}) {
    PLIMSOLL_TRY_STATUS(try_all({start}));
    for (bool better = true; better;) {
      const std::vector<Choice> choices = neighbours(start, surroundings.torch);
      const std::string before = result.best.front().setting;
      PLIMSOLL_TRY_STATUS(try_all(choices));
      better = false;
      for (const Choice& choice : choices) {
        if (choice.text() != result.best.front().setting || choice.text() == before) continue;
        start = choice;
        better = true;
        break;
      }
    }
  }
  return result;
}

}  // namespace plimsoll::replay
