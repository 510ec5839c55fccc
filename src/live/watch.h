// SPDX-License-Identifier: Apache-2.0
// What can be seen of GPUs, ranks and host now, refreshed at every look. Rank files are read as they grow.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "live/growth.h"
#include "live/prediction.h"
#include "live/rank_file.h"
#include "live/sample.h"

namespace plimsoll::live {

struct WatchedRank {
  std::int64_t rank = 0;
  std::string host;
  std::int64_t step = 0;
  std::optional<double> step_seconds;
  std::int64_t allocated = 0;  // bytes after the last step
  std::int64_t reserved = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t peak_reserved = 0;
  std::int64_t total = 0;
  std::optional<std::int64_t> predicted;  // peak reserved
  Trend trend;
  bool is_outlier = false;
  bool ran_out = false;
  bool failed = false;  // with an error of its own, or one that another rank caused
  bool ended = false;
  std::int64_t restart = 0;
};

struct View {
  Sample sample;
  std::vector<WatchedRank> ranks;
  std::vector<std::string> processes;  // of devices: "12345 python 34.20 GiB"
  std::string nvml_problem;
  bool of_folder = false;
  std::optional<std::string> ended;  // how the run in the folder ended, in words
};

class Watcher {
 public:
  struct Target {
    std::int64_t pid = 0;  // 0: none
    std::string folder;    // "": none
    bool all = false;      // every device and who holds it
    std::string root = "/";
  };
  Watcher(Target target, Nvml* nvml, std::string nvml_problem);

  // What a rank is held against; its job stands in the folder of the run.
  void expect(Prediction prediction) { prediction_ = std::move(prediction); }
  [[nodiscard]] View look();

 private:
  struct Followed {
    RankReader reader;
    std::int64_t offset = 0;
  };
  void follow();

  Target target_;
  Nvml* nvml_;
  std::string nvml_problem_;
  std::optional<Prediction> prediction_;
  std::map<std::string, Followed> files_;
  std::chrono::steady_clock::time_point begun_;
};

// One line.
[[nodiscard]] std::string to_json(const View& view);

// For Prometheus, in its text format.
[[nodiscard]] std::string metrics(const View& view);

}  // namespace plimsoll::live
