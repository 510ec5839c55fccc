// SPDX-License-Identifier: Apache-2.0
#include "cli/why_job.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/why_toml.h"
#include "cluster/cluster.h"
#include "job/keys.h"
#include "why/rungs.h"
#include "why/words.h"

namespace plimsoll::cli {

namespace {

struct Kind {
  std::string_view key;    // of the change's settings
  std::string_view value;  // part of it; "": any
  std::string_view id;     // of the fix
  std::string_view title;  // for ids that the ladder does not have
  why::PercentRange slowdown;
  std::string_view source;
};

// In the order of their cost.
constexpr std::array<Kind, 16> kKinds = {{
    {"environment.PYTORCH_CUDA_ALLOC_CONF", "", "expandable-segments", "", {0, 0}, "PyTorch notes on CUDA memory"},
    {"micro_batch_size", "", "micro-batch", "", {0, 10}, "Hugging Face guide to training on one GPU"},
    {"sequence_parallel",
     "",
     "sequence-parallel",
     "shard what tensor parallelism leaves whole",
     {-2, 2},
     "Megatron-LM documentation"},
    {"use_distributed_optimizer", "", "shard-optimizer", "", {1, 3}, "Megatron-Bridge, Llama-3 70B"},
    {"use_liger_kernel", "", "chunked-loss", "", {-5, 3}, "measured with Liger and chunked losses"},
    {"optimizer", "adam8bit", "adam-8bit", "", {0, 5}, "bitsandbytes; Hugging Face guide to training on one GPU"},
    {"recompute_modules",
     "moe_act",
     "recompute-moe-act",
     "recompute the experts' activation function",
     {1, 4},
     "Megatron-Bridge, Llama-3 70B"},
    {"pipeline_model_parallel_size", "", "more-pipeline", "", {4, 8}, "Megatron-Bridge, Llama-3 70B"},
    {"expert_model_parallel_size", "", "more-expert", "more expert parallelism", {0, 15}, "range over published runs"},
    {"context_parallel_size", "", "more-context", "more context parallelism", {3, 15}, "range over published runs"},
    {"recompute_modules", "mlp", "recompute-mlp", "", {10, 18}, "Megatron-Bridge, Llama-3 70B"},
    {"recompute_modules",
     "moe",
     "recompute-moe",
     "recompute the expert block",
     {8, 20},
     "Megatron-Bridge, Llama-3 70B"},
    {"recompute_granularity", "full", "recompute-layers", "", {20, 33}, "Hugging Face guide to training on one GPU"},
    {"gradient_checkpointing", "", "recompute-layers", "", {20, 33}, "Hugging Face guide to training on one GPU"},
    {"zero_stage", "", "shard-everything", "", {5, 30}, "DeepSpeed ZeRO and FSDP documentation"},
    {"tensor_model_parallel_size",
     "",
     "more-tensor",
     "more tensor parallelism: a last resort",
     {15, 30},
     "Megatron-Bridge, Llama-3 70B: 28 %"},
}};

std::size_t kind_of(const Change& change) {
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    for (const auto& [key, value] : change.settings) {
      if (key != kKinds[i].key) continue;
      if (kKinds[i].value.empty() || value.find(kKinds[i].value) != std::string::npos) return i;
    }
  return kKinds.size();
}

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
bool suffices(const KnownJob& known, const why::Diagnosis& diagnosis, const PricedChange& change, std::int64_t saved) {
  if (!known.answer.fits || !diagnosis.sum.known) return change.fits;
  return change.fits && saved >= diagnosis.sum.shortfall + diagnosis.sum.capacity / 50;
}

Result<KnownJob> make_known(job::Request request, std::string origin) {
  PLIMSOLL_TRY(job, job::resolve(request));
  PLIMSOLL_TRY(answer, memory::answer(job, {}));
  KnownJob known{std::move(request), std::move(job), std::move(answer), {}, std::move(origin)};
  known.changes = price_changes(known.request, known.job, known.answer);
  return known;
}

// The catalogue's GPU whose memory is nearest to what the driver reports, within 4 %.
std::string gpu_of_capacity(std::int64_t total) {
  std::string best;
  double nearest_share = 0.04;
  for (const cluster::Gpu& gpu : cluster::catalog_gpus()) {
    const double share = std::abs(static_cast<double>(gpu.capacity - total)) / static_cast<double>(total);
    if (share < nearest_share) {
      nearest_share = share;
      best = gpu.id;
    }
  }
  return best;
}

}  // namespace

Result<KnownJob> read_known_job(const std::vector<std::string>& paths, const Arguments& arguments) {
  Arguments as_fit = arguments;
  as_fit.operands = paths;
  PLIMSOLL_TRY(request, read_input(as_fit));
  return make_known(std::move(request), join(paths, ", "));
}

Recovered recover_job(const why::Findings& findings, const why::Diagnosis& diagnosis, const Arguments& arguments) {
  Recovered recovered;
  if (!findings.config.contains("num_layers") || !findings.config.contains("hidden_size") ||
      !(findings.config.contains("micro_batch_size") || findings.config.contains("seq_length")))
    return recovered;
  document::Node args;
  args.kind = document::Node::Kind::kObject;
  for (const auto& [name, value] : findings.config) {
    const std::string canonical = job::canonical_name(name);
    const job::Alias* alias = job::find_alias(job::Framework::kMegatronLm, name);
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
  options.gpu = arguments.value("gpu").value_or("");
  if (options.gpu.empty() && diagnosis.numbers.total) options.gpu = gpu_of_capacity(*diagnosis.numbers.total);
  if (options.gpu.empty()) {
    recovered.problem = "the arguments in the log make a job, but its GPU is not known: give --gpu";
    return recovered;
  }
  if (const auto world = findings.config.find("world_size"); world != findings.config.end())
    options.gpus = why::leading_integer(world->second);
  else if (findings.world)
    options.gpus = findings.world;
  auto request = job::read_request({{"the arguments in the log", document::to_json(root)}}, options);
  Result<KnownJob> known = request ? make_known(*std::move(request), "the arguments in the log")
                                   : Result<KnownJob>{tl::make_unexpected(request.error())};
  if (known)
    recovered.job = *std::move(known);
  else
    recovered.problem = fmt::format("the arguments in the log could not be priced: {}", to_string(known.error()));
  return recovered;
}

void price_fixes(const KnownJob& known, const why::Diagnosis& diagnosis, std::vector<why::Fix>& fixes) {
  if (!wants_less(diagnosis.cause)) return;
  struct Priced {
    std::size_t kind;
    why::Fix fix;
  };
  std::vector<Priced> priced;
  for (const PricedChange& change : known.changes) {
    const std::size_t kind = kind_of(change.change);
    if (kind == kKinds.size() || !helps(kKinds[kind].id, diagnosis)) continue;
    const std::string id{kKinds[kind].id};
    const auto same = std::find_if(fixes.begin(), fixes.end(), [&](const why::Fix& fix) { return fix.id == id; });
    why::Fix fix;
    if (same != fixes.end()) {
      fix = *same;
      fixes.erase(same);
    } else {
      if (id == "expandable-segments" && diagnosis.cause != why::Cause::kFragmentation) continue;
      fix.id = id;
      fix.title = kKinds[kind].title.empty() ? std::string{why::rung(id).title} : std::string{kKinds[kind].title};
      fix.slowdown = kKinds[kind].slowdown;
    }
    const std::int64_t saved = -change.difference;
    const bool fragmentation = id == "expandable-segments" && diagnosis.cause == why::Cause::kFragmentation;
    if (saved <= 0 && !fragmentation) continue;  // would not help this job
    if (saved > 0) fix.saves = why::ByteRange{saved, saved};
    if (!fragmentation) fix.sufficient = suffices(known, diagnosis, change, saved);
    fix.change = as_flags(change.change.settings);
    fix.source = fmt::format("plimsoll fit on {}; time: {}", known.origin, kKinds[kind].source);
    if (change.slower) {
      fix.slowdown = {100 * *change.slower, 100 * *change.slower};
      fix.source = fmt::format("plimsoll fit on {}", known.origin);
    }
    priced.push_back({kind, std::move(fix)});
  }
  std::stable_sort(priced.begin(), priced.end(), [](const Priced& a, const Priced& b) { return a.kind < b.kind; });
  std::vector<why::Fix> all;
  for (Priced& one : priced) all.push_back(std::move(one.fix));
  all.insert(all.end(), std::make_move_iterator(fixes.begin()), std::make_move_iterator(fixes.end()));
  fixes = std::move(all);
}

Result<Repair> repair_job(const KnownJob& known, const std::vector<why::Fix>& fixes) {
  // The settings behind the fixes, in their order.
  std::vector<const PricedChange*> ladder;
  for (const why::Fix& fix : fixes)
    for (const PricedChange& change : known.changes)
      if (const std::size_t kind = kind_of(change.change); kind < kKinds.size() && kKinds[kind].id == fix.id)
        ladder.push_back(&change);
  if (ladder.empty())
    return bad_input("none of the fixes is a change of the job", "plimsoll why without --fix says what to do");
  const auto is_sufficient = [&](const PricedChange& change) {
    const std::size_t kind = kind_of(change.change);
    const auto fix =
        std::find_if(fixes.begin(), fixes.end(), [&](const why::Fix& one) { return one.id == kKinds[kind].id; });
    return fix != fixes.end() && fix->sufficient.value_or(false);
  };
  Repair repair;
  Settings settings;
  const auto alone =
      std::find_if(ladder.begin(), ladder.end(), [&](const PricedChange* change) { return is_sufficient(*change); });
  if (alone != ladder.end()) {
    settings = (*alone)->change.settings;
    repair.applied.push_back((*alone)->change.label);
    repair.fits = true;
  } else {
    for (const PricedChange* change : ladder) {
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
                     "apply the change by hand: " + as_flags(settings));
  repair.text = std::move(text);
  return repair;
}

}  // namespace plimsoll::cli
