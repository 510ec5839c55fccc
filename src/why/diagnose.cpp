// SPDX-License-Identifier: Apache-2.0
#include "why/diagnosis.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "why/evidence.h"
#include "why/infer.h"
#include "why/root_event.h"
#include "why/silence.h"
#include "why/situation.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

void find_ranks(const Findings& findings, const Event& root, Diagnosis& diagnosis) {
  diagnosis.rank = root.rank;
  if (!diagnosis.rank) diagnosis.rank = findings.root_rank;
  if (!diagnosis.rank && root.signal.oom.gpu && findings.is_multi_rank() && *root.signal.oom.gpu < 4096)
    diagnosis.rank = static_cast<int>(*root.signal.oom.gpu);
  if (const auto found = findings.failing.find(root.signal.kind); found != findings.failing.end())
    diagnosis.same.assign(found->second.begin(), found->second.end());
  for (const Event& event : findings.events) {
    if (event.signal.kind == SignalKind::kPeerLost || event.signal.kind == SignalKind::kCollectiveTimeout)
      diagnosis.followers += event.count;
  }
}

std::string against(const Candidate& other, const Situation& at) {
  const Arithmetic& sum = at.sum;
  switch (other.cause) {
    case Cause::kFragmentation:
      return "the phase explains it better than the cache does";
    case Cause::kOtherProcess:
      return sum.known && sum.others > 0 && !sum.without_others_would_fit
                 ? "the request would not fit an empty device either"
                 : "nothing shows another holder";
    case Cause::kModelLoadSpike:
      return "the line that names the cause is about the whole host or device, not about loading alone";
    case Cause::kLongestBatch:
      return "no sign that this batch was unusual";
    case Cause::kGenuineCapacity:
      return "a more precise cause explains it";
    case Cause::kActivationBound:
      return "the phase or the figures point elsewhere first";
    case Cause::kNotMemory:
      return "the message names memory";
    default:
      return "weaker evidence";
  }
}

// A cause that belongs to one resource only says which it was.
void settle_resource(Diagnosis& diagnosis) {
  switch (diagnosis.cause) {
    case Cause::kNotMemory:
    case Cause::kConfigConflict:
    case Cause::kExpandableInterop:
      diagnosis.resource = Resource::kNone;
      break;
    case Cause::kPinnedHost:
      diagnosis.resource = Resource::kPinned;
      break;
    case Cause::kAllocatorCap:
      diagnosis.resource = Resource::kCap;
      break;
    case Cause::kKvCacheTooSmall:
      diagnosis.resource = Resource::kBudget;
      break;
    default:
      break;
  }
}

bool fails_at_other_steps(const Findings& findings, const Event& root) {
  return std::any_of(findings.events.begin(), findings.events.end(), [&](const Event& event) {
    return event.signal.kind == SignalKind::kDeviceOom && event.step && root.step && event.attempt != root.attempt &&
           std::abs(*event.step - *root.step) > 1;
  });
}

// What is missing may hold the cause: an answer that rests on silence is worth less.
void mark_damage(const Findings& findings, Diagnosis& diagnosis) {
  const std::vector<std::string> damages = findings.damages();
  if (damages.empty()) return;
  diagnosis.incomplete = true;
  constexpr std::size_t kMostShown = 3;
  for (std::size_t i = std::min(damages.size(), kMostShown); i-- > 0;)
    diagnosis.notes.insert(diagnosis.notes.begin(), damages[i]);
  const bool silent = !diagnosis.failure || diagnosis.cause == Cause::kNotMemory || diagnosis.cause == Cause::kUnknown;
  constexpr double kSilenceIsWorth = 0.5;
  if (silent) diagnosis.confidence *= kSilenceIsWorth;
  if (!diagnosis.failure) diagnosis.what = "no failure found in what could be read";
  if (silent && !diagnosis.candidates.empty()) diagnosis.candidates.front().probability = diagnosis.confidence;
}

Diagnosis diagnose_whole(const Findings& findings) {
  Diagnosis diagnosis;
  diagnosis.framework = findings.framework();
  diagnosis.growth = growth_of(findings);
  if (findings.last_step >= 0) diagnosis.step = findings.last_step;
  const Event* root = choose_root(findings);
  if (root == nullptr) root = last_words(findings);
  if (root == nullptr) return no_failure(findings, std::move(diagnosis));
  diagnosis.root = root;
  diagnosis.numbers = root->signal.oom;

  const Situation at = situation_of(findings, *root, diagnosis.growth);
  if (!at.restarts_at_same_step && !findings.attempt_ends.empty() && fails_at_other_steps(findings, *root))
    diagnosis.notes.emplace_back("restarts fail at different steps: not one particular batch");
  diagnosis.numbers = at.figures;
  diagnosis.sum = at.sum;
  diagnosis.phase = at.phase;
  diagnosis.step = root->step;
  diagnosis.resource = at.resource;
  diagnosis.candidates = infer(at);
  diagnosis.cause = diagnosis.candidates.front().cause;
  diagnosis.confidence = diagnosis.candidates.front().probability;
  settle_resource(diagnosis);
  find_ranks(findings, *root, diagnosis);
  for (const Event& event : findings.events)
    if (event.signal.kind == SignalKind::kHostKill || event.signal.kind == SignalKind::kHostAllocation)
      diagnosis.host_bytes = std::max(diagnosis.host_bytes, event.signal.bytes);
  if (const auto limit = findings.figures.find("host_limit");
      limit != findings.figures.end() && diagnosis.resource == Resource::kHost)
    diagnosis.notes.push_back(
        fmt::format("the limit of the cgroup was {}; that of the machine may be higher", format_bytes(limit->second)));
  if (diagnosis.resource == Resource::kHost) note_tasks(findings, diagnosis);
  if (diagnosis.sum.total > 0 && diagnosis.sum.reserved > diagnosis.sum.total)
    diagnosis.tags.emplace_back("wddm-overcommit");
  if (root->signal.is_shm) diagnosis.tags.emplace_back("shm");
  if (findings.upgrade_place) diagnosis.tags.emplace_back("upgrade-regression");
  for (std::size_t i = 1; i < diagnosis.candidates.size(); ++i)
    diagnosis.candidates[i].against = against(diagnosis.candidates[i], at);
  diagnosis.what = std::string{cause_says(diagnosis.cause)};
  if (diagnosis.cause == Cause::kConfigConflict) diagnosis.phase = Phase::kConfig;
  const bool between_ranks = root->signal.kind == SignalKind::kNcclMemory ||
                             root->signal.kind == SignalKind::kNcclRegister ||
                             root->signal.kind == SignalKind::kCollectiveTimeout;
  if (between_ranks && (diagnosis.phase == Phase::kUnknown || diagnosis.phase == Phase::kTrain))
    diagnosis.phase = Phase::kCollective;
  if (diagnosis.phase == Phase::kUnknown && has_text(root->text, "compile")) diagnosis.phase = Phase::kCompile;
  if (diagnosis.phase == Phase::kUnknown && root->steps_before == 0 && root->has_frames)
    diagnosis.phase = Phase::kStartup;
  show_evidence(at, diagnosis);
  compare_ranks(at, diagnosis);
  check_settings(at, diagnosis);
  return diagnosis;
}

}  // namespace

Diagnosis diagnose(const Findings& findings) {
  Diagnosis diagnosis = diagnose_whole(findings);
  mark_damage(findings, diagnosis);
  return diagnosis;
}

}  // namespace plimsoll::why
