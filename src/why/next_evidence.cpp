// SPDX-License-Identifier: Apache-2.0
#include "why/next_evidence.h"

namespace plimsoll::why {

namespace {

struct Known {
  std::string_view command;
  std::string_view tells;
};

struct Row {
  Cause one;
  Cause other;  // kUnknown: whatever the other is
  Known next;
  std::string_view with_job = {};  // appended to the command where the job is not known
};

constexpr Known kKernel = {"dmesg -T | grep -iE 'killed process|out of memory'; sacct -j JOB -o State,MaxRSS,ExitCode",
                           "a line about the process means host memory; none means that somebody ended it"};
constexpr Known kHolders = {"nvidia-smi --query-compute-apps=pid,used_memory --format=csv; fuser -v /dev/nvidia*",
                            "a process that is not this job's holds the memory; one that only fuser shows is a zombie "
                            "or lies in another container"};
constexpr Known kSummary = {
    "except torch.OutOfMemoryError: print(torch.cuda.memory_summary())",
    "non-releasable memory above the request means fragmentation; allocated near reserved does not"};
constexpr Known kEachStep = {"print(step, x.shape, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated())",
                             "allocated that rises at one shape is a leak; a jump with a longer batch is the batch"};
constexpr Known kBeforeForward = {"print(torch.cuda.memory_allocated()) before the first forward",
                                  "near the capacity already: weights and states do not fit; far below: activations"};
constexpr Known kSnapshot = {
    "torch.cuda.memory._record_memory_history(); on failure torch.cuda.memory._dump_snapshot(\"oom.pickle\"), then "
    "plimsoll why LOG --snapshot oom.pickle",
    "it names the line that made each tensor, and whether the free pieces would have done"};
constexpr Known kOwnLog = {"the standard error of the rank that failed first: torchrun --tee 3, or its own log file",
                           "the lines here only report that it failed"};

// The first row that names the two most probable causes, in either order.
constexpr Row kRows[] = {
    {Cause::kHostRamKill, Cause::kUnknown, kKernel},
    {Cause::kOtherProcess, Cause::kUnknown, kHolders},
    {Cause::kAllocatorCap,
     Cause::kUnknown,
     {"nvidia-smi -L; grep -rn memory_fraction .", "a slice (MIG) or a fraction is what this process may use"}},
    {Cause::kFragmentation, Cause::kUnknown, kSummary},
    {Cause::kMemoryLeak, Cause::kUnknown, kEachStep},
    {Cause::kLongestBatch, Cause::kUnknown, kEachStep},
    {Cause::kGenuineCapacity, Cause::kActivationBound, kBeforeForward, ", or --job FILE here"},
    {Cause::kGenuineCapacity, Cause::kFirstBackward, kBeforeForward, ", or --job FILE here"},
    {Cause::kModelLoadSpike,
     Cause::kGenuineCapacity,
     {"du -shL of the checkpoint", "weights above the device's memory do not fit; below it, a second copy is made"},
     ", and --job FILE here"},
    {Cause::kNcclMemory,
     Cause::kUnknown,
     {"NCCL_DEBUG=INFO", "the first WARN line names the call that found no memory"}},
    {Cause::kExpandableInterop,
     Cause::kUnknown,
     {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False", "it runs: the setting was the cause"}},
    {Cause::kDiskFull,
     Cause::kUnknown,
     {"df -h and df -i of the folder that was written to; quota -s", "full: that is it"}},
    {Cause::kPinnedHost,
     Cause::kUnknown,
     {"ulimit -l; free -g", "a small limit means memlock; little free means host memory"}},
    {Cause::kRocmHip,
     Cause::kUnknown,
     {"rocm-smi --showmeminfo vram gtt; dmesg | grep -i vram", "compare with the message's capacity"}},
    {Cause::kConfigConflict,
     Cause::kNotMemory,
     {"the traceback's frames", "a function that checks options means a conflict"}},
    {Cause::kUnknown, Cause::kNotMemory, kOwnLog},
    {Cause::kUnknown, Cause::kUnknown, kSnapshot},
};

NextEvidence of(const Known& known) { return {std::string{known.command}, known.tells}; }

}  // namespace

std::optional<NextEvidence> next_evidence(const Diagnosis& diagnosis, bool job_known) {
  if (!diagnosis.failure || diagnosis.confidence >= kSureEnough) return std::nullopt;
  const Cause first = diagnosis.cause;
  const Cause second = diagnosis.candidates.size() > 1 ? diagnosis.candidates[1].cause : Cause::kUnknown;
  if (first == Cause::kUnknown || (first == Cause::kNotMemory && second == Cause::kUnknown)) return of(kOwnLog);
  for (const Row& row : kRows) {
    const bool any = row.other == Cause::kUnknown;
    const bool names = row.one == first || row.one == second;
    if (any ? names : names && (row.other == first || row.other == second)) {
      NextEvidence next = of(row.next);
      if (!job_known) next.command += row.with_job;
      return next;
    }
  }
  return of(kSnapshot);
}

}  // namespace plimsoll::why
