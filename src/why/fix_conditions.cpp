// SPDX-License-Identifier: Apache-2.0
#include "why/fix_conditions.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/bytes.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// They divide what a rank holds among ranks.
constexpr std::array<std::string_view, 5> kNeedRanks = {"shard-optimizer", "shard-everything", "sharded-load",
                                                        "more-pipeline", "one-device-per-rank"};
constexpr std::array<std::string_view, 2> kNeedBatch = {"micro-batch", "smaller-batch"};

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& ids, std::string_view id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool batch_is_one(const Findings& findings) {
  for (const char* name :
       {"micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "batch_size"})
    if (findings.option(name) == "1") return true;
  return false;
}

}  // namespace

bool is_compiled_whole(const Diagnosis& diagnosis) {
  const Speaker* speaker = speaker_of(diagnosis.framework);
  return speaker != nullptr && speaker->is_compiled_whole;
}

bool can_apply(std::string_view id, const Diagnosis& diagnosis, const Findings& findings) {
  if (is_one_of(kNeedRanks, id) && !findings.is_multi_rank() && !is_compiled_whole(diagnosis)) return false;
  return !(is_one_of(kNeedBatch, id) && batch_is_one(findings));
}

bool moments_do_not_exist(const Diagnosis& diagnosis, const Findings& findings) {
  const bool before_the_step = diagnosis.phase == Phase::kForward || diagnosis.phase == Phase::kBackward ||
                               diagnosis.phase == Phase::kLoad || diagnosis.phase == Phase::kStartup;
  return before_the_step && findings.steps == 0 && diagnosis.root != nullptr && diagnosis.root->steps_before == 0;
}

bool siblings_hold(const Diagnosis& diagnosis, const Findings& findings) {
  const std::vector<ProcessUse>& processes = diagnosis.numbers.processes;
  if (!findings.is_multi_rank() || processes.empty()) return false;
  // Ranks of one job hold about as much as each other.
  const auto [least, most] = std::minmax_element(
      processes.begin(), processes.end(), [](const ProcessUse& a, const ProcessUse& b) { return a.bytes < b.bytes; });
  if (processes.size() > 1) return least->bytes * 10 >= most->bytes * 8;
  const std::int64_t own = diagnosis.numbers.this_process.value_or(0);
  return own > 0 && std::abs(own - most->bytes) * 5 <= most->bytes;
}

std::string verification_of(const Rung& rung, const Diagnosis& diagnosis) {
  const std::int64_t capacity = diagnosis.sum.capacity;
  switch (rung.saves) {
    case Saves::kActivations:
    case Saves::kStates:
    case Saves::kRequest:
      return capacity > 0 ? fmt::format("torch.cuda.max_memory_allocated() after the second step stays below {}",
                                        format_bytes(capacity - capacity / 20))
                          : "torch.cuda.max_memory_allocated() after the second step: the first makes no moments yet";
    case Saves::kCached:
      return "torch.cuda.memory_reserved() stays close to memory_allocated() over many steps";
    case Saves::kOthers:
      return "nvidia-smi shows the device empty before the job starts";
    case Saves::kLimit:
      return "the next message, if any, names a larger limit";
    case Saves::kNothing:
      break;
  }
  switch (diagnosis.resource) {
    case Resource::kHost:
    case Resource::kPinned:
      return "the resident memory of the processes (ps -o rss) stays below the limit";
    case Resource::kShared:
      return "df -h /dev/shm while it runs";
    case Resource::kDisk:
      return "df -h of the folder after a checkpoint";
    case Resource::kDescriptors:
      return "ls /proc/PID/fd | wc -l stays below ulimit -n";
    case Resource::kBudget:
      return "the engine's start-up lines about its cache";
    default:
      return "the run passes the point where it failed";
  }
}

}  // namespace plimsoll::why
