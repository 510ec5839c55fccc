// SPDX-License-Identifier: Apache-2.0
// Questions for the tests of plan, read as the command line reads them.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "job/read.h"
#include "plan/search.h"

namespace plimsoll::plan::test {

using Keys = std::vector<std::pair<std::string, std::string>>;

inline job::Job job_of(const std::string& model, std::int64_t gpus, const Keys& keys,
                       const std::string& gpu = "h100-sxm-80gb",
                       job::Framework framework = job::Framework::kMegatronBridge) {
  job::ReadOptions options;
  options.framework = framework;
  options.model = model;
  options.gpu = gpu;
  options.gpus = gpus;
  options.overrides = {{"micro_batch_size", "1"}};
  options.overrides.insert(options.overrides.end(), keys.begin(), keys.end());
  auto job = job::read_job({}, options);
  if (!job) throw std::runtime_error(to_string(job.error()));
  return *std::move(job);
}

// The question of the README: Llama-3 70B on 32 H100.
inline job::Job llama_70b(Keys more = {}) {
  Keys keys = {{"seq_length", "4096"}, {"global_batch_size", "32"}};
  keys.insert(keys.end(), more.begin(), more.end());
  return job_of("llama3-70b", 32, keys);
}

inline job::Job llama_8b(std::int64_t gpus = 8) {
  return job_of("llama3-8b", gpus, {{"seq_length", "4096"}, {"global_batch_size", "32"}});
}

inline Plan plan_of(const job::Job& job, const plan::Pins& pinned = {}, std::size_t keep = 5) {
  SearchOptions options;
  options.keep = keep;
  return search(job, make_space(job, pinned), options);
}

// The twenty best for llama_70b(), searched once.
inline const Plan& plan_of_70b() {
  static const Plan kPlan = plan_of(llama_70b(), {}, 20);
  return kPlan;
}

// The value of a key in the settings of a plan; empty where they do not name it.
inline std::string setting(const Found& found, std::string_view key) {
  for (const auto& [name, value] : found.settings)
    if (name == key) return value;
  return {};
}

}  // namespace plimsoll::plan::test
