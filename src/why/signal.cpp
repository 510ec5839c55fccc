// SPDX-License-Identifier: Apache-2.0
#include "why/signal.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "why/complaint.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

bool has(Topics topics, Topic topic) { return (topics & bit(topic)) != 0; }

Signal of(SignalKind kind, std::int64_t bytes = 0) {
  Signal signal;
  signal.kind = kind;
  signal.bytes = bytes;
  return signal;
}

// A limit of memory that a batch system or a container sets, and that was passed: in known words, or in any.
bool is_schedulers_word(std::string_view text) {
  if (has_whole(text, "oomkilled")) return true;
  if (has_any(text, {"oom-kill event", "out-of-memory handler", "oom killed", "term_memlimit", "memory pressure",
                     "node running out of memory", "node ran out of memory", "was oom-killed", "out_of_memory",
                     "low on resource: memory", "killed by the oom killer", "killed by oom",
                     "node running low on memory", "memory usage threshold"}))
    return true;
  const bool limit = has_any(text, {"memory limit", "memory usage limit", "h_vmem", "mem limit", "memory quota",
                                    "its memory", "exceeding memory", "due to memory"});
  const bool passed =
      has_any(text, {"exceed", " over ", "reached", "beyond", "above", "killed", "evicted", "of container"});
  if (limit && passed && !has_any(text, {"gpu memory", "memory of gpu", "device memory"})) return true;
  return has_any(text, {"job killed", "killed:", "terminated:"}) &&
         has_any(text, {"mem ", "memory", "h_vmem", "rss"}) && has_any(text, {"exceed", "limit"});
}

// The kernel's, a container's or a batch system's own statement that memory ran out.
std::optional<Signal> host_kill(std::string_view text) {
  // A list of what might have happened is no statement.
  if (has_any(text, {"potential root cause", "possible cause", "common cause"})) return of(SignalKind::kPeerLost);
  const bool kernel = has_any(text, {"oom-kill:constraint", "out of memory: killed process",
                                     "out of memory: kill process", "cgroup out of memory", "invoked oom-killer"});
  const std::size_t counter = find_word(text, "oom_kill");
  bool counted = false;
  if (counter != kNone) {
    const std::string_view after = text.substr(counter + 8);
    if (const auto count = leading_integer(after)) counted = *count > 0 && after.front() == ' ';
    if (has_any(text, {"oom_kill event", "oom_kill local event"})) {
      const auto detected = integer_after(text, "detected");
      counted = !detected || *detected > 0;
    }
  }
  if (!kernel && !counted && !is_schedulers_word(text)) return std::nullopt;
  if (!kernel && has_any(text, {"killer disabled", "if ", "avoid"})) return std::nullopt;
  if (has_any(text, {"oom-kill-disable", "cuda_error", "cudaerror", "cuda error"})) return std::nullopt;
  Signal signal = of(SignalKind::kHostKill);
  signal.bytes = size_after(text, "anon-rss").value_or(0);
  signal.pid = integer_after(text, "process");
  return signal;
}

std::optional<std::int64_t> exit_number(std::string_view text) {
  for (const std::string_view label :
       {std::string_view{"exitcode"}, std::string_view{"exit code"}, std::string_view{"exit_code"},
        std::string_view{"exit status"}, std::string_view{"exited with code"}, std::string_view{"exited with status"},
        std::string_view{"exited with"}, std::string_view{"exits with return code ="}, std::string_view{"exits with"},
        std::string_view{"return code"}, std::string_view{"non-zero exit status"},
        std::string_view{"returned non-zero"}}) {
    std::size_t at = find_word(text, label);
    if (at == kNone) continue;
    at += label.size();
    std::size_t gap = 0;
    while (at < text.size() && gap < 12 && !is_digit(text[at]) && text[at] != '-') {
      if (is_letter(text[at])) break;
      ++at;
      ++gap;
    }
    if (at < text.size() && (is_digit(text[at]) || text[at] == '-'))
      if (const auto number = leading_integer(text.substr(at))) return number;
  }
  return std::nullopt;
}

