// SPDX-License-Identifier: Apache-2.0
// How fast a run went, read from its log: the seconds of steps, rates, timers across ranks, and lines that say why a
// run may be slow. Formats: Megatron-LM and Megatron-Bridge, the Transformers trainer and tqdm, torchtitan, DeepSpeed,
// loops that print the loader's part beside the time of an iteration (OpenMMLab, detectron2, ESPnet), MaxText, and
// figures that name their unit in any logger.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::why {

// One step, or the mean of those since the one before.
struct PacePoint {
  std::int64_t step = 0;  // counted where the line has no number
  double seconds = 0;     // of one step; 0: only a rate is known
  double tokens = 0;      // per second and GPU; 0: not said
  double samples = 0;     // per second, of the whole job; 0: not said
  std::int64_t line = 0;
};

// A part of the step as the framework's own timers report it: the fastest and the slowest rank.
struct PaceTimer {
  std::string name;  // "forward-backward"
  std::vector<double> least;
  std::vector<double> most;  // seconds; as long as `least`

  [[nodiscard]] double median_most() const;
  // What the slowest rank takes more than the fastest, of the median report.
  [[nodiscard]] double median_spread() const;
};

// A line that names a reason to be slow.
struct PaceSign {
  std::string id;    // "nccl-sockets"
  std::string says;  // what follows from it
  std::string fix;
  std::int64_t line = 0;
  std::string text;  // as printed
  std::int64_t count = 1;
};

struct Pace {
  std::string file;
  std::string format;  // of the line that gave most points: "megatron", "tqdm", ...
  std::vector<PacePoint> points;
  std::vector<PaceTimer> timers;
  std::vector<PaceSign> signs;
  std::optional<double> mfu;  // share, as the log says it last
  std::string damage;         // why the log was not read to its end
};

// At most this many points are kept; of longer logs every second, fourth, ... one.
inline constexpr std::size_t kMostPacePoints = 50'000;

[[nodiscard]] Pace read_pace_text(std::string_view name, std::string_view text);
// One file, "-" for standard input; plain or gzip.
[[nodiscard]] Result<Pace> read_pace(const std::string& path);

}  // namespace plimsoll::why
