// SPDX-License-Identifier: Apache-2.0
#include "answer/known_job.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "answer/job_toml.h"
#include "base/bytes.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "job/keys.h"
#include "plan/ladder.h"
#include "why/rungs.h"
#include "why/words.h"

namespace plimsoll::answer {

namespace {

// The words of a fix: those of the ladder of fixes, else the lever's own.
std::string title_of(std::string_view id) {
  for (const why::Rung& rung : why::all_rungs())
    if (rung.id == id) return std::string{rung.title};
  return std::string{lever::find_lever(id)->title};
}

// Percent of time below which a prediction cannot tell two fixes apart.
constexpr double kSameTime = 100 * plan::kSameTime;

// Whether less memory in a training step is what this cause asks for.
bool wants_less(why::Cause cause) {
  switch (cause) {
    case why::Cause::kActivationBound:
    case why::Cause::kGenuineCapacity:
    case why::Cause::kFirstBackward:
    case why::Cause::kLongestBatch:
    case why::Cause::kOptimizerStateBound:
    case why::Cause::kFragmentation:
    case why::Cause::kCublasCudnnAlloc:
    case why::Cause::kNcclMemory:
      return true;
    default:
      return false;
  }
}

// Rungs that leave what lasts alone cannot help where only that is alive.
bool helps(std::string_view id, const why::Diagnosis& diagnosis) {
  if (diagnosis.cause != why::Cause::kOptimizerStateBound && diagnosis.phase != why::Phase::kLoad) return true;
  return id == "shard-optimizer" || id == "adam-8bit" || id == "shard-everything" || id == "more-pipeline" ||
         id == "more-tensor" || id == "more-expert";
}

// A job that ran out although the prediction fits needs what was short, and a little more.
bool suffices(const KnownJob& known, const why::Diagnosis& diagnosis, const lever::PricedChange& change,
              std::int64_t saved) {
  if (!known.answer.fits || !diagnosis.sum.known) return change.fits;
  return change.fits && saved >= diagnosis.sum.shortfall + diagnosis.sum.capacity / 50;
}

Result<KnownJob> make_known(job::Request request, const lever::World& world, std::string origin) {
  PLIMSOLL_TRY(job, job::resolve(request));
  PLIMSOLL_TRY(price, lever::price(job, world));
  auto changes =
      lever::price_changes(request, job, price, world, lever::changes_of(job, {.only_usual = true, .science = true}));
  return KnownJob{std::move(request), std::move(job), std::move(price.memory), std::move(changes), std::move(origin)};
}

// The catalogue's GPU whose memory is nearest to what the driver reports, within 4 %.
std::string gpu_of_capacity(std::int64_t total) {
  std::string best;
  double nearest_share = 0.04;
  for (const cluster::Gpu& gpu : cluster::catalog_gpus()) {
    if (gpu.architecture == cluster::Architecture::kOther) continue;
    const double share = std::abs(static_cast<double>(gpu.capacity - total)) / static_cast<double>(total);
    if (share < nearest_share) {
      nearest_share = share;
      best = gpu.id;
    }
  }
  return best;
}

}  // namespace

Result<KnownJob> read_known_job(Input input, const lever::World& world) {
  const std::string origin = join(input.operands, ", ");
  PLIMSOLL_TRY(request, read_input(std::move(input)));
  return make_known(std::move(request), world, origin);
}

Recovered recover_job(const why::Findings& findings, const why::Diagnosis& diagnosis, const std::string& gpu,
                      const lever::World& world) {
  Recovered recovered;
  if (!findings.config.contains("num_layers") || !findings.config.contains("hidden_size") ||
      !(findings.config.contains("micro_batch_size") || findings.config.contains("seq_length")))
    return recovered;
  document::Node args;
  args.kind = document::Node::Kind::kObject;
  for (const auto& [name, value] : findings.config) {
    const std::string canonical = job::canonical_name(name);
    const job::Alias* alias = job::find_alias(job::kCanonical, name);
    const bool known =
        job::is_key(canonical) ||
        (alias != nullptr && (alias->kind == job::AliasKind::kKey || alias->kind == job::AliasKind::kInverse));
    if (!known || value == "None" || value.empty()) continue;
    args.members.emplace_back("--" + replace(name, '_', '-'), document::parse_scalar(value == "True"    ? "true"
                                                                                     : value == "False" ? "false"
                                                                                                        : value));
  }
  document::Node root;
  root.kind = document::Node::Kind::kObject;
  root.members.emplace_back("args", std::move(args));
  job::ReadOptions options;
  options.gpu = gpu;
  if (options.gpu.empty() && diagnosis.numbers.total) options.gpu = gpu_of_capacity(*diagnosis.numbers.total);
  if (options.gpu.empty()) {
    recovered.problem = "the arguments in the log make a job, but its GPU is not known: give --gpu";
    return recovered;
  }
  if (const auto size = findings.config.find("world_size"); size != findings.config.end())
    options.gpus = why::leading_integer(size->second);
  else if (findings.world)
    options.gpus = findings.world;
  auto request = job::read_request({{"the arguments in the log", document::to_json(root)}}, options);
  Result<KnownJob> known = request ? make_known(*std::move(request), world, "the arguments in the log")
                                   : Result<KnownJob>{tl::make_unexpected(request.error())};
  if (known)
    recovered.job = *std::move(known);
  else
    recovered.problem = fmt::format("the arguments in the log could not be priced: {}", to_string(known.error()));
  return recovered;
}

void price_fixes(const KnownJob& known, const why::Diagnosis& diagnosis, std::vector<why::Fix>& fixes) {
  if (!wants_less(diagnosis.cause)) return;
  std::vector<why::Fix> priced;
  for (const lever::PricedChange& change : known.changes) {
    const std::string id{change.change.lever};
    if (!helps(id, diagnosis)) continue;
    const auto same = std::find_if(fixes.begin(), fixes.end(), [&](const why::Fix& fix) { return fix.id == id; });
    why::Fix fix;
    if (same != fixes.end()) {
      fix = *same;
    } else {
      if (id == "expandable-segments" && diagnosis.cause != why::Cause::kFragmentation) continue;
      fix.id = id;
      fix.title = title_of(id);
    }
    const std::int64_t saved = -change.difference;
    const bool fragmentation = id == "expandable-segments" && diagnosis.cause == why::Cause::kFragmentation;
    if (saved <= 0 && !fragmentation) continue;  // would not help this job
    if (saved > 0) fix.saves = why::ByteRange{saved, saved};
    if (!fragmentation) fix.sufficient = suffices(known, diagnosis, change, saved);
    fix.change = lever::as_flags(change.change.settings);
    fix.source = fmt::format("plimsoll fit on {}", known.origin);
    if (change.slower) fix.slowdown = {100 * *change.slower, 100 * *change.slower};
    priced.push_back(std::move(fix));
  }
  std::erase_if(fixes, [&](const why::Fix& fix) {
    return std::any_of(known.changes.begin(), known.changes.end(),
                       [&](const lever::PricedChange& change) { return change.change.lever == fix.id; });
  });
  // What suffices alone before what does not, then what costs least time, then what changes least of what is learned.
  const auto cost = [](const why::Fix& fix) {
    const lever::Lever* lever = lever::find_lever(fix.id);
    return std::tuple(!fix.sufficient.value_or(fix.id == "expandable-segments"), !lever->lossless,
                      std::floor(fix.slowdown.low / kSameTime), static_cast<int>(lever->reach));
  };
  std::stable_sort(priced.begin(), priced.end(),
                   [&](const why::Fix& a, const why::Fix& b) { return cost(a) < cost(b); });
  std::vector<why::Fix> all;
  for (why::Fix& one : priced) all.push_back(std::move(one));
  all.insert(all.end(), std::make_move_iterator(fixes.begin()), std::make_move_iterator(fixes.end()));
  fixes = std::move(all);
}

Result<Repair> repair_job(const KnownJob& known, const std::vector<why::Fix>& fixes) {
  // The settings behind the fixes, in their order.
  std::vector<const lever::PricedChange*> ladder;
  for (const why::Fix& fix : fixes)
    for (const lever::PricedChange& change : known.changes)
      if (change.change.lever == fix.id && lever::as_flags(change.change.settings) == fix.change)
        ladder.push_back(&change);
  if (ladder.empty())
    return bad_input("none of the fixes is a change of the job", "plimsoll why without --fix says what to do");
  const auto is_sufficient = [&](const lever::PricedChange& change) {
    const auto fix = std::find_if(fixes.begin(), fixes.end(), [&](const why::Fix& one) {
      return one.id == change.change.lever && one.change == lever::as_flags(change.change.settings);
    });
    return fix != fixes.end() && fix->sufficient.value_or(false);
  };
  Repair repair;
  Settings settings;
  const auto alone = std::find_if(ladder.begin(), ladder.end(),
                                  [&](const lever::PricedChange* change) { return is_sufficient(*change); });
  if (alone != ladder.end()) {
    settings = (*alone)->change.settings;
    repair.applied.push_back((*alone)->change.label);
    repair.fits = true;
  } else {
    for (const lever::PricedChange* change : ladder) {
      Settings longer = settings;
      for (const auto& setting : change->change.settings) {
        std::erase_if(longer, [&](const auto& old) { return old.first == setting.first; });
        longer.push_back(setting);
      }
      const Result<job::Job> job = job::resolve(known.request.with(longer));
      if (!job) continue;
      const Result<memory::Answer> answer = memory::answer(*job, {});
      if (!answer) continue;
      settings = std::move(longer);
      repair.applied.push_back(change->change.label);
      repair.fits = answer->fits;
      if (repair.fits) break;
    }
  }
  PLIMSOLL_TRY(text, job_as_toml(known.request, known.job, settings));
  // What is written must be the same job when it is read back.
  PLIMSOLL_TRY(wanted, job::resolve(known.request.with(settings)));
  PLIMSOLL_TRY(wanted_answer, memory::answer(wanted, {}));
  const std::vector<job::InputFile>& files = known.request.files();
  PLIMSOLL_TRY(again, job::read_job({{files.empty() ? "job.toml" : files.front().path, text}}, {}));
  PLIMSOLL_TRY(again_answer, memory::answer(again, {}));
  if (again_answer.ranks[again_answer.worst].device_used != wanted_answer.ranks[wanted_answer.worst].device_used)
    return bad_input("this job has settings that a job file cannot express exactly",
                     "apply the change by hand: " + lever::as_flags(settings));
  repair.text = std::move(text);
  return repair;
}

}  // namespace plimsoll::answer
