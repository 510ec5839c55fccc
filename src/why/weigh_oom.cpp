// SPDX-License-Identifier: Apache-2.0
// An allocator's message: first the figures (others, limits, fragmentation), then the phase, which beats
// the figures where it is more precise (corpus order of tests). The hint inside the message is no evidence.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/bytes.h"
#include "why/weigh.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// Frames name the phase; a marker alone is a weaker word.
double sureness(const Circumstances& at) { return at.root.has_frames && at.root.frames.phase == at.phase ? 1.0 : 0.65; }

double cached_share(const Arithmetic& sum) {
  return sum.reserved > 0 ? static_cast<double>(sum.cached) / static_cast<double>(sum.reserved) : 0;
}

// Whether free and cached memory together are more than crumbs: a device that is full of live tensors to
// the last percent is full, even where one more request could have been pieced together; and a request
// that would need every cached byte, without rounding, would not have been served. 0.1 to 1.
double plenty(const Arithmetic& sum) {
  if (sum.capacity <= 0) return 1;
  const double share = static_cast<double>(sum.free + sum.cached) / static_cast<double>(sum.capacity);
  const double margin =
      static_cast<double>(sum.free + sum.cached - sum.request) / (0.08 * static_cast<double>(sum.request) + 1);
  return std::clamp(std::min((share - 0.012) / 0.02, margin), 0.1, 1.0);
}

void weigh_figures(const Circumstances& at, Weights& weights) {
  const Arithmetic& sum = at.sum;
  const OomNumbers& oom = at.root.signal.oom;
  const Findings& findings = at.findings;
  if (oom.allocator == Allocator::kHip) {
    const bool driver_disagrees =
        findings.driver_vram && oom.total && *findings.driver_vram > 0 &&
        (*oom.total * 10 < *findings.driver_vram * 9 || *oom.total * 9 > *findings.driver_vram * 10);
    if (driver_disagrees)
      weights.add(Cause::kRocmHip, 7,
                  fmt::format("the runtime sees {}, the driver {}", format_bytes(*oom.total),
                              format_bytes(*findings.driver_vram)));
    if (sum.known && sum.fits_in_free && !sum.has_limit && sum.request * 10 <= sum.free * 9)
      weights.add(Cause::kRocmHip, 6,
                  fmt::format("{} asked for, {} free, and refused", format_bytes(sum.request), format_bytes(sum.free)));
    else
      weights.add(Cause::kRocmHip, 0.25, "a HIP message");
  }
  if (!sum.known || sum.reserved == 0) {
    // Without figures the list of nvidia-smi is the only word on who holds the device.
    std::map<std::int64_t, int> by_gpu;
    for (const DeviceProcess& process : findings.smi_processes)
      if (process.bytes >= kGiB) ++by_gpu[process.gpu];
    const bool shared = std::any_of(by_gpu.begin(), by_gpu.end(), [](const auto& one) { return one.second > 1; });
    if (shared) weights.add(Cause::kOtherProcess, 2.5, "nvidia-smi lists several processes on one device");
    const bool untouched = at.root.steps_before == 0 && (at.phase == Phase::kStartup || at.phase == Phase::kUnknown);
    if (untouched && !findings.smi.empty() && findings.smi.front().order < at.root.order &&
        findings.smi.front().use.used * 2 > findings.smi.front().use.total)
      weights.add(Cause::kOtherProcess, 2.5, "nvidia-smi shows the device in use before this job held anything");
  }
  if (!sum.known) return;
  const std::int64_t significant = std::max<std::int64_t>(kGiB / 2, sum.total * 12 / 100);
  const bool own_limit = sum.has_limit && sum.request <= sum.device_free;
  if (sum.others >= significant && !own_limit && !sum.fits_in_free) {
    const double share = sum.total > 0 ? static_cast<double>(sum.others) / static_cast<double>(sum.total) : 0.5;
    if (sum.without_others_would_fit)
      weights.add(Cause::kOtherProcess, 4.5 + 5 * share,
                  fmt::format("{} of {} are held outside this process's PyTorch", format_bytes(sum.others),
                              format_bytes(sum.total)));
    else
      weights.add(
          Cause::kOtherProcess, 0.8,
          fmt::format("others hold {}, but the request would not fit without them either", format_bytes(sum.others)));
  }
  if (sum.defragmenting_could_serve || (sum.fits_in_free && !sum.has_limit)) {
    const double share = plenty(sum);
    double weight = sum.cached >= sum.request ? 3.0 + 4 * std::min(cached_share(sum), 0.5) : 2.6;
    if (sum.fits_in_free) weight = oom.allocator == Allocator::kHip ? 0.6 : 2.6;
    if (findings.has_expandable_segments()) weight *= 0.25;
    weights.add(Cause::kFragmentation, weight * share,
                fmt::format("{} <= {} free + {} cached", format_bytes(sum.request), format_bytes(sum.free),
                            format_bytes(sum.cached)));
  }
  if (sum.private_pools > 0 && sum.capacity > 0) {
    const double share = static_cast<double>(sum.private_pools) / static_cast<double>(sum.capacity);
    weights.add(Cause::kCudaGraphMemory, share >= 0.08 ? 5.5 : 0.8,
                fmt::format("{} lie in private pools of CUDA graphs", format_bytes(sum.private_pools)));
  }
}

