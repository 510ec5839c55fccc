// SPDX-License-Identifier: Apache-2.0
#include "timing/state.h"

#include <algorithm>
#include <cmath>

#include "document/node.h"
#include "job/effective.h"
#include "model/parameters.h"
#include "step/transformers/model.h"
#include "timing/collectives.h"
#include "timing/kernels.h"

namespace plimsoll::timing {

namespace {

using job::Job;

double real(std::int64_t value) { return static_cast<double>(value); }

// PyTorch's optimizers keep states in the dtype of the weight. Fused Adam reads gradient, weight and both moments and
// writes the last three; foreach runs eight passes over the lists, which read and write twenty elements for one
// (facts other-frameworks-memory.md 2.8), a loop the same as kernels of each tensor.
double torch_update_bytes(const Job& job) {
  const double width = real(job::size_of(job.precision.params));
  switch (job.optimizer.kind) {
    case job::OptimizerKind::kSgd:
      return (job.optimizer.momentum ? 7 : 5) * width;
    case job::OptimizerKind::kAdam:
      return (job.optimizer.impl == job::OptimizerImpl::kFused ? 7 : 20) * width;
    case job::OptimizerKind::kLion:
      return 12 * width;
    case job::OptimizerKind::kAdafactor:
      return 40 * width;
    default:
      return 0;
  }
}

// Bytes per element that one update moves: gradient, main weight, two moments, and the working weight written.
double update_bytes(const Job& job) {
  if (!job.is_megatron())
    if (const double bytes = torch_update_bytes(job); bytes > 0) return bytes;
  switch (job.optimizer.kind) {
    case job::OptimizerKind::kSgd:
      return job.optimizer.momentum ? 22 : 14;
    case job::OptimizerKind::kAdam8bit:
      return 18;
    case job::OptimizerKind::kLion:
    case job::OptimizerKind::kAdafactor:
    case job::OptimizerKind::kMuon:
      return 24;
    case job::OptimizerKind::kAdam:
      break;
  }
  // foreach runs a dozen passes over the lists (facts other-frameworks-memory.md 2.8), a loop as many kernels each.
  return job.optimizer.impl == job::OptimizerImpl::kFused ? 30 : 96;
}

struct Domain {
  double elements = 0;
  Span shards;                // that split the state
  Span replicas;              // that hold the same shard
  double bytes_reduced = 0;   // of the gradients
  double bytes_gathered = 0;  // of the weights
};

double reduce_seconds(const Machine& m, const Domain& d) {
  double seconds = gather_seconds(m, d.shards, d.bytes_reduced);
  if (d.replicas.size > 1) seconds += all_reduce_seconds(m, d.replicas, d.bytes_reduced / d.shards.size);
  return seconds;
}

bool shards_weights(const Job& job) {
  switch (job.sharding.kind) {
    case job::ShardingKind::kFsdp2:
    case job::ShardingKind::kFsdp1:
      return true;
    case job::ShardingKind::kZero:
      return job.sharding.zero_stage >= 3;
    case job::ShardingKind::kMegatronFsdp:
      return job.sharding.megatron_strategy == job::MegatronFsdpStrategy::kOptimGradsParams;
    default:
      return false;
  }
}

// MXFP8 has scales along either direction: bf16 is gathered, into the gradient buffer, and quantised there.
double weight_bytes(const Job& job) {
  const bool fp8 = job.precision.fp8 != job::Fp8Recipe::kNone && job.precision.fp8 != job::Fp8Recipe::kMxfp8;
  const bool narrow = (fp8 && job.precision.fp8_param_gather) || (job.precision.fp4 && job.precision.fp4_param_gather);
  return narrow ? 1 : real(job::size_of(job.precision.params));
}

double gradient_bytes(const Job& job) {
  if (job.is_megatron()) {
    if (job::shards_by_megatron_fsdp(job)) return real(job::size_of(job.sharding.megatron_main_grads));
    return job.optimizer.grad_reduce_in_fp32 ? 4 : 2;
  }
  if (job.sharding.kind == job::ShardingKind::kFsdp2 || job.sharding.kind == job::ShardingKind::kFsdp1)
    return real(job::size_of(job.sharding.reduce));
  return real(job::size_of(job.precision.params));
}

std::int64_t replicas_of(const Job& job) {
  const std::int64_t replicas = std::max(job.optimizer.instances, job.sharding.replicas);
  return std::max<std::int64_t>(1, replicas);
}

// The share of the owned state whose update runs on the host.
double share_on_host(const Job& job) {
  const job::Sharding& s = job.sharding;
  if (job::optimizer_offload(s) != job::OffloadTarget::kNone) return std::clamp(s.offload_ratio, 0.0, 1.0);
  if ((s.kind == job::ShardingKind::kFsdp2 || s.kind == job::ShardingKind::kFsdp1) && s.cpu_offload) return 1;
  return std::clamp(job.optimizer.cpu_offload_fraction, 0.0, 1.0);
}

// Bytes per second. torchrun gives every rank one thread unless OMP_NUM_THREADS is set; beyond 16 nothing was measured.
double host_update_rate(const Job& job, const Calibration& c) {
  double threads = 1;
  if (const auto given = job.environment.find("OMP_NUM_THREADS"); given != job.environment.end()) {
    const document::Node number = document::parse_scalar(given->second);
    if (number.is_integer()) threads = real(std::clamp<std::int64_t>(number.integer, 1, 16));
  }
  const bool fused = job.sharding.kind == job::ShardingKind::kZero;
  return (fused ? c.cpu_fused_update_bytes : c.cpu_update_bytes) * std::pow(threads, c.cpu_threads);
}

bool weights_on_host(const Job& job) {
  const job::Sharding& s = job.sharding;
  return s.kind == job::ShardingKind::kZero ? job::parameter_offload(s) != job::OffloadTarget::kNone : s.cpu_offload;
}

Domain domain_of(const Job& job, const Machine& m, double elements, bool expert, double trained) {
  Domain d;
  d.elements = elements;
  // Rank order tp-cp-ep-dp-pp; with data parallelism outermost the pipeline lies between.
  const std::int64_t between = job.parallel.dp_outermost ? job.parallel.pipeline : 1;
  const std::int64_t stride = (expert ? job.parallel.expert * job.expert_tensor() : job.parallel.tensor) * between;
  const std::int64_t size = expert ? job.expert_data_parallel : job.data_parallel * job.parallel.context;
  const std::int64_t replicas = size % replicas_of(job) == 0 ? replicas_of(job) : 1;
  d.shards = span_of(m, std::max<std::int64_t>(1, size / replicas), stride);
  d.replicas = span_of(m, replicas, stride * std::max<std::int64_t>(1, size / replicas));
  d.bytes_reduced = elements * trained * gradient_bytes(job);
  d.bytes_gathered = elements * weight_bytes(job);
  return d;
}

// FSDP and ZeRO-3: every pass gathers its weights, every backward scatters its gradients; hidden layer by layer
// behind the pass itself (facts step-time.md 7, FSDP).
// Bytes per second of one rank: the drives of a node serve all its GPUs.
double nvme_rate(const Job& job, const Calibration& c) {
  const std::int64_t ranks = std::clamp<std::int64_t>(job.cluster.gpus_per_node, 1, job.cluster.gpus);
  return c.nvme_bytes / real(ranks);
}

// Master weights and both moments are read and written around the update, gradients written by the backward and read;
// DeepSpeed overlaps none of it unless pipeline_read and pipeline_write say so (facts other-frameworks-memory.md 5.3).
double nvme_update_seconds(const Job& job, const Calibration& c, double elements) {
  if (job::optimizer_offload(job.sharding) != job::OffloadTarget::kNvme) return 0;
  constexpr double kStates = 12;
  constexpr double kGradients = 4;
  return elements * 2 * (kStates + kGradients) / nvme_rate(job, c);
}

double sharded_exposed(const Job& job, const Machine& m, const Domain* domains, const Window& w) {
  const Calibration& c = *m.calibration;
  double gather = 0;
  double reduce = 0;
  for (int i = 0; i < 2; ++i) {
    gather += gather_seconds(m, domains[i].shards, domains[i].bytes_gathered);
    reduce += reduce_seconds(m, domains[i]);
  }
  // A pipeline of torchtitan keeps its weights gathered from micro-batch to micro-batch and reduces once; Megatron-FSDP
  // gathers for each of them (facts other-frameworks-memory.md 6.4).
  const bool pipelined = job.parallel.pipeline > 1 && !job::shards_by_megatron_fsdp(job);
  if (pipelined)
    return std::max(gather - w.forward, 0.0) + std::max(reduce - w.backward, 0.0) + c.shard_exposed * (gather + reduce);
  const double again = job.sharding.reshard_after_forward ? gather : 0;
  const bool each = job.sharding.sync_each_micro_batch;
  const double n = real(job.micro_batches);
  const double forward = std::max(gather - w.forward, 0.0) + c.shard_exposed * gather;
  const double backward = std::max(again - w.backward, 0.0) + c.shard_exposed * again;
  const double backward_reducing = std::max(again + reduce - w.backward, 0.0) + c.shard_exposed * (again + reduce);
  const double reducing = each ? n : 1;
  return n * forward + (n - reducing) * backward + reducing * backward_reducing;
}

double replicated_exposed(const Job& job, const Machine& m, const Domain* domains, const Window& w) {
  const Calibration& c = *m.calibration;
  const bool distributed = job.optimizer.distributed || job.sharding.kind == job::ShardingKind::kZero ||
                           job.sharding.kind == job::ShardingKind::kMegatronFsdp;
  double gather = 0;
  double reduce = 0;
  for (int i = 0; i < 2; ++i) {
    const Domain& d = domains[i];
    reduce += reduce_seconds(m, d);
    const double back = distributed ? d.bytes_gathered : d.bytes_reduced;
    gather += gather_seconds(m, d.shards, back);
  }
  // Hidden behind the last backward and the first forward; with virtual stages behind those of a group.
  const double behind = job.parallel.virtual_pipeline > 1 ? real(job.parallel.pipeline) : 1;
  const double batches = std::min(behind, real(job.micro_batches));
  const bool overlap_reduce = job.is_megatron() ? job.optimizer.overlap_grad_reduce : true;
  const bool overlap_gather = job.is_megatron() ? job.optimizer.overlap_param_gather : !distributed;
  const auto exposed = [&](double seconds, double window, bool overlaps) {
    return overlaps ? std::max(0.0, seconds - window) + c.data_exposed * std::min(seconds, window) : seconds;
  };
  return exposed(reduce, w.backward * batches, overlap_reduce) + exposed(gather, w.forward * batches, overlap_gather);
}

// Whole modules are trained beside the adapters: a share that only the list of weights tells.
double trained_part(const Job& job) {
  const step::transformers::Model model = step::transformers::make_model(job, step::transformers::whole_model(job));
  double trained = 0;
  double all = 0;
  for (const step::transformers::Weight& w : model.weights) {
    all += real(w.elements);
    if (w.trainable) trained += real(w.elements);
  }
  return all > 0 ? trained / all : 1;
}

}  // namespace

ElementCounter::ElementCounter(const Job& job) : job_(job) {
  const model::Architecture& m = job.model;
  const double tp = real(job.parallel.tensor);
  const double expert_split = real(job.parallel.expert * job.expert_tensor());
  kinds_.reserve(m.kinds.size());
  for (const model::Layer& layer : m.kinds) {
    const double experts = real(layer.ffn.experts) * real(model::expert_parameters(m, layer.ffn));
    kinds_.push_back({(real(model::layer_parameters(m, layer)) - experts) / tp, experts / expert_split, 1});
  }
  embedding_ = real(model::embedding_parameters(m)) / tp;
  mtp_projection_ = 2 * real(m.hidden) * real(m.hidden) / tp;
  if (job.adapter.kind != job::AdapterKind::kNone)
    trained_share_ = job.adapter.saved_modules.empty()
                         ? std::min(1.0, 2 * real(job.adapter.rank) / real(std::max<std::int64_t>(1, m.hidden)))
                         : trained_part(job);
}

Elements ElementCounter::of(const std::vector<job::Chunk>& chunks) const {
  Elements result;
  result.trained_share = trained_share_;
  const model::Architecture& m = job_.model;
  const auto add = [&](std::size_t kind, double n) {
    result.dense += n * kinds_[kind].dense;
    result.expert += n * kinds_[kind].expert;
  };
  for (const job::Chunk& chunk : chunks) {
    if (m.kinds.size() == 1) {
      add(0, real(chunk.num_layers));
    } else {
      for (std::int64_t i = 0; i < chunk.num_layers; ++i)
        add(m.layers[static_cast<std::size_t>(chunk.first_layer + i)], 1);
    }
    if (chunk.has_embedding) result.dense += embedding_;
    if (chunk.has_loss && !(m.tied_embeddings && chunk.has_embedding)) result.dense += embedding_;
    if (chunk.mtp_layers > 0) {
      const double depths = real(m.mtp_repeats ? 1 : chunk.mtp_layers);
      for (const std::uint8_t kind : m.mtp_depth()) add(kind, depths);
      result.dense += depths * mtp_projection_;
    }
  }
  return result;
}

StateCost state_cost(const Job& job, const Machine& m, const Elements& e, const Window& window, bool alone) {
  const Calibration& c = *m.calibration;
  StateCost cost;
  const Domain domains[2] = {domain_of(job, m, e.dense, false, e.trained_share),
                             domain_of(job, m, e.expert, true, e.trained_share)};
  const bool sharded = shards_weights(job);
  if (!alone)
    cost.data = sharded ? sharded_exposed(job, m, domains, window) : replicated_exposed(job, m, domains, window);

  const bool distributed = sharded || job.optimizer.distributed || job.sharding.kind == job::ShardingKind::kZero;
  double held = 0;
  double owned = 0;
  for (const Domain& d : domains) {
    held += d.elements * e.trained_share;
    owned += d.elements * e.trained_share / (distributed ? d.shards.size : 1);
  }
  const double on_host = owned * share_on_host(job);
  // PyTorch's kernels over lists of tensors load element by element: two bytes take more than half of the time of four.
  const double slower = !job.is_megatron() && job::size_of(job.precision.params) == 2 ? c.optimizer_narrow : 1;
  double bytes = (owned - on_host) * update_bytes(job) * c.optimizer_passes * slower;
  // Gradient norm reads the owned gradients and scales them; Megatron zeroes and scales the whole buffer.
  if (job.clip_grad) bytes += owned * gradient_bytes(job) * (job.is_megatron() ? 1 : 3 * slower);
  if (job.is_megatron()) bytes += held * gradient_bytes(job) * 3;
  // The scaler of fp16 divides every gradient and looks for infinities.
  if (!job.is_megatron() && job.asked.fp16) bytes += owned * gradient_bytes(job) * 2;
  // Quantised weights are made anew once per step (facts step-time.md 3: 8 bytes per element).
  if (job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4) bytes += held * 8;
  cost.optimizer = stream_seconds(m, bytes, 20);
  if (on_host > 0) cost.optimizer += on_host * update_bytes(job) / host_update_rate(job, c) + on_host * 6 / m.host_link;
  cost.offload += nvme_update_seconds(job, c, on_host);
  if (sharded && weights_on_host(job)) {
    // Every gather begins with a copy of this rank's shard to the GPU, one layer ahead of its use.
    const bool from_nvme = job::parameter_offload(job.sharding) == job::OffloadTarget::kNvme;
    const double rate = from_nvme ? std::min(m.host_link, nvme_rate(job, c)) : m.host_link;
    double copy = 0;
    for (const Domain& d : domains) copy += d.bytes_gathered / d.shards.size / rate;
    const double again = job.sharding.reshard_after_forward ? copy : 0;
    cost.offload +=
        real(job.micro_batches) * (std::max(0.0, copy - window.forward) + std::max(0.0, again - window.backward));
  }
  return cost;
}

}  // namespace plimsoll::timing
