// SPDX-License-Identifier: Apache-2.0
#include "answer/check.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "answer/check_base.h"
#include "answer/lint.h"
#include "base/bytes.h"

namespace plimsoll::answer {

namespace {

// The files of an entry in a folder; what is absolute or the name of a model stays as it is.
Input input_in(const std::string& folder, const Input& input) {
  Input placed = input;
  for (std::string& operand : placed.operands) {
    const std::filesystem::path path = std::filesystem::path(folder) / operand;
    if (!folder.empty()) operand = path.string();
  }
  if (!folder.empty() && std::filesystem::exists(std::filesystem::path(folder) / placed.model) && !placed.model.empty())
    placed.model = (std::filesystem::path(folder) / placed.model).string();
  return placed;
}

std::string gib(std::int64_t bytes) { return format_gib(bytes) + " GiB"; }

void complain_of_memory(const CheckedEntry& entry, CheckedJob& job) {
  const auto say = [&job](const char* id, std::string text) {
    job.complaints.push_back({id, std::move(text), job.files.empty() ? std::string{} : job.files.front()});
  };
  const Fit& fit = *job.fit;
  const memory::RankAnswer& worst = fit.memory.ranks[fit.memory.worst];
  for (const rules::Violation& violation : fit.violations)
    if (violation.rule->severity == rules::Severity::kError)
      say("refused", fmt::format("{} would refuse it ({}): {}", job::name_of(fit.job.framework), violation.rule->id,
                                 violation.wrong));
  if (!fit.memory.fits) {
    say("does-not-fit",
        fmt::format("needs {} of {} on rank pp={}", gib(worst.device_used), gib(worst.capacity), worst.pp_rank));
    return;
  }
  if (entry.limits.surely && worst.high > worst.capacity)
    say("not-surely", fmt::format("fits by the prediction, but the upper end of its interval is {} above the {} there "
                                  "are",
                                  gib(worst.high - worst.capacity), gib(worst.capacity)));
  if (entry.limits.headroom && worst.headroom < *entry.limits.headroom)
    say("headroom",
        fmt::format("leaves {} free; at least {} are wanted", gib(worst.headroom), gib(*entry.limits.headroom)));
}

void complain_of_time(const CheckedEntry& entry, CheckedJob& job) {
  const double seconds = job.fit->time.seconds;
  if (entry.limits.max_step_seconds && seconds > *entry.limits.max_step_seconds)
    job.complaints.push_back(
        {"too-slow",
         fmt::format("a step takes {:.3f} s; at most {:g} are allowed", seconds, *entry.limits.max_step_seconds),
         job.files.empty() ? std::string{} : job.files.front()});
}

void complain_of_growth(const CheckedEntry& entry, CheckedJob& job) {
  const JobDiff& diff = *job.difference;
  const std::string file = job.files.empty() ? std::string{} : job.files.front();
  if (entry.limits.memory && entry.limits.memory->exceeded(diff.a.device_used, diff.b.device_used))
    job.complaints.push_back(
        {"memory-grew",
         fmt::format("device memory grew from {} to {}", gib(diff.a.device_used), gib(diff.b.device_used)), file});
  if (entry.limits.time && diff.slower() > *entry.limits.time)
    job.complaints.push_back({"slower",
                              fmt::format("a token takes {:.1f} % longer: a step {:.3f} s instead of {:.3f}",
                                          100 * diff.slower(), diff.time_b.seconds, diff.time_a.seconds),
                              file});
}

CheckedJob check_entry(const CheckedEntry& entry, const std::string& folder, const std::string& base,
                       const CheckedEntry* former, const lever::World& world) {
  CheckedJob job;
  job.name = entry.name;
  job.files = entry.input.operands;
  const auto request = read_input(input_in(folder, entry.input));
  auto fit =
      request ? answer::fit(*request, world, {}, Changes::kNone) : Result<Fit>{tl::make_unexpected(request.error())};
  if (!fit) {
    const std::string& hint = fit.error().hint;
    job.complaints.push_back({"unreadable", to_string(fit.error()) + (hint.empty() ? "" : "; " + hint),
                              job.files.empty() ? "" : job.files.front()});
    return job;
  }
  job.fit = *std::move(fit);
  complain_of_memory(entry, job);
  complain_of_time(entry, job);
  // A job that the base does not have, or cannot answer for, is new: there is nothing to compare.
  if (base.empty() || former == nullptr) return job;
  const auto before = read_input(input_in(base, former->input));
  if (!before) return job;
  if (auto diff = compare_jobs(*before, *request, world)) {
    diff->name_a = "base";
    diff->name_b = "now";
    job.difference = *std::move(diff);
    complain_of_growth(entry, job);
  }
  return job;
}

}  // namespace

bool Check::passes() const {
  return std::all_of(jobs.begin(), jobs.end(), [](const CheckedJob& job) { return job.complaints.empty(); });
}

Result<Check> check(const CheckList& list, const std::string& base, const std::string& base_name,
                    const Progress& progress) {
  std::optional<std::string> calibration;
  if (!list.calibration.empty()) calibration = (std::filesystem::path(list.folder) / list.calibration).string();
  PLIMSOLL_TRY(world, read_world(calibration));
  Check answer{list.path, base_name, {}, {}};
  const BaseList before(base, list);
  for (const CheckedEntry& entry : list.entries) {
    tell(progress, fmt::format("checking {}", entry.name), part_of(answer.jobs.size(), list.entries.size()));
    answer.jobs.push_back(check_entry(entry, list.folder, base, before.find(entry), world));
    if (!answer.jobs.back().fit) continue;
    for (std::string& word : world.learned.words(answer.jobs.back().fit->job))
      if (std::find(answer.learned.begin(), answer.learned.end(), word) == answer.learned.end())
        answer.learned.push_back(std::move(word));
  }
  return answer;
}

const std::vector<ComplaintKind>& complaint_kinds() {
  static const std::vector<ComplaintKind> kKinds = {
      {"does-not-fit", "The job needs more memory than its GPUs have."},
      {"not-surely", "The job fits by the prediction, but not at the upper end of its interval."},
      {"headroom", "The job leaves less memory free than is wanted."},
      {"refused", "The framework would refuse the job."},
      {"too-slow", "A step takes longer than is allowed."},
      {"memory-grew", "The job needs more memory than in the base, by more than is allowed."},
      {"slower", "A token takes longer than in the base, by more than is allowed."},
      {"unreadable", "The job cannot be read or answered."},
  };
  return kKinds;
}

}  // namespace plimsoll::answer
