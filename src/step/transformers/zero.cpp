// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/zero.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "job/effective.h"
#include "step/transformers/replicated.h"

namespace plimsoll::step::transformers {

Zero::Zero(Model& model, Tape& tape) : m_(model), tape_(tape) {
  const job::Job& job = *m_.job;
  const job::Sharding& s = job.sharding;
  stage_ = s.zero_stage;
  ranks_ = std::max<std::int64_t>(1, s.mics_shard > 0 ? s.mics_shard : job.data_parallel);
  width_ = job::size_of(job.precision.params);
  const bool is_bf16 = job.precision.params == job::DType::kBf16;
  const bool wide_gradients = s.grad_accum.value_or(job::DType::kBf16) == job::DType::kFp32;
  // Without ZeRO, or at stage 1 with fp32 accumulation, bf16 runs under its own optimizer.
  bf16_optimizer_ =
      is_bf16 &&
      (stage_ == 0 || (stage_ == 1 && wide_gradients && job::optimizer_offload(s) == job::OffloadTarget::kNone));
  for (const Weight& w : m_.weights)
    if (w.trainable) trained_ += w.elements;
  gathered_.resize(m_.weights.size());
  if (stage_ < 3) return;

  const auto add = [&](std::int64_t id, std::vector<std::int32_t> weights) {
    Unit unit;
    unit.id = id;
    for (const std::int32_t w : weights) unit.elements += m_.weights[static_cast<std::size_t>(w)].elements;
    unit.weights = std::move(weights);
    units_.push_back(std::move(unit));
  };
  std::vector<std::int32_t> first{m_.embedding};
  if (m_.positions >= 0) first.push_back(m_.positions);
  for (const std::int32_t id : {m_.embedding_norm.w, m_.embedding_norm.bias})
    if (id >= 0) first.push_back(id);
  add(kEmbeddingUnit, std::move(first));
  for (std::size_t i = 0; i < m_.layers.size(); ++i) {
    std::vector<std::int32_t> ids;
    for (std::int32_t id = m_.layers[i].first; id < m_.layers[i].last; ++id) ids.push_back(id);
    add(static_cast<std::int64_t>(i), std::move(ids));
  }
  std::vector<std::int32_t> last;
  for (const std::int32_t id : {m_.final_norm.w, m_.final_norm.bias, m_.head.w, m_.head.bias})
    if (id >= 0) last.push_back(id);
  add(kHeadUnit, std::move(last));
  for (std::size_t i = 0; i < units_.size(); ++i) trace_.push_back(i);
  for (std::size_t i = units_.size(); i-- > 0;) trace_.push_back(i);
}

std::int64_t Zero::partition() const { return round_up(trained_, 2 * ranks_) / ranks_; }

std::int64_t Zero::optimizer_on_gpu() const {
  const job::Sharding& s = m_.job->sharding;
  if (job::optimizer_offload(s) == job::OffloadTarget::kNone) return partition();
  const double stays = stage_ == 3 ? 1.0 - s.offload_ratio : 0.0;
  return static_cast<std::int64_t>(std::llround(stays * static_cast<double>(partition())));
}

bool Zero::persists(const Weight& w) const { return w.elements <= m_.job->sharding.param_persistence; }

void Zero::build() {
  tape_.enter(Phase::kModel);
  tape_.at(Operation::kBuild);
  const job::Sharding& s = m_.job->sharding;
  const std::int64_t padded = partition() * ranks_;
  if (stage_ == 3) {
    std::int64_t frozen = 0;
    for (const Weight& w : m_.weights)
      if (!w.trainable && !persists(w)) frozen += ceil_div(w.elements, ranks_);
    const bool on_gpu = job::parameter_offload(s) == job::OffloadTarget::kNone;
    if (on_gpu) held_.push_back(tape_.alloc((partition() + frozen) * width_, Name::kParamBuffer));
    if (s.hpz_partition > 1)
      held_.push_back(tape_.alloc(ceil_div(padded, s.hpz_partition) * width_, Name::kParamBuffer));
    for (std::size_t i = 0; i < m_.weights.size(); ++i)
      if (persists(m_.weights[i])) gathered_[i] = tape_.alloc(m_.weights[i].elements * width_, Name::kUnshardedWeight);
    tape_.enter(Phase::kWrap);
    const bool wide = s.grad_accum.value_or(job::DType::kBf16) == job::DType::kFp32;
    if (job::optimizer_offload(s) == job::OffloadTarget::kNone)
      held_.push_back(tape_.alloc(partition() * (wide ? 4 : width_), Name::kGradBuffer));
    if (s.contiguous_gradients) held_.push_back(tape_.alloc(s.reduce_bucket * width_, Name::kReduceBucket));
    return;
  }
  build_weights(m_, tape_);
  begin_training(*m_.job, tape_);
  tape_.enter(Phase::kWrap);
  // Weights leave for the host one by one and come back as views of one flat buffer.
  for (Weight& w : m_.weights)
    if (w.trainable) tape_.free(w.memory);
  held_.push_back(tape_.alloc(padded * width_, Name::kParamBuffer));
  if (bf16_optimizer_) held_.push_back(tape_.alloc(padded * 4, Name::kGradBuffer));
}

void Zero::before_states() {
  tape_.at(Operation::kBuild);
  const bool whole = stage_ == 0 && !bf16_optimizer_;
  const std::int64_t elements = whole ? trained_ : optimizer_on_gpu();
  if (elements == 0) return;
  Tensor clone = width_ < 4 ? tape_.alloc(elements * width_, Name::kConstruction) : Tensor{};
  held_.push_back(tape_.alloc(elements * 4, Name::kMainParam));
  tape_.free(clone);
  const std::int64_t step = stage_ == 3 ? std::min(m_.job->sharding.sub_group_size, elements) : elements;
  states_gradient_ = tape_.alloc(step * 4, Name::kGradientFp32);
}

void Zero::after_states() { tape_.free(states_gradient_); }

std::vector<Updated> Zero::updated() const {
  const bool whole = stage_ == 0 && !bf16_optimizer_;
  const std::int64_t elements = whole ? trained_ : optimizer_on_gpu();
  if (elements == 0) return {};
  return {{elements, elements, 0, 4, WeightKind::kMatrix}};
}

void Zero::begin_micro_batch(bool first, bool last) {
  (void)first;
  (void)last;
  position_ = 0;
}

void Zero::gradient_ready(std::int32_t id) {
  Weight& w = m_.weights[static_cast<std::size_t>(id)];
  const job::Sharding& s = m_.job->sharding;
  if (filled_ + w.elements > s.reduce_bucket) filled_ = 0;  // the bucket is reduced
  const bool direct = w.elements > s.reduce_bucket;
  if (!direct) filled_ += w.elements;
  if (stage_ == 1) return;  // gradients stay whole
  // Reduced gradients of this rank's partition are collected; everything else goes.
  if (stage_ == 2 && !partition_gradient_ && job::optimizer_offload(s) == job::OffloadTarget::kNone) {
    const bool wide = s.grad_accum.value_or(job::DType::kBf16) == job::DType::kFp32;
    partition_gradient_ = tape_.alloc(partition() * (wide ? 4 : width_), Name::kGradient);
  }
  tape_.free(w.grad);
}

void Zero::end_backward(bool last) {
  for (Tensor& bucket : buckets_) tape_.free(bucket);
  buckets_.clear();
  filled_ = 0;
  if (last) traced_ = true;
}

void Zero::before_step() {
  const job::Sharding& s = m_.job->sharding;
  if (job::optimizer_offload(s) != job::OffloadTarget::kNone && optimizer_on_gpu() == 0) return;
  if (stage_ == 3) {
    step_gradient_ = tape_.alloc(4 * std::min(s.sub_group_size, optimizer_on_gpu()), Name::kGradientFp32);
    return;
  }
  if (bf16_optimizer_) return;
  const std::int64_t elements = stage_ == 0 ? trained_ : partition();
  Tensor flat = stage_ > 0 ? tape_.alloc(elements * width_, Name::kGradient) : Tensor{};
  step_gradient_ = tape_.alloc(elements * 4, Name::kGradientFp32);
  tape_.free(flat);
  tape_.free(partition_gradient_);
}

void Zero::after_step() { tape_.free(step_gradient_); }

void Zero::drop_gradients() {
  tape_.free(partition_gradient_);
  for (Weight& w : m_.weights) tape_.free(w.grad);
}

void Zero::fetch(const Unit& unit) {
  std::int64_t missing = 0;
  for (const std::int32_t id : unit.weights)
    if (!gathered_[static_cast<std::size_t>(id)])
      missing += round_up(m_.weights[static_cast<std::size_t>(id)].elements, ranks_);
  if (missing == 0) return;
  tape_.at(Operation::kGather);
  Tensor buffer = tape_.alloc(missing * width_, Name::kGatherMessage);
  for (const std::int32_t id : unit.weights) {
    Tensor& live = gathered_[static_cast<std::size_t>(id)];
    if (!live) live = tape_.alloc(m_.weights[static_cast<std::size_t>(id)].elements * width_, Name::kUnshardedWeight);
  }
  tape_.free(buffer);
}

// Parameters of the units that follow, until the prefetch bucket or the live limit is reached.
void Zero::prefetch() {
  if (!traced_) return;
  const job::Sharding& s = m_.job->sharding;
  std::int64_t live = 0;
  for (std::size_t i = 0; i < gathered_.size(); ++i)
    if (gathered_[i]) live += m_.weights[i].elements;
  Unit group;
  for (std::size_t p = position_ + 1; p < trace_.size() && group.elements < s.prefetch_bucket; ++p) {
    for (const std::int32_t id : units_[trace_[p]].weights) {
      if (gathered_[static_cast<std::size_t>(id)]) continue;
      const std::int64_t elements = m_.weights[static_cast<std::size_t>(id)].elements;
      if (group.elements + elements > s.prefetch_bucket || live + elements > s.max_live_parameters) {
        if (!group.weights.empty()) fetch(group);
        return;
      }
      group.weights.push_back(id);
      group.elements += elements;
      live += elements;
    }
  }
  if (!group.weights.empty()) fetch(group);
}

void Zero::release_unused(const Unit& unit) {
  const job::Sharding& s = m_.job->sharding;
  // A parameter that the rest of the step uses again soon enough stays.
  std::vector<std::int32_t> soon;
  if (traced_) {
    std::int64_t traversed = 0;
    for (std::size_t p = position_ + 1; p < trace_.size() && traversed < s.max_reuse_distance; ++p) {
      const Unit& next = units_[trace_[p]];
      soon.insert(soon.end(), next.weights.begin(), next.weights.end());
      traversed += next.elements;
    }
  }
  for (const std::int32_t id : unit.weights) {
    if (persists(m_.weights[static_cast<std::size_t>(id)])) continue;
    if (std::find(soon.begin(), soon.end(), id) != soon.end()) continue;
    tape_.free(gathered_[static_cast<std::size_t>(id)]);
  }
}

void Zero::enter(std::int64_t id) {
  if (stage_ < 3 || position_ >= trace_.size()) return;
  const Unit& unit = units_[trace_[position_]];
  if (unit.id != id) return;
  fetch(unit);
  prefetch();
}

void Zero::leave(std::int64_t id) {
  if (stage_ < 3 || position_ >= trace_.size()) return;
  const Unit& unit = units_[trace_[position_]];
  if (unit.id != id) return;
  release_unused(unit);
  ++position_;
}

void Zero::before_forward(std::int64_t id) { enter(id); }
void Zero::after_forward(std::int64_t id) { leave(id); }

void Zero::before_backward(std::int64_t id) {
  if (id == kRootUnit && (stage_ == 1 || stage_ == 2) && !bf16_optimizer_ && m_.job->sharding.contiguous_gradients) {
    const int count = m_.job->sharding.overlap_comm.value_or(false) ? 2 : 1;
    for (int i = 0; i < count; ++i)
      buckets_.push_back(tape_.alloc(m_.job->sharding.reduce_bucket * width_, Name::kReduceBucket));
  }
  enter(id);
}

void Zero::after_backward(std::int64_t id) {
  if (id == kRootUnit) {
    leave(kEmbeddingUnit);
    return;
  }
  leave(id);
}

std::int64_t Zero::host_bytes() const {
  const job::Sharding& s = m_.job->sharding;
  std::int64_t bytes = 0;
  const std::int64_t moved = partition() - optimizer_on_gpu();
  if (job::optimizer_offload(s) == job::OffloadTarget::kCpu) {
    bytes += 16 * moved;  // master, gradients and both moments in fp32
    std::int64_t largest = 0;
    for (const Weight& w : m_.weights) largest = std::max(largest, w.elements);
    bytes += stage_ == 3 ? width_ * partition() : width_ * largest;
  } else if (job::optimizer_offload(s) == job::OffloadTarget::kNvme) {
    bytes += s.offload_buffer_count * 4 * std::min(s.sub_group_size, partition()) + width_ * partition();
  }
  if (job::parameter_offload(s) == job::OffloadTarget::kCpu) {
    bytes += width_ * partition();
  } else if (job::parameter_offload(s) == job::OffloadTarget::kNvme) {
    bytes += width_ * (s.offload_param_buffer_count * s.offload_param_buffer_size + s.offload_param_max_in_cpu);
  }
  return bytes;
}

std::int64_t Zero::nvme_bytes() const {
  const job::Sharding& s = m_.job->sharding;
  std::int64_t bytes = 0;
  if (job::optimizer_offload(s) == job::OffloadTarget::kNvme) bytes += 16 * partition();
  if (job::parameter_offload(s) == job::OffloadTarget::kNvme) bytes += width_ * partition();
  return bytes;
}

}  // namespace plimsoll::step::transformers
