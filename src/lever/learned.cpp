// SPDX-License-Identifier: Apache-2.0
#include "lever/learned.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "document/node.h"
#include "memory/outside.h"

namespace plimsoll::lever {

namespace {

using document::Node;

// A factor beyond these is a run of another job, not a cluster's habit.
constexpr double kLeastFactor = 0.2;
constexpr double kMostFactor = 5;
constexpr std::int64_t kMostContext = 64 * kGiB;
// Runs that are further off are of another job: plimsoll learn takes none that is off by more than 5 %.
constexpr double kMostTensors = 0.1;
constexpr double kMostCached = 20;
constexpr std::string_view kContext = "CUDA context";  // the row of a rank's table

std::string text_of(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  return found != nullptr && found->is_string() ? found->text : std::string{};
}

Result<LearnedGroup> read_group(const Node& node) {
  LearnedGroup group;
  if (node.is_object()) {
    group.gpu = text_of(node, "gpu");
    group.framework = text_of(node, "framework");
    if (const Node* runs = node.find("runs"); runs != nullptr && runs->is_integer()) group.runs = runs->integer;
    if (const Node* factor = node.find("time_factor"); factor != nullptr && factor->is_number())
      group.time_factor = factor->as_real();
    if (const Node* context = node.find("context"); context != nullptr && context->is_integer())
      group.context = context->integer;
    if (const Node* factor = node.find("tensor_factor"); factor != nullptr && factor->is_number())
      group.tensors = factor->as_real();
    if (const Node* factor = node.find("cached_factor"); factor != nullptr && factor->is_number())
      group.cached = factor->as_real();
  }
  if (group.gpu.empty() || group.framework.empty()) return bad_input("a group has no gpu or no framework");
  if (group.time_factor && !(*group.time_factor >= kLeastFactor && *group.time_factor <= kMostFactor))
    return bad_input(fmt::format("time_factor is {}; wanted {} to {}", *group.time_factor, kLeastFactor, kMostFactor));
  if (group.context && (*group.context < 0 || *group.context > kMostContext))
    return bad_input(fmt::format("context is {}; wanted 0 to {}", *group.context, kMostContext));
  if (group.tensors && !(std::abs(*group.tensors - 1) <= kMostTensors))
    return bad_input(
        fmt::format("tensor_factor is {}; wanted {} to {}", *group.tensors, 1 - kMostTensors, 1 + kMostTensors));
  if (group.cached && !(*group.cached >= 0 && *group.cached <= kMostCached))
    return bad_input(fmt::format("cached_factor is {}; wanted 0 to {}", *group.cached, kMostCached));
  return group;
}

void scale(timing::StepTime& time, double factor) {
  time.seconds *= factor;
  time.low *= factor;
  time.high *= factor;
  time.tokens_per_second_per_gpu /= factor;
  time.tflops_per_gpu /= factor;
  time.mfu /= factor;
  for (const timing::NamedPart& part : timing::named_parts()) time.parts.*part.field *= factor;
  for (double& seconds : time.rank_seconds) seconds *= factor;
}

// The rows still sum to the capacity: what one of them takes more, the free row has less.
void shift(memory::RankAnswer& rank, std::string_view name, std::int64_t more) {
  for (memory::Row& row : rank.table) {
    if (row.name == name) row.bytes += more;
    if (row.name == "free") row.bytes -= more;
  }
  rank.device_used += more;
  rank.low += more;
  rank.high += more;
  rank.headroom -= more;
  // What ran out although its sum was below the capacity ran out by fragmentation, which fewer bytes do not mend.
  const bool fragments = rank.out_of_memory && rank.headroom + more >= 0;
  rank.fits = rank.headroom >= 0 && !fragments;
}

std::int64_t share_of(std::int64_t bytes, double share) {
  return static_cast<std::int64_t>(std::llround(share * static_cast<double>(bytes)));
}

}  // namespace

const LearnedGroup* Learned::find(const job::Job& job) const {
  for (const LearnedGroup& group : groups)
    if (group.gpu == job.cluster.gpu.id && group.framework == job::name_of(job.framework)) return &group;
  return nullptr;
}

std::vector<std::string> Learned::words(const job::Job& job) const {
  if (empty()) return {};
  const LearnedGroup* group = find(job);
  if (group == nullptr)
    return {fmt::format("{}: nothing was learned of {} under {}: it does not act", path, job.cluster.gpu.id,
                        job::name_of(job.framework))};
  std::vector<std::string> words;
  if (group->time_factor)
    words.push_back(fmt::format("{}: the step is {:.3f} times the built-in prediction, learned from {} runs", path,
                                *group->time_factor, group->runs));
  if (group->context)
    words.push_back(fmt::format("{}: context and libraries take {} of a device, learned from {} runs", path,
                                format_bytes(*group->context), group->runs));
  if (group->tensors)
    words.push_back(fmt::format("{}: tensors take {:.4f} times what is predicted, learned from {} runs", path,
                                *group->tensors, group->runs));
  if (group->cached)
    words.push_back(
        fmt::format("{}: the allocator keeps {:.2f} times what is predicted beyond its tensors, learned from "
                    "{} runs",
                    path, *group->cached, group->runs));
  return words;
}

std::int64_t Learned::more_outside(const job::Job& job) const {
  const LearnedGroup* group = find(job);
  if (group == nullptr || !group->context) return 0;
  for (const memory::OutsideItem& item : memory::outside_torch(job))
    if (item.name == kContext) return *group->context - item.bytes;
  return *group->context;
}

double Learned::time_factor(const job::Job& job) const {
  const LearnedGroup* group = find(job);
  return group != nullptr ? group->time_factor.value_or(1) : 1;
}

double Learned::tensor_factor(const job::Job& job) const {
  const LearnedGroup* group = find(job);
  return group != nullptr ? group->tensors.value_or(1) : 1;
}

void Learned::apply(const job::Job& job, timing::StepTime& time) const {
  const double factor = time_factor(job);
  if (factor != 1 && time.seconds > 0) scale(time, factor);
}

void Learned::apply(const job::Job& job, memory::Answer& memory) const {
  const LearnedGroup* group = find(job);
  if (group == nullptr || (!group->context && !group->tensors && !group->cached)) return;
  const std::int64_t outside = more_outside(job);
  for (memory::RankAnswer& rank : memory.ranks) {
    const std::int64_t kept = rank.peak_reserved - rank.peak_allocated;
    const std::int64_t tensors = share_of(rank.peak_allocated, group->tensors.value_or(1) - 1);
    const std::int64_t cached = share_of(kept, group->cached.value_or(1) - 1);
    shift(rank, kContext, outside);
    shift(rank, "activations", tensors);
    shift(rank, "cached, unused", cached);
    rank.outside += outside;
    rank.peak_requested += tensors;
    rank.peak_allocated += tensors;
    rank.peak_reserved += tensors + cached;
    if (rank.pp_rank != memory.worst_of_all.pp_rank) continue;
    memory.worst_of_all.headroom = rank.headroom;
    memory.worst_of_all.fits = rank.fits;
  }
  memory.fits = memory.worst_of_all.fits && memory.host.fits;
}

bool is_learned(std::string_view text) { return text.find(kLearnedKind) != std::string_view::npos; }

Result<Learned> read_learned(const std::string& path, std::string_view text) {
  PLIMSOLL_TRY(root, document::parse_json(text));
  const Node* groups = root.find("groups");
  if (text_of(root, "kind") != kLearnedKind || groups == nullptr || !groups->is_array() || groups->items.empty())
    return bad_input("no list \"groups\" of what was learned", "plimsoll learn RUN... --out FILE writes one");
  Learned learned;
  learned.path = path;
  for (const Node& node : groups->items) {
    PLIMSOLL_TRY(group, read_group(node));
    learned.groups.push_back(std::move(group));
  }
  return learned;
}

}  // namespace plimsoll::lever
