// SPDX-License-Identifier: Apache-2.0
#include "why/fixes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "why/fix_conditions.h"
#include "why/rungs.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// What the log says about the job's own settings.
class Known {
 public:
  Known(const Diagnosis& diagnosis, const Findings& findings) : diagnosis_(diagnosis), findings_(findings) {}

  [[nodiscard]] std::string option(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names)
      if (const auto found = findings_.config.find(std::string{name}); found != findings_.config.end())
        return lower(found->second);
    return {};
  }
  [[nodiscard]] bool is_on(std::initializer_list<std::string_view> names) const {
    const std::string value = option(names);
    return value == "true" || value == "1" || value == "yes" || value == "on";
  }
  [[nodiscard]] bool micro_batch_is_one() const {
    return option({"micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu",
                   "batch_size"}) == "1";
  }
  [[nodiscard]] bool recomputes() const {
    const std::string granularity = option({"recompute_granularity"});
    return granularity == "full" || is_on({"gradient_checkpointing", "checkpoint_activations"});
  }
  [[nodiscard]] bool is_fp32() const {
    const std::string precision = option({"precision", "dtype", "torch_dtype", "mixed_precision"});
    return precision == "fp32" || precision == "float32" || precision == "32" || precision == "no" ||
           option({"bf16"}) == "false";
  }
  // 2.1 -> 201; 0: not known.
  [[nodiscard]] int torch() const {
    const auto major = leading_integer(findings_.torch_version);
    const std::size_t dot = findings_.torch_version.find('.');
    if (!major || dot == std::string::npos) return 0;
    return static_cast<int>(*major * 100 +
                            leading_integer(std::string_view{findings_.torch_version}.substr(dot + 1)).value_or(0));
  }
  [[nodiscard]] bool has_expandable() const { return !findings_.is_windows && (torch() == 0 || torch() >= 201); }
  [[nodiscard]] bool has_max_split() const { return torch() == 0 || torch() >= 110; }
  [[nodiscard]] bool uses_user_buffers() const { return is_on({"use_nccl_ub", "nccl_ub"}); }
  [[nodiscard]] bool is_serving() const {
    const Speaker* speaker = speaker_of(diagnosis_.framework);
    return speaker != nullptr && speaker->serves;
  }
  [[nodiscard]] bool is_training() const { return !is_serving(); }
  [[nodiscard]] bool many() const { return findings_.is_multi_rank(); }
  [[nodiscard]] const Findings& findings() const { return findings_; }

 private:
  const Diagnosis& diagnosis_;
  const Findings& findings_;
};

using Ids = std::vector<std::string_view>;

