// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/flat.h"

#include <algorithm>

#include "base/checked.h"
#include "step/transformers/replicated.h"

namespace plimsoll::step::transformers {

Fsdp1::Fsdp1(Model& model, Tape& tape) : m_(model), tape_(tape) {
  const job::Job& job = *m_.job;
  const job::Sharding& s = job.sharding;
  ranks_ = std::max<std::int64_t>(1, job.data_parallel / std::max<std::int64_t>(1, s.replicas));
  gather_width_ = job::size_of(job.precision.compute);
  reduce_width_ = job::size_of(s.reduce);
  stored_width_ = job::size_of(s.stored);
  std::vector<bool> owned(m_.weights.size(), false);
  const auto add = [&](std::int64_t id, std::int32_t first, std::int32_t last) {
    Unit unit;
    unit.id = id;
    for (std::int32_t w = first; w < last; ++w) {
      if (owned[static_cast<std::size_t>(w)]) continue;
      owned[static_cast<std::size_t>(w)] = true;
      unit.weights.push_back(w);
      unit.elements += m_.weights[static_cast<std::size_t>(w)].elements;
    }
    unit.elements = round_up(unit.elements, ranks_);
    if (!unit.weights.empty()) units_.push_back(std::move(unit));
  };
  if (s.units != job::FsdpUnits::kWholeModel)
    for (std::size_t i = 0; i < m_.layers.size(); ++i)
      add(static_cast<std::int64_t>(i), m_.layers[i].first, m_.layers[i].last);
  add(kRootUnit, 0, static_cast<std::int32_t>(m_.weights.size()));
}

Fsdp1::Unit* Fsdp1::find(std::int64_t id) {
  for (Unit& unit : units_)
    if (unit.id == id) return &unit;
  return nullptr;
}

// The model is built whole; each unit is flattened, its shard copied and the originals freed.
void Fsdp1::build() {
  tape_.enter(Phase::kModel);
  tape_.at(Operation::kBuild);
  std::vector<Tensor> originals;
  for (const Weight& w : m_.weights) originals.push_back(tape_.alloc(w.elements * stored_width_, Name::kWeight));
  begin_training(*m_.job, tape_);
  tape_.enter(Phase::kWrap);
  for (Unit& unit : units_) {
    Tensor flat = tape_.alloc(unit.elements * stored_width_, Name::kConstruction);
    const std::int64_t shard = unit.elements / ranks_ * stored_width_;
    if (m_.job->sharding.cpu_offload) {
      host_bytes_ += 4 * shard;
    } else {
      unit.shard = tape_.alloc(shard, Name::kWeight);
    }
    tape_.free(flat);
    for (const std::int32_t id : unit.weights) tape_.free(originals[static_cast<std::size_t>(id)]);
  }
}

void Fsdp1::begin_micro_batch(bool first, bool last) {
  (void)first;
  synchronises_ = last || m_.job->sharding.sync_each_micro_batch;
  if (started_) return;
  started_ = true;
  // Storages are allocated and released once when the root first runs.
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    tape_.touch(unit->elements / ranks_ * gather_width_, Name::kGatherMessage);
    tape_.touch(unit->elements * gather_width_, Name::kGatherMessage);
    tape_.touch(unit->elements * stored_width_, Name::kGatherMessage);
  }
}

std::vector<Updated> Fsdp1::updated() const {
  std::vector<Updated> list;
  if (m_.job->sharding.cpu_offload) return list;
  // This rank's part of each original parameter.
  for (const Unit& unit : units_) {
    const std::int64_t shard = unit.elements / ranks_;
    std::int64_t begin = 0;
    for (const std::int32_t id : unit.weights) {
      const Weight& w = m_.weights[static_cast<std::size_t>(id)];
      const std::int64_t part = std::min(w.elements, std::max<std::int64_t>(0, shard - begin));
      begin += w.elements;
      if (part > 0 && w.trainable) list.push_back({part, part, 0, static_cast<std::uint8_t>(stored_width_), w.kind});
    }
  }
  return list;
}

void Fsdp1::drop_gradients() {
  for (Unit& unit : units_) tape_.free(unit.gradient);
}

void Fsdp1::gather(Unit& unit) {
  if (unit.flat) return;
  tape_.at(Operation::kGather);
  const bool casts = gather_width_ != stored_width_ || m_.job->sharding.cpu_offload;
  Tensor shard = casts ? tape_.alloc(unit.elements / ranks_ * gather_width_, Name::kGatherMessage) : Tensor{};
  unit.flat = tape_.alloc(unit.elements * gather_width_, Name::kUnshardedWeight);
  tape_.free(shard);
}

void Fsdp1::before_forward(std::int64_t id) {
  if (Unit* unit = find(id)) gather(*unit);
}

void Fsdp1::after_forward(std::int64_t id) {
  Unit* unit = find(id);
  if (unit != nullptr && id != kRootUnit && m_.job->sharding.reshard_after_forward) tape_.free(unit->flat);
}

// BACKWARD_PRE: the unit below is gathered before this one's backward.
void Fsdp1::before_backward(std::int64_t id) {
  Unit* unit = find(id);
  if (unit == nullptr) return;
  gather(*unit);
  const auto index = static_cast<std::size_t>(unit - units_.data());
  if (index > 0) gather(units_[index - 1]);
}

void Fsdp1::reduce(Unit& unit) {
  tape_.at(Operation::kReduce);
  Tensor flat = unit.unsharded_gradient;
  unit.unsharded_gradient = {};
  if (!flat) flat = tape_.alloc(unit.elements * gather_width_, Name::kGradient);
  tape_.free(unit.flat);
  for (const std::int32_t id : unit.weights) tape_.free(m_.weights[static_cast<std::size_t>(id)].grad);
  if (!synchronises_) {
    unit.unsharded_gradient = flat;
    return;
  }
  if (reduce_width_ != gather_width_) {
    Tensor wide = tape_.alloc(unit.elements * reduce_width_, Name::kReduceBucket);
    tape_.free(flat);
    flat = wide;
  }
  Tensor output = tape_.alloc(unit.elements / ranks_ * reduce_width_, Name::kGradient);
  if (reduce_width_ != stored_width_) {
    Tensor converted = tape_.alloc(unit.elements / ranks_ * stored_width_, Name::kGradient);
    tape_.free(output);
    output = converted;
  }
  if (unit.gradient || m_.job->sharding.cpu_offload) {
    tape_.free(output);
  } else {
    unit.gradient = output;
  }
  tape_.free(flat);
}

void Fsdp1::after_backward(std::int64_t id) {
  if (Unit* unit = find(id)) reduce(*unit);
}

}  // namespace plimsoll::step::transformers
