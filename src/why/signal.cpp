// SPDX-License-Identifier: Apache-2.0
#include "why/signal.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "why/complaint.h"
#include "why/resource_words.h"
#include "why/signal_readers.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

std::optional<Signal> device(std::string_view text) {
  // The allocator asks NVML while it words its message; where that fails, the assertion is all that is printed.
  if (has_text(text, "cachingallocator") && has_any(text, {"nvml", "internal assert"}) && !has_text(text, "capture"))
    return of(SignalKind::kMaskedOom);
  if (has_any(text, {"torch_use_cuda_dsa", "hip_launch_blocking", "cuda_launch_blocking"}))
    return std::nullopt;  // advice
  if (has_any(text, {"device-side assert", "illegal memory access", "illegal address", "illegal_address",
                     "misaligned address", "unspecified launch failure", "uncorrectable ecc", "uncorrectable nvlink",
                     "nvrm: xid", "gpu is lost", "fallen off the bus", "indexselectlargeindex", "access fault by gpu",
                     "page not present", "hsa_status_error_memory", "hsa_status_error_illegal",
                     "hsa_status_error_invalid", "hsa_status_error_exception"}))
    return of(SignalKind::kAddressing);
  // An assertion of a kernel names the thread that it failed in.
  if (has_text(text, "assertion") && has_text(text, "failed") && has_any(text, {"thread: [", "threadidx"}))
    return of(SignalKind::kAddressing);
  if (has_any(text, {"stream is capturing", "capture invalidated", "captureinvalidated", "captureunsupported",
                     "capturestatusinvalidated"}) &&
      !has_text(text, "out of memory"))
    return of(SignalKind::kCaptureInvalid);
  // The pool of an engine that wakes up: after the first refusal its calls have nothing valid to work on.
  if (has_text(text, "cumem_allocator") && has_any(text, {"invalid argument", "invalid value"}))
    return of(SignalKind::kEngineOom);
  if (const auto complaint = parse_complaint(text); complaint && complaint->resource == Resource::kPinned)
    return of(SignalKind::kPinnedMemory, complaint->figures.request.value_or(0));
  if (has_text(text, "invalid argument") && has_any(text, {"cuda", "hip", "nccl", "custom_all_reduce", "ipc"}))
    return of(SignalKind::kInvalidArgument);
  return std::nullopt;
}

// PyTorch before 1.5: "THCudaCheck FAIL file=x.cu line=40 error=48 : no kernel image is available".
std::optional<Signal> old_check(std::string_view text) {
  const std::size_t at = find_word(text, "thcudacheck fail");
  if (at == kNone) return std::nullopt;
  const std::size_t error = find_word(text, "error", at);
  const std::size_t colon = error == kNone ? kNone : text.find(':', error);
  if (colon == kNone) return std::nullopt;
  const std::string_view reason = trim(text.substr(colon + 1));
  if (reason.empty() || has_text(reason, "memory")) return std::nullopt;
  if (has_any(reason, {"assert", "illegal", "misaligned"})) return of(SignalKind::kAddressing);
  return of(has_any(reason, {"unknown error", "unspecified"}) ? SignalKind::kUnclear : SignalKind::kLibraryOther);
}

std::optional<Signal> aborted(std::string_view text) {
  // The C library's: "python: alloc.c:71: take: Assertion `n > 0' failed."
  if (has_text(text, ": assertion ") && has_any(text, {"' failed", "` failed"})) return of(SignalKind::kAbort);
  if (has_any(text, {"fatal python error", "sigabrt", "sigsegv", "segmentation fault", "terminate called"}) ||
      equals_ignoring_case(text, "aborted") || (has_text(text, "(core dumped)") && has_whole(text, "aborted")))
    return of(SignalKind::kAbort);
  return std::nullopt;
}

std::optional<Signal> limits(std::string_view text) {
  if (has_any(text, {"due to time limit", "time limit reached", "walltime", "wall time exceeded", "term_runlimit"}))
    return of(SignalKind::kTimeLimit);
  // Slurm cancels the step when one of its tasks has failed; it cancels a job when it is told to.
  if (has_text(text, "*** step") && has_text(text, "cancelled at") && !has_text(text, "due to"))
    return of(SignalKind::kPeerLost);
  if (has_any(text, {"due to preemption", "was preempted", "preempted by", "cancelled by", "*** job", "*** step"}) &&
      has_any(text, {"cancelled", "preempt"}))
    return of(SignalKind::kTimeLimit);
  return std::nullopt;
}

