// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/replicated.h"

#include <algorithm>
#include <limits>

#include "base/bytes.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kBroadcast = 250 * kMiB;  // parameters sent together when DDP starts
constexpr std::int64_t kBucketCap = 25 * kMiB;

// 4-bit weights: half a byte per element and fp32 scales per 64, themselves quantised where asked. 8-bit ones: a byte
// per element and an fp32 scale per row (facts other-frameworks-memory.md 3.3, 3.6).
std::int64_t stored_bytes(const job::Job& job, const Weight& w) {
  if (!w.quantized) return w.elements * w.width;
  if (job.adapter.eight_bit_base) return w.elements + 4 * w.out;
  const std::int64_t blocks = (w.elements + 63) / 64;
  return w.elements / 2 + (job.adapter.double_quant ? blocks + 4 * ((blocks + 255) / 256) : 4 * blocks);
}

}  // namespace

void build_weights(Model& m, Tape& tape) {
  for (Weight& w : m.weights) {
    if (w.kind == WeightKind::kAdapter) continue;
    // A 16-bit weight is there while it is quantised.
    Tensor source = w.quantized ? tape.alloc(w.elements * w.width, Name::kConstruction) : Tensor{};
    w.memory = tape.alloc(stored_bytes(*m.job, w), w.trainable ? Name::kWeight : Name::kFrozenWeight);
    tape.free(source);
  }
  hold_buffers(m, tape);
  // The head is created as a weight of its own before it is tied to the embedding.
  if (m.tied && m.embedding >= 0) {
    const Weight& w = m.weights[static_cast<std::size_t>(m.embedding)];
    tape.touch(w.elements * w.width, Name::kConstruction);
  }
  // Adapters are made in the base's dtype and converted one by one.
  std::vector<Tensor> narrow;
  const bool converts = m.width == 2 && job::size_of(m.job->adapter.dtype) == 4;
  for (const Weight& w : m.weights)
    if (w.kind == WeightKind::kAdapter && converts) narrow.push_back(tape.alloc(w.elements * 2, Name::kConstruction));
  std::size_t next = 0;
  for (Weight& w : m.weights) {
    if (w.kind != WeightKind::kAdapter) continue;
    w.memory = tape.alloc(w.elements * w.width, Name::kAdapterWeight);
    if (converts) tape.free(narrow[next++]);
  }
}

void begin_training(const job::Job& job, Tape& tape) {
  if (job.facts().empties_cache && !job.kernels.own_loop) tape.empty_cache();
}

Replicated::Replicated(Model& model, Tape& tape) : m_(model), tape_(tape) {
  const job::Sharding& s = m_.job->sharding;
  buckets_exist_ = s.kind == job::ShardingKind::kDdp && m_.job->data_parallel > 1;
  views_ = buckets_exist_ && s.gradient_as_bucket_view;
}

void Replicated::build() {
  tape_.enter(Phase::kModel);
  tape_.at(Operation::kBuild);
  build_weights(m_, tape_);
  begin_training(*m_.job, tape_);
  if (!buckets_exist_) return;
  tape_.enter(Phase::kWrap);
  tape_.at(Operation::kBuild);
  std::int64_t parameters = 0;
  for (const Weight& w : m_.weights) parameters += w.elements * w.width;
  tape_.touch(std::min(parameters, kBroadcast), Name::kConstruction);
  make_buckets(std::numeric_limits<std::int64_t>::max());
}

// Buckets fill from the last weight; the first one is small so that communication starts early.
void Replicated::make_buckets(std::int64_t cap) {
  for (Tensor& bucket : buckets_) tape_.free(bucket);
  buckets_.clear();
  std::int64_t filled = 0;
  std::int64_t limit = std::min(cap, kMiB);
  if (cap == std::numeric_limits<std::int64_t>::max()) limit = cap;
  for (auto w = m_.weights.rbegin(); w != m_.weights.rend(); ++w) {
    if (!w->trainable) continue;
    filled += w->elements * w->width;
    if (filled < limit) continue;
    buckets_.push_back(tape_.alloc(filled, Name::kReduceBucket));
    filled = 0;
    limit = cap;
  }
  if (filled > 0) buckets_.push_back(tape_.alloc(filled, Name::kReduceBucket));
}

void Replicated::begin_micro_batch(bool first, bool last) {
  (void)last;
  // After the first step buckets are laid out anew in the order in which gradients arrived.
  if (!first || !buckets_exist_ || rebuilt_ || !stepped_) return;
  rebuilt_ = true;
  make_buckets(kBucketCap);
}

void Replicated::end_backward(bool last) { stepped_ = stepped_ || last; }

void Replicated::gradient_ready(std::int32_t id) {
  if (on_gradient) on_gradient(id);
  tape_.free(m_.weights[static_cast<std::size_t>(id)].grad);
}

void Replicated::drop_gradients() {
  for (Weight& w : m_.weights) tape_.free(w.grad);
}

std::vector<Updated> Replicated::updated() const {
  std::vector<Updated> list;
  for (const Weight& w : m_.weights) {
    if (!w.trainable) continue;
    const std::int64_t rows = std::max<std::int64_t>(1, w.rows);
    list.push_back({w.elements, rows, w.kind == WeightKind::kVector ? 0 : w.elements / rows, w.width, w.kind,
                    w.projected, static_cast<std::int32_t>(&w - m_.weights.data())});
  }
  return list;
}

}  // namespace plimsoll::step::transformers