// Causes that a phase does not explain are set back, not out.
void quieten(Weights& weights, double factor) {
  for (const Cause cause :
       {Cause::kActivationBound, Cause::kGenuineCapacity, Cause::kFragmentation, Cause::kFirstBackward})
    weights.scale(cause, factor);
}

void weigh_steps(const Circumstances& at, Weights& weights) {
  const std::int64_t steps = at.root.steps_before;
  if (at.growth.rising && !at.growth.is_host) {
    const bool constant = at.findings.shapes == 1;
    weights.add(Cause::kMemoryLeak,
                at.growth.is_noisy          ? (constant ? 5 : 3.2)
                : at.growth.gauge == "peak" ? 4
                                            : 8,
                fmt::format("{} rises by {} per step from step {} to {}", at.growth.gauge,
                            format_bytes(at.growth.per_step), at.growth.first_step, at.growth.last_step));
    quieten(weights, 0.5);
    return;
  }
  const bool in_step = at.phase == Phase::kForward || at.phase == Phase::kBackward || at.phase == Phase::kTrain ||
                       at.phase == Phase::kUnknown;
  if (!in_step || steps == 0) return;
  if (at.growth.flat && steps >= 5) {
    weights.add(Cause::kLongestBatch, 4.2,
                fmt::format("memory stood still over {} steps, then one step wanted more", steps));
    quieten(weights, 0.6);
  } else {
    weights.add(Cause::kLongestBatch, steps >= 100 ? 0.6 : 0.35,
                fmt::format("{} step lines before it were fine", steps));
  }
  if (at.restarts_at_same_step)
    weights.add(Cause::kLongestBatch, 3.5, "every restart fails at the same step: the batch there is too long");
  if (at.findings.shapes >= 3) weights.add(Cause::kLongestBatch, 1.2, "the shapes of batches vary");
}

void weigh_load(const Circumstances& at, Weights& weights) {
  const FramesPhase& frames = at.root.frames;
  const bool bar = at.root.marker == Phase::kLoad && at.root.bar_unfinished;
  if (frames.shard_load || bar) {
    weights.add(Cause::kModelLoadSpike, at.findings.is_multi_rank() ? 4.0 : 2.8,
                at.findings.is_multi_rank() ? "every rank reads the whole checkpoint onto its device"
                                            : "the checkpoint is being read onto the device");
    weights.add(Cause::kGenuineCapacity, 1.5, "the weights may be too large for the device");
  } else {
    weights.add(Cause::kGenuineCapacity, 3.0, "the weights alone do not fit while they are moved or created");
    weights.add(Cause::kModelLoadSpike, 0.9, "it happened while loading");
  }
}

