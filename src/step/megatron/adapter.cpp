// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/adapter.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace plimsoll::step::megatron {

AdaptedLinears adapted_linears(const job::Job& job) {
  AdaptedLinears linears;
  if (job.adapter.kind == job::AdapterKind::kNone) return linears;
  linears.any = true;
  const auto targeted = [&](std::initializer_list<std::string_view> names) {
    const bool excluded = std::any_of(job.adapter.excluded.begin(), job.adapter.excluded.end(), [&](const auto& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    });
    if (excluded) return false;
    // Bridge adapts all four linears when no target is named.
    if (job.adapter.targets.empty()) return true;
    return std::any_of(job.adapter.targets.begin(), job.adapter.targets.end(), [&](const std::string& target) {
      return target == "all-linear" || std::find(names.begin(), names.end(), target) != names.end();
    });
  };
  linears.qkv = targeted({"linear_qkv", "q_proj", "k_proj", "v_proj", "qkv_proj"});
  linears.proj = targeted({"linear_proj", "o_proj"});
  linears.fc1 = targeted({"linear_fc1", "gate_proj", "up_proj", "gate_up_proj"});
  linears.fc2 = targeted({"linear_fc2", "down_proj"});
  return linears;
}

std::int64_t adapter_elements(const job::Job& job, std::int64_t in, std::int64_t out, bool column_parallel) {
  const std::int64_t tp = job.parallel.tensor;
  const std::int64_t rank = job.adapter.rank;
  const std::int64_t a = rank * (column_parallel ? in : in / tp);
  const std::int64_t b = rank * (column_parallel ? out / tp : out);
  const std::int64_t magnitude = job.adapter.kind == job::AdapterKind::kDora ? out / (column_parallel ? tp : 1) : 0;
  return a + b + magnitude;
}

}  // namespace plimsoll::step::megatron