std::optional<Signal> device_oom(const Line& line) {
  const std::string_view text = line.text;
  const bool short_of_memory = has_text(text, "out of memory") || has_whole(text, "oom");
  const bool goes_on =
      has_any(text, {"skip", "recover from oom", "retrying with"}) && !has_any(text, {"check", "exception:"});
  if (short_of_memory && goes_on && !parse_exception(text)) {
    Signal signal = of(SignalKind::kSkippedBatch);
    if (const auto numbers = parse_oom_message(text)) signal.oom = *numbers;
    return signal;
  }
  if (has_text(text, "failed with oom on device")) return std::nullopt;  // printed also when the retry succeeds
  // A compiler's scratch memory inside the chip is a limit of the kernel, not the device's memory.
  if (has_any(text, {"memory space vmem", "memory space smem", "memory space sflag", "memory space cmem"}))
    return of(SignalKind::kKernelResources);
  // XLA lists what fills the device only where a program does not fit.
  if (has_text(text, "largest program allocations in hbm")) {
    Signal signal = of(SignalKind::kDeviceOom);
    signal.oom.allocator = Allocator::kXla;
    return signal;
  }
  const auto numbers = parse_oom_message(text);
  if (!numbers) return std::nullopt;
  // Ray's own classes speak of the memory of a node; those of a task's are printed inside brackets.
  if (const auto exception = parse_exception(text);
      exception && text.starts_with("ray.") && !names_device(exception->message))
    return of(SignalKind::kHostKill);
  Signal signal = of(numbers->is_impossible ? SignalKind::kAddressing : SignalKind::kDeviceOom);
  if (has_any(text, {"cumem_allocator", "memory_saver"})) signal.kind = SignalKind::kEngineOom;
  signal.oom = *numbers;
  if (!signal.oom.request && !signal.oom.needed) read_figures(without_hint(text), signal.oom);
  signal.bytes = signal.oom.request.value_or(0);
  signal.is_warning = has_any(text, {"warning:", "failed to clone"}) || line.level == Level::kWarning;
  if (has_text(text, "failed to clone"))
    if (const auto rank = integer_after(text, "on rank "))
      signal.named_rank = static_cast<int>(std::clamp<std::int64_t>(*rank, 0, 1 << 24));
  return signal;
}

std::optional<Signal> exception(const Line& line, bool expects_exception) {
  auto parsed = parse_exception(line.text);
  if (!parsed) parsed = parse_quoted_exception(line.text);
  if (!parsed) {
    // What a C++ library raised, without its words.
    if (has_text(line.text, "exception raised from")) return of(SignalKind::kUnclear);
    if (has_any(line.text, {"error: unrecognized arguments", "error: argument --"})) return of(SignalKind::kConfig);
    return std::nullopt;
  }
  if (!expects_exception && (line.level == Level::kWarning || line.level == Level::kInfo)) return std::nullopt;
  if (has_text(parsed->type, "warning")) return std::nullopt;
  if (parsed->type == "KeyboardInterrupt" || parsed->type == "SignalException") return of(SignalKind::kInterrupted);
  static constexpr std::array<std::string_view, 5> kLaunchers = {
      "CalledProcessError", "SystemExit", "KeyboardInterrupt", "SignalException", "ProcessExitedException"};
  if (parsed->type == "ChildFailedError") return of(SignalKind::kExit);
  if (std::find(kLaunchers.begin(), kLaunchers.end(), parsed->type) != kLaunchers.end()) return std::nullopt;
  Signal signal = of(SignalKind::kException);
  signal.exception = std::string{parsed->type};
  signal.message = std::string{cut_text(parsed->message, 400)};
  return signal;
}

