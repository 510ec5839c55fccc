// SPDX-License-Identifier: Apache-2.0
#include "memory/answer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "job/pipeline_layout.h"
#include "memory/interval.h"
#include "memory/outside.h"
#include "step/program.h"

namespace plimsoll::memory {

namespace {

std::string allocator_setting(const job::Job& job) {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    const auto found = job.environment.find(name);
    if (found != job.environment.end()) return found->second;
  }
  return {};
}

// Rows by category at the peak, then what the allocator holds beyond them, then what stands beside torch.
std::vector<Row> make_table(const RankAnswer& rank, const std::vector<OutsideItem>& outside,
                            std::int64_t step_outside) {
  std::vector<Row> table;
  std::array<std::int64_t, step::kCategories> sums{};
  for (const Alive& alive : rank.alive) sums[static_cast<std::size_t>(step::category_of(alive.name))] += alive.bytes;
  std::int64_t named = 0;
  for (int c = 0; c < step::kCategories; ++c) {
    table.push_back(
        {std::string(step::text_of(static_cast<step::Category>(c))), sums[static_cast<std::size_t>(c)], false});
    named += sums[static_cast<std::size_t>(c)];
  }
  table.push_back({"allocator rounding", rank.peak_allocated - named, false});
  table.push_back({"cached, unused", rank.peak_reserved - rank.peak_allocated, false});
  for (const OutsideItem& item : outside) table.push_back({item.name, item.bytes, true});
  if (step_outside > 0) table.push_back({"paged optimizer states", step_outside, true});
  table.push_back({"free", rank.headroom, false});
  return table;
}

Result<RankAnswer> answer_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank,
                               std::vector<std::string>& warnings) {
  PLIMSOLL_TRY(settings, allocator::parse_settings(allocator_setting(job)));
  step::Tape tape(true);
  step::RankResult result = step::run_rank(job, layout, pp_rank, tape, false);
  if (!settings.native)
    result.warnings.emplace_back(
        "backend:cudaMallocAsync leaves caching to the driver, whose policy is not known: reserved memory is that of "
        "PyTorch's own allocator");
  for (const std::string& warning : result.warnings)
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);

  RankAnswer rank;
  rank.pp_rank = pp_rank;
  rank.parameters = result.parameters;
  rank.capacity = job.cluster.gpu.capacity;
  rank.host_bytes = result.host_bytes;
  rank.nvme_bytes = result.nvme_bytes;
  const std::vector<OutsideItem> outside = outside_torch(job);
  std::int64_t outside_low = result.outside_bytes;
  std::int64_t outside_high = result.outside_bytes;
  rank.outside = result.outside_bytes;
  for (const OutsideItem& item : outside) {
    rank.outside += item.bytes;
    outside_low += item.low;
    outside_high += item.high;
  }
  const std::int64_t for_torch = rank.capacity - rank.outside;
  Walk walked = walk(tape, settings, for_torch, true, rank.capacity);
  rank.out_of_memory = walked.out_of_memory;
  if (walked.out_of_memory) walked = walk(tape, settings, for_torch, false);  // how much it would need
  rank.peak = walked.peak;
  rank.peak_requested = walked.peak.requested;
  rank.peak_allocated = walked.peak.allocated;
  rank.peak_reserved = walked.peak_reserved;
  rank.phases = walked.by_phase;
  rank.alive = alive_at(tape, walked.peak.event);
  for (const PeakPoint& group : walked.by_group) {
    if (group.allocated == 0 || group_of(group.moment) == group_of(walked.peak.moment)) continue;
    if (!rank.second || group.allocated > rank.second->allocated) rank.second = group;
  }
  rank.device_used = rank.peak_reserved + rank.outside;
  rank.headroom = rank.capacity - rank.device_used;
  rank.fits = !rank.out_of_memory;
  const double share = relative_interval(job, result.warnings.size());
  const auto spread = static_cast<std::int64_t>(share * static_cast<double>(rank.peak_reserved));
  rank.low = rank.peak_reserved - spread + outside_low;
  rank.high = rank.peak_reserved + spread + outside_high;
  rank.table = make_table(rank, outside, result.outside_bytes);
  return rank;
}

}  // namespace

Result<std::int64_t> folded_peak(const job::Job& job, std::int64_t pp_rank) {
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  step::Tape tape;
  step::run_rank(job, layout, pp_rank, tape, true);
  return tape.peak();
}

Result<Answer> answer(const job::Job& job, const AskedRanks& asked) {
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  Answer result;
  result.warnings = job.warnings;
  const std::int64_t stages = job.parallel.pipeline;
  if (asked.pp && (*asked.pp < 0 || *asked.pp >= stages))
    return tl::make_unexpected(Error{
        Code::kUsage, fmt::format("--rank pp={}: the job has pipeline ranks 0 to {}", *asked.pp, stages - 1), {}, {}});
  std::int64_t worst = 0;
  for (std::int64_t r = 0; r < stages; ++r) {
    step::Tape tape;
    step::run_rank(job, layout, r, tape, true);
    result.peak_by_stage.push_back(tape.peak());
    if (tape.peak() > result.peak_by_stage[static_cast<std::size_t>(worst)]) worst = r;
  }
  // Fragmentation decides between ranks whose peaks are close: those are walked, and the worst of them answers.
  constexpr double kClose = 0.96;
  const double highest = static_cast<double>(result.peak_by_stage[static_cast<std::size_t>(worst)]);
  for (std::int64_t r = 0; r < stages; ++r) {
    const bool close = static_cast<double>(result.peak_by_stage[static_cast<std::size_t>(r)]) >= kClose * highest;
    if (!asked.all && (asked.pp ? r != *asked.pp : !close)) continue;
    PLIMSOLL_TRY(rank, answer_rank(job, layout, r, result.warnings));
    if (asked.all || result.ranks.empty()) {
      result.ranks.push_back(std::move(rank));
    } else if (rank.device_used > result.ranks.front().device_used) {
      result.ranks.front() = std::move(rank);
    }
  }
  for (std::size_t i = 0; i < result.ranks.size(); ++i)
    if (result.ranks[i].device_used > result.ranks[result.worst].device_used) result.worst = i;

  const std::int64_t per_node = std::min(job.cluster.gpus_per_node, std::max<std::int64_t>(1, job.cluster.gpus));
  for (const RankAnswer& rank : result.ranks) {
    result.host.bytes_per_node = std::max(result.host.bytes_per_node, rank.host_bytes * per_node);
    result.host.nvme_per_node = std::max(result.host.nvme_per_node, rank.nvme_bytes * per_node);
  }
  result.host.capacity = job.cluster.host_memory;
  result.host.fits = result.host.capacity == 0 || result.host.bytes_per_node <= result.host.capacity;
  result.fits = result.host.fits;
  for (const RankAnswer& rank : result.ranks) result.fits = result.fits && rank.fits;
  return result;
}

}  // namespace plimsoll::memory
