// SPDX-License-Identifier: Apache-2.0
// Runs and loops for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/result.h"
#include "inference/memory.h"
#include "model/catalog.h"
#include "rl/evaluate.h"
#include "rl/read.h"

namespace plimsoll::rl {

inline Lengths constant(double tokens) {
  Lengths lengths;
  lengths.mean = tokens;
  lengths.maximum = static_cast<std::int64_t>(tokens);
  return lengths;
}

inline Lengths lognormal(double mean, double cv, std::int64_t maximum) {
  Lengths lengths;
  lengths.mean = mean;
  lengths.cv = cv;
  lengths.maximum = maximum;
  return lengths;
}

inline inference::Server small_server() {
  inference::Server server;
  server.model = model::find_model("qwen2.5-7b").value();
  server.gpu = cluster::find_gpu("h100").value();
  server.max_model_len = 8192;
  return inference::resolved(server).value();
}

// Eight servers of a 7B model; a batch is 2048 samples.
inline Loop loop_of(const Lengths& prompt, const Lengths& completion) {
  Loop loop{.speed = inference::Speed(small_server()),
            .prompt = Distribution(prompt),
            .completion = Distribution(completion)};
  loop.servers = 8;
  loop.lanes = 256;
  loop.max_running = 1024;
  loop.kv_tokens = 1e6;
  loop.longest = prompt.maximum + completion.maximum;
  loop.group_size = 8;
  loop.prompts_per_step = 256;
  loop.limit = 2;
  loop.train_seconds = 5;
  loop.sync_seconds = 1;
  loop.pause_seconds = 0.6;
  return loop;
}

inline Settings telescope_settings() {
  return {{"framework", "telescope"},
          {"model", "qwen2.5-7b"},
          {"gpu", "h100"},
          {"gpus", "8"},
          {"trainer_num_workers", "4"},
          {"prompts_batch_size_for_trainer", "64"},
          {"prompt_mean", "300"},
          {"prompt_max", "396"},
          {"completion_mean", "1100"},
          {"completion_cv", "0.8"}};
}

inline Settings with(Settings settings, const Settings& more) {
  for (const auto& setting : more) {
    std::erase_if(settings, [&](const auto& given) { return given.first == setting.first; });
    settings.push_back(setting);
  }
  return settings;
}

inline Run run_of(const Settings& settings) {
  auto run = read_run({}, settings);
  if (!run) {
    ADD_FAILURE() << to_string(run.error());
    return {};
  }
  return *run;
}

}  // namespace plimsoll::rl