std::optional<Signal> killed(std::string_view text) {
  // The launcher's own kills of the ranks that remain.
  if (has_text(text, "closing signal")) return of(SignalKind::kPeerLost);
  if (has_any(text, {"forcefully exiting", "sending", "kill -9 "})) return std::nullopt;
  if (const auto code = exit_number(text)) {
    if (*code == 137 || *code == -9 || *code == 265) return of(SignalKind::kKilled);
    if (*code == 135 || *code == -7) {
      Signal signal = of(SignalKind::kSharedMemory);
      signal.is_shm = true;
      return signal;
    }
    if (*code == 134 || *code == -6 || *code == 139 || *code == -11) return of(SignalKind::kAbort);
    if (*code == 143 || *code == -15) return of(SignalKind::kPeerLost);
    const bool launcher =
        has_any(text, {"failed (exitcode", "exits with return code", "process finished with exit code"}) ||
        find_word(text, "exitcode") == 0;
    if (*code != 0 && launcher) return of(SignalKind::kExit);
  }
  if (has_any(text, {"sigkill", "by signal: killed", "signal: killed", "signal 9", "signal: 9"}))
    return of(SignalKind::kKilled);
  if (is_shell_killed(text)) return of(SignalKind::kKilled);
  if (has_text(text, "dataloader worker") && has_text(text, "exited unexpectedly")) return of(SignalKind::kKilled);
  if (has_any(text, {"terminated abruptly while the future", "process pool was terminated abruptly", "abruptly died",
                     "died abruptly"}))
    return of(SignalKind::kKilled);
  return std::nullopt;
}

std::optional<Signal> host_allocation(std::string_view text) {
  if (has_any(text, {"too many open files", "file descriptor limit", "open file descriptors"}) &&
      !has_any(text, {"warning:", "may ", "consider"}))
    return of(SignalKind::kDescriptors);
  const bool resources = has_any(text, {"out of resource: shared memory", "outofresources", "shared memory, required",
                                        "too much shared data", "uses too much shared"});
  if (resources) return of(SignalKind::kKernelResources);
  const bool bus = has_text(text, "bus error") &&
                   (find_word(text, "bus error") == 0 ||
                    has_any(text, {"signal", "core dumped", "unexpected", "encountered", "sigbus", "worker"}));
  const bool shm = bus ||
                   has_any(text, {"insufficient shared memory", "out of shared memory",
                                  "unable to open shared memory object", "creating shared memory segment"}) ||
                   ((has_text(text, "/dev/shm") || has_text(text, "</torch_")) &&
                    has_any(text, {"no space", "errno 28", "unable to", "failed", "cannot", "error"}));
  if (shm && !has_any(text, {"warning:", "make sure", "consider", "would ", "if "})) {
    Signal signal = of(SignalKind::kSharedMemory);
    signal.is_shm = true;
    return signal;
  }
  // Buffers that a network card could not register are the communication library's.
  if (has_text(text, "regist") && has_any(text, {"ucx", "mlx5", "rdma", "ibv_", "nccl"}))
    return of(SignalKind::kNcclRegister);
  // A device's allocator may be wrapped in the host's exception.
  if (has_any(text, {"cuda error", "cudaerror", "cudamalloc", "gpu memory"}) && !has_text(text, "cudahost"))
    return std::nullopt;
  const bool cpu = has_text(text, "cpuallocator") &&
                   has_any(text, {"can't allocate", "not enough memory", "tried to allocate", "cannot allocate"});
  const auto exception = parse_exception(text);
  const bool python = exception && (exception->type == "MemoryError" || exception->type == "_ArrayMemoryError" ||
                                    exception->type == "ArrayMemoryError");
  const bool array = has_text(text, "unable to allocate") && has_any(text, {"for an array", "gib for", "mib for"});
  const bool system =
      has_any(text, {"cannot allocate memory", "can't allocate memory"}) &&
      has_any(text, {"errno 12", "oserror", "os error 12", "mmap", "error code 12", "fork", "runtimeerror", "(12)"});
  const bool cpp = has_any(text, {"bad_alloc", "paging file is too small", "java.lang.outofmemoryerror",
                                  "runtime: out of memory"}) &&
                   !has_any(text, {"gpu", "cuda"});
  if (!cpu && !python && !array && !system && !cpp) return std::nullopt;
  Signal signal = of(SignalKind::kHostAllocation);
  for (const std::string_view label : {std::string_view{"tried to allocate"}, std::string_view{"unable to allocate"},
                                       std::string_view{"unable to mmap"}})
    if (signal.bytes == 0) signal.bytes = size_after(text, label).value_or(0);
  return signal;
}

std::optional<Signal> disk(std::string_view text) {
  if (has_any(text, {"errno 24", "os error 24"})) return of(SignalKind::kDescriptors);
  if (has_any(text, {"/dev/shm", "</torch_"})) return std::nullopt;
  if (has_any(text,
              {"no space left on device", "quota exceeded", "errno 28]", "errno 122]", "os error 28", "os error 122",
               "disk full", "disk is full", "not enough disk space", "not enough free disk", "file too large"}) &&
      !has_text(text, "warning:"))
    return of(SignalKind::kDiskFull);
  const bool writer =
      has_any(text, {"streamwriter failed", "iostream error"}) ||
      (has_text(text, "inline_container") && has_any(text, {"unexpected pos", "write failed", "failed writing"}));
  // A file that cannot be made where a checkpoint is written.
  const bool unopened = parse_exception(text) &&
                        has_any(text, {"cannot be opened", "could not be opened", "parent directory"}) &&
                        has_any(text, {".pt", ".pth", ".ckpt", ".bin", ".safetensors", "checkpoint"});
  if (writer || unopened) return of(SignalKind::kDiskWrite);
  return std::nullopt;
}

