// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/fsdp.h"

#include <algorithm>

#include "base/checked.h"

namespace plimsoll::step::transformers {

Fsdp2::Fsdp2(Model& model, Tape& tape) : m_(model), tape_(tape) {
  const job::Job& job = *m_.job;
  const job::Sharding& s = job.sharding;
  ranks_ = std::max<std::int64_t>(1, job.data_parallel * job.parallel.context / std::max<std::int64_t>(1, s.replicas));
  gather_width_ = job::size_of(job.precision.compute);
  reduce_width_ = job::size_of(s.reduce);
  stored_width_ = job::size_of(s.stored);

  std::vector<std::int32_t> root;
  const auto range = [&](std::int32_t first, std::int32_t last) {
    std::vector<std::int32_t> ids;
    for (std::int32_t id = first; id < last; ++id) ids.push_back(id);
    return ids;
  };
  const auto count = static_cast<std::int32_t>(m_.weights.size());
  if (s.units == job::FsdpUnits::kWholeModel) {
    add_unit(kRootUnit, range(0, count), s.reshard_after_forward);
    return;
  }
  const bool separate = s.units == job::FsdpUnits::kAccelerate || s.units == job::FsdpUnits::kTorchtitan;
  std::vector<std::int32_t> head;
  if (separate) {
    for (const std::int32_t id : {m_.final_norm.w, m_.final_norm.bias, m_.tied ? m_.embedding : m_.head.w})
      if (id >= 0) head.push_back(id);
    if (!m_.tied && m_.embedding >= 0) add_unit(kEmbeddingUnit, {m_.embedding}, s.reshard_after_forward);
  }
  std::vector<bool> owned(m_.weights.size(), false);
  for (std::size_t i = 0; i < m_.layers.size(); ++i) {
    const auto ids = range(m_.layers[i].first, m_.layers[i].last);
    for (const std::int32_t id : ids) owned[static_cast<std::size_t>(id)] = true;
    add_unit(static_cast<std::int64_t>(i), ids, s.reshard_after_forward);
  }
  if (separate) {
    for (const std::int32_t id : head) owned[static_cast<std::size_t>(id)] = true;
    if (m_.embedding >= 0) owned[static_cast<std::size_t>(m_.embedding)] = true;
    // A pipeline of torchtitan reshards only under its policy "always", which leaves nothing out.
    const bool always = s.units == job::FsdpUnits::kTorchtitan && job.parallel.pipeline > 1;
    add_unit(kHeadUnit, head, s.reshard_after_forward && (s.reshard_head || always));
  }
  for (std::int32_t id = 0; id < count; ++id)
    if (!owned[static_cast<std::size_t>(id)]) root.push_back(id);
  add_unit(kRootUnit, root, s.reshard_after_forward);
}

void Fsdp2::add_unit(std::int64_t id, std::vector<std::int32_t> weights, bool reshard) {
  if (weights.empty()) return;
  Unit unit;
  unit.id = id;
  unit.reshard = reshard;
  for (const std::int32_t id : weights) {
    const Weight& w = m_.weights[static_cast<std::size_t>(id)];
    unit.shard += shard_elements(w) * gathered_width(w);
    unit.is_converted = unit.is_converted || w.gathered_float8;
  }
  unit.weights = std::move(weights);
  units_.push_back(std::move(unit));
}

std::int64_t Fsdp2::shard_elements(const Weight& weight) const {
  const std::int64_t rows = std::max<std::int64_t>(1, weight.rows);
  return ceil_div(rows, ranks_) * (weight.elements / rows);
}

std::int64_t Fsdp2::gathered_width(const Weight& weight) const { return weight.gathered_float8 ? 1 : gather_width_; }

Fsdp2::Unit* Fsdp2::find(std::int64_t id) {
  for (Unit& unit : units_)
    if (unit.id == id) return &unit;
  return nullptr;
}

void Fsdp2::build() {
  tape_.enter(Phase::kWrap);
  tape_.at(Operation::kBuild);
  const bool offload = m_.job->sharding.cpu_offload;
  hold_buffers(m_, tape_);
  for (const Weight& w : m_.weights) {
    const std::int64_t elements = shard_elements(w);
    // Parameters, gradients and both moments live in pinned host memory.
    if (offload) {
      host_bytes_ += elements * (stored_width_ + (w.trainable ? 3 * stored_width_ : 0));
    } else {
      shards_.push_back(tape_.alloc(elements * stored_width_, Name::kWeight));
    }
  }
}

void Fsdp2::begin_micro_batch(bool first, bool last) {
  (void)first;
  last_micro_batch_ = last;
}

std::vector<Updated> Fsdp2::updated() const {
  std::vector<Updated> list;
  if (m_.job->sharding.cpu_offload) return list;
  for (const Weight& w : m_.weights) {
    if (!w.trainable) continue;
    const std::int64_t elements = shard_elements(w);
    const std::int64_t rows = ceil_div(std::max<std::int64_t>(1, w.rows), ranks_);
    list.push_back({elements, rows, w.kind == WeightKind::kVector ? 0 : elements / rows,
                    static_cast<std::uint8_t>(stored_width_), w.kind, false,
                    static_cast<std::int32_t>(&w - m_.weights.data())});
  }
  return list;
}

void Fsdp2::drop_gradients() {
  for (Unit& unit : units_) tape_.free(unit.gradient);
}

void Fsdp2::gather(Unit& unit) {
  tape_.at(Operation::kGather);
  const std::int64_t full = unit.shard * ranks_;
  tape_.use(Stream::kGather);  // FSDP2 copies in and gathers on a stream of its own
  std::vector<Tensor> inputs;
  if (!unit.kept.empty()) {  // from the smaller group it was resharded to
    inputs.push_back(tape_.alloc(full / m_.job->sharding.reshard_to, Name::kGatherMessage));
  } else if (m_.job->sharding.cpu_offload) {
    for (const std::int32_t id : unit.weights) {
      const Weight& w = m_.weights[static_cast<std::size_t>(id)];
      const std::int64_t elements = shard_elements(w);
      Tensor copy = tape_.alloc(elements * stored_width_, Name::kGatherMessage);
      if (stored_width_ != gathered_width(w)) {
        inputs.push_back(tape_.alloc(elements * gathered_width(w), Name::kGatherMessage));
        tape_.free(copy);
      } else {
        inputs.push_back(copy);
      }
    }
  } else if (stored_width_ != gather_width_ || unit.is_converted) {
    inputs.push_back(tape_.alloc(unit.shard, Name::kGatherMessage));
  }
  unit.buffer = tape_.alloc(full, Name::kGatherMessage);
  tape_.use(Stream::kCompute);
  for (auto input = inputs.rbegin(); input != inputs.rend(); ++input) tape_.free(*input);
}

void Fsdp2::copy_out(Unit& unit) {
  tape_.at(Operation::kGather);
  for (const std::int32_t id : unit.weights) {
    const Weight& w = m_.weights[static_cast<std::size_t>(id)];
    unit.unsharded.push_back(tape_.alloc(shard_elements(w) * ranks_ * gathered_width(w), Name::kUnshardedWeight));
  }
  unit.gathered = true;
  for (Tensor& part : unit.kept) tape_.free(part);
  unit.kept.clear();
  if (in_backward_) {
    tape_.free(unit.buffer);
  } else {
    tape_.free(held_buffer_);
    std::swap(held_buffer_, unit.buffer);
  }
}

void Fsdp2::release(Unit& unit) {
  const std::int64_t fewer = m_.job->sharding.reshard_to;
  for (Tensor& parameter : unit.unsharded) {
    if (!in_backward_ && fewer > 1) unit.kept.push_back(tape_.alloc(parameter.bytes / fewer, Name::kUnshardedWeight));
    tape_.free(parameter);
  }
  unit.unsharded.clear();
  unit.gathered = false;
}

void Fsdp2::before_forward(std::int64_t id) {
  in_backward_ = false;
  Unit* unit = find(id);
  if (unit == nullptr || unit->gathered) return;
  gather(*unit);
  copy_out(*unit);
}

void Fsdp2::after_forward(std::int64_t id) {
  Unit* unit = find(id);
  if (unit != nullptr && unit->reshard) release(*unit);
  if (id == kRootUnit) tape_.free(held_buffer_);
}

void Fsdp2::prefetch_after(const Unit& unit) {
  const auto index = static_cast<std::size_t>(&unit - units_.data());
  if (index == 0) return;
  Unit& next = units_[index - 1];
  if (!next.gathered && !next.buffer) gather(next);
}

void Fsdp2::before_backward(std::int64_t id) {
  in_backward_ = true;
  Unit* unit = find(id);
  if (unit == nullptr) return;
  if (!unit->gathered) {
    if (!unit->buffer) gather(*unit);
    copy_out(*unit);
  }
  prefetch_after(*unit);
}

void Fsdp2::accumulate(Unit& unit) {
  // Gradients wait unsharded, in the reduce dtype (facts other-frameworks-memory.md 6.1).
  if (reduce_width_ == gather_width_) return;
  for (const std::int32_t id : unit.weights) {
    Weight& w = m_.weights[static_cast<std::size_t>(id)];
    if (!w.grad) continue;
    Tensor& waiting = unit.accumulated[id];
    if (!waiting) waiting = tape_.alloc(w.elements * w.grad_parts * reduce_width_, Name::kGradient);
    tape_.free(w.grad);
  }
}

void Fsdp2::cut_whole_gradients(Unit& unit) {
  for (const std::int32_t id : unit.weights) {
    Weight& w = m_.weights[static_cast<std::size_t>(id)];
    if (w.grad_parts == 1) continue;
    const auto waiting = unit.accumulated.find(id);
    Tensor& whole = waiting != unit.accumulated.end() && waiting->second ? waiting->second : w.grad;
    if (!whole) continue;
    Tensor part = tape_.alloc(whole.bytes / w.grad_parts, Name::kGradient);
    tape_.free(whole);
    whole = part;
  }
}

void Fsdp2::reduce(Unit& unit) {
  tape_.at(Operation::kReduce);
  std::int64_t shard = 0;
  for (const std::int32_t id : unit.weights) {
    const Weight& w = m_.weights[static_cast<std::size_t>(id)];
    if (w.trainable) shard += shard_elements(w);
  }
  if (shard == 0) return;
  tape_.free(reduce_input_);
  reduce_input_ = tape_.alloc(shard * ranks_ * reduce_width_, Name::kReduceBucket);
  // The copied gradients go from the last to the first, but the very last waits for the output.
  const auto drop = [&](std::int32_t id) {
    tape_.free(m_.weights[static_cast<std::size_t>(id)].grad);
    const auto waiting = unit.accumulated.find(id);
    if (waiting != unit.accumulated.end()) tape_.free(waiting->second);
  };
  for (std::size_t i = unit.weights.size() - 1; i-- > 0;) drop(unit.weights[i]);
  tape_.use(Stream::kReduce);
  Tensor output = tape_.alloc(shard * reduce_width_, Name::kGradient);
  if (reduce_width_ != stored_width_) {
    Tensor converted = tape_.alloc(shard * stored_width_, Name::kGradient);
    tape_.free(output);
    output = converted;
  }
  tape_.use(Stream::kCompute);
  drop(unit.weights.back());
  unit.accumulated.clear();
  if (unit.gradient || m_.job->sharding.cpu_offload) {
    tape_.free(output);  // added to the gradients of earlier micro-batches, or copied to the host
  } else {
    unit.gradient = output;
  }
  if (!on_gradient) return;
  for (const std::int32_t id : unit.weights)
    if (m_.weights[static_cast<std::size_t>(id)].trainable) on_gradient(id);
  tape_.free(unit.gradient);
}

// A stage of PyTorch's pipelines neither reshards nor reduces before its last micro-batch is done; then it finishes one
// unit after the other (torch/distributed/pipelining/stage.py).
void Fsdp2::after_backward_of_stage(std::int64_t id) {
  for (Unit& unit : units_) {
    const bool late = unit.id == kEmbeddingUnit || unit.id == kRootUnit;  // with the root's callback
    if (unit.id == id || (id == kRootUnit && late)) accumulate(unit);
  }
  if (id != kRootUnit || !last_micro_batch_) return;
  for (Unit& unit : units_) {
    cut_whole_gradients(unit);
    release(unit);
    reduce(unit);
  }
  tape_.free(reduce_input_);
}

void Fsdp2::after_backward(std::int64_t id) {
  if (m_.job->parallel.pipeline > 1) return after_backward_of_stage(id);
  const bool synchronises = last_micro_batch_ || m_.job->sharding.sync_each_micro_batch;
  const auto finish = [&](Unit& unit) {
    if (synchronises) cut_whole_gradients(unit);
    release(unit);
    if (synchronises) {
      reduce(unit);
    } else {
      accumulate(unit);
    }
  };
  if (id != kRootUnit) {
    Unit* unit = find(id);
    if (unit != nullptr && id != kEmbeddingUnit) finish(*unit);
    return;
  }
  // The root's callback also finishes units whose inputs need no gradient.
  for (Unit& unit : units_)
    if (unit.id == kEmbeddingUnit || unit.id == kRootUnit) finish(unit);
  tape_.free(reduce_input_);
}

}  // namespace plimsoll::step::transformers
