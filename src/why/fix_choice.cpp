// SPDX-License-Identifier: Apache-2.0
// Which fixes are offered, and in which order. Most causes have theirs in their row (cause_rows.h); here are those
// whose figures or phase decide between them.
#include "why/fix_choice.h"

#include <algorithm>

#include "base/text.h"
#include "why/fix_conditions.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

using Ids = std::vector<std::string_view>;

void add_allocator(const Diagnosis& diagnosis, const KnownSettings& known, Ids& ids) {
  if (!diagnosis.sum.defragmenting_could_serve && !diagnosis.sum.fits_in_free) return;
  if (known.findings().has_expandable_segments()) return;
  if (known.has_expandable() && !known.uses_user_buffers())
    ids.push_back("expandable-segments");
  else if (known.has_max_split())
    ids.push_back("max-split-size");
}

// Nothing is trained here: there are no gradients, no moments and no accumulation to trade for.
bool infers_only(const Diagnosis& diagnosis) {
  return diagnosis.root != nullptr && diagnosis.root->frames.generates && !diagnosis.step &&
         diagnosis.root->steps_before == 0;
}

void add_activation_rungs(const Diagnosis& diagnosis, const KnownSettings& known, Ids& ids) {
  const FramesPhase frames = diagnosis.root == nullptr ? FramesPhase{} : diagnosis.root->frames;
  if (known.is_serving()) {
    ids.insert(ids.end(), {"smaller-batch", "engine-shard", "quantise"});
    return;
  }
  if (infers_only(diagnosis)) {
    ids.insert(ids.end(), {"smaller-batch", "offload-weights", "lower-precision-weights", "quantise"});
    return;
  }
  if (frames.attention_scores)
    ids.push_back("flash-attention");
  else if (frames.loss)
    ids.push_back("chunked-loss");
  else if (diagnosis.sum.capacity > 0 && diagnosis.sum.request > diagnosis.sum.capacity)
    ids.push_back("smaller-batch");
  if (!known.micro_batch_is_one()) ids.push_back("micro-batch");
  if (known.is_fp32()) ids.push_back("bf16");
  if (frames.loss && frames.attention_scores) ids.push_back("chunked-loss");
  if (!known.recomputes()) ids.insert(ids.end(), {"recompute-attention", "recompute-mlp", "recompute-layers"});
}

void add_state_rungs(const Diagnosis& diagnosis, const KnownSettings& known, Ids& ids) {
  const Speaker* speaker = speaker_of(diagnosis.framework);
  const bool megatron = speaker != nullptr && speaker->is_megatron;
  ids.push_back("adam-8bit");
  if (known.many() && !known.is_on({"use_distributed_optimizer"})) ids.push_back("shard-optimizer");
  if (known.many()) ids.push_back("shard-everything");
  if (known.many() && megatron) ids.push_back("more-pipeline");
  ids.push_back("offload-optimizer");
  if (!megatron) ids.push_back("lora");
  if (!known.many()) ids.push_back("bigger-device");
}

Ids capacity_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  if (diagnosis.sum.has_limit && diagnosis.sum.request <= diagnosis.sum.device_free) ids.push_back("raise-limit");
  const bool weights_alone = diagnosis.phase == Phase::kLoad || diagnosis.phase == Phase::kStartup;
  if (is_compiled_whole(diagnosis)) {
    ids.insert(ids.end(), {"shard-everything", "smaller-batch", "recompute-layers", "bigger-device"});
  } else if (infers_only(diagnosis)) {
    ids.insert(ids.end(), {"offload-weights", "lower-precision-weights", "quantise", "smaller-batch", "bigger-device"});
  } else if (weights_alone || known.is_serving()) {
    // Nothing of a step is alive yet: only fewer bytes of weights on this device help.
    ids.insert(ids.end(),
               {"lower-precision-weights", "shard-everything", "offload-weights", "quantise", "bigger-device"});
  } else {
    add_activation_rungs(diagnosis, known, ids);
    add_state_rungs(diagnosis, known, ids);
  }
  return ids;
}

// By the kernel's list, the loader's workers together hold more than anybody else.
bool workers_hold_most(const Findings& findings) {
  std::int64_t workers = 0;
  std::int64_t others = 0;
  for (const auto& [name, task] : findings.host_tasks)
    (has_any(name, {"worker", "loader"}) ? workers : others) += task.bytes;
  return workers > others;
}

