// SPDX-License-Identifier: Apache-2.0
#include "memory/answer.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/budget.h"
#include "base/bytes.h"
#include "base/crew.h"
#include "base/interrupt.h"
#include "base/spares.h"
#include "base/text.h"
#include "job/pipeline_layout.h"
#include "memory/interval.h"
#include "memory/outside.h"
#include "memory/question.h"
#include "memory/settings.h"
#include "memory/table.h"
#include "step/program.h"

namespace plimsoll::memory {

namespace {

// Those of the last walks: a question walks dozens, two or so at a time.
Spares<step::Tape>& tapes() {
  constexpr std::size_t kMost = 16;
  static Spares<step::Tape> all(kMost);
  return all;
}

// A step that is too large to be walked: its tensors alone say no, or nothing can be said.
Status answer_in_closed_form(const step::Tape& tape, std::int64_t passes, std::int64_t for_torch, WalkedRank& walked) {
  const std::string size = tape.overflowed() ? fmt::format("more than {} allocations", with_commas(kBudget.events))
                                             : fmt::format("{} passes of layers", with_commas(passes));
  if (tape.peak() <= for_torch)
    return bad_input(
        fmt::format("too large to simulate: {} in a step of rank pp={}; by the closed form its tensors need {} of {}, "
                    "but what the allocator adds to them is not known",
                    size, walked.answer.pp_rank, format_bytes(tape.peak()), format_bytes(for_torch)),
        "fewer micro-batches per step, or fewer layers");
  RankAnswer& rank = walked.answer;
  rank.out_of_memory = OutOfMemory{tape.peak_moment(), 0, step::Name::kHidden};
  rank.peak.allocated = rank.peak.requested = rank.peak.reserved = tape.peak();
  rank.peak.moment = tape.peak_moment();
  rank.peak_requested = rank.peak_allocated = rank.peak_reserved = tape.peak();
  rank.not_simulated = tape.peak();
  rank.fits = false;
  walked.warnings.push_back(
      fmt::format("too large to simulate: {}; the sum of its tensors in closed form is shown, "
                  "without the allocator's gaps",
                  size));
  return {};
}

Result<WalkedRank> answer_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank,
                               const AskedRanks& asked) {
  PLIMSOLL_TRY(settings, settings_of(job));
  const std::int64_t passes = step::layer_passes(job, layout, pp_rank);
  Spares<step::Tape>::Borrowed borrowed = tapes().borrow();
  step::Tape& tape = *borrowed;
  tape.restart(passes <= kBudget.layer_passes, asked.figures_only ? step::Moments::kDropped : step::Moments::kKept);
  step::RankResult result = step::run_rank(job, layout, pp_rank, tape, !tape.recording());
  if (!settings.native)
    result.warnings.emplace_back(
        "backend:cudaMallocAsync leaves caching to the driver, whose policy is not known: reserved memory is that of "
        "PyTorch's own allocator");

  WalkedRank walked_rank;
  walked_rank.warnings = result.warnings;
  RankAnswer& rank = walked_rank.answer;
  rank.pp_rank = pp_rank;
  rank.parameters = result.parameters;
  rank.capacity = job.cluster.gpu.capacity;
  rank.host_bytes = result.host_bytes;
  rank.rank0_bytes = result.rank0_bytes;
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
  if (!tape.recording()) {
    PLIMSOLL_TRY_STATUS(answer_in_closed_form(tape, passes, for_torch, walked_rank));
    const std::int64_t tensors = rank.peak_reserved;
    rank.device_used = tensors + rank.outside;
    rank.headroom = rank.capacity - rank.device_used;
    rank.low = tensors + outside_low;
    rank.high = std::numeric_limits<std::int64_t>::max() / 2 > 2 * tensors ? 2 * tensors + outside_high : rank.low;
    rank.table = make_table(rank, outside, result.outside_bytes);
    return walked_rank;
  }
  // Tensors that need more than there is cannot fit, whatever the allocator does: where it runs out is not asked then.
  const bool surely_out = asked.figures_only && tape.peak() > for_torch;
  if (surely_out) rank.out_of_memory = OutOfMemory{tape.peak_moment(), 0, step::Name::kHidden};
  Walk walked = walk(tape, settings, for_torch, !surely_out, rank.capacity);
  if (!surely_out) rank.out_of_memory = walked.out_of_memory;
  if (walked.out_of_memory && !asked.verdict_only)
    walked = walk(tape, settings, for_torch, false);  // what it would need
  rank.peak = walked.peak;
  rank.peak_requested = walked.peak.requested;
  rank.peak_allocated = walked.peak.allocated;
  rank.peak_reserved = walked.peak_reserved;
  rank.phases = walked.by_phase;
  for (const PeakPoint& group : walked.by_group) {
    if (group.allocated == 0 || group_of(group.moment) == group_of(walked.peak.moment)) continue;
    if (!rank.second || group.allocated > rank.second->allocated) rank.second = group;
  }
  rank.device_used = rank.peak_reserved + rank.outside;
  rank.headroom = rank.capacity - rank.device_used;
  rank.fits = !rank.out_of_memory;
  rank.spread = spread_of(job, result.warnings.size(), rank.peak_allocated, rank.peak_reserved);
  rank.low = rank.peak_reserved - rank.spread.reserved + outside_low;
  rank.high = rank.peak_reserved + rank.spread.reserved + outside_high;
  if (asked.figures_only) return walked_rank;
  rank.alive = alive_at(tape, walked.peak.event);
  rank.table = make_table(rank, outside, result.outside_bytes);
  return walked_rank;
}

// PEFT and Bridge refuse adapters that match nothing.
Error nothing_to_train(const job::Job& job) {
  if (!job.trainable_parameters.empty())
    return {Code::kBadInput,
            fmt::format("trainable_parameters {}: no parameter of {} that would be trained has a name that begins so",
                        join(job.trainable_parameters, ", ").substr(0, 200), job.model.name),
            {},
            job.model.tied_embeddings ? "names are those of Transformers; a tied head is model.embed_tokens"
                                      : "names are those of Transformers, as model.layers.0.mlp.down_proj.weight"};
  return {Code::kBadInput,
          fmt::format("lora_target_modules {}: {} has no such linear layer, so nothing would be trained",
                      job.adapter.targets.empty() ? "is not given, and PEFT's defaults are q_proj and v_proj"
                                                  : "= " + join(job.adapter.targets, ", "),
                      job.model.name),
          {},
          job.is_megatron() ? "linear_qkv, linear_proj, linear_fc1 and linear_fc2 are Megatron's names"
                            : "all-linear, or names such as q_proj, v_proj, down_proj"};
}

bool is_worse(const RankAnswer& a, const RankAnswer& b) {
  if (a.fits != b.fits) return !a.fits;
  return a.device_used > b.device_used;
}

// Every stage in closed form.
struct Folded {
  std::vector<std::int64_t> peaks;    // of tensors
  std::vector<std::int64_t> outside;  // device memory that the step itself needs beside torch
};
Result<Folded> fold_stages(const job::Job& job, const job::PipelineLayout& layout) {
  Folded folded;
  bool trains = false;
  for (std::int64_t r = 0; r < job.parallel.pipeline; ++r) {
    step::Tape tape;
    const step::RankResult result = step::run_rank(job, layout, r, tape, true);
    trains = trains || result.trains;
    folded.peaks.push_back(tape.peak());
    folded.outside.push_back(result.outside_bytes);
  }
  if (!trains) return tl::make_unexpected(nothing_to_train(job));
  return folded;
}

}  // namespace

