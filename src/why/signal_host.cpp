// SPDX-License-Identifier: Apache-2.0
// What the system says: the kernel's and the scheduler's kills, the host's allocators, disks.
#include "base/text.h"
#include "why/complaint.h"
#include "why/resource_words.h"
#include "why/signal_readers.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// A limit of memory that a batch system or a container sets, and that was passed: in known words, or in any.
bool is_schedulers_word(std::string_view text) {
  if (has_whole(text, "oomkilled")) return !denies_oom(text);
  // Daemons that make room before the kernel has to: they name the level that was passed and the signal they send.
  if (has_text(text, "low memory") && has_any(text, {"sigterm", "sigkill", "killing", " kill "})) return true;
  if (has_text(text, "sending sig") && has_any(text, {"oom_score", "vmrss", " rss"})) return true;
  if (has_any(text, {"oom-kill event", "out-of-memory handler", "oom killed", "term_memlimit", "memory pressure",
                     "node running out of memory", "node ran out of memory", "was oom-killed", "'oom-kill'",
                     "out_of_memory", "low on resource: memory", "killed by the oom killer", "killed by oom",
                     "node running low on memory", "memory usage threshold", "more memory on this node"}))
    return true;
  // A notebook's service: "crashed after using all available RAM".
  if (has_any(text, {"all available", "than is available"}) && (has_text(text, "memory") || has_whole(text, "ram")) &&
      has_any(text, {"crash", "restarted", "kill", "ended"}) && !has_any(text, {"gpu", "device", "vram"}))
    return true;
  const bool limit = has_any(text, {"memory limit", "memory usage limit", "h_vmem", "mem limit", "memory quota",
                                    "memory budget", "its memory", "exceeding memory", "due to memory"});
  const bool passed =
      has_any(text, {"exceed", " over ", "reached", "beyond", "above", "killed", "evicted", "of container"});
  if (limit && passed && !has_any(text, {"gpu memory", "memory of gpu", "device memory", "shared memory"})) return true;
  return has_any(text, {"job killed", "killed:", "terminated:"}) &&
         has_any(text, {"mem ", "memory", "h_vmem", "rss"}) && has_any(text, {"exceed", "limit"});
}

}  // namespace

