// SPDX-License-Identifier: Apache-2.0
// How far a long answer is, in words for a person who waits. Answers call it when something was done, as often as
// that is; whoever listens decides how often to show it.
#pragma once

#include <functional>
#include <string>

namespace plimsoll::answer {

using Progress = std::function<void(const std::string&)>;

inline void tell(const Progress& progress, const std::string& text) {
  if (progress) progress(text);
}

}  // namespace plimsoll::answer
