// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/state.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/checked.h"
#include "job/effective.h"

namespace plimsoll::step::megatron {

namespace {

constexpr std::int64_t kParamAlignment = 64;    // elements; facts megatron-anatomy.md 1.2
constexpr std::int64_t kBucketAlignment = 128;  // elements
constexpr std::int64_t kBusbwAlignment = 65536;

bool keeps_main_copy(const job::Job& job) { return job.precision.params != job::DType::kFp32; }

std::int64_t gradient_bytes(const job::Job& job) {
  if (job.precision.params == job::DType::kFp32) return 4;
  return job.optimizer.grad_reduce_in_fp32 ? 4 : 2;
}

// Remembers a live tensor. A metering tape needs the sum only: neighbours in time are one tensor to it.
void keep(const Tape& tape, std::vector<Tensor>& list, const Tensor& tensor) {
  if (!tape.recording() && !list.empty()) {
    list.back().bytes += tensor.bytes;
  } else {
    list.push_back(tensor);
  }
}

}  // namespace

BufferPlan plan_buffer(const std::vector<Weight>& weights, bool experts, std::int64_t shards, std::int64_t shard,
                       std::int64_t bucket_elements, bool pad_for_busbw) {
  BufferPlan plan;
  std::int64_t alignment = std::lcm(shards, kBucketAlignment);
  if (pad_for_busbw) alignment = std::lcm(alignment, kBusbwAlignment);

  struct Placed {
    std::int64_t begin;
    const Weight* weight;
  };
  std::vector<Placed> bucket;
  bucket.reserve(weights.size());
  plan.pieces.reserve(weights.size());
  std::int64_t at = 0;
  std::int64_t bucket_begin = 0;
  const auto close = [&] {
    if (bucket.empty()) return;
    const std::int64_t end = bucket_begin + round_up(at - bucket_begin, alignment);
    const std::int64_t size = (end - bucket_begin) / shards;
    const std::int64_t own_begin = bucket_begin + shard * size;
    const std::int64_t own_end = own_begin + size;
    for (const Placed& p : bucket) {
      const std::int64_t begin = std::max(p.begin, own_begin);
      const std::int64_t finish = std::min(p.begin + p.weight->elements, own_end);
      if (finish > begin) plan.pieces.push_back({finish - begin, p.weight->decayed, p.weight->expert});
    }
    bucket.clear();
    at = bucket_begin = end;
  };
  for (auto it = weights.rbegin(); it != weights.rend(); ++it) {
    if (it->expert != experts || it->frozen) continue;
    if (it->shared_embedding) close();
    at = round_up(at, kParamAlignment);
    bucket.push_back({at, &*it});
    at += it->elements;
    if (it->shared_embedding || at - bucket_begin >= bucket_elements) close();
  }
  close();
  plan.elements = at;
  return plan;
}

State::State(const job::Job& job, const std::vector<job::Chunk>& chunks, std::int64_t stage)
    : job_(job), stage_(stage) {
  chunks_.resize(chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    chunk_weights(job, chunks[i], stage, chunks_[i].weights);
    chunks_[i].layers = chunks[i].num_layers + chunks[i].mtp_layers;
    parameters_ += count(chunks_[i].weights);
    for (const Weight& weight : chunks_[i].weights) has_experts_ = has_experts_ || weight.expert;
  }
}

std::int64_t State::param_bytes(const Weight& weight) const {
  const job::Precision& p = job_.precision;
  if (weight.gemm && p.fp4 && p.fp4_param_gather) return ceil_div(weight.elements, 2);
  if (weight.gemm && p.fp8 == job::Fp8Recipe::kMxfp8 && p.fp8_param_gather)  // the bf16 gather lands in its own buffer
    return p.reuse_grad_buffer_for_mxfp8 ? 0 : 2 * weight.elements;
  if (weight.gemm && p.fp8 != job::Fp8Recipe::kNone && p.fp8_param_gather) return weight.elements;
  return job::size_of(p.params) * weight.elements;
}

// Copies held for compute besides the stored weight, per facts megatron-memory.md 3.3. Per-tensor FP8 needs
// a transposed copy on Hopper only; block formats hold both directions and their scales.
std::int64_t State::quantised_bytes(const Weight& weight) const {
  const job::Precision& p = job_.precision;
  if (!weight.gemm) return 0;
  const std::int64_t n = weight.elements;
  if (p.fp4) return p.fp4_param_gather ? n / 2 + n / 8 : n + n / 8;
  const bool primary = p.fp8_param_gather;
  // Megatron-FSDP's buffers hold both directions in shards; only the scales of the blocks are whole.
  if (primary && job::shards_by_megatron_fsdp(job_)) return p.fp8 == job::Fp8Recipe::kMxfp8 ? n / 16 : 0;
  const bool blackwell = job_.cluster.gpu.is_blackwell();
  switch (p.fp8) {
    case job::Fp8Recipe::kNone:
      return 0;
    case job::Fp8Recipe::kDelayed:
    case job::Fp8Recipe::kTensorwise: {
      if (!p.fp8_transpose_cache) return 0;  // rebuilt for every micro-batch
      const std::int64_t copies = blackwell ? 1 : 2;
      return (primary ? copies - 1 : copies) * n;
    }
    case job::Fp8Recipe::kBlockwise:
      return p.fp8_transpose_cache ? (primary ? n : 2 * n) : 0;
    case job::Fp8Recipe::kMxfp8:
      return 2 * n + n / 16;
  }
  return 0;
}

void State::quantise_weights(Tape& tape) {
  if (job_.precision.fp8 == job::Fp8Recipe::kNone && !job_.precision.fp4) return;
  for (const ChunkState& chunk : chunks_)
    for (const Weight& weight : chunk.weights) (void)tape.alloc(quantised_bytes(weight), Name::kFp8Weight);
}

void State::build_model(Tape& tape) {
  tape.enter(Phase::kModel);
  tape.at(Operation::kBuild);
  for (ChunkState& chunk : chunks_) {
    for (const Weight& weight : chunk.weights) {
      if (!weight.frozen && builds_on_meta()) continue;
      std::vector<Tensor>& list = weight.frozen ? chunk.frozen : weight.expert ? chunk.experts : chunk.dense;
      keep(tape, list, tape.alloc(param_bytes(weight), weight.frozen ? Name::kFrozenWeight : Name::kWeight));
    }
  }
}

void State::wrap_chunk(Tape& tape, ChunkState& chunk, std::int64_t index, bool experts) {
  if (experts && !has_experts_) return;
  if (chunk.buffers.empty()) chunk.buffers.reserve(4);
  const job::Optimizer& o = job_.optimizer;
  const std::int64_t domain = experts ? job_.expert_data_parallel : job_.data_parallel * job_.parallel.context;
  const std::int64_t shards = o.distributed ? std::max<std::int64_t>(1, domain / o.instances) : 1;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  for (const Weight& w : chunk.weights) {
    if (w.expert != experts || w.frozen) continue;
    elements += w.elements;
    bytes += param_bytes(w);
  }
  if (elements == 0) return;
  if (!o.distributed) {
    chunk.buffers.push_back(tape.alloc(gradient_bytes(job_) * elements, Name::kGradBuffer));
    for (const Weight& w : chunk.weights)
      if (w.expert == experts && !w.frozen) chunk.pieces.push_back({w.elements, w.decayed, w.expert});
    return;
  }
  const bool bucketed = o.overlap_grad_reduce && stage_ == 0 && index == 0;
  const std::int64_t bucket =
      bucketed ? o.bucket_size.value_or(std::max<std::int64_t>(40'000'000, 1'000'000 * job_.data_parallel))
               : std::numeric_limits<std::int64_t>::max();
  BufferPlan plan = plan_buffer(chunk.weights, experts, shards, 0, bucket, o.pad_buckets_for_busbw);
  const std::int64_t padding = plan.elements - elements;
  chunk.buffers.push_back(tape.alloc(bytes + job::size_of(job_.precision.params) * padding, Name::kParamBuffer));
  chunk.buffers.push_back(tape.alloc(gradient_bytes(job_) * plan.elements, Name::kGradBuffer));
  // Every original weight is freed, one by one, after its values were copied: until then they coexist.
  std::vector<Tensor>& originals = experts ? chunk.experts : chunk.dense;
  for (auto original = originals.rbegin(); original != originals.rend(); ++original) tape.free(*original);
  if (chunk.pieces.empty()) {
    chunk.pieces = std::move(plan.pieces);
  } else {
    chunk.pieces.insert(chunk.pieces.end(), plan.pieces.begin(), plan.pieces.end());
  }
}

void State::wrap(Tape& tape) {
  tape.enter(Phase::kWrap);
  tape.at(Operation::kBuild);
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (job::shards_by_megatron_fsdp(job_)) {
      wrap_fsdp(tape, chunks_[i]);
      continue;
    }
    wrap_chunk(tape, chunks_[i], static_cast<std::int64_t>(i), false);
    wrap_chunk(tape, chunks_[i], static_cast<std::int64_t>(i), true);
  }
}

