// SPDX-License-Identifier: Apache-2.0
#include "why/fixes.h"

#include <algorithm>
#include <cmath>

#include "why/fix_choice.h"
#include "why/fix_conditions.h"
#include "why/fix_lines.h"
#include "why/rungs.h"

namespace plimsoll::why {

namespace {

std::optional<ByteRange> bytes_of(const Rung& rung, const Diagnosis& diagnosis) {
  const Arithmetic& sum = diagnosis.sum;
  std::int64_t whole = 0;
  switch (rung.saves) {
    case Saves::kNothing:
      return ByteRange{};
    case Saves::kActivations:
      // A tensor that is larger than the device shrinks with the batch as everything else does.
      whole = sum.allocated + (sum.capacity > 0 && sum.request > sum.capacity ? sum.request : 0);
      break;
    case Saves::kStates:
      whole = sum.allocated;
      break;
    case Saves::kRequest:
      whole = sum.request;
      break;
    case Saves::kCached:
      whole = sum.cached;
      break;
    case Saves::kOthers:
      whole = sum.others;
      break;
    case Saves::kLimit:
      whole = std::max<std::int64_t>(0, sum.total - sum.capacity);
      break;
  }
  if (whole <= 0) return std::nullopt;
  return ByteRange{std::llround(rung.low * static_cast<double>(whole)),
                   std::llround(rung.high * static_cast<double>(whole))};
}

std::optional<bool> suffices(const Rung& rung, const Diagnosis& diagnosis, const std::optional<ByteRange>& saves) {
  const Arithmetic& sum = diagnosis.sum;
  if (rung.id == "expandable-segments" && sum.known) return sum.defragmenting_could_serve;
  if (rung.id == "free-the-device" && sum.known) return sum.without_others_would_fit;
  if (rung.id == "raise-limit") return sum.request <= sum.device_free;
  if (rung.id == "shorter-context" || rung.id == "unset-expandable" || rung.id == "change-option" ||
      rung.id == "free-disk")
    return true;
  if (!sum.known || !saves || rung.saves == Saves::kNothing) return std::nullopt;
  // What failed is the first request that was too much, not the last: too little is known to promise more.
  if (saves->high < sum.shortfall) return false;
  return std::nullopt;
}

}  // namespace

std::vector<Fix> fixes_for(const Diagnosis& diagnosis, const Findings& findings) {
  std::vector<Fix> fixes;
  if (!diagnosis.failure) return fixes;
  const KnownSettings known(diagnosis, findings);
  std::vector<std::string_view> ids = rungs_of(diagnosis, known);
  // A limit below the device's memory is worth naming whatever filled it.
  if (diagnosis.sum.has_limit && diagnosis.sum.request <= diagnosis.sum.device_free && !ids.empty())
    ids.push_back("raise-limit");
  const bool no_moments = moments_do_not_exist(diagnosis, findings);
  for (const std::string_view id : ids) {
    if (!can_apply(id, diagnosis, findings)) continue;
    if (std::any_of(fixes.begin(), fixes.end(), [&](const Fix& fix) { return fix.id == id; })) continue;
    const std::string_view line = line_for(id, diagnosis.framework);
    if (line.empty()) continue;
    const Rung& one = rung(id);
    Fix fix;
    fix.id = std::string{one.id};
    fix.title = std::string{one.title};
    fix.change = with_figures(std::string{line}, id, diagnosis, findings);
    fill_in(fix.change, id, known);
    fix.saves = bytes_of(one, diagnosis);
    fix.slowdown = one.slowdown;
    fix.changes_science = one.changes_science;
    fix.sufficient = suffices(one, diagnosis, fix.saves);
    fix.risk = std::string{one.risk};
    fix.source = std::string{one.source};
    fix.verify = verification_of(one, diagnosis);
    if (no_moments && (id == "adam-8bit" || id == "offload-optimizer")) {
      fix.saves = ByteRange{};
      fix.sufficient = false;
      fix.risk = "wins nothing yet: the moments are made at the end of the first step, which was not reached";
    }
    fixes.push_back(std::move(fix));
  }
  return fixes;
}

std::vector<Myth> myths_for(const Diagnosis& diagnosis) {
  std::vector<Myth> myths;
  switch (diagnosis.cause) {
    case Cause::kActivationBound:
    case Cause::kGenuineCapacity:
    case Cause::kLongestBatch:
    case Cause::kOptimizerStateBound:
    case Cause::kFirstBackward:
    case Cause::kMemoryLeak:
      myths.push_back({"torch.cuda.empty_cache()",
                       "returns cached blocks to the driver; the allocator did that itself before it gave up, and live "
                       "tensors stay"});
      break;
    case Cause::kFragmentation:
      myths.push_back({"torch.cuda.empty_cache() every step",
                       "slows every step by about 10 % and leaves the pieces that are in use where they are"});
      break;
    case Cause::kHostRamKill:
      myths.push_back({"a smaller model or micro-batch", "the GPU was not full: what ran out is host memory"});
      break;
    case Cause::kConfigConflict:
    case Cause::kDiskFull:
      myths.push_back({"a smaller batch", "no memory was short"});
      break;
    default:
      break;
  }
  const Speaker* speaker = speaker_of(diagnosis.framework);
  const bool megatron = speaker != nullptr && speaker->is_megatron;
  const bool device = diagnosis.cause == Cause::kActivationBound || diagnosis.cause == Cause::kGenuineCapacity ||
                      diagnosis.cause == Cause::kFragmentation || diagnosis.cause == Cause::kFirstBackward;
  if (megatron && device) {
    myths.push_back({"more virtual pipeline stages",
                     "cut the bubble, not the peak: VPP 5 to 10 measured 58.8 to 60.2 GB (Megatron-Bridge)"});
    myths.push_back({"more tensor parallelism",
                     "saves memory at -28 % throughput on a 70B model (Megatron-Bridge): a last resort"});
  }
  return myths;
}

}  // namespace plimsoll::why