Ids host_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  const bool shm = std::find(diagnosis.tags.begin(), diagnosis.tags.end(), "shm") != diagnosis.tags.end();
  if (shm) return {"more-shm", "fewer-workers"};
  const std::string offload =
      known.option({"offload_optimizer", "cpu_offloading", "optimizer_cpu_offload", "offload_device"});
  if (offload == "cpu" || offload == "true") ids.push_back("less-offload");
  if (diagnosis.growth.rising && diagnosis.growth.is_host) ids.push_back("host-references");
  if (diagnosis.phase == Phase::kEvaluate) ids.push_back("eval-in-chunks");
  if (diagnosis.phase == Phase::kLoad) ids.push_back("load-lean");
  const bool workers =
      (diagnosis.phase == Phase::kData && diagnosis.root->signal.kind != SignalKind::kHostAllocation) ||
      workers_hold_most(known.findings());
  if (workers) ids.push_back("fewer-workers");
  ids.push_back("host-memory");
  if (diagnosis.phase != Phase::kLoad && diagnosis.phase != Phase::kEvaluate) {
    if (!workers) ids.push_back("fewer-workers");
    ids.push_back("memory-map");
  }
  return ids;
}

Ids not_memory_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  const Findings& findings = known.findings();
  if (diagnosis.root == nullptr) return {};
  // A size read from garbage after a collective gave up is that collective's.
  const bool gave_up = std::any_of(findings.events.begin(), findings.events.end(), [](const Event& event) {
    return event.signal.kind == SignalKind::kCollectiveTimeout;
  });
  if (gave_up && diagnosis.root->signal.oom.is_impossible) return {"find-the-straggler"};
  switch (diagnosis.root->signal.kind) {
    case SignalKind::kAddressing:
    case SignalKind::kLibraryOther:
    case SignalKind::kLibraryAlloc:
      return {"find-the-index"};
    case SignalKind::kCollectiveTimeout:
    case SignalKind::kPeerLost:
      return {"find-the-straggler"};
    case SignalKind::kTimeLimit:
      return {"more-time"};
    default:
      return {};
  }
}

Ids serving_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  const auto share = known.findings().ratios.find("gpu_memory_utilization");
  const bool roomy = share == known.findings().ratios.end() || share->second < 0.9;
  if (diagnosis.root->signal.kind == SignalKind::kCacheTooShort) {
    ids.push_back("shorter-context");
    if (roomy) ids.push_back("engine-share");
  } else {
    if (roomy) ids.push_back("engine-share");
    ids.push_back("engine-shard");
    ids.push_back("quantise");
    return ids;
  }
  ids.insert(ids.end(), {"kv-fp8", "engine-shard"});
  return ids;
}

// A smaller micro-batch, where there is one to make smaller.
void add_micro_batch(const KnownSettings& known, Ids& ids) {
  if (known.is_training() && !known.micro_batch_is_one()) ids.push_back("micro-batch");
}

FramesPhase frames_of(const Diagnosis& diagnosis) {
  return diagnosis.root == nullptr ? FramesPhase{} : diagnosis.root->frames;
}

Ids fragmentation_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  add_allocator(diagnosis, known, ids);
  const bool moves_weights = frames_of(diagnosis).offload_hook || diagnosis.phase == Phase::kLoad;
  ids.push_back(moves_weights ? "headroom" : "fixed-shapes");
  if (diagnosis.phase != Phase::kLoad) add_micro_batch(known, ids);
  return ids;
}

Ids activation_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  add_activation_rungs(diagnosis, known, ids);
  if (known.is_training()) ids.push_back("shorter-sequence");
  return ids;
}

Ids first_backward_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  add_activation_rungs(diagnosis, known, ids);
  if (known.many()) ids.push_back("shard-optimizer");
  ids.push_back("shorter-sequence");
  return ids;
}

Ids checkpoint_rungs(const Diagnosis& diagnosis, const KnownSettings& /*known*/) {
  return {diagnosis.phase == Phase::kResume ? "load-on-host" : "state-dict-on-host", "sharded-checkpoint"};
}

Ids library_rungs(const Diagnosis& /*diagnosis*/, const KnownSettings& known) {
  Ids ids;
  add_micro_batch(known, ids);
  ids.push_back("cache-limit");
  if (known.is_training() && !known.recomputes()) ids.push_back("recompute-layers");
  return ids;
}

Ids graph_rungs(const Diagnosis& /*diagnosis*/, const KnownSettings& known) {
  if (known.is_serving()) return {"graph-margin", "fewer-graphs", "no-graphs"};
  return {"fewer-graphs", "no-graphs"};
}

Ids interop_rungs(const Diagnosis& /*diagnosis*/, const KnownSettings& known) {
  Ids ids = {"unset-expandable"};
  if (known.is_serving()) ids.push_back("no-custom-all-reduce");
  if (known.uses_user_buffers()) ids.push_back("no-user-buffers");
  return ids;
}