// Calls that share memory between processes and that segments of the expandable kind do not have.
std::optional<Signal> interop(std::string_view text) {
  if (has_any(text, {"pidfd_open", "pidfd_getfd"}) &&
      (parse_exception(text) || has_any(text, {"not support", "not permitted", "not implemented", "failed:"})))
    return of(SignalKind::kInterop);
  const std::string_view body = without_hint(text);
  if (parse_exception(text) && has_text(body, "expandable") &&
      !has_any(body, {"out of memory", "exhaust", "insufficient", "not enough memory", "to allocate", "not allocate"}))
    return of(SignalKind::kInterop);
  return std::nullopt;
}

// Known messages, each with a reader that sees more than the generic one.
std::optional<Signal> known_message(const Line& line, Topics topics) {
  const std::string_view text = line.text;
  if (has(topics, Topic::kKill) || has(topics, Topic::kOom) || has(topics, Topic::kFailure))
    if (auto signal = host_kill(text)) return signal;
  if (has(topics, Topic::kOom) || has(topics, Topic::kHost))
    if (has_any(text, {"cudamallocmanaged", "managed_ptr", "managed memory", "unified memory", "pythoninterface.c"}) &&
        has_any(text, {"fail", "out of memory", "error"}))
      return of(SignalKind::kManagedMemory);
  if (has(topics, Topic::kHost))
    if (auto signal = host_allocation(text)) return signal;
  if (has(topics, Topic::kDisk) || has(topics, Topic::kFailure))
    if (auto signal = disk(text)) return signal;
  if (has(topics, Topic::kSetting))
    if (auto signal = interop(text)) return signal;
  if (has(topics, Topic::kNccl) || has(topics, Topic::kTime) || has(topics, Topic::kOom) ||
      has(topics, Topic::kFailure))
    if (auto signal = nccl(text)) {
      if (has_text(text, "nccl warn")) signal->named_rank = nccl_device(text);
      return signal;
    }
  if (has(topics, Topic::kLibrary) || has(topics, Topic::kFailure))
    if (auto signal = library(text)) return signal;
  if (has(topics, Topic::kServing))
    if (auto signal = serving(text)) return signal;
  if (has(topics, Topic::kOom))
    if (auto signal = device_oom(line)) return signal;
  if (has(topics, Topic::kDevice))
    if (auto signal = device(text)) return signal;
  if (has(topics, Topic::kLibrary))
    if (auto signal = old_check(text)) return signal;
  if (has(topics, Topic::kTime))
    if (auto signal = limits(text)) return signal;
  if (has(topics, Topic::kKill) || has(topics, Topic::kElastic) || text.size() < 24)
    if (auto signal = killed(text)) return signal;
  return std::nullopt;
}

Signal from_complaint(const Complaint& complaint) {
  Signal signal = of(SignalKind::kUnclearMemory, complaint.figures.request.value_or(0));
  signal.oom = complaint.figures;
  if (signal.oom.is_impossible) {
    signal.kind = SignalKind::kAddressing;
    return signal;
  }
  switch (complaint.resource) {
    case Resource::kDevice:
      signal.kind = SignalKind::kDeviceOom;
      break;
    case Resource::kHost:
      signal.kind = SignalKind::kHostAllocation;
      break;
    case Resource::kPinned:
      signal.kind = SignalKind::kPinnedMemory;
      break;
    case Resource::kShared:
      signal.kind = SignalKind::kSharedMemory;
      signal.is_shm = true;
      break;
    case Resource::kDisk:
      signal.kind = SignalKind::kDiskFull;
      break;
    case Resource::kDescriptors:
      signal.kind = SignalKind::kDescriptors;
      break;
    case Resource::kDriverLimit:
      signal.kind = SignalKind::kBlockLimit;
      break;
    case Resource::kBudget:
      signal.kind = SignalKind::kNoCacheBlocks;
      break;
    case Resource::kUnknown:
    case Resource::kNone:
    case Resource::kCap:
      break;
  }
  return signal;
}

