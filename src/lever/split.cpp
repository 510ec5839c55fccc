// SPDX-License-Identifier: Apache-2.0
// How the model is split over GPUs.
#include <algorithm>

#include <fmt/format.h>

#include "lever/proposers.h"

namespace plimsoll::lever {

namespace {

bool splits_model(const job::Job& job) { return job.facts().splits_model; }

// Twice the size, with as many sequences in a step as before.
void propose_double(const job::Job& job, const char* label, const char* key, std::int64_t size, Proposals& proposals) {
  job::Settings settings = {{key, std::to_string(2 * size)}};
  keep_global_batch(job, 2, settings);
  proposals.add(fmt::format("{} {}", label, 2 * size), std::move(settings));
}

}  // namespace

void sequence_parallel(const job::Job& job, Proposals& proposals) {
  if (job.is_megatron() && job.parallel.tensor > 1 && !job.parallel.sequence_parallel)
    proposals.add("sequence parallel", {{"sequence_parallel", "true"}});
}

void more_pipeline(const job::Job& job, Proposals& proposals) {
  if (job.is_megatron()) propose_double(job, "pp", "pipeline_model_parallel_size", job.parallel.pipeline, proposals);
}

void more_tensor(const job::Job& job, Proposals& proposals) {
  if (splits_model(job)) propose_double(job, "tp", "tensor_model_parallel_size", job.parallel.tensor, proposals);
}

void more_context(const job::Job& job, Proposals& proposals) {
  if (splits_model(job)) propose_double(job, "cp", "context_parallel_size", job.parallel.context, proposals);
}

void context_messages(const job::Job& job, Proposals& proposals) {
  if (!job.is_megatron() || job.parallel.context == 1 ||
      job.kernels.implementation != job::Implementation::kTransformerEngine)
    return;
  const auto propose = [&](job::CpCommType type, const char* name) {
    const auto& now = job.parallel.cp_comm_type;
    if (std::any_of(now.begin(), now.end(), [type](job::CpCommType other) { return other != type; }))
      proposals.add(fmt::format("cp messages {}", name), {{"cp_comm_type", name}});
  };
  propose(job::CpCommType::kP2p, "p2p");
  propose(job::CpCommType::kAllGather, "all_gather");
  propose(job::CpCommType::kA2a, "a2a");
  propose(job::CpCommType::kA2aP2p, "a2a+p2p");
}

void more_expert(const job::Job& job, Proposals& proposals) {
  // Experts are split over data-parallel ranks, which stay as many.
  if (job.is_megatron() && job.model.has_moe())
    proposals.add(fmt::format("ep {}", 2 * job.parallel.expert),
                  {{"expert_model_parallel_size", std::to_string(2 * job.parallel.expert)}});
}

}  // namespace plimsoll::lever
