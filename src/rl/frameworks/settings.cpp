// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/settings.h"

#include <algorithm>

#include "base/bytes.h"
#include "cluster/cluster.h"
#include "job/job.h"
#include "rl/keys.h"

namespace plimsoll::rl {

namespace {

// Keys that stand for others or for a part of a value.
std::string custom_text(const Run& run, std::string_view key) {
  const cluster::Gpu& gpu = run.cluster.gpu;
  if (key == "gpu") return gpu.id;
  if (key == "gpu_memory") {
    const auto known = cluster::find_gpu(gpu.id);
    return known && known->capacity == gpu.capacity ? std::string{} : std::to_string(gpu.capacity);
  }
  if (key == "host_memory") return std::to_string(run.cluster.host_memory);
  if (key == "weight_broadcast_bucket_mb") return std::to_string(run.sync.bucket_bytes / kMiB);
  if (key == "kv_cache_memory") return run.server.kv_cache_bytes ? std::to_string(*run.server.kv_cache_bytes) : "";
  if (key == "engine_version") return inference::to_string(run.server.version);
  if (key == "trainer_framework") return std::string{job::name_of(run.trainer_framework)};
  return {};
}

}  // namespace

Settings settings_of(const Run& run) {
  Settings settings = {{"framework", std::string{name_of(run.framework)}}};
  for (const Key& key : key_table()) {
    const bool is_custom = std::holds_alternative<Custom>(key.field);
    std::string value = is_custom ? custom_text(run, key.name) : value_text(run, key.name);
    if (value == "unset") value = "null";
    if (!value.empty()) settings.emplace_back(key.name, std::move(value));
  }
  Settings trainer = run.trainer_keys;
  std::sort(trainer.begin(), trainer.end());
  settings.insert(settings.end(), trainer.begin(), trainer.end());
  return settings;
}

std::string_view setting(const Settings& settings, std::string_view key) {
  for (const auto& [name, value] : settings)
    if (name == key) return value;
  return {};
}

void put_setting(Settings& settings, std::string_view key, std::string value) {
  for (auto& [name, old] : settings) {
    if (name != key) continue;
    old = std::move(value);
    return;
  }
  settings.emplace_back(key, std::move(value));
}

}  // namespace plimsoll::rl
