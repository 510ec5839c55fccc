// SPDX-License-Identifier: Apache-2.0
// What the verbs answer. Every answer says yes or no, and everything it knows as JSON (docs/reference/json.md) and as
// the text that the command line prints; the answer of fit has its figures as members, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <plimsoll/job.h>
#include <plimsoll/result.h>

namespace plimsoll::api {

class Answer {
 public:
  // The exit code 0 of the verb: it fits, something was found, a cause is named.
  [[nodiscard]] bool yes() const;
  [[nodiscard]] std::string json() const;
  // `width` columns at most; 0: as wide as it is.
  [[nodiscard]] std::string text(int width = 0) const;
  // What is not in the numbers.
  [[nodiscard]] const std::vector<std::string>& warnings() const;

  struct Impl;
  explicit Answer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<const Impl> impl_;
};

// One row of a table of memory; all rows of a rank sum to the capacity.
struct Row {
  std::string name;
  std::int64_t bytes = 0;
  bool estimated = false;
};

struct Rank {
  std::int64_t pipeline_rank = 0;
  bool fits = false;
  std::int64_t capacity = 0;  // bytes, as all below
  std::int64_t device_used = 0;
  std::int64_t headroom = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t peak_reserved = 0;
  std::int64_t low = 0;  // 90 % interval of device_used
  std::int64_t high = 0;
  std::vector<Row> table;
};

struct StepTime {
  double seconds = 0;
  double low = 0;  // 90 % interval
  double high = 0;
  double tokens_per_second_per_gpu = 0;
  double mfu = 0;
};

class Fit : public Answer {
 public:
  [[nodiscard]] bool fits() const { return fits_; }
  [[nodiscard]] const std::vector<Rank>& ranks() const { return ranks_; }  // those asked for
  [[nodiscard]] const Rank& worst() const { return ranks_[worst_]; }
  [[nodiscard]] const StepTime& time() const { return time_; }

  Fit(std::shared_ptr<const Impl> impl, bool fits, std::vector<Rank> ranks, std::size_t worst, StepTime time)
      : Answer(std::move(impl)), fits_(fits), ranks_(std::move(ranks)), worst_(worst), time_(time) {}

 private:
  bool fits_;
  std::vector<Rank> ranks_;
  std::size_t worst_;
  StepTime time_;
};

using Progress = std::function<void(const std::string&)>;

struct FitOptions {
  std::optional<std::int64_t> pipeline_rank;  // this one instead of the worst
  bool all_ranks = false;
  bool changes = true;  // also what the usual changes would win
};
[[nodiscard]] Result<Fit> fit(const Job& job, const World& world = {}, const FitOptions& options = {});

// The least that a job needs and how long a step takes, both in closed form: the tensors are exact, what the allocator
// adds to them is left out. Made for loops over thousands of jobs; fit() says whether one of them fits.
struct Estimate {
  std::int64_t pipeline_rank = 0;  // the fullest
  std::int64_t tensors = 0;        // its peak; bytes, as all below
  std::int64_t outside = 0;        // CUDA context, NCCL: beside PyTorch
  std::int64_t capacity = 0;
  bool may_fit = false;  // false: no allocator makes it fit
  StepTime time;
};
[[nodiscard]] Result<Estimate> estimate(const Job& job, const World& world = {});

// What was understood of a job, key by key.
[[nodiscard]] Result<Answer> understand(const Job& job, bool with_defaults = false);
// What would the framework refuse, ignore or waste.
[[nodiscard]] Result<Answer> lint(const Job& job);
// What explains the difference between two jobs, knob by knob.
[[nodiscard]] Result<Answer> diff(const Job& before, const Job& after, const World& world = {});

struct PlanOptions {
  std::vector<std::string> fixed;  // KEY=VALUE: knobs that are not to be chosen
  std::vector<std::string> kept;   // keys or sections that stay as the job has them
  bool changes_numerics = false;
  bool most_headroom = false;  // instead of the least time
  std::size_t top = 5;
  Progress progress;
};
// The fastest configurations that fit; `files` may be the name of a model.
[[nodiscard]] Result<Answer> plan(const std::vector<std::string>& files, const Options& options,
                                  const World& world = {}, const PlanOptions& how = {});
// Makes this job fit in the steps that cost least.
[[nodiscard]] Result<Answer> climb(const Job& job, const World& world = {}, bool changes_numerics = false);

struct WhyOptions {
  std::vector<std::string> job;  // files of the job that ran, to price the fixes on it
  Options job_options;
  std::string snapshot;
  std::string gpu;
};
// What killed a run: log files or folders.
[[nodiscard]] Result<Answer> why(const std::vector<std::string>& logs, const World& world = {},
                                 const WhyOptions& options = {});

// How good the predictions are on files of measured runs.
[[nodiscard]] Result<Answer> score(const std::vector<std::string>& files, const World& world = {},
                                   const std::string& by = {});

// A post-training run, evaluated or planned.
[[nodiscard]] Result<Answer> rl(const std::string& file, const Settings& settings, const World& world = {});
[[nodiscard]] Result<Answer> plan_rl(const std::string& file, const Settings& settings, const World& world = {},
                                     std::size_t top = 5, const Progress& progress = {});
// What bounded a run that ran, from the files it wrote.
[[nodiscard]] Result<Answer> observe_rl(const std::vector<std::string>& files, const Settings& settings);

[[nodiscard]] std::string version();

}  // namespace plimsoll::api