void State::build_optimizer(Tape& tape) {
  tape.enter(Phase::kOptimizer);
  tape.at(Operation::kBuild);
  std::size_t pieces = 0;
  for (const ChunkState& chunk : chunks_) pieces += chunk.pieces.size();
  owned_.reserve(pieces);
  // Dense optimizer, then expert optimizer; in each, the decayed matrices, then norms and biases.
  for (const bool expert : {false, true}) {
    if (expert && !has_experts_) continue;
    for (const bool decayed : {true, false})
      for (const ChunkState& chunk : chunks_)
        for (const Piece& piece : chunk.pieces)
          if (piece.expert == expert && piece.decayed == decayed) owned_.push_back(piece);
  }

  const job::Optimizer& o = job_.optimizer;
  if (o.cpu_offload_fraction > 0) {
    // The fraction is counted over the owned shard; params, gradients and both moments in fp32 on the host.
    std::int64_t total = 0;
    for (const Piece& piece : owned_) total += piece.elements;
    const auto offloaded = static_cast<std::int64_t>(static_cast<double>(total) * o.cpu_offload_fraction);
    host_bytes_ = 16 * offloaded;
    std::int64_t rest = offloaded;
    for (Piece& piece : owned_) {
      const std::int64_t moved = std::min(rest, piece.elements);
      piece.elements -= moved;
      rest -= moved;
    }
  }
  if (!keeps_main_copy(job_)) return;
  if (o.precision_aware && job::optimizer_can_keep_main_weights(job_)) {
    // The CPU-offloading optimizer keeps whole fp32 main parameters for what stays on the GPU.
    const job::Precision& p = job_.precision;
    const bool quantised = (p.fp8 != job::Fp8Recipe::kNone && p.fp8_param_gather) || (p.fp4 && p.fp4_param_gather);
    const bool remainders =
        o.store_param_remainders && p.params == job::DType::kBf16 && !quantised && o.cpu_offload_fraction == 0;
    const std::int64_t main = o.main_params == job::DType::kFp32 && !remainders ? 4 : 2;
    for (const Piece& piece : owned_) keep(tape, main_, tape.alloc(main * piece.elements, Name::kMainParam));
    return;
  }
  for (const Piece& piece : owned_) {
    Tensor clone = tape.alloc(job::size_of(job_.precision.params) * piece.elements, Name::kConstruction);
    keep(tape, main_, tape.alloc(4 * piece.elements, Name::kMainParam));
    tape.free(clone);
  }
}

