// SPDX-License-Identifier: Apache-2.0
// A training job as it was asked for: files of any framework, the name of a model, keys. A job is a value; with() makes
// another one and reads no file again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <plimsoll/result.h>

namespace plimsoll::api {

// Keys and their values as a job file or a flag would have them: {"micro_batch_size", "2"}.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Options {
  std::string framework;  // "" where the files say it
  std::string model;      // a name of the catalogue, or the path of a config.json
  std::string gpu;        // a name of the catalogue
  std::optional<std::int64_t> gpus;
  std::vector<std::string> script_args;  // what a launch script is started with
  int command = 0;                       // which training command of a script; 0: the one that runs
  std::string config;                    // which configuration of a file that holds several
  bool strict = false;                   // unknown keys are errors
  Settings settings;                     // overrule the files
};

// A file that is not on disk.
struct Source {
  std::string name;  // for messages, and for what its ending says
  std::string text;
};

class Job {
 public:
  // Files that together describe a job, or the name of a model.
  [[nodiscard]] static Result<Job> read(const std::vector<std::string>& files, const Options& options = {});
  [[nodiscard]] static Result<Job> parse(const std::vector<Source>& sources, const Options& options = {});

  [[nodiscard]] Job with(const Settings& settings) const;

  struct Impl;
  explicit Job(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// What prices depend on beside the job: a calibration.
class World {
 public:
  World();  // the built-in one
  [[nodiscard]] static Result<World> read(const std::string& calibration_file);

  struct Impl;
  explicit World(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace plimsoll::api
