// SPDX-License-Identifier: Apache-2.0
#include "answer/words.h"

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::answer {

std::string describe(const step::Moment& moment, bool has_chunks) {
  std::vector<std::string> parts = {std::string{step::text_of(moment.phase)}};
  if (moment.micro_batch >= 0) parts.push_back(fmt::format("micro-batch {}", moment.micro_batch));
  if (has_chunks && moment.micro_batch >= 0) parts.push_back(fmt::format("chunk {}", moment.chunk));
  if (moment.layer >= 0) parts.push_back(fmt::format("layer {}", moment.layer));
  if (moment.operation != step::Operation::kNone) parts.emplace_back(step::text_of(moment.operation));
  return join(parts, ", ");
}

std::string describe_split(const job::Job& job) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, std::int64_t size) {
    if (size > 1) parts.push_back(fmt::format("{} {}", name, size));
  };
  add("tp", job.parallel.tensor);
  add("pp", job.parallel.pipeline);
  add("vpp", job.parallel.virtual_pipeline);
  add("cp", job.parallel.context);
  add("ep", job.parallel.expert);
  if (job.expert_tensor() != job.parallel.tensor) parts.push_back(fmt::format("etp {}", job.expert_tensor()));
  add("dp", job.data_parallel);
  return parts.empty() ? "not split" : join(parts, ", ");
}

double percent_of(std::int64_t bytes, std::int64_t capacity) {
  return capacity == 0 ? 0 : 100.0 * static_cast<double>(bytes) / static_cast<double>(capacity);
}

std::string assumed_environment(const job::Job& job) {
  const job::Job usual = job::defaults_for(job.framework);
  std::vector<std::string> variables;
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "NCCL_NVLS_ENABLE"}) {
    const auto set = usual.environment.find(name);
    const auto has = job.environment.find(name);
    if (set != usual.environment.end() && has != job.environment.end() && set->second == has->second)
      variables.push_back(fmt::format("{}={}", name, has->second));
  }
  return join(variables, ", ");
}

}  // namespace plimsoll::answer