Status Question::lay_out() {
  PLIMSOLL_TRY(layout, job::pipeline_layout(job_));
  const std::int64_t stages = job_.parallel.pipeline;
  if (asked_.pp && (*asked_.pp < 0 || *asked_.pp >= stages))
    return tl::make_unexpected(Error{
        Code::kUsage, fmt::format("--rank pp={}: the job has pipeline ranks 0 to {}", *asked_.pp, stages - 1), {}, {}});
  PLIMSOLL_TRY(folded, fold_stages(job_, layout));
  layout_ = std::move(layout);
  peak_by_stage_ = std::move(folded.peaks);
  for (std::int64_t r = 0; r < stages; ++r) fullest_first_.push_back(r);
  std::stable_sort(fullest_first_.begin(), fullest_first_.end(), [this](std::int64_t a, std::int64_t b) {
    return peak_by_stage_[static_cast<std::size_t>(a)] > peak_by_stage_[static_cast<std::size_t>(b)];
  });
  if (asked_.alone && asked_.pp) fullest_first_ = {*asked_.pp};
  walked_.resize(fullest_first_.size());
  return {};
}

void Question::prepare() {
  if (const Status status = lay_out(); !status) refused_ = status.error();
}

void Question::walk(std::size_t i) {
  // What only compares is given up with whoever asked for it.
  if (*is_decided_ || (asked_.figures_only && interrupted())) return;
  walked_[i] = answer_rank(job_, *layout_, fullest_first_[i], asked_);
  if (!*walked_[i] || (asked_.verdict_only && !(*walked_[i])->answer.fits)) *is_decided_ = true;
}

