// SPDX-License-Identifier: Apache-2.0
// Device memory ran out: what the figures of the message and the other holders say.
#include <algorithm>

#include "base/bytes.h"
#include "why/rules.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

using S = const Situation&;

// One request beyond all that the device has: no weight is that large, a tensor made whole is.
bool beyond_device(S s) { return s.oom().request && s.oom().total && *s.oom().request > *s.oom().total; }
// Beyond a limit of this process only: a weight can be.
bool beyond_limit(S s) { return s.request_share().value_or(0) > 1 && !beyond_device(s); }
// So far beyond that only a size read from garbage explains it, unless a score matrix or logits do.
bool is_garbage(S s) { return s.request_share().value_or(0) > 1024 || s.oom().is_impossible; }
// Beyond what a layer makes, and yet two dimensions of the data can multiply to it.
bool is_quadratic(S s) { return s.request_share().value_or(0) > 4 && !is_garbage(s); }
// The device's size is not known, and yet no device is that large.
bool beyond_any_device(S s) {
  constexpr std::int64_t kAnyDevice = 1024 * kGiB;
  return s.oom().request && !s.request_share() && *s.oom().request > 32 * kAnyDevice;
}
bool one_large_tensor(S s) { return s.frames().attention_scores || s.frames().loss; }

// XLA and TensorFlow reserve most of the device before they compute anything.
bool takes_device_whole(S s) {
  const bool runtime = (s.oom().allocator == Allocator::kXla && !s.oom().needed) ||
                       has_any(s.root.text, {"stream_executor", "cuda_driver.cc", "rocm_driver.cc"});
  return runtime && !s.root.has_frames && s.root.steps_before == 0;
}

// TensorFlow's allocator asks for the device, then for nine tenths of what it was refused, again and again.
bool backs_off(S s) {
  int falls = 0;
  std::int64_t last = 0;
  for (const Event& event : s.findings.events) {
    const std::int64_t asked = event.signal.oom.request.value_or(0);
    if (event.signal.kind != SignalKind::kDeviceOom || event.has_frames || asked <= 0) continue;
    if (last > 0 && asked * 100 >= last * 88 && asked * 100 <= last * 92) ++falls;
    last = asked;
  }
  return falls >= 2 && s.root.steps_before == 0;
}
// Before a process holds anything on a device it makes a context there.
bool makes_context(S s) {
  // By the call, or by the source file that reports: the one in which a library starts.
  return (s.root.makes_context || has_any(s.root.text, {"ctxretain", "ctxcreate", "ctx_create", "/init.c", "\\init.c",
                                                        "/init.cc", "/init.cpp"})) &&
         s.root.steps_before == 0;
}

bool others_at_least(S s, double low) { return s.others_share().value_or(0) >= low; }
// Of 19 such devices in reports whose cure is known 18 were too small for one sample.
bool is_small_device(S s) {
  constexpr std::int64_t kSmall = 4 * kGiB;
  return s.oom().total && *s.oom().total < kSmall && s.oom().allocator == Allocator::kCuda;
}
// The rest is somebody else's or out of reach: absent is unknown, and yet the sum cannot fill the device.
bool holds_little(S s) {
  return !s.oom().free && s.oom().request && s.oom().total && s.oom().reserved && !s.sum.has_limit &&
         s.oom().allocator != Allocator::kMps && *s.oom().reserved < *s.oom().total / 2 - *s.oom().request;
}
bool shares_device_with_engine(S s) { return s.findings.engine_in_trainer; }

// PyTorch's figures are those of a moment later; XLA states what it looked at.
bool fits_in_free(S s) {
  return s.sum.known && s.sum.fits_in_free &&
         (s.sum.request * 10 <= s.sum.free * 9 || s.oom().allocator == Allocator::kXla);
}

// What is cached matters only where what is free does not do.
bool could_be_pieced_together(S s) { return s.sum.known && s.sum.defragmenting_could_serve && !s.sum.fits_in_free; }
// Without rounding to spare a request would not have been served either.
bool with_margin(S s) {
  return could_be_pieced_together(s) && s.sum.request > 0 && (s.sum.free + s.sum.cached) * 10 >= s.sum.request * 13 &&
         !s.is_crumbs();
}

bool nvidia_smi_shows_others(S s) {
  int most = 0;
  for (const DeviceProcess& one : s.findings.smi_processes) {
    int here = 0;
    for (const DeviceProcess& other : s.findings.smi_processes)
      here += other.gpu == one.gpu && other.bytes >= kGiB ? 1 : 0;
    most = std::max(most, here);
  }
  return most > 1;
}

