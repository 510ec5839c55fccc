// SPDX-License-Identifier: Apache-2.0
// What to change, cheapest first (facts out-of-memory.md 2), filtered to what can help this cause. Bytes are computed
// from the figures of the message where they allow it, times are ranges with their source.
// Invariant: a fix that cannot help the cause is never listed; the first one works for the cause.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "why/diagnosis.h"

namespace plimsoll::why {

struct ByteRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
};
struct PercentRange {
  double low = 0;
  double high = 0;
};

struct Fix {
  std::string id;                  // "micro-batch"
  std::string title;               // "halve the micro-batch, double the accumulation"
  std::string change;              // the line for the framework of this job
  std::optional<ByteRange> saves;  // of the device; zero: it wins something else; unknown without figures
  PercentRange slowdown;           // of a step; negative: faster
  bool changes_science = false;
  std::optional<bool> sufficient;  // alone; unknown where the figures do not tell
  std::string risk;
  std::string source;  // of bytes and times
  std::string verify;  // what to look at after the change
};

struct Myth {
  std::string what;
  std::string truth;
};

[[nodiscard]] std::vector<Fix> fixes_for(const Diagnosis& diagnosis, const Findings& findings);
// What people would try for this cause, and why it does not work.
[[nodiscard]] std::vector<Myth> myths_for(const Diagnosis& diagnosis);

}  // namespace plimsoll::why