std::int64_t State::reduce_scratch() const {
  if (!job_.optimizer.reduce_scatter_fp32_accumulation) return late_gradients_;
  std::int64_t widest = 0;
  for (const ChunkState& chunk : chunks_)
    for (const Tensor& buffer : chunk.buffers)
      if (buffer.name == Name::kGradBuffer) widest = std::max(widest, buffer.bytes);
  return widest;
}

void State::begin_step(Tape& tape) {
  for (Tensor& copy : grad_copies_) tape.free(copy);
  grad_copies_.clear();
  gather_units(tape);
}

std::int64_t State::moment_bytes(const Piece& piece, int which) const {
  const job::Optimizer& o = job_.optimizer;
  switch (o.kind) {
    case job::OptimizerKind::kAdam:
      if (o.precision_aware) return job::size_of(which == 0 ? o.exp_avg : o.exp_avg_sq) * piece.elements;
      return 4 * piece.elements;
    case job::OptimizerKind::kSgd:
      return which == 0 && o.momentum ? 4 * piece.elements : 0;
    case job::OptimizerKind::kLion:
      return which == 0 ? 4 * piece.elements : 0;
    // Muon keeps one momentum for matrices; norms and biases go to Adam (facts megatron-memory.md 3.2).
    case job::OptimizerKind::kMuon:
      return which == 0 || !piece.decayed ? 4 * piece.elements : 0;
    case job::OptimizerKind::kAdam8bit:
      return piece.elements + piece.elements / 64;
    case job::OptimizerKind::kAdafactor:
      return 0;
  }
  return 0;
}