bool used_before_anything_ran(S s) {
  const bool untouched = s.root.steps_before == 0 && (s.phase == Phase::kStartup || s.phase == Phase::kUnknown);
  return untouched && !s.findings.smi.empty() && s.findings.smi.front().order < s.root.order &&
         s.findings.smi.front().use.used * 2 > s.findings.smi.front().use.total;
}

bool taken_before_start(S s) {
  const auto total = s.findings.figures.find("total_at_start");
  const auto free = s.findings.figures.find("free_at_start");
  return total != s.findings.figures.end() && free != s.findings.figures.end() && free->second * 2 < total->second;
}

// A TPU belongs to one process, and its memory is called so.
bool is_tpu(S s) { return s.oom().allocator == Allocator::kXla && has_text(s.root.text, "hbm"); }

// XLA's program is small beside any accelerator, and yet there was no room for it.
bool small_program_refused(S s) {
  const auto program = s.findings.figures.find("program");
  return s.oom().allocator == Allocator::kXla && program != s.findings.figures.end() && program->second < kGiB &&
         s.oom().request.value_or(kGiB) < kGiB;
}

// By the compiler's count, which does not say what it is.
bool needs_more_than_device(S s) { return s.oom().needed && s.oom().total && *s.oom().needed > *s.oom().total; }

// Weights and inputs are the program's parameters; what lies between its operations is not.
bool mostly_temporaries(S s) {
  const auto program = s.findings.figures.find("program");
  const auto between = s.findings.figures.find("temporaries");
  return program != s.findings.figures.end() && between != s.findings.figures.end() && program->second > 0 &&
         between->second * 10 >= program->second * 7;
}

// What the program is given does not fit by itself: weights and states, whatever lies between its operations.
bool arguments_exceed_device(S s) {
  const auto given = s.findings.figures.find("arguments");
  return given != s.findings.figures.end() && s.oom().total && given->second > *s.oom().total;
}

bool driver_disagrees(S s) {
  const auto& driver = s.findings.driver_vram;
  const auto& total = s.oom().total;
  return driver && total && *driver > 0 && (*total * 10 < *driver * 9 || *total * 9 > *driver * 10);
}

// The driver refuses before its last free bytes are used (facts pytorch-allocator.md 0): what is free counts as free
// from a tenth of the device on.
bool much_is_free(S s) { return s.sum.total > 0 && s.sum.free * 10 >= s.sum.total; }

// What a driver keeps back is free by its own count.
bool more_than_margin(S s) { return s.sum.total > 0 ? s.sum.free * 20 >= s.sum.total : s.sum.free >= kGiB / 2; }

bool is_hip(S s) { return s.oom().allocator == Allocator::kHip; }
bool little_beside_much(S s) {
  if (!fits_in_free(s)) return false;
  const bool half_is_free = s.sum.free * 2 >= s.sum.total;
  if (s.sum.request * 16 <= s.sum.free)
    return s.sum.free >= 8 * kGiB || (half_is_free && s.sum.total >= 100 * s.sum.reserved);
  // What this process holds is too little to lie between the pieces.
  return s.sum.request * 4 <= s.sum.free && half_is_free && s.sum.total >= 12 * s.sum.reserved;
}
// Pieces cannot explain it: as much is free as nobody breaks up, or half of the device where this process holds
// nothing that could lie between.
bool refused_beside_much(S s) { return little_beside_much(s) && !is_hip(s); }

