// SPDX-License-Identifier: Apache-2.0
// The answer of `fit`: does the job fit, where is the peak, what is alive there, what comes next.
// Invariant: the rows of a rank's table sum exactly to the device's capacity ("free" is negative when
// the job does not fit).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "job/job.h"
#include "memory/interval.h"
#include "memory/walk.h"

namespace plimsoll::memory {

struct Row {
  std::string name;  // "parameters", ..., "cached, unused", "CUDA context", "NCCL", "free"
  std::int64_t bytes = 0;
  bool estimated = false;  // a rule of thumb, not a computed size
};

struct RankAnswer {
  std::int64_t pp_rank = 0;
  std::int64_t parameters = 0;  // elements
  std::int64_t capacity = 0;
  std::vector<Row> table;
  std::int64_t peak_requested = 0;  // sum of tensors in 512-byte units, without the allocator's unsplit rests
  std::int64_t peak_allocated = 0;  // torch.cuda.max_memory_allocated
  std::int64_t peak_reserved = 0;   // torch.cuda.max_memory_reserved
  std::int64_t outside = 0;         // CUDA context, NCCL, userbuffers: beside torch
  std::int64_t device_used = 0;     // peak_reserved + outside
  Spread spread;                    // half-widths of the two above
  std::int64_t low = 0;             // interval of device_used, which nine in ten measured values lie in
  std::int64_t high = 0;
  std::int64_t headroom = 0;  // capacity - device_used
  bool fits = false;
  // Fits also at the upper end of the interval.
  [[nodiscard]] bool surely_fits() const { return fits && high <= capacity; }
  PeakPoint peak;
  std::vector<Alive> alive;                  // at the peak, largest first
  std::optional<PeakPoint> second;           // highest peak of another kind of moment
  std::array<PhasePeak, 10> phases{};        // index: step::Phase
  std::optional<OutOfMemory> out_of_memory;  // where the simulated allocator gave up
  std::int64_t host_bytes = 0;               // of this rank
  std::int64_t rank0_bytes = 0;              // on the host of rank 0 alone, while state is gathered to be saved
  std::int64_t nvme_bytes = 0;
  std::int64_t not_simulated = 0;  // tensors whose names are not known, because the step was too large to walk
};

struct Host {
  std::int64_t bytes_per_node = 0;  // of the fullest
  std::int64_t gathered = 0;        // of them on rank 0, while a full state dict is brought together
  std::int64_t nvme_per_node = 0;
  std::int64_t capacity = 0;       // 0: unknown
  std::int64_t nvme_capacity = 0;  // 0: unknown
  bool fits = true;                // both; true when unknown
};

// The job's worst rank, whether it was asked for or not: one that runs out before one that does not, then the fullest.
struct WorstRank {
  std::int64_t pp_rank = 0;
  std::int64_t headroom = 0;
  bool fits = false;
};

struct Answer {
  std::vector<RankAnswer> ranks;            // those asked for
  std::size_t worst = 0;                    // index into ranks
  WorstRank worst_of_all;                   // every pipeline rank is walked, so the verdict is the job's
  std::vector<std::int64_t> peak_by_stage;  // folded peak of every pipeline stage, bytes of tensors
  Host host;
  bool fits = false;  // device and host
  std::vector<std::string> warnings;
};

struct AskedRanks {
  bool all = false;
  std::optional<std::int64_t> pp;  // a given stage; neither: the worst
  bool verdict_only = false;       // the first rank that does not fit ends the answer, where it ran out
  bool alone = false;              // of `pp` only: what it needs is asked, not whether the job fits
  bool figures_only = false;       // no table, no moments, nothing of what is alive: what comparing two jobs needs
};

// The job must be complete (job::read_job completes it).
[[nodiscard]] Result<Answer> answer(const job::Job& job, const AskedRanks& asked);

// What a job needs at least, in closed form: the tensors of its fullest rank and what lies beside PyTorch, without what
// the allocator adds to them. One that needs more than there is cannot fit; whether one that needs less fits is for
// answer() to say.
struct Least {
  std::int64_t pp_rank = 0;                 // the fullest
  std::int64_t tensors = 0;                 // its peak, in blocks: RankAnswer::peak_requested
  std::int64_t outside = 0;                 // beside torch
  std::int64_t capacity = 0;                // of the device
  std::vector<std::int64_t> peak_by_stage;  // tensors

  [[nodiscard]] bool may_fit() const { return tensors + outside <= capacity; }
};
// The job must be complete.
[[nodiscard]] Result<Least> least(const job::Job& job);

// Folded peak of one stage, in bytes of tensors: the fast answer that searches use.
[[nodiscard]] Result<std::int64_t> folded_peak(const job::Job& job, std::int64_t pp_rank);

}  // namespace plimsoll::memory