std::int64_t State::moment_bytes() const {
  std::int64_t sum = 0;
  for (const Piece& piece : owned_) sum += moment_bytes(piece, 0) + moment_bytes(piece, 1);
  return sum;
}

void State::update(Tape& tape) {
  if (!job_.sharding.double_buffer) {
    for (Tensor& buffer : unit_buffers_) tape.free(buffer);
    unit_buffers_.clear();
  }
  tape.at(Operation::kAdam);
  const job::Optimizer& o = job_.optimizer;
  // 16-bit gradients are copied to fp32 for the update and stay until the next zero_grad.
  const bool decoupled = o.precision_aware && job::optimizer_can_keep_main_weights(job_);
  if (keeps_main_copy(job_) && gradient_bytes(job_) == 2 && !decoupled)
    for (const Piece& piece : owned_) keep(tape, grad_copies_, tape.alloc(4 * piece.elements, Name::kGradientFp32));
  clip(tape);
  if (has_moments_ && o.impl != job::OptimizerImpl::kForeach) return;  // nothing is made any more
  std::vector<Tensor> temporaries;
  for (const bool expert : {false, true}) {
    if (expert && !has_experts_) continue;
    for (const bool decayed : {true, false}) {
      if (!has_moments_) {
        for (const Piece& piece : owned_) {
          if (piece.expert != expert || piece.decayed != decayed) continue;
          for (const int which : {0, 1}) keep(tape, moments_, tape.alloc(moment_bytes(piece, which), Name::kMoment));
        }
      }
      // torch's multi-tensor AdamW: sqrt(v) of all tensors of a group at once (facts megatron-anatomy.md 4).
      if (o.impl != job::OptimizerImpl::kForeach) continue;
      for (const Piece& piece : owned_)
        if (piece.expert == expert && piece.decayed == decayed)
          keep(tape, temporaries, tape.alloc(4 * piece.elements, Name::kOptimizerTemp));
      for (Tensor& temporary : temporaries) tape.free(temporary);
      temporaries.clear();
    }
  }
  has_moments_ = true;
}

// Without the multi-tensor kernels of Transformer Engine or apex, gradients are scaled one after the other, each
// through a copy (Megatron core, utils.py, local_multi_tensor_scale).
void State::clip(Tape& tape) const {
  if (!job_.clip_grad || job_.optimizer.impl == job::OptimizerImpl::kFused) return;
  for (const bool expert : {false, true})
    for (const bool decayed : {true, false})
      for (const Piece& piece : owned_)
        if (piece.expert == expert && piece.decayed == decayed) tape.touch(4 * piece.elements, Name::kOptimizerTemp);
}

void State::release(Tape& tape) {
  for (auto* list : {&grad_copies_, &unit_buffers_})
    for (Tensor& t : *list) tape.free(t);
  for (auto* list : {&main_, &moments_})
    for (Tensor& t : *list) tape.free(t);
  for (ChunkState& chunk : chunks_) {
    for (Tensor& t : chunk.buffers) tape.free(t);
    for (auto* list : {&chunk.dense, &chunk.experts, &chunk.frozen})
      for (Tensor& t : *list) tape.free(t);
  }
}

}  // namespace plimsoll::step::megatron
