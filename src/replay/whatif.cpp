// SPDX-License-Identifier: Apache-2.0
#include "replay/whatif.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "allocator/setting_table.h"
#include "base/crew.h"
#include "base/interrupt.h"
#include "base/text.h"

namespace plimsoll::replay {

namespace {

using allocator::Setting;

// A value per setting, in the order of the table; "" leaves it out.
using Choice = std::map<const Setting*, std::string_view>;

std::string text_of(const Choice& choice) {
  std::vector<std::string> written;
  for (const Setting& setting : allocator::setting_table())
    if (const auto found = choice.find(&setting); found != choice.end() && !found->second.empty())
      written.push_back(fmt::format("{}:{}", setting.name, found->second));
  return join(written, ",");
}

bool is_set(const Choice& choice, const Setting& setting) {
  const auto found = choice.find(&setting);
  return found != choice.end() && !found->second.empty();
}

bool meet_badly(const Setting& a, const Setting& b) { return a.not_beside == b.name || b.not_beside == a.name; }

bool acts(const Setting& setting, const Surroundings& surroundings) {
  return surroundings.torch >= setting.since && (!setting.needs_fraction || surroundings.fraction);
}

// The settings that a search varies.
std::vector<const Setting*> searched(const Surroundings& surroundings) {
  std::vector<const Setting*> found;
  for (const Setting& setting : allocator::setting_table())
    if (!setting.to_search.empty() && acts(setting, surroundings)) found.push_back(&setting);
  return found;
}

// What a setting with another value makes of a choice: whatever it must not stand beside is left out.
Choice changed(Choice choice, const Setting& setting, std::string_view value) {
  choice[&setting] = value;
  if (!value.empty())
    for (auto& [other, held] : choice)
      if (other != &setting && meet_badly(setting, *other)) held = {};
  return choice;
}

std::vector<Choice> all_choices(const Surroundings& surroundings) {
  std::vector<Choice> choices = {Choice{}};
  for (const Setting* setting : searched(surroundings)) {
    const std::size_t before = choices.size();
    for (std::size_t i = 0; i < before; ++i) {
      bool allowed = true;
      for (const Setting* other : searched(surroundings))
        allowed = allowed && !(meet_badly(*setting, *other) && is_set(choices[i], *other));
      if (!allowed) continue;
      for (const std::string_view value : split(setting->to_search, ','))
        choices.push_back(changed(choices[i], *setting, value));
    }
  }
  return choices;
}

// Choices that differ from one in a single setting.
std::vector<Choice> neighbours(const Choice& from, const Surroundings& surroundings) {
  std::vector<Choice> choices;
  for (const Setting* setting : searched(surroundings)) {
    choices.push_back(changed(from, *setting, {}));
    for (const std::string_view value : split(setting->to_search, ','))
      choices.push_back(changed(from, *setting, value));
  }
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
    for (std::size_t i = next++; i < settings.size() && !interrupted(); i = next++) {
      answers[i].setting = settings[i];
      answers[i].run = run(history, conditions[i]);
      Conditions otherwise = conditions[i];
      otherwise.placement = allocator::Placement::kAscending;
      answers[i].reserved_if_placed_otherwise = run(history, otherwise).stats.peak_reserved;
    }
  };
  share_work(0, work);
  if (interrupted()) return tl::make_unexpected(given_up());
  return answers;
}

std::vector<std::string> sensible_settings(const Surroundings& surroundings) {
  std::vector<std::string> settings = {""};
  for (const Setting& setting : allocator::setting_table())
    if (!setting.to_show.empty() && acts(setting, surroundings))
      for (const std::string_view value : split(setting.to_show, ',')) settings.push_back(text_of({{&setting, value}}));
  for (const Setting& one : allocator::setting_table())
    for (const Setting& other : allocator::setting_table())
      if (&one < &other && !one.to_combine.empty() && !other.to_combine.empty() && !meet_badly(one, other) &&
          acts(one, surroundings) && acts(other, surroundings))
        settings.push_back(text_of({{&one, one.to_combine}, {&other, other.to_combine}}));
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
  std::set<std::string> seen;
  const auto try_all = [&](const std::vector<Choice>& choices) -> Status {
    std::vector<std::string> settings;
    for (const Choice& choice : choices)
      if (std::string text = text_of(choice); seen.insert(text).second) settings.push_back(std::move(text));
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
    PLIMSOLL_TRY_STATUS(try_all(all_choices(surroundings)));
    return result;
  }
  for (Choice start : {Choice{}, Choice{{allocator::find_setting("expandable_segments"), "True"}}}) {
    PLIMSOLL_TRY_STATUS(try_all({start}));
    for (bool better = true; better;) {
      const std::vector<Choice> choices = neighbours(start, surroundings);
      const std::string before = result.best.front().setting;
      PLIMSOLL_TRY_STATUS(try_all(choices));
      better = false;
      for (const Choice& choice : choices) {
        if (text_of(choice) != result.best.front().setting || text_of(choice) == before) continue;
        start = choice;
        better = true;
        break;
      }
    }
  }
  return result;
}

}  // namespace plimsoll::replay
