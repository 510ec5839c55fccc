// SPDX-License-Identifier: Apache-2.0
// Cuts input into lines as it arrives and hands each to the reader of its form. Holds one line at most.
#pragma once

#include <string>
#include <string_view>

#include "rl/observe/observe.h"
#include "rl/observe/readers.h"

namespace plimsoll::rl {

class Observer {
 public:
  void begin_file(std::string name);
  void feed(std::string_view bytes);
  void end_file();
  // The gathered measures; the observer is spent.
  [[nodiscard]] Measures take() { return std::move(measures_); }

 private:
  void read_line(std::string_view line);

  Measures measures_;
  Timeline timeline_;
  ServerSeries servers_;
  std::string partial_;       // the beginning of a line whose end has not come
  bool is_skipping_ = false;  // the rest of a line that is too long
  std::int64_t line_ = 0;
};

// The judgement (facts rl-and-inference.md 8).
[[nodiscard]] Observation judge(const Measures& measures, const ObserveOptions& options);

// What to turn for a bottleneck, by the framework's names; without a framework by Telescope's.
[[nodiscard]] std::vector<Advice> advice_for(Bottleneck bottleneck, std::optional<Framework> framework);
[[nodiscard]] std::vector<std::string> notes_for(Bottleneck bottleneck, std::optional<Framework> framework);

}  // namespace plimsoll::rl