std::optional<int> nccl_device(std::string_view text) {
  // host:pid:thread [device] file:line NCCL WARN
  const std::size_t open = text.find(" [");
  if (open == kNone || open > find_word(text, "nccl")) return std::nullopt;
  const auto device = leading_integer(text.substr(open + 2));
  if (!device || *device < 0 || *device >= 4096) return std::nullopt;
  return static_cast<int>(*device);
}

std::optional<Signal> nccl(std::string_view text) {
  const bool warn = has_text(text, "nccl warn");
  const bool own =
      warn || has_any(text, {"hccl function error", "hccl error", "rccl error", "nccl error", "ncclunhandled",
                             "processgroupnccl", "distbackenderror", "ncclsystemerror", "ncclinternal"});
  if (has_any(text,
              {"collective operation timeout", "watchdog got stuck", "timed out waiting for", "collective timeout"}) ||
      (has_text(text, "watchdog caught collective") && has_any(text, {"timeout", "timed out"})))
    return of(SignalKind::kCollectiveTimeout);
  // NCCL's own wording for an error of the runtime; its name may stand on the line before.
  const bool own_memory = (has_any(text, {"cuda failure", "hip failure"}) && has_text(text, "out of memory")) ||
                          has_any(text, {"failed to cuda calloc", "failed to hip calloc", "failed to cuda malloc"});
  if ((own || own_memory) &&
      has_any(text, {"out of memory", "failed to cuda calloc", "failed to cuda malloc", "cuda calloc", "cudamalloc",
                     "hip calloc", "hipmalloc"}) &&
      !has_text(text, "nccl info")) {
    Signal signal = of(SignalKind::kNcclMemory);
    for (const std::string_view label :
         {std::string_view{"calloc async"}, std::string_view{"calloc"}, std::string_view{"malloc"}})
      if (signal.bytes == 0) signal.bytes = size_after(text, label).value_or(0);
    return signal;
  }
  if (own && has_any(text, {"regist", "ibv_reg_mr", "reg_mr"}) && has_any(text, {"fail", "error", "invalid"}))
    return of(SignalKind::kNcclRegister);
  if (has_any(text, {"connection closed by", "connection reset by", "socketpollconnect", "remote process exited",
                     "ncclremoteerror", "peer has closed", "broken pipe", "socket timeout", "distbackenderror",
                     "actordiederror", "rayactorerror", "engine core initialization failed", "engine process failed",
                     "connectionreseterror", "enginedeaderror"}))
    return of(SignalKind::kPeerLost);
  return std::nullopt;
}

std::optional<Signal> library(std::string_view text) {
  const bool algorithm =
      has_any(text, {"unable to find a valid cudnn algorithm", "unable to find an engine to execute",
                     "no algorithm worked", "no convolution algorithm", "workspace allocation failed"}) ||
      (has_text(text, "convolution") && has_text(text, "workspace") &&
       has_any(text, {"fail", "cannot", "unable", "out of memory"}));
  if (algorithm && !has_text(text, "warning")) return of(SignalKind::kConvWorkspace);
  if (!has_any(text, {"cublas", "cudnn", "cusolver", "cusparse", "cufft", "hipblas", "miopen"})) return std::nullopt;
  if (has_text(text, "status_alloc_failed")) return of(SignalKind::kLibraryAlloc);
  if (has_any(text, {"status_not_initialized", "cudnn failed to initialize", "could not create cudnn handle",
                     "could not create cublas handle"}))
    return of(SignalKind::kLibraryAlloc);
  if (has_any(text, {"status_internal_error", "status_execution_failed"})) return of(SignalKind::kLibraryOther);
  return std::nullopt;
}

std::optional<Signal> serving(std::string_view text) {
  if (has_any(text, {"no available memory for the cache blocks", "no available memory for cache"}))
    return of(SignalKind::kNoCacheBlocks);
  const bool refuses = parse_exception(text).has_value() || has_any(text, {"valueerror", "runtimeerror"});
  if (!refuses) return std::nullopt;
  if (has_text(text, "free memory on device") && has_any(text, {"less than desired", "is less than"}))
    return of(SignalKind::kNotFreeAtStart);
  if (has_any(text, {"kv cache", "kv_cache"}) &&
      has_any(text, {"larger than the maximum number of tokens", "is needed", "larger than the available", "less than",
                     "exceed", "not enough", "too small", "insufficient"}))
    return of(SignalKind::kCacheTooShort);
  if (has_any(text, {"mem-fraction-static", "mem_fraction_static"}) &&
      has_any(text, {"not enough", "increas", "small", "out of"}))
    return of(SignalKind::kNoCacheBlocks);
  if (has_any(text, {"not enough memory"}) && has_text(text, "memory pool")) return of(SignalKind::kNoCacheBlocks);
  return std::nullopt;
}

