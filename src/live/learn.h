// SPDX-License-Identifier: Apache-2.0
// From kept runs to what they say of the predictions: by GPU and framework, each figure cross-validated. What would not
// have made the runs that were left out come out nearer is not learned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lever/world.h"

namespace plimsoll::live {

// Errors in percent, medians of absolute values over the runs of a group.
struct LearnedFigure {
  std::string name;  // "step time", "context", "tensors", "cache"
  std::int64_t runs = 0;
  double before = 0;            // of the built-in prediction
  double left_out = 0;          // of each run, predicted with what the others say
  std::optional<double> value;  // factor or bytes; nothing where it was refused
  std::string refused;          // why
};

struct LearnedFrom {
  std::string gpu;
  std::string framework;
  std::vector<LearnedFigure> figures;
};

struct Lesson {
  std::vector<LearnedFrom> groups;
  std::vector<std::string> skipped;  // "run.json: why it says nothing"
  [[nodiscard]] bool any() const;
};

// Paths of run.json files.
[[nodiscard]] Result<Lesson> learn(const std::vector<std::string>& paths);

// The file that --calibration takes.
[[nodiscard]] std::string lesson_json(const Lesson& lesson);

}  // namespace plimsoll::live