// A sentence that nobody has written before counts where something failed: an exception, a line of level error, or
// words that only a failure has.
std::optional<Signal> any_complaint(const Line& line, bool expects_exception) {
  const std::string_view text = line.text;
  if (text.size() > 4000) return std::nullopt;
  if (has_text(text, "failed with oom on device")) return std::nullopt;  // printed also when the retry succeeds
  const auto exception = parse_exception(text);
  const bool warns = line.level == Level::kWarning || line.level == Level::kInfo ||
                     (exception && has_text(exception->type, "warning")) || has_any(text, {"warning:", "[w]"});
  if (warns && !has_any(text, {"error:", "exception:", "failed"})) return std::nullopt;
  const bool failed =
      exception || expects_exception || line.level == Level::kError ||
      has_any(text, {"error", "fatal", "fail", "panic", "abort", "cannot", "could not", "unable", "evicted", "killed",
                     "impossible", "refused", "what():", "greater than the maximum", "exceeds the", "oom when",
                     "terminate called", "low on resource"}) ||
      // A sentence that begins with the shortage: "Prefill out of memory. ..."
      has_any(text.substr(0, 32), {"out of memory", "not enough memory", "insufficient memory"});
  const auto complaint = parse_complaint(text);
  if (!complaint) return std::nullopt;
  // A request beside what is left is no chatter.
  const bool detailed = complaint->figures.request && (complaint->figures.free || complaint->figures.total);
  if (!failed && !detailed) return std::nullopt;
  // A warning counts where it passes an allocator's error on; the run may have gone on.
  if (warns && !(complaint->resource == Resource::kDevice && complaint->figures.request)) return std::nullopt;
  Signal signal = from_complaint(*complaint);
  signal.is_warning = warns;
  if (has_any(text, {"memory_saver", "cumem_allocator"})) signal.kind = SignalKind::kEngineOom;
  if ((has_text(text, "nccl") || !runtime_reason(text).empty()) && signal.kind == SignalKind::kDeviceOom)
    signal.kind = SignalKind::kNcclMemory;
  if (has_any(text, {"object store", "objectstore", "plasma"})) signal.kind = SignalKind::kObjectStore;
  if (signal.kind == SignalKind::kUnclearMemory && !exception && !expects_exception &&
      !(signal.oom.request || has_any(text, {"error", "fatal", "terminate called", "what():"})))
    return std::nullopt;
  return signal;
}

// An exception that no reader knows: a rule of a framework, an ordinary mistake, or nothing that can be told.
Signal classify(Signal signal, ConfigRules rules) {
  const bool typed = signal.exception == "ValueError" || signal.exception == "AssertionError" ||
                     signal.exception == "NotImplementedError" || signal.exception == "RuntimeError" ||
                     has_any(signal.exception, {"config", "validation"});
  if (const ConfigRule* rule = typed && rules != nullptr ? find_config_rule(signal.message, rules()) : nullptr) {
    signal.kind = SignalKind::kConfig;
    signal.rule = rule->id;
    signal.rule_fix = rule->fix;
  } else if (typed && (signal.exception != "RuntimeError" || has_text(signal.message, "divisible")) &&
             (states_constraint(signal.message) || signal.message.empty())) {
    signal.kind = SignalKind::kConfig;
  } else if (has_any(signal.exception, {"validationerror", "configerror", "configurationerror"})) {
    signal.kind = SignalKind::kConfig;
  } else if (!is_ordinary({signal.exception, signal.message})) {
    signal.kind = SignalKind::kUnclear;
  }
  return signal;
}

}  // namespace

std::optional<Signal> recognise(const Line& line, Topics topics, bool expects_exception, ConfigRules rules) {
  if (line.text.empty() || has_text(line.text, "this is not a failure")) return std::nullopt;
  if (auto signal = known_message(line, topics)) return signal;
  // memory_summary() counts the requests that were refused for good.
  if (has(topics, Topic::kSummary))
    if (const auto refused = integer_after(line.text, "cuda ooms"); refused && *refused > 0)
      return of(SignalKind::kDeviceOom);
  const bool failure = has(topics, Topic::kFailure) || has(topics, Topic::kException) || has(topics, Topic::kOom) ||
                       has(topics, Topic::kHost) || has(topics, Topic::kServing) || has(topics, Topic::kDisk);
  if (expects_exception || failure)
    if (auto signal = any_complaint(line, expects_exception)) return signal;
  if (has(topics, Topic::kAbort) || has(topics, Topic::kDevice))
    if (auto signal = aborted(line.text)) return signal;
  if (expects_exception || has(topics, Topic::kException))
    if (auto signal = exception(line, expects_exception))
      return signal->kind == SignalKind::kException ? classify(*std::move(signal), rules) : signal;
  return std::nullopt;
}

}  // namespace plimsoll::why