void weigh_backward(const Circumstances& at, Weights& weights) {
  const Arithmetic& sum = at.sum;
  if (!sum.known || sum.reserved == 0) {
    if (at.root.steps_before == 0) {
      weights.add(Cause::kFirstBackward, 3.5, "the first backward failed after a forward that fitted, without figures");
      weights.add(Cause::kActivationBound, 1.0, "backward needs every saved activation");
    } else {
      weights.add(Cause::kActivationBound, 1.8, "backward needs every saved activation");
      weights.add(Cause::kFirstBackward, 0.8, "it failed in backward, without figures");
    }
    weights.add(Cause::kGenuineCapacity, 0.8, "gradients add to the weights");
    return;
  }
  const bool full = sum.capacity > 0 && sum.allocated * 100 >= sum.capacity * 84;
  const bool small = sum.request * 20 < sum.capacity;
  weights.add(Cause::kGenuineCapacity, full && small ? 2.1 : 1.1,
              fmt::format("{} of {} are live tensors of this process", format_bytes(sum.allocated),
                          format_bytes(sum.capacity)));
  weights.add(Cause::kActivationBound, full && small ? 1.5 : 2.2,
              "it failed in backward, where every saved activation is alive");
  if (at.root.steps_before == 0) weights.add(Cause::kFirstBackward, 0.9, "no step was done before it");
}

void weigh_phase(const Circumstances& at, Weights& weights) {
  const double sure = sureness(at);
  const Arithmetic& sum = at.sum;
  switch (at.phase) {
    case Phase::kWakeUp:
      quieten(weights, 0.3);
      weights.add(Cause::kRlColocation, 7 * sure, "the rollout engine was waking up while the trainer held the device");
      break;
    case Phase::kGraphCapture:
      quieten(weights, 0.3);
      weights.add(Cause::kCudaGraphMemory, 6 * sure, "it happened while graphs were captured");
      break;
    case Phase::kSave:
    case Phase::kResume:
      quieten(weights, 0.3);
      weights.add(Cause::kCheckpointSpike, 5 * sure + 0.5,
                  at.phase == Phase::kSave ? "it happened while the state was gathered or saved"
                                           : "it happened while the state was restored");
      weights.add(Cause::kGenuineCapacity, 0.4, "the device was nearly full");
      break;
    case Phase::kOptimizerStep:
    case Phase::kOptimizerInit:
      quieten(weights, 0.4);
      weights.add(Cause::kOptimizerStateBound, 5.5 * sure,
                  at.root.frames.foreach_optimizer ? "the fused list update makes temporaries as large as the shard"
                                                   : "it happened in the optimizer's step");
      weights.add(Cause::kGenuineCapacity, 0.6, "moments add to weights and gradients");
      break;
    case Phase::kEvaluate:
      quieten(weights, 0.3);
      weights.add(Cause::kEvalAccumulation, 5.5 * sure, "training ran, and it happened in evaluation");
      weights.add(Cause::kActivationBound, 0.5, "a forward pass of evaluation");
      break;
    case Phase::kKvInit:
      weights.add(Cause::kKvCacheTooSmall, 2.5, "it happened while the KV cache was sized or made");
      weights.add(Cause::kGenuineCapacity, 1.2, "the weights leave no room");
      break;
    case Phase::kLoad:
      weigh_load(at, weights);
      break;
    case Phase::kBackward:
      weigh_backward(at, weights);
      break;
    case Phase::kForward:
      weights.add(Cause::kActivationBound, 2.6 * sure,
                  at.root.frames.attention_scores ? "it failed making attention scores or their mask"
                                                  : "it failed in the forward pass");
      if (at.root.frames.attention_scores)
        weights.add(Cause::kActivationBound, 1.2, "it failed making attention scores or their mask");
      weights.add(Cause::kGenuineCapacity, 1.0, "little is free beside weights and states");
      // Full before activations could grow: a small tensor of the first forward was already too much.
      if (sum.known && sum.capacity > 0 && sum.allocated * 100 >= sum.capacity * 93 &&
          sum.request * 100 <= sum.capacity)
        weights.add(Cause::kGenuineCapacity, at.root.steps_before == 0 ? 1.8 : 0.6,
                    fmt::format("{} of {} were live when {} more was asked for", format_bytes(sum.allocated),
                                format_bytes(sum.capacity), format_bytes(sum.request)));
      break;
    case Phase::kStartup:
    case Phase::kConfig:
    case Phase::kData:
      weights.add(Cause::kOtherProcess, 1.6, "it failed before this job held anything");
      weights.add(Cause::kGenuineCapacity, 1.2, "it failed at start-up");
      break;
    case Phase::kCompile:
    case Phase::kCollective:
    case Phase::kTrain:
    case Phase::kUnknown:
      weights.add(Cause::kGenuineCapacity, 1.6,
                  sum.known && sum.capacity > 0 ? "nothing more precise than the figures is known"
                                                : "nothing more precise is known");
      weights.add(Cause::kActivationBound, 1.0, "activations are what grows with the batch");
      if (!sum.known) weights.add(Cause::kOtherProcess, 0.5, "no figures say who holds the device");
      break;
  }
}

}  // namespace