// A container's own record: "OOMKilled": false, or another reason for its end.
bool denies_oom(std::string_view text) {
  const std::size_t at = find_word(text, "oomkilled");
  if (at != kNone) {
    std::string_view rest = text.substr(at + 9);
    while (!rest.empty() && !is_letter(rest.front())) rest.remove_prefix(1);
    return find_word(rest.substr(0, 5), "false") == 0;
  }
  if (find_word(text, "reason:") != 0) return false;
  const std::string_view reason = trim(text.substr(7));
  return equals_ignoring_case(reason, "Error") || equals_ignoring_case(reason, "DeadlineExceeded");
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

namespace {

std::optional<std::int64_t> exit_number(std::string_view text) {
  for (const std::string_view label :
       {std::string_view{"exitcode"}, std::string_view{"exit code"}, std::string_view{"exit_code"},
        std::string_view{"exit status"}, std::string_view{"exited with code"}, std::string_view{"exited with status"},
        std::string_view{"exited with"}, std::string_view{"exits with return code ="}, std::string_view{"exits with"},
        std::string_view{"return code"}, std::string_view{"non-zero exit status"},
        std::string_view{"returned non-zero"}, std::string_view{"exit_status"}, std::string_view{"exitstatus"},
        std::string_view{"exit-code"}, std::string_view{"returncode"}, std::string_view{"return_code"}}) {
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

// The status of Windows for an access outside the program's memory, a broken heap or stack: 0xC0000005 and the like.
bool is_windows_fault(std::int64_t code) {
  constexpr std::int64_t kSigned = std::int64_t{1} << 32;
  const std::int64_t status = code < 0 ? code + kSigned : code;
  return status == 0xC0000005 || status == 0xC0000374 || status == 0xC0000409 || status == 0xC00000FD;
}

bool ends_with_word(std::string_view text, std::string_view word) {
  const std::string_view line = trim(text);
  return line.size() > word.size() && find_word(line.substr(line.size() - word.size()), word) == 0;
}

// A bar has no newline: the shell's word follows its last figure.
bool is_killed_behind_bar(std::string_view text) {
  return ends_with_word(text, "killed") && has_any(text, {"eta:", "[==", "%|", "it/s", "s/it", "s/step", "/it]"});
}

// "srun: error: n1: tasks 0-7: Killed": the launcher's word for the tasks of a node.
bool is_launcher_killed(std::string_view text) {
  return ends_with_word(text, ": killed") && has_any(text, {"task", "rank", "process", "error:"});
}

// What the number means with which a process ended, where the line has one.
std::optional<Signal> ended_with_number(std::string_view text) {
  const auto code = exit_number(text);
  if (!code) return std::nullopt;
  // MPI's launchers give the number of the signal itself, on a line of its own.
  const bool bare = text.size() < 40 && has_text(text, "exit code:");
  switch (*code) {
    case 137:
    case -9:
    case 265:
      return of(SignalKind::kKilled);
    case 9:
      if (bare) return of(SignalKind::kKilled);
      break;
    case 135:
    case -7: {
      Signal signal = of(SignalKind::kSharedMemory);
      signal.is_shm = true;
      signal.is_guessed = true;
      return signal;
    }
    case 134:
    case -6:
    case 139:
    case -11:
      return of(SignalKind::kAbort);
    case 143:
    case -15:
      return of(SignalKind::kPeerLost);
    default:
      if (is_windows_fault(*code)) return of(SignalKind::kAbort);
      break;
  }
  const bool whole_run =
      has_text(text, "fail") && has_any(text, {"command", "job", "entrypoint", "script", "training"});
  const bool launcher =
      has_any(text, {"failed (exitcode", "exits with return code", "process finished with exit code"}) || whole_run ||
      find_word(text, "exitcode") == 0 || (find_word(text, "exit code") == 0 && text.size() < 40);
  if (*code != 0 && launcher) return of(SignalKind::kExit);
  return std::nullopt;
}

// The process ended itself: by the C library's words on a heap or a stack that was written over, or by a signal of the
// kind that a fault raises.
bool is_fault(std::string_view text) {
  static constexpr std::string_view kOverwritten[] = {
      "free(): ",       "malloc(): ",     "double free or corruption",
      "corrupted size", "munmap_chunk()", "*** stack smashing detected"};
  for (const std::string_view words : kOverwritten)
    if (text.size() < 200 && find_word(text, words) < 24) return true;
  return (has_text(text, "by signal") &&
          has_any(text, {"floating point", "illegal instruction", "segmentation", "abort"})) ||
         has_any(text, {"due to signal 11", "due to signal 6", "due to signal 4", "due to signal 8"});
}

bool says_killed(std::string_view text) {
  if (has_any(text, {"sigkill", "by signal: killed", "signal: killed", "signal 9", "signal: 9", "killed signal",
                     "code=killed, status=9"}))
    return true;
  if (is_shell_killed(text) || is_launcher_killed(text) || is_killed_behind_bar(text)) return true;
  const auto exception = parse_exception(text);
  return exception && exception->type.starts_with("Killed");
}

// A worker, a pool or a notebook's kernel whose end another process reports.
std::optional<Signal> worker_gone(std::string_view text) {
  if (has_text(text, "dataloader worker") && has_text(text, "exited unexpectedly")) {
    // A code of its own: the worker ended itself, no signal ended it.
    constexpr std::int64_t kSignals = 128;
    const auto code = integer_after(text, "exit code");
    return of(code && *code > 0 && *code < kSignals ? SignalKind::kExit : SignalKind::kKilled);
  }
  if (has_any(text, {"terminated abruptly while the future", "process pool was terminated abruptly", "abruptly died",
                     "died abruptly"}))
    return of(SignalKind::kKilled);
  if (has_text(text, "kernel") && has_any(text, {"appears to have died", "kernel died", "kernel has died"}))
    return of(SignalKind::kPeerLost);
  if (has_any(text, {"died unexpectedly", "exited unexpectedly", "died or was killed", "no longer alive"}))
    return of(SignalKind::kPeerLost);
  return std::nullopt;
}

// A page of a mapping that could not be had.
bool is_bus_error(std::string_view text) {
  return (has_text(text, "bus error") &&
          (find_word(text, "bus error") == 0 || has_any(text, {"signal", "core dumped", "unexpected", "encountered",
                                                               "sigbus", "worker", "task ", "fatal python error"}))) ||
         (has_text(text, "(sigbus)") && has_any(text, {"received", "killed", "died", "signal 7"}));
}

std::optional<Signal> shared_memory(std::string_view text) {
  const bool bus = is_bus_error(text);
  const bool named = has_any(text, {"insufficient shared memory", "out of shared memory",
                                    "creating shared memory segment", "unable to open shared memory object"}) ||
                     ((has_text(text, "/dev/shm") || has_text(text, "</torch_")) &&
                      has_any(text, {"no space", "errno 28", "unable to", "failed", "cannot", "error"}));
  if ((!bus && !named) || has_any(text, {"warning:", "make sure", "consider", "would ", "if "})) return std::nullopt;
  Signal signal = of(SignalKind::kSharedMemory);
  signal.is_shm = true;
  signal.is_guessed = bus && !has_any(text, {"worker", "shared memory", "(shm)", "/dev/shm", "dataloader"});
  return signal;
}

// The host's allocators in the words of PyTorch, Python, NumPy, the system, C++, Java and Go.
bool refuses_host_memory(std::string_view text) {
  if (has_text(text, "cpuallocator") &&
      has_any(text, {"can't allocate", "not enough memory", "tried to allocate", "cannot allocate"}))
    return true;
  // Python has one class for memory, whoever raises it: what is said of a device is the device's.
  const auto exception = parse_exception(text);
  if (exception && !names_device(exception->message) &&
      (exception->type == "MemoryError" || exception->type == "_ArrayMemoryError" ||
       exception->type == "ArrayMemoryError"))
    return true;
  if (has_text(text, "unable to allocate") && has_any(text, {"for an array", "gib for", "mib for"})) return true;
  if (has_any(text, {"cannot allocate memory", "can't allocate memory"}) &&
      has_any(text, {"errno 12", "oserror", "os error 12", "mmap", "error code 12", "fork", "runtimeerror", "(12)"}))
    return true;
  // The page file is the host's, whatever library could not be loaded for want of it.
  return has_text(text, "paging file is too small") ||
         (has_any(text, {"bad_alloc", "java.lang.outofmemoryerror", "runtime: out of memory"}) &&
          !has_any(text, {"gpu", "cuda"}));
}

}  // namespace

std::optional<Signal> killed(std::string_view text) {
  // The launcher's own kills of the ranks that remain.
  if (has_any(text, {"closing signal", "killing subprocess"})) return of(SignalKind::kPeerLost);
  if (has_any(text, {"forcefully exiting", "sending", "kill -9 "})) return std::nullopt;
  if (auto signal = ended_with_number(text)) return signal;
  // "non-zero exit code: error executing in the container: 137"
  if (has_any(text, {"exit code", "exit status"}) && ends_with_word(text, ": 137")) return of(SignalKind::kKilled);
  if (has_text(text, "exited with non-zero status")) return of(SignalKind::kExit);
  if (is_fault(text)) return of(SignalKind::kAbort);
  if (says_killed(text)) return of(SignalKind::kKilled);
  return worker_gone(text);
}

std::optional<Signal> host_allocation(std::string_view text) {
  if (has_any(text, {"too many open files", "file descriptor limit", "open file descriptors"}) &&
      !has_any(text, {"warning:", "may ", "consider"}))
    return of(SignalKind::kDescriptors);
  if (has_any(text, {"out of resource: ", "outofresources", "shared memory, required", "too much shared data",
                     "uses too much shared"}))
    return of(SignalKind::kKernelResources);
  // The shell of a system where ten is the number of that signal: such systems have no /dev/shm.
  if (has_text(text, "bus error: 10")) return of(SignalKind::kAbort);
  // Another error of the system, with a path: no right to it, no such file.
  const auto error = parse_system_error(text);
  if (error && resource_of(*error, text) == Resource::kUnknown) return std::nullopt;
  // What is written or mapped needs room; what is only opened needs a descriptor.
  if (!error && has_text(text, "unable to open shared memory object")) return of(SignalKind::kDescriptors);
  if (auto signal = shared_memory(text)) return signal;
  // Buffers that a network card could not register are the communication library's.
  if (has_text(text, "regist") && has_any(text, {"ucx", "mlx5", "rdma", "ibv_", "nccl"}))
    return of(SignalKind::kNcclRegister);
  if (has_text(text, "cudahost"))
    if (const auto complaint = parse_complaint(text); complaint && complaint->resource == Resource::kPinned)
      return of(SignalKind::kPinnedMemory, complaint->figures.request.value_or(0));
  // A device's allocator may be wrapped in the host's exception.
  if (has_any(text, {"cuda error", "cudaerror", "cudamalloc", "gpu memory"}) && !has_text(text, "cudahost"))
    return std::nullopt;
  if (!refuses_host_memory(text)) return std::nullopt;
  Signal signal = of(SignalKind::kHostAllocation);
  for (const std::string_view label : {std::string_view{"tried to allocate"}, std::string_view{"unable to allocate"},
                                       std::string_view{"unable to mmap"}})
    if (signal.bytes == 0) signal.bytes = size_after(text, label).value_or(0);
  return signal;
}

namespace {

// "wrote 39776036 blocks instead of 41251350": a file takes less than it is given only where no more has room.
bool is_short_write(std::string_view text) {
  const auto wrote = integer_after(text, "wrote");
  const auto wanted = integer_after(text, "instead of");
  return wrote && wanted && *wrote < *wanted && has_any(text, {"write error", "short write", "error", "fail"});
}

}  // namespace

std::optional<Signal> disk(std::string_view text) {
  if (is_short_write(text)) return of(SignalKind::kDiskFull);
  // A descriptor that the kernel could not hand over any more is left out of the message between the processes.
  if (has_any(text, {"errno 24", "os error 24", "0 items of ancdata"}) ||
      (has_text(text, "too many open files") && !has_any(text, {"warning:", "may ", "consider"})))
    return of(SignalKind::kDescriptors);
  if (has_any(text, {"/dev/shm", "</torch_"})) return std::nullopt;
  if (has_any(text,
              {"no space left on device", "quota exceeded", "errno 28]", "errno 122]", "os error 28", "os error 122",
               "disk full", "disk is full", "not enough disk space", "not enough free disk", "file too large"}) &&
      !has_text(text, "warning:"))
    return of(SignalKind::kDiskFull);
  const bool writer =
      has_any(text, {"streamwriter failed", "iostream error"}) ||
      (has_text(text, "inline_container") && has_any(text, {"unexpected pos", "write failed", "failed writing"})) ||
      (has_any(text, {"write(", "fwrite", "pwrite", "writing"}) && has_text(text, "input/output error"));
  // A file that cannot be made where a checkpoint is written.
  const bool unopened = parse_exception(text) &&
                        has_any(text, {"cannot be opened", "could not be opened", "parent directory"}) &&
                        has_any(text, {".pt", ".pth", ".ckpt", ".bin", ".safetensors", "checkpoint"});
  if (writer || unopened) return of(SignalKind::kDiskWrite);
  return std::nullopt;
}

}  // namespace plimsoll::why
