// SPDX-License-Identifier: Apache-2.0
// How files may say which model a job trains: by a name of the catalogue, as a config.json, or key by key.
#pragma once

#include <string>
#include <vector>

#include "document/node.h"
#include "emit/settings.h"
#include "job/job.h"

namespace plimsoll::emit {

struct ModelSource {
  std::string name;              // of the catalogue; empty where it has no such model
  std::string hub;               // owner/name on the Hub, where the catalogue knows it
  model::Architecture base;      // what the name stands for
  std::vector<Setting> changes;  // Megatron's keys that turn it into the job's model
  document::Node config;         // config.json of the job's model; null where its family cannot be written
};

[[nodiscard]] ModelSource model_source(const job::Job& job);

}  // namespace plimsoll::emit
