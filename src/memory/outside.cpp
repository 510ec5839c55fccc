// SPDX-License-Identifier: Apache-2.0
#include "memory/outside.h"

#include <algorithm>

#include "base/bytes.h"
#include "job/effective.h"
#include "model/parameters.h"

namespace plimsoll::memory {

namespace {

// Communicators of more than one rank that this job creates.
std::int64_t communicators(const job::Job& job) {
  const job::Parallel& p = job.parallel;
  std::int64_t groups = 0;
  for (const std::int64_t size : {p.tensor, p.pipeline, p.context, p.expert, job.data_parallel})
    groups += size > 1 ? 1 : 0;
  if (p.expert > 1 && job.expert_data_parallel > 1) ++groups;
  if (p.context > 1 && job.data_parallel > 1) ++groups;  // the joint data and context group
  return groups;
}

bool is_off(const job::Job& job, const char* variable) {
  const auto found = job.environment.find(variable);
  return found != job.environment.end() && found->second == "0";
}

// Of a frozen model beside the trained one, sharded where weights are.
std::int64_t beside_bytes(const job::Job& job, std::int64_t weights, std::int64_t each) {
  const job::Sharding& sharding = job.sharding;
  const bool shards = sharding.kind == job::ShardingKind::kFsdp1 || sharding.kind == job::ShardingKind::kFsdp2 ||
                      (sharding.kind == job::ShardingKind::kZero && sharding.zero_stage == 3);
  const std::int64_t ranks =
      std::max<std::int64_t>(1, shards ? job.data_parallel / std::max<std::int64_t>(1, sharding.replicas) : 1);
  return weights / std::max<std::int64_t>(1, job.parallel.tensor * job.parallel.pipeline) * each / ranks;
}

// A frozen copy in the dtype of the weights. Adapters are their own reference: without them the base answers.
std::int64_t reference_bytes(const job::Job& job) {
  if (!job.reference_model || job.adapter.kind != job::AdapterKind::kNone) return 0;
  return beside_bytes(job, model::count_parameters(job.model).total, job::size_of(job.precision.params));
}

// In the dtype of the products: nobody keeps a model that is not trained in more.
std::int64_t teacher_bytes(const job::Job& job) {
  if (job.teacher == nullptr) return 0;
  return beside_bytes(job, model::count_parameters(*job.teacher).total, job::size_of(job.precision.compute));
}

// Weights of towers that nobody modelled, and what they are trained with, in as many bytes more for each.
std::int64_t unmodelled_bytes(const job::Job& job, std::int64_t more) {
  if (job.model.unmodelled == 0 || job.kernels.implementation != job::Implementation::kTransformers) return 0;
  return beside_bytes(job, job.model.unmodelled, job::size_of(job.precision.params) + more);
}

// A gradient and two moments, if images or sounds come; none beside adapters.
std::int64_t states_of_unmodelled(const job::Job& job) {
  if (job.adapter.kind != job::AdapterKind::kNone || job.batch.inference_only) return 0;
  return 3 * job::size_of(job.precision.params);
}

// Hands every item to `add`, as (name, bytes, low, high): a search asks for the sum at every point and builds no list.
template <typename Add>
void for_each_item(const job::Job& job, Add add) {
  const bool blackwell = job.cluster.gpu.is_blackwell();
  add("CUDA context", blackwell ? 768 * kMiB : 512 * kMiB, 400 * kMiB, blackwell ? kGiB : 800 * kMiB);
  if (const std::int64_t groups = communicators(job); groups > 0) {
    // 0.2 to 0.5 GiB per large communicator; NVLink SHARP buffers add to it unless they are off.
    const bool nvls = job.cluster.gpu.is_hopper_or_newer() && !is_off(job, "NCCL_NVLS_ENABLE");
    const std::int64_t each = (nvls ? 384 : 256) * kMiB;
    add("NCCL", groups * each, groups * 100 * kMiB, groups * (nvls ? 768 : 512) * kMiB);
  }
  if (job::overlaps_tensor_messages(job)) {
    // One buffer of T*h per overlapped GEMM, eight to ten of them (facts megatron-memory.md 10).
    const std::int64_t one = 2 * job.tokens() * job.model.hidden;
    add("TP userbuffers", 9 * one, 8 * one, 20 * one);
  }
  if (job.moe.dispatcher == job::DispatcherKind::kDeepEp || job.moe.dispatcher == job::DispatcherKind::kHybridEp)
    add("expert-parallel library buffers", kGiB, kGiB / 2, 3 * kGiB);
  if (const std::int64_t bytes = unmodelled_bytes(job, 0); bytes > 0)
    add("modules not modelled", bytes, bytes, unmodelled_bytes(job, states_of_unmodelled(job)));
  if (const std::int64_t bytes = reference_bytes(job); bytes > 0) add("reference model", bytes, bytes, bytes);
  if (const std::int64_t bytes = teacher_bytes(job); bytes > 0) add("teacher model", bytes, bytes, bytes);
}

}  // namespace

std::vector<OutsideItem> outside_torch(const job::Job& job) {
  std::vector<OutsideItem> items;
  for_each_item(job, [&items](const char* name, std::int64_t bytes, std::int64_t low, std::int64_t high) {
    items.push_back({name, bytes, low, high});
  });
  return items;
}

std::int64_t outside_torch_bytes(const job::Job& job) {
  std::int64_t sum = 0;
  for_each_item(job, [&sum](const char*, std::int64_t bytes, std::int64_t, std::int64_t) { sum += bytes; });
  return sum;
}

}  // namespace plimsoll::memory