void weigh_device_oom(const Circumstances& at, Weights& weights) {
  const OomNumbers& oom = at.root.signal.oom;
  if (at.root.signal.kind == SignalKind::kSkippedBatch) {
    weights.add(Cause::kLongestBatch, 7, "the loop skipped this batch and went on: other batches fit");
    weights.add(Cause::kActivationBound, 1.0, "a batch did not fit");
    return;
  }
  if (oom.needed && oom.total && *oom.needed > *oom.total) {
    weights.add(
        Cause::kGenuineCapacity, 7,
        fmt::format("the compiled program needs {} of {}", format_bytes(*oom.needed), format_bytes(*oom.total)));
    weights.add(Cause::kActivationBound, 0.9, "activations are part of the program");
    return;
  }
  if (oom.allocator == Allocator::kTensorFlow)
    weights.add(Cause::kActivationBound, 1.5, "one tensor of the graph could not be made");
  weigh_figures(at, weights);
  weigh_phase(at, weights);
  const Arithmetic& sum = at.sum;
  const bool in_step = at.phase == Phase::kForward || at.phase == Phase::kBackward || at.phase == Phase::kTrain ||
                       at.phase == Phase::kEvaluate;
  if (sum.known && sum.capacity > 0 && sum.request > sum.capacity) {
    const std::string why =
        fmt::format("one request of {} on {}", format_bytes(sum.request), format_bytes(sum.capacity));
    // Larger than the device itself, not only than a limit: no weight is; a tensor that was made whole is.
    const bool whole = sum.total > 0 && sum.request > sum.total && at.phase != Phase::kLoad &&
                       at.phase != Phase::kStartup && !(at.phase == Phase::kUnknown && at.root.has_frames);
    if (in_step || whole || at.root.frames.attention_scores)
      weights.add(Cause::kActivationBound, at.phase == Phase::kEvaluate ? 1.5 : 4.5, why);
    else
      weights.add(Cause::kGenuineCapacity, 2.5, why);
  } else if (sum.known && sum.capacity > 0 && sum.request * 4 >= sum.capacity && in_step) {
    weights.add(Cause::kActivationBound, 0.8, fmt::format("one tensor of {}", format_bytes(sum.request)));
  }
  if (sum.known && sum.capacity > 0 && sum.allocated > sum.capacity)
    weights.add(Cause::kGenuineCapacity, 4,
                fmt::format("{} of live tensors on a device of {}: the driver already swaps to the host",
                            format_bytes(sum.allocated), format_bytes(sum.capacity)));
  if (at.findings.engine_in_trainer && at.phase != Phase::kWakeUp) {
    // The other process is the engine.
    const double taken = 0.7 * weights.at(Cause::kOtherProcess);
    weights.scale(Cause::kOtherProcess, 0.3);
    weights.add(Cause::kRlColocation, taken + (at.root.frames.serving || at.root.marker == Phase::kWakeUp ? 3.0 : 1.2),
                "a rollout engine shares the device with the trainer");
  }
  if (sum.defragmenting_could_serve && plenty(sum) > 0.9 && !at.findings.has_expandable_segments())
    for (const Cause cause : {Cause::kActivationBound, Cause::kGenuineCapacity}) weights.scale(cause, 0.5);
  weigh_steps(at, weights);
  if (at.findings.graphs_place && at.phase != Phase::kGraphCapture && at.findings.alloc_retries > 0)
    weights.add(Cause::kCudaGraphMemory, 1.5, "graphs are on and the allocator had to retry");
}

}  // namespace plimsoll::why