void add_allocator(const Diagnosis& diagnosis, const Known& known, Ids& ids) {
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

void add_activation_rungs(const Diagnosis& diagnosis, const Known& known, Ids& ids) {
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

void add_state_rungs(const Diagnosis& diagnosis, const Known& known, Ids& ids) {
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

Ids capacity_rungs(const Diagnosis& diagnosis, const Known& known) {
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

Ids host_rungs(const Diagnosis& diagnosis, const Known& known) {
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

Ids not_memory_rungs(const Diagnosis& diagnosis, const Findings& findings) {
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

Ids serving_rungs(const Diagnosis& diagnosis, const Known& known) {
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

Ids rungs_of(const Diagnosis& diagnosis, const Known& known) {
  Ids ids;
  const FramesPhase frames = diagnosis.root == nullptr ? FramesPhase{} : diagnosis.root->frames;
  switch (diagnosis.cause) {
    case Cause::kFragmentation:
      add_allocator(diagnosis, known, ids);
      if (frames.offload_hook || diagnosis.phase == Phase::kLoad)
        ids.push_back("headroom");
      else
        ids.push_back("fixed-shapes");
      if (diagnosis.phase != Phase::kLoad && known.is_training() && !known.micro_batch_is_one())
        ids.push_back("micro-batch");
      return ids;
    case Cause::kActivationBound:
      add_activation_rungs(diagnosis, known, ids);
      if (known.is_training()) ids.push_back("shorter-sequence");
      return ids;
    case Cause::kFirstBackward:
      add_activation_rungs(diagnosis, known, ids);
      if (known.many()) ids.push_back("shard-optimizer");
      ids.push_back("shorter-sequence");
      return ids;
    case Cause::kGenuineCapacity:
      return capacity_rungs(diagnosis, known);
    case Cause::kCheckpointSpike:
      if (diagnosis.phase == Phase::kResume) return {"load-on-host", "sharded-checkpoint"};
      return {"state-dict-on-host", "sharded-checkpoint"};
    case Cause::kCublasCudnnAlloc:
      if (known.is_training() && !known.micro_batch_is_one()) ids.push_back("micro-batch");
      ids.push_back("cache-limit");
      if (known.is_training() && !known.recomputes()) ids.push_back("recompute-layers");
      return ids;
    case Cause::kCudaGraphMemory:
      if (known.is_serving()) ids.push_back("graph-margin");
      ids.insert(ids.end(), {"fewer-graphs", "no-graphs"});
      return ids;
    case Cause::kExpandableInterop:
      ids.push_back("unset-expandable");
      if (known.is_serving()) ids.push_back("no-custom-all-reduce");
      if (known.uses_user_buffers()) ids.push_back("no-user-buffers");
      return ids;
    case Cause::kHostRamKill:
      return host_rungs(diagnosis, known);
    case Cause::kKvCacheTooSmall:
      return serving_rungs(diagnosis, known);
    case Cause::kLongestBatch:
      ids.push_back("token-budget");
      if (!known.micro_batch_is_one()) ids.push_back("micro-batch");
      if (!known.recomputes()) ids.push_back("recompute-layers");
      ids.push_back("cap-length");
      return ids;
    case Cause::kModelLoadSpike:
      if (frames.converts && known.is_serving()) return {"engine-shard", "quantise", "load-lean"};
      if (diagnosis.root->signal.kind == SignalKind::kDeviceOom)
        return {"sharded-load", "load-lean", "lower-precision-weights", "quantise"};
      return {"load-lean", "sharded-load", "host-memory"};
    case Cause::kNcclMemory:
      if (diagnosis.root->signal.kind == SignalKind::kNcclRegister) return {"no-user-buffers", "nccl-lean"};
      // Without a line of Python there may be no cache of PyTorch's to limit.
      if (known.findings().frameworks.empty() && !diagnosis.root->has_frames && diagnosis.root->steps_before == 0)
        ids.insert(ids.end(), {"nccl-lean", "cache-limit"});
      else
        ids.insert(ids.end(), {"cache-limit", "nccl-lean"});
      if (diagnosis.phase == Phase::kResume)
        ids.push_back("load-on-host");
      else if (!known.micro_batch_is_one())
        ids.push_back("micro-batch");
      return ids;
    case Cause::kNotMemory:
      return not_memory_rungs(diagnosis, known.findings());
    case Cause::kOptimizerStateBound:
      if (frames.foreach_optimizer) ids.push_back("no-foreach");
      add_state_rungs(diagnosis, known, ids);
      return ids;
    case Cause::kOtherProcess:
      if (diagnosis.root->signal.kind == SignalKind::kNotFreeAtStart) return {"free-the-device", "engine-share-less"};
      if (siblings_hold(diagnosis, known.findings())) ids.push_back("one-device-per-rank");
      ids.push_back("free-the-device");
      if (known.many()) ids.push_back("one-device-per-rank");
      return ids;
    case Cause::kAllocatorCap:
      ids.push_back("raise-limit");
      if (known.is_training() && !known.micro_batch_is_one()) ids.push_back("micro-batch");
      return ids;
    case Cause::kUnifiedLimit:
      ids.push_back("unified-watermark");
      if (known.is_training() && !known.micro_batch_is_one()) ids.push_back("micro-batch");
      return ids;
    case Cause::kConvWorkspace:
      if (diagnosis.sum.capacity > 0 && diagnosis.sum.request > diagnosis.sum.capacity) ids.push_back("no-benchmark");
      if (known.is_training() && !known.micro_batch_is_one()) ids.push_back("micro-batch");
      if (ids.empty() || ids.front() != "no-benchmark") ids.push_back("no-benchmark");
      return ids;
    case Cause::kMaskedOom:
      if (diagnosis.phase != Phase::kLoad) ids.insert(ids.end(), {"smaller-batch", "bigger-device"});
      for (const std::string_view id : capacity_rungs(diagnosis, known))
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
      return ids;
    default:
      break;
  }
  for (const std::string_view id : split(cause_fixes(diagnosis.cause), ' '))
    if (!id.empty()) ids.push_back(id);
  return ids;
}

std::optional<ByteRange> bytes_of(const Rung& rung, const Diagnosis& diagnosis) {
  const Arithmetic& sum = diagnosis.sum;
  std::int64_t whole = 0;
  switch (rung.saves) {
    case Saves::kNothing:
      return ByteRange{};
    case Saves::kActivations:
      // A tensor that is larger than the device shrinks with the batch as everything else does.
      whole = sum.allocated + (sum.capacity > 0 && sum.request > sum.capacity ? sum.request : 0);
      break;
    case Saves::kStates:
      whole = sum.allocated;
      break;
    case Saves::kRequest:
      whole = sum.request;
      break;
    case Saves::kCached:
      whole = sum.cached;
      break;
    case Saves::kOthers:
      whole = sum.others;
      break;
    case Saves::kLimit:
      whole = std::max<std::int64_t>(0, sum.total - sum.capacity);
      break;
  }
  if (whole <= 0) return std::nullopt;
  return ByteRange{std::llround(rung.low * static_cast<double>(whole)),
                   std::llround(rung.high * static_cast<double>(whole))};
}

std::optional<bool> suffices(const Rung& rung, const Diagnosis& diagnosis, const std::optional<ByteRange>& saves) {
  const Arithmetic& sum = diagnosis.sum;
  if (rung.id == "expandable-segments" && sum.known) return sum.defragmenting_could_serve;
  if (rung.id == "free-the-device" && sum.known) return sum.without_others_would_fit;
  if (rung.id == "raise-limit") return sum.request <= sum.device_free;
  if (rung.id == "shorter-context" || rung.id == "unset-expandable" || rung.id == "change-option" ||
      rung.id == "free-disk")
    return true;
  if (!sum.known || !saves || rung.saves == Saves::kNothing) return std::nullopt;
  // What failed is the first request that was too much, not the last: too little is known to promise more.
  if (saves->high < sum.shortfall) return false;
  return std::nullopt;
}

void replace_text(std::string& line, std::string_view what, const std::string& by) {
  if (const std::size_t at = line.find(what); at != std::string::npos) line.replace(at, what.size(), by);
}

// "N/2" and "2N" stand for half and twice what the log shows of the option.
void fill_in(std::string& line, std::string_view id, const Known& known) {
  const auto number = [&](std::initializer_list<std::string_view> names) {
    return leading_integer(known.option(names)).value_or(0);
  };
  std::int64_t value = 0;
  if (id == "micro-batch" || id == "smaller-batch")
    value = number({"micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "batch_size"});
  if (id == "shorter-sequence") value = number({"seq_length", "max_seq_length", "max_length"});
  if (id == "more-pipeline") value = number({"pipeline_model_parallel_size"});
  if (id == "engine-shard" || id == "shard-everything" || id == "sharded-load")
    value = number({"tensor_parallel_size", "tp_size", "tensor_model_parallel_size"});
  if (value >= 2) replace_text(line, "N/2", std::to_string(value / 2));
  if (value >= 1) replace_text(line, "2N", std::to_string(2 * value));
  if (const std::int64_t steps = number({"gradient_accumulation_steps", "accumulate_grad_batches"}); steps > 0)
    replace_text(line, "2*M", std::to_string(2 * steps));
}

// Lines that take a figure of this log.
std::string with_figures(std::string line, std::string_view id, const Diagnosis& diagnosis, const Findings& findings) {
  const auto figure = [&](const char* name) {
    const auto found = findings.figures.find(name);
    return found == findings.figures.end() ? std::int64_t{0} : found->second;
  };
  if (id == "shorter-context") {
    std::int64_t tokens = figure("kv_tokens");
    const std::int64_t needed = figure("kv_needed");
    if (tokens == 0 && needed > 0)
      tokens = static_cast<std::int64_t>(static_cast<double>(figure("max_seq_tokens")) *
                                         static_cast<double>(figure("kv_available")) / static_cast<double>(needed));
    if (tokens > 0)
      if (const std::size_t at = line.rfind('N'); at != std::string::npos)
        line.replace(at, 1, std::to_string(tokens / 16 * 16));
  }
  if (id == "engine-share-less" && figure("total") > 0) {
    const double share =
        std::floor(static_cast<double>(figure("free")) / static_cast<double>(figure("total")) * 100 - 2) / 100;
    if (const std::size_t at = line.rfind('N'); at != std::string::npos && share > 0)
      line.replace(at, 1, fmt::format("{:.2f}", share));
  }
  if (id == "free-the-device") {
    std::string pids;
    for (const ProcessUse& process : diagnosis.numbers.processes)
      pids += (pids.empty() ? "" : ",") + std::to_string(process.pid);
    line = (pids.empty() ? "nvidia-smi --query-compute-apps=pid,used_memory --format=csv"
                         : "ps -o pid,user,etime,cmd -p " + pids) +
           "; fuser -v /dev/nvidia*  # end it, or set CUDA_VISIBLE_DEVICES; what only fuser shows is a zombie";
  }
  if (id == "change-option" && diagnosis.root != nullptr) {
    const Signal& signal = diagnosis.root->signal;
    line = signal.rule_fix.empty() ? fmt::format("as the message asks: {}", cut_text(diagnosis.root->text, 160))
                                   : fmt::format("{} (rule {})", signal.rule_fix, signal.rule);
  }
  if (id == "expandable-segments") {
    if (diagnosis.numbers.allocator == Allocator::kNpu) line = "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True";
    if (diagnosis.numbers.allocator == Allocator::kHip) line = "export PYTORCH_HIP_ALLOC_CONF=expandable_segments:True";
  }
  if (id == "max-split-size" && diagnosis.numbers.allocator == Allocator::kNpu)
    line = "export PYTORCH_NPU_ALLOC_CONF=max_split_size_mb:256";
  if (id == "unset-expandable" && !findings.settings.empty())
    line = fmt::format("export {}=expandable_segments:False", findings.settings.begin()->first);
  return line;
}

}  // namespace

std::vector<Fix> fixes_for(const Diagnosis& diagnosis, const Findings& findings) {
  std::vector<Fix> fixes;
  if (!diagnosis.failure) return fixes;
  const Known known(diagnosis, findings);
  Ids ids = rungs_of(diagnosis, known);
  // A limit below the device's memory is worth naming whatever filled it.
  if (diagnosis.sum.has_limit && diagnosis.sum.request <= diagnosis.sum.device_free && !ids.empty())
    ids.push_back("raise-limit");
  const bool no_moments = moments_do_not_exist(diagnosis, findings);
  for (const std::string_view id : ids) {
    if (!can_apply(id, diagnosis, findings)) continue;
    if (std::any_of(fixes.begin(), fixes.end(), [&](const Fix& fix) { return fix.id == id; })) continue;
    const std::string_view line = line_for(id, diagnosis.framework);
    if (line.empty()) continue;
    const Rung& one = rung(id);
    Fix fix;
    fix.id = std::string{one.id};
    fix.title = std::string{one.title};
    fix.change = with_figures(std::string{line}, id, diagnosis, findings);
    fill_in(fix.change, id, known);
    fix.saves = bytes_of(one, diagnosis);
    fix.slowdown = one.slowdown;
    fix.changes_science = one.changes_science;
    fix.sufficient = suffices(one, diagnosis, fix.saves);
    fix.risk = std::string{one.risk};
    fix.source = std::string{one.source};
    fix.verify = verification_of(one, diagnosis);
    if (no_moments && (id == "adam-8bit" || id == "offload-optimizer")) {
      fix.saves = ByteRange{};
      fix.sufficient = false;
      fix.risk = "wins nothing yet: the moments are made at the end of the first step, which was not reached";
    }
    fixes.push_back(std::move(fix));
  }
  return fixes;
}

std::vector<Myth> myths_for(const Diagnosis& diagnosis) {
  std::vector<Myth> myths;
  switch (diagnosis.cause) {
    case Cause::kActivationBound:
    case Cause::kGenuineCapacity:
    case Cause::kLongestBatch:
    case Cause::kOptimizerStateBound:
    case Cause::kFirstBackward:
    case Cause::kMemoryLeak:
      myths.push_back({"torch.cuda.empty_cache()",
                       "returns cached blocks to the driver; the allocator did that itself before it gave up, and live "
                       "tensors stay"});
      break;
    case Cause::kFragmentation:
      myths.push_back({"torch.cuda.empty_cache() every step",
                       "slows every step by about 10 % and leaves the pieces that are in use where they are"});
      break;
    case Cause::kHostRamKill:
      myths.push_back({"a smaller model or micro-batch", "the GPU was not full: what ran out is host memory"});
      break;
    case Cause::kConfigConflict:
    case Cause::kDiskFull:
      myths.push_back({"a smaller batch", "no memory was short"});
      break;
    default:
      break;
  }
  const Speaker* speaker = speaker_of(diagnosis.framework);
  const bool megatron = speaker != nullptr && speaker->is_megatron;
  const bool device = diagnosis.cause == Cause::kActivationBound || diagnosis.cause == Cause::kGenuineCapacity ||
                      diagnosis.cause == Cause::kFragmentation || diagnosis.cause == Cause::kFirstBackward;
  if (megatron && device) {
    myths.push_back({"more virtual pipeline stages",
                     "cut the bubble, not the peak: VPP 5 to 10 measured 58.8 to 60.2 GB (Megatron-Bridge)"});
    myths.push_back({"more tensor parallelism",
                     "saves memory at -28 % throughput on a 70B model (Megatron-Bridge): a last resort"});
  }
  return myths;
}

}  // namespace plimsoll::why
