// SPDX-License-Identifier: Apache-2.0
// How far a long answer is, in words for a person who waits, and as the share that is done where that is known. Answers
// tell it when something was done, as often as that is; whoever listens decides how often to show it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace plimsoll::answer {

struct HowFar {
  std::string words;            // "answered 3 of 40"
  std::optional<double> share;  // 0 to 1
};

using Progress = std::function<void(const HowFar&)>;

inline void tell(const Progress& progress, std::string words, std::optional<double> share = {}) {
  if (progress) progress({std::move(words), share});
}

[[nodiscard]] inline double part_of(std::size_t done, std::size_t all) {
  return all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
}

// For work that tells words alone.
[[nodiscard]] inline std::function<void(const std::string&)> words_to(const Progress& progress) {
  if (!progress) return {};
  return [progress](const std::string& words) { progress({words, {}}); };
}

}  // namespace plimsoll::answer
