// SPDX-License-Identifier: Apache-2.0
// The search behind plan(): sites (servers of one size on some GPUs, a trainer on the rest) are priced by the closed
// form, best hope first; the best points are simulated, and the climb goes on from the first.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inference/memory.h"
#include "rl/loop.h"
#include "rl/plan.h"
#include "rl/sync.h"
#include "rl/trainer_choice.h"

namespace plimsoll::rl {

// Of the spaces of trainers that are planned in full, beyond the first.
inline constexpr std::size_t kMostWholePoints = 4'000'000;

struct Point {
  std::int64_t inference_gpus = 0;
  std::int64_t tensor = 1;
  std::int64_t prompts = 0;  // in flight per server
  std::int64_t seq_len = 0;
  double limit = 0;
  const TrainerChoice* trainer = nullptr;
  double tokens_per_second = 0;
};

class Planner {
 public:
  Planner(const Run& draft, const PlanOptions& options) : draft_(draft), options_(options) {}

  Result<Plan> run();

 private:
  struct Trainers {
    Packed packed;
    std::map<std::int64_t, std::optional<TrainerChoice>> coarse;  // by GPUs
    std::map<std::int64_t, std::optional<TrainerChoice>> whole;
  };
  // Servers of one size on some of the GPUs, and the bins of the trainer on the rest.
  struct Site {
    std::int64_t tensor = 1;
    std::int64_t inference_gpus = 0;
    std::int64_t trainer_gpus = 0;
    std::int64_t seq_len = 0;
    std::shared_ptr<const Loop> loop;  // without servers and trainer
    std::shared_ptr<const std::vector<std::int64_t>> prompts;
  };

  [[nodiscard]] bool is_open(std::string_view key) const { return !draft_.has(key); }
  Status find_base();
  [[nodiscard]] std::vector<std::int64_t> tensors() const;
  [[nodiscard]] std::vector<std::int64_t> inference_counts(std::int64_t unit) const;
  [[nodiscard]] std::vector<std::int64_t> seq_lens() const;
  [[nodiscard]] std::vector<std::int64_t> lanes(const Loop& loop) const;
  [[nodiscard]] std::vector<double> limits(const Loop& loop) const;
  const TrainerChoice* trainer_for(std::int64_t seq_len, std::int64_t gpus, Look look);
  Trainers& trainers_of(std::int64_t seq_len);
  std::vector<Site> sites();
  double rate(const Site& site, const TrainerTime& time, const SyncTime& sync, const TrainerChoice* trainer,
              std::vector<Point>* points) const;
  [[nodiscard]] double hoped(const Site& site);
  double add_points(const Site& site, const TrainerChoice& trainer);
  void look_at_largest(const std::vector<Site>& all);
  void sort_points();
  void price_all();
  [[nodiscard]] Settings settings_of(const Point& point) const;
  [[nodiscard]] Result<Proposal> propose(const Point& point) const;
  std::vector<Result<Proposal>> propose_all(const std::vector<Point>& points);
  void refuse(const std::string& why);
  [[nodiscard]] bool is_worth_planning(const Point& point);
  void climb();

  const Run& draft_;
  const PlanOptions& options_;
  Run base_;  // complete, for some split
  Plan plan_;
  std::map<std::int64_t, Trainers> trainers_;  // by seq_len
  std::map<std::int64_t, inference::ServerMemory> servers_;
  std::vector<Point> points_;
  std::map<std::string, std::size_t> refusals_;
  std::size_t whole_points_ = 0;  // that were considered for trainers planned in full
  double least_gpu_seconds_ = 0;  // of a batch, with the best trainer so far; 0: none yet
  Point best_;
  std::optional<Proposal> best_proposal_;
  std::int64_t events_ = 0;  // simulated so far
};

}  // namespace plimsoll::rl
