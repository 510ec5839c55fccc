// SPDX-License-Identifier: Apache-2.0
// One writer per target. Writers translate; emit() checks what they wrote by reading it.
#pragma once

#include <vector>

#include "emit/emit.h"
#include "emit/launch.h"
#include "emit/settings.h"

namespace plimsoll::emit {

struct Order {
  const job::Job& job;
  const std::vector<Reason>& reasons;
  std::vector<Variable> environment;
  Nodes nodes;
};

[[nodiscard]] Result<std::vector<File>> write_job_file(const Order& order);
[[nodiscard]] Result<std::vector<File>> write_megatron_lm(const Order& order);
[[nodiscard]] Result<std::vector<File>> write_megatron_bridge(const Order& order);
[[nodiscard]] Result<std::vector<File>> write_torchtitan(const Order& order);
[[nodiscard]] Result<std::vector<File>> write_transformers(const Order& order);
[[nodiscard]] Result<std::vector<File>> write_deepspeed(const Order& order);
[[nodiscard]] Result<std::vector<File>> write_fsdp2(const Order& order);

// What Megatron-LM and Bridge say in keys of their own: precision switches, fused losses, dispatchers, sharding.
[[nodiscard]] std::vector<Setting> megatron_terms(const job::Job& job, job::Framework framework);

}  // namespace plimsoll::emit