const Rule kRules[] = {
    {Cause::kGenuineCapacity, 1.9, [](S) { return true; }, "the device ran out of memory", true},
    {Cause::kActivationBound, 1.5, [](S) { return true; }, "activations are what grows with the batch", true},
    {Cause::kOtherProcess, 1.2, [](S s) { return !s.oom().allocated && !s.oom().free; },
     "no figures say who holds the device"},

    // Of such messages before any step the labels were weights too large most often, a batch and somebody else alike.
    {Cause::kActivationBound, -0.2,
     [](S s) { return s.has_no_figures() && s.phase == Phase::kUnknown && !s.trained(); }, "no batch had been touched"},

    {Cause::kGenuineCapacity, 0.8, [](S s) { return is_small_device(s) && s.phase == Phase::kUnknown; },
     "the device has less than 4 GiB: one sample may be too much"},
    {Cause::kFragmentation, -2.4, [](S s) { return is_small_device(s) && s.phase == Phase::kUnknown; },
     "the device has less than 4 GiB: one sample may be too much"},

    {Cause::kOtherProcess, 0.5, [](S s) { return takes_device_whole(s) && !s.oom().allocated && !s.oom().free; },
     "this runtime takes the device at its start: what it cannot have, somebody else has"},
    {Cause::kOtherProcess, 1.7, [](S s) { return takes_device_whole(s) && s.oom().free && !s.sum.fits_in_free; },
     "this runtime takes the device at its start: what it cannot have, somebody else has"},

    {Cause::kOtherProcess, 1.2, backs_off,
     "this runtime takes the device at its start: what it cannot have, somebody else has"},
    {Cause::kOtherProcess, 2.2, makes_context, "not even a context could be made: this process held nothing there"},

    // Holders.
    {Cause::kOtherProcess, 2.4, holds_little,
     "what this process holds and asks for is less than half of the device, and what is free is not said"},
    {Cause::kAllocatorCap, 1.8, holds_little,
     "what this process holds and asks for is less than half of the device: a limit may be in force"},
    {Cause::kOtherProcess, 6.0,
     [](S s) { return others_at_least(s, 0.25) && !beyond_device(s) && !shares_device_with_engine(s); },
     "a quarter of the device or more is held outside this process"},
    {Cause::kOtherProcess, 3.4,
     [](S s) {
       return others_at_least(s, 0.12) && !others_at_least(s, 0.25) &&
              (s.sum.without_others_would_fit || !s.oom().request) && !shares_device_with_engine(s);
     },
     "an eighth of the device or more is held outside this process, and without it the request would fit"},
    {Cause::kOtherProcess, 1.4, [](S s) { return others_at_least(s, 0.12) && beyond_device(s); },
     "others hold a part of it, but the request would not fit without them either"},
    {Cause::kOtherProcess, 2.6, [](S s) { return !s.oom().reserved && nvidia_smi_shows_others(s); },
     "nvidia-smi lists several processes on one device"},
    {Cause::kOtherProcess, 3.0, small_program_refused,
     "the whole program needs less than a gibibyte: the rest of the device is held by somebody else"},
    {Cause::kOtherProcess, 2.8, [](S s) { return !s.oom().reserved && used_before_anything_ran(s); },
     "nvidia-smi shows the device in use before this job held anything"},
    {Cause::kOtherProcess, 3.4, taken_before_start, "most of the device was taken when this runtime started"},
    {Cause::kOtherProcess, -1.6, is_tpu, "a TPU belongs to one process"},
    // Of five such programs at first sight four were cured by a smaller batch.
    {Cause::kActivationBound, 0.7, is_tpu,
     "one program is compiled of weights and batch, and the batch can be smaller"},
    {Cause::kOtherProcess, 3.6, refused_beside_much,
     "much is free and a small request was refused: somebody took it in between, or a limit is in force"},
    {Cause::kAllocatorCap, 2.6, refused_beside_much,
     "much is free and a small request was refused: a limit of a container or a slice may be in force"},
    {Cause::kRlColocation, 5.2, [](S s) { return others_at_least(s, 0.12) && shares_device_with_engine(s); },
     "a rollout engine holds a part of the device that the trainer wants"},
    {Cause::kRlColocation, 3.0, [](S s) { return s.findings.engine_left >= 8 * kGiB; },
     "the sleeping rollout engine still holds gigabytes"},
    {Cause::kRlColocation, 1.6, shares_device_with_engine, "a rollout engine shares the device with the trainer"},
    {Cause::kRlColocation, 1.8, [](S s) { return shares_device_with_engine(s) && s.frames().serving; },
     "it failed inside the rollout engine"},

    // Limits.
    {Cause::kAllocatorCap, 2.6, [](S s) { return s.sum.has_limit && s.sum.request <= s.sum.device_free; },
     "the device has room, but this process may not take it"},
    {Cause::kAllocatorCap, 4.0,
     [](S s) { return s.findings.cap_place.has_value() && s.sum.known && s.sum.request <= s.sum.device_free; },
     "the log shows who set the limit"},
    {Cause::kUnifiedLimit, 4.3, [](S s) { return s.oom().allocator == Allocator::kMps; },
     "the GPU of this machine shares the system's memory up to a limit"},
    {Cause::kUnifiedLimit, 2.7, [](S s) { return s.oom().allocator == Allocator::kMps && reaches_limit(s.oom()); },
     "the GPU of this machine shares the system's memory up to a limit, and the limit is reached"},
    {Cause::kUnifiedLimit, 3.4, [](S s) { return is_hip(s) && s.findings.is_unified; },
     "the device's memory is a share of the system's"},
    {Cause::kDriverLimit, 7.0, [](S s) { return s.resource == Resource::kDriverLimit; },
     "one block is more than this driver hands out, and the device is not full"},
    {Cause::kRocmHip, 6.5, [](S s) { return is_hip(s) && driver_disagrees(s); },
     "the runtime and the driver disagree about the size of the device"},
    {Cause::kRocmHip, 6.0, [](S s) { return is_hip(s) && fits_in_free(s) && !s.sum.has_limit && much_is_free(s); },
     "less was asked for than is free, and refused"},
    {Cause::kRocmHip, 2.2, [](S s) { return is_hip(s) && fits_in_free(s) && !s.sum.has_limit && !much_is_free(s); },
     "less was asked for than is free, though little is"},

    {Cause::kAllocatorCap, 4.2, [](S s) { return is_hip(s) && little_beside_much(s) && !s.sum.has_limit; },
     "much is free and a small request was refused: a limit may be in force that the message does not name"},

    // Pieces. Only where defragmenting could have served the request at all.
    {Cause::kFragmentation, kExcluded, [](S s) { return s.sum.known && !s.sum.pieces_might_serve && !fits_in_free(s); },
     "even all free and cached memory in one piece is too little"},
    {Cause::kFragmentation, 4.6,
     [](S s) { return could_be_pieced_together(s) && s.cached_share().value_or(0) >= 0.2 && !is_garbage(s); },
     "a fifth or more of what is reserved lies unused, more than the request, and yet it was refused"},
    {Cause::kFragmentation, kExcluded, [](S s) { return s.sum.total > 0 && s.sum.reserved > s.sum.total; },
     "more is reserved than the device has: what is cached lies on the host"},
    {Cause::kFragmentation, -2.4,
     [](S s) {
       return s.phase == Phase::kEvaluate || s.phase == Phase::kSave || s.phase == Phase::kResume ||
              s.phase == Phase::kGraphCapture || s.phase == Phase::kWakeUp;
     },
     "the phase explains it better than the cache does"},
    {Cause::kFragmentation, -2.0,
     [](S s) {
       return s.request_share().value_or(0) >= 0.2 && s.sum.cached < 2 * s.sum.request &&
              s.cached_share().value_or(0) < 0.5;
     },
     "a fifth of the device in one piece was asked for: what is cached is seldom one piece"},
    {Cause::kFragmentation, -1.0, one_large_tensor, "one large tensor would not have fitted the usual pieces"},
    // Of five first sights that said so none was: what helped was a smaller batch.
    {Cause::kFragmentation, 1.8,
     [](S s) {
       const double cached = s.cached_share().value_or(0);
       return could_be_pieced_together(s) && cached >= 0.1 && cached < 0.2;
     },
     "a tenth or more of what is reserved lies unused, more than the request"},
    {Cause::kFragmentation, 2.0,
     [](S s) {
       return could_be_pieced_together(s) && s.cached_share().value_or(0) >= 0.1 && s.findings.shapes >= 3 &&
              s.several_steps();
     },
     "shapes vary from step to step, which breaks the cache up"},
    {Cause::kFragmentation, 2.4, [](S s) { return with_margin(s) && s.frames().offload_hook; },
     "weights move in and out of the device, and leave pieces"},
    {Cause::kFragmentation, 1.4, [](S s) { return with_margin(s) && s.cached_share().value_or(1) < 0.1; },
     "free and cached memory together would have served the request"},
    {Cause::kFragmentation, 3.8,
     [](S s) {
       return fits_in_free(s) && !is_hip(s) && s.sum.free < 8 * kGiB && !s.sum.has_limit && more_than_margin(s) &&
              !refused_beside_much(s);
     },
     "less was asked for than is free: it is not free in one piece"},
    {Cause::kFragmentation, 4.5, [](S s) { return s.reserved_rises_alone; },
     "reserved memory rises from step to step while tensors do not"},
    {Cause::kFragmentation, -0.6, [](S s) { return !s.oom().total; }, "the device's size is not known"},
    {Cause::kFragmentation, -2.5, [](S s) { return s.findings.has_expandable_segments(); },
     "expandable segments are on"},

    // Sizes.
    {Cause::kNotMemory, 6.5, [](S s) { return is_garbage(s) && !one_large_tensor(s); },
     "no tensor is that large: its size is garbage"},
    {Cause::kGenuineCapacity, 2.5, [](S s) { return beyond_limit(s) && !s.frames_say(Phase::kForward); },
     "one request is larger than what this process may use"},
    {Cause::kGenuineCapacity, 2.5,
     [](S s) { return beyond_device(s) && (s.phase == Phase::kLoad || s.phase == Phase::kStartup); },
     "one request is larger than the device, and no step was running"},
    {Cause::kActivationBound, 3.4,
     [](S s) { return beyond_device(s) && !is_garbage(s) && s.in_step() && s.phase != Phase::kUnknown; },
     "one request is larger than the device: a tensor that was made whole"},
    {Cause::kActivationBound, 2.2,
     [](S s) { return beyond_device(s) && !is_garbage(s) && s.phase == Phase::kUnknown && !s.root.has_frames; },
     "one request is larger than the device: a tensor that was made whole"},
    {Cause::kGenuineCapacity, 1.0,
     [](S s) { return beyond_device(s) && s.phase == Phase::kUnknown && s.root.has_frames && !is_quadratic(s); },
     "one request is larger than the device"},
    {Cause::kActivationBound, 2.6,
     [](S s) { return is_quadratic(s) && s.phase == Phase::kUnknown && s.root.has_frames; },
     "one request is several times the device: two dimensions of the data were multiplied"},
    {Cause::kNotMemory, 4.6,
     [](S s) { return s.request_share().value_or(0) > 32 && !is_garbage(s) && !one_large_tensor(s); },
     "no layer makes a tensor that large: its size may be garbage"},
    {Cause::kNotMemory, 3.6, [](S s) { return beyond_any_device(s) && !one_large_tensor(s); },
     "no device has room for that: its size may be garbage"},
    {Cause::kActivationBound, 4.5, [](S s) { return is_garbage(s) && one_large_tensor(s); },
     "one request is larger than the device: a score matrix or logits made whole"},
    {Cause::kGenuineCapacity, 0.6,
     [](S s) { return s.is_full_of_own() && !s.frames().attention_scores && !with_margin(s) && !s.is_loading(); },
     "nearly all of the device is live tensors of this process, and a small request was too much"},
    {Cause::kGenuineCapacity, 1.1,
     [](S s) {
       return s.is_full_of_own() && !s.frames().attention_scores && s.root.has_frames &&
              (!s.sum.pieces_might_serve || s.is_crumbs()) && !s.is_loading();
     },
     "nearly all of the device is live tensors of this process; what is free and cached is crumbs"},
    {Cause::kGenuineCapacity, 2.6,
     [](S s) {
       return s.live_share().value_or(0) > 1 && !one_large_tensor(s) && !beyond_device(s) &&
              s.oom().allocator != Allocator::kMps;
     },
     "live tensors exceed the device: the driver already swaps to the host"},
    {Cause::kActivationBound, 1.0, [](S s) { return s.live_share().value_or(0) > 1 && one_large_tensor(s); },
     "live tensors exceed the device, and one more was made whole"},
    {Cause::kGenuineCapacity, 2.0, needs_more_than_device, "the compiled program needs more than the device has"},
    {Cause::kActivationBound, 1.2, needs_more_than_device, "what the program computes may be more than its weights"},
    {Cause::kGenuineCapacity, 3.0, arguments_exceed_device,
     "what the program is given, its weights and states, is more than the device has"},
    {Cause::kActivationBound, 1.6, [](S s) { return mostly_temporaries(s) && !arguments_exceed_device(s); },
     "most of the program's memory is what its operations leave for others"},
    {Cause::kXlaPadding, 9.0, [](S s) { return s.findings.padding_ratio >= 2; },
     "the compiler's list shows tensors that padding makes several times as large"},

    {Cause::kConvWorkspace, 7.4,
     [](S s) {
       return s.frames().convolution && beyond_device(s) && s.oom().allocated &&
              *s.oom().allocated * 8 < *s.oom().request;
     },
     "a convolution asked for many times what is alive: that is workspace, not its output"},

    // Pools.
    {Cause::kCudaGraphMemory, 3.6,
     [](S s) {
       return s.sum.private_pools > 0 && s.sum.capacity > 0 && s.sum.private_pools * 100 >= s.sum.capacity * 8 &&
              s.phase != Phase::kLoad;
     },
     "a good part of the device lies in private pools of CUDA graphs"},
    {Cause::kCudaGraphMemory, 1.5, [](S s) { return s.findings.graphs_place && s.findings.alloc_retries > 0; },
     "graphs are on and the allocator had to retry"},
};

}  // namespace

std::span<const Rule> device_rules() { return kRules; }

}  // namespace plimsoll::why