Ids longest_batch_rungs(const Diagnosis& /*diagnosis*/, const KnownSettings& known) {
  Ids ids = {"token-budget"};
  if (!known.micro_batch_is_one()) ids.push_back("micro-batch");
  if (!known.recomputes()) ids.push_back("recompute-layers");
  ids.push_back("cap-length");
  return ids;
}

Ids load_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  if (frames_of(diagnosis).converts && known.is_serving()) return {"engine-shard", "quantise", "load-lean"};
  if (diagnosis.root->signal.kind == SignalKind::kDeviceOom)
    return {"sharded-load", "load-lean", "lower-precision-weights", "quantise"};
  return {"load-lean", "sharded-load", "host-memory"};
}

Ids nccl_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  if (diagnosis.root->signal.kind == SignalKind::kNcclRegister) return {"no-user-buffers", "nccl-lean"};
  // Without a line of Python there may be no cache of PyTorch's to limit.
  const bool bare =
      known.findings().frameworks.empty() && !diagnosis.root->has_frames && diagnosis.root->steps_before == 0;
  Ids ids = bare ? Ids{"nccl-lean", "cache-limit"} : Ids{"cache-limit", "nccl-lean"};
  if (diagnosis.phase == Phase::kResume)
    ids.push_back("load-on-host");
  else if (!known.micro_batch_is_one())
    ids.push_back("micro-batch");
  return ids;
}

Ids optimizer_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  if (frames_of(diagnosis).foreach_optimizer) ids.push_back("no-foreach");
  add_state_rungs(diagnosis, known, ids);
  return ids;
}

Ids holder_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  if (diagnosis.root->signal.kind == SignalKind::kNotFreeAtStart) return {"free-the-device", "engine-share-less"};
  Ids ids;
  if (siblings_hold(diagnosis, known.findings())) ids.push_back("one-device-per-rank");
  ids.push_back("free-the-device");
  if (known.many()) ids.push_back("one-device-per-rank");
  return ids;
}

Ids cap_rungs(const Diagnosis& /*diagnosis*/, const KnownSettings& known) {
  Ids ids = {"raise-limit"};
  add_micro_batch(known, ids);
  return ids;
}

Ids unified_rungs(const Diagnosis& /*diagnosis*/, const KnownSettings& known) {
  Ids ids = {"unified-watermark"};
  add_micro_batch(known, ids);
  return ids;
}

Ids workspace_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  add_micro_batch(known, ids);
  const bool beyond_device = diagnosis.sum.capacity > 0 && diagnosis.sum.request > diagnosis.sum.capacity;
  ids.insert(beyond_device ? ids.begin() : ids.end(), "no-benchmark");
  return ids;
}

Ids masked_rungs(const Diagnosis& diagnosis, const KnownSettings& known) {
  Ids ids;
  if (diagnosis.phase != Phase::kLoad) ids = {"smaller-batch", "bigger-device"};
  for (const std::string_view id : capacity_rungs(diagnosis, known))
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  return ids;
}

struct Choice {
  Cause cause;
  Ids (*rungs)(const Diagnosis&, const KnownSettings&);
};

const Choice kChoices[] = {{Cause::kFragmentation, fragmentation_rungs},
                           {Cause::kActivationBound, activation_rungs},
                           {Cause::kFirstBackward, first_backward_rungs},
                           {Cause::kGenuineCapacity, capacity_rungs},
                           {Cause::kCheckpointSpike, checkpoint_rungs},
                           {Cause::kCublasCudnnAlloc, library_rungs},
                           {Cause::kCudaGraphMemory, graph_rungs},
                           {Cause::kExpandableInterop, interop_rungs},
                           {Cause::kHostRamKill, host_rungs},
                           {Cause::kKvCacheTooSmall, serving_rungs},
                           {Cause::kLongestBatch, longest_batch_rungs},
                           {Cause::kModelLoadSpike, load_rungs},
                           {Cause::kNcclMemory, nccl_rungs},
                           {Cause::kNotMemory, not_memory_rungs},
                           {Cause::kOptimizerStateBound, optimizer_rungs},
                           {Cause::kOtherProcess, holder_rungs},
                           {Cause::kAllocatorCap, cap_rungs},
                           {Cause::kUnifiedLimit, unified_rungs},
                           {Cause::kConvWorkspace, workspace_rungs},
                           {Cause::kMaskedOom, masked_rungs}};

}  // namespace

std::vector<std::string_view> rungs_of(const Diagnosis& diagnosis, const KnownSettings& known) {
  for (const Choice& choice : kChoices)
    if (choice.cause == diagnosis.cause) return choice.rungs(diagnosis, known);
  Ids ids;
  for (const std::string_view id : split(cause_fixes(diagnosis.cause), ' '))
    if (!id.empty()) ids.push_back(id);
  return ids;
}

}  // namespace plimsoll::why