Result<Answer> Question::answer() {
  if (refused_) return tl::make_unexpected(*std::move(refused_));
  std::vector<WalkedRank> ranks;
  for (auto& rank : walked_) {
    if (!rank && !*is_decided_) return tl::make_unexpected(given_up());
    if (!rank) continue;
    if (!*rank) return tl::make_unexpected(std::move(rank->error()));
    ranks.push_back(*std::move(*rank));
  }
  std::sort(ranks.begin(), ranks.end(),
            [](const WalkedRank& a, const WalkedRank& b) { return a.answer.pp_rank < b.answer.pp_rank; });
  Answer result;
  result.warnings = job_.warnings;
  result.peak_by_stage = std::move(peak_by_stage_);
  const std::int64_t per_node = std::min(job_.cluster.gpus_per_node, std::max<std::int64_t>(1, job_.cluster.gpus));
  std::size_t worst = 0;
  result.fits = true;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankAnswer& rank = ranks[i].answer;
    if (is_worse(rank, ranks[worst].answer)) worst = i;
    result.fits = result.fits && rank.fits;
    result.host.bytes_per_node = std::max(result.host.bytes_per_node, rank.host_bytes * per_node);
    result.host.gathered = std::max(result.host.gathered, rank.rank0_bytes);
    result.host.nvme_per_node = std::max(result.host.nvme_per_node, rank.nvme_bytes * per_node);
    for (std::string& warning : ranks[i].warnings)
      if (std::find(result.warnings.begin(), result.warnings.end(), warning) == result.warnings.end())
        result.warnings.push_back(std::move(warning));
  }
  result.worst_of_all = {ranks[worst].answer.pp_rank, ranks[worst].answer.headroom, ranks[worst].answer.fits};
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!asked_.all && (asked_.pp ? ranks[i].answer.pp_rank != *asked_.pp : i != worst)) continue;
    if (i == worst) result.worst = result.ranks.size();
    result.ranks.push_back(std::move(ranks[i].answer));
  }
  result.host.bytes_per_node += result.host.gathered;
  result.host.capacity = job_.cluster.host_memory;
  result.host.nvme_capacity = job_.cluster.nvme;
  const auto holds = [](std::int64_t capacity, std::int64_t needed) { return capacity == 0 || needed <= capacity; };
  result.host.fits = holds(result.host.capacity, result.host.bytes_per_node) &&
                     holds(result.host.nvme_capacity, result.host.nvme_per_node);
  result.fits = result.fits && result.host.fits;
  return result;
}

Result<Least> least(const job::Job& job) {
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  if (const auto settings = settings_of(job); !settings) return tl::make_unexpected(settings.error());
  PLIMSOLL_TRY(folded, fold_stages(job, layout));
  Least least;
  least.capacity = job.cluster.gpu.capacity;
  std::int64_t highest = -1;
  for (std::size_t r = 0; r < folded.peaks.size(); ++r) {
    if (folded.peaks[r] + folded.outside[r] <= highest) continue;
    highest = folded.peaks[r] + folded.outside[r];
    least.pp_rank = static_cast<std::int64_t>(r);
    least.tensors = folded.peaks[r];
    least.outside = folded.outside[r];
  }
  least.outside += outside_torch_bytes(job);
  least.peak_by_stage = std::move(folded.peaks);
  return least;
}

Result<std::int64_t> folded_peak(const job::Job& job, std::int64_t pp_rank) {
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  step::Tape tape;
  step::run_rank(job, layout, pp_rank, tape, true);
  return tape.peak();
}

Result<Answer> answer(const job::Job& job, const AskedRanks& asked) {
  Question question(job, asked);
  question.prepare();
  share_items(question.ranks(), [&question](std::size_t i) { question.walk(i); });
  return question.answer();
}

}  // namespace plimsoll::memory