std::optional<Signal> device(std::string_view text) {
  // The allocator asks NVML while it words its message; where that fails, the assertion is all that is printed.
  if (has_text(text, "cachingallocator") && has_any(text, {"nvml", "internal assert"}) && !has_text(text, "capture"))
    return of(SignalKind::kMaskedOom);
  if (has_any(text, {"torch_use_cuda_dsa", "hip_launch_blocking", "cuda_launch_blocking"}))
    return std::nullopt;  // advice
  if (has_any(text, {"device-side assert", "illegal memory access", "illegal address", "illegal_address",
                     "misaligned address", "unspecified launch failure", "uncorrectable ecc", "uncorrectable nvlink",
                     "nvrm: xid", "gpu is lost", "fallen off the bus", "indexselectlargeindex"}))
    return of(SignalKind::kAddressing);
  if (has_any(text, {"stream is capturing", "capture invalidated", "captureinvalidated", "captureunsupported",
                     "capturestatusinvalidated"}) &&
      !has_text(text, "out of memory"))
    return of(SignalKind::kCaptureInvalid);
  // The pool of an engine that wakes up: after the first refusal its calls have nothing valid to work on.
  if (has_text(text, "cumem_allocator") && has_any(text, {"invalid argument", "invalid value"}))
    return of(SignalKind::kEngineOom);
  if (has_text(text, "invalid argument") && has_any(text, {"cuda", "hip", "nccl", "custom_all_reduce", "ipc"}))
    return of(SignalKind::kInvalidArgument);
  return std::nullopt;
}

std::optional<Signal> aborted(std::string_view text) {
  if (has_any(text, {"fatal python error", "sigabrt", "sigsegv", "segmentation fault", "terminate called"}) ||
      equals_ignoring_case(text, "aborted") || has_any(text, {"aborted (core dumped)"}))
    return of(SignalKind::kAbort);
  return std::nullopt;
}

std::optional<Signal> limits(std::string_view text) {
  if (has_any(text, {"due to time limit", "time limit reached", "walltime", "wall time exceeded", "term_runlimit"}))
    return of(SignalKind::kTimeLimit);
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
  const auto numbers = parse_oom_message(text);
  if (!numbers) return std::nullopt;
  if (parse_exception(text) && has_text(text, "ray.exceptions")) return of(SignalKind::kHostKill);
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
  const auto parsed = parse_exception(line.text);
  if (!parsed) {
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
  if (has(topics, Topic::kKill) || has(topics, Topic::kOom))
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
  const bool failed = exception || expects_exception || line.level == Level::kError ||
                      has_any(text, {"error", "fatal", "fail", "panic", "abort", "cannot", "could not", "unable",
                                     "evicted", "killed", "impossible", "refused",
                                     "what():", "greater than the maximum", "exceeds the maximum", "oom when"});
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
  if (has_any(text, {"nccl", "cuda failure", "hip failure"}) && signal.kind == SignalKind::kDeviceOom)
    signal.kind = SignalKind::kNcclMemory;
  if (has_any(text, {"object store", "objectstore", "plasma"})) signal.kind = SignalKind::kObjectStore;
  if (signal.kind == SignalKind::kUnclearMemory && !exception && !expects_exception &&
      !(signal.oom.request || has_any(text, {"error", "fatal"})))
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
  if (line.text.empty()) return std::nullopt;
  if (auto signal = known_message(line, topics)) return signal;
  // memory_summary() counts the requests that were refused for good.
  if (has(topics, Topic::kSummary))
    if (const auto refused = integer_after(line.text, "cuda ooms"); refused && *refused > 0)
      return of(SignalKind::kDeviceOom);
  const bool failure = has(topics, Topic::kFailure) || has(topics, Topic::kException) || has(topics, Topic::kOom) ||
                       has(topics, Topic::kHost) || has(topics, Topic::kServing) || has(topics, Topic::kDisk);
  if (expects_exception || failure)
    if (auto signal = any_complaint(line, expects_exception)) return signal;
  if (has(topics, Topic::kAbort))
    if (auto signal = aborted(line.text)) return signal;
  if (expects_exception || has(topics, Topic::kException))
    if (auto signal = exception(line, expects_exception))
      return signal->kind == SignalKind::kException ? classify(*std::move(signal), rules) : signal;
  return std::nullopt;
}

}  // namespace plimsoll::why
