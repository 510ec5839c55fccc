// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/bytes.h"
#include "why/diagnosis.h"
#include "why/infer.h"
#include "why/situation.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

// How directly a kind of line names a cause; lower is more direct. Echoes come last.
int directness(const Event& event) {
  switch (event.signal.kind) {
    case SignalKind::kHostKill:
    case SignalKind::kInterop:
      return 0;
    case SignalKind::kDescriptors:
    case SignalKind::kManagedMemory:
    case SignalKind::kObjectStore:
      return 0;
    case SignalKind::kSharedMemory:
    case SignalKind::kHostAllocation:
    case SignalKind::kPinnedMemory:
    case SignalKind::kBlockLimit:
    case SignalKind::kDiskFull:
      return 1;
    case SignalKind::kDeviceOom:
    case SignalKind::kEngineOom:
    case SignalKind::kNcclMemory:
    case SignalKind::kNoCacheBlocks:
    case SignalKind::kCacheTooShort:
    case SignalKind::kNotFreeAtStart:
    case SignalKind::kSkippedBatch:
      return event.signal.is_warning ? 4 : 2;
    case SignalKind::kAddressing:
    case SignalKind::kKernelResources:
    case SignalKind::kDiskWrite:
    case SignalKind::kConvWorkspace:
    case SignalKind::kMaskedOom:
    case SignalKind::kUnclearMemory:
      return 3;
    case SignalKind::kLibraryAlloc:
    case SignalKind::kCaptureInvalid:
    case SignalKind::kConfig:
    case SignalKind::kTimeLimit:
      return 4;
    case SignalKind::kKilled:
    case SignalKind::kNcclRegister:
    case SignalKind::kInvalidArgument:
      return 5;
    case SignalKind::kException:
      return event.has_frames ? 6 : 7;
    case SignalKind::kUnclear:
      // That something was raised, and neither what nor where: every other line says more.
      if (event.signal.message.empty() && !event.has_frames) return 10;
      return event.has_frames ? 7 : 8;
    case SignalKind::kLibraryOther:
      return 6;
    case SignalKind::kAbort:
      return 8;
    case SignalKind::kCollectiveTimeout:
      return 9;
    case SignalKind::kInterrupted:
    case SignalKind::kPeerLost:
      return 10;
    case SignalKind::kExit:
      return 11;
  }
  return 11;
}

std::int64_t steps_of_attempt(const Findings& findings, std::size_t attempt) {
  return attempt < findings.attempt_ends.size() ? findings.attempt_ends[attempt] : findings.steps;
}

// A loop that logs an exception and goes on has not failed by it. What other processes or the system say stays.
bool went_on(const Findings& findings, const Event& event) {
  switch (event.signal.kind) {
    case SignalKind::kSkippedBatch:
    case SignalKind::kHostKill:
    case SignalKind::kKilled:
    case SignalKind::kTimeLimit:
    case SignalKind::kPeerLost:
      return false;
    default:
      return steps_of_attempt(findings, event.attempt) - event.steps_before >= 3;
  }
}

const Event* choose_root(const Findings& findings) {
  const Event* best = nullptr;
  const auto score = [&](const Event& event) {
    int value = 10 * directness(event);
    // The launcher knows which rank died first; others may have died of it.
    if (findings.root_rank && event.rank && *event.rank != *findings.root_rank) value += 5;
    // It died of an exception: the kills are the launcher's.
    if (findings.root_exit && *findings.root_exit > 0 && *findings.root_exit < 128 &&
        event.signal.kind == SignalKind::kKilled)
      value += 25;
    if (findings.root_exit && (*findings.root_exit == -9 || *findings.root_exit == 137) &&
        event.signal.kind == SignalKind::kKilled)
      value -= 12;
    // Of two lines about the same thing, the one with figures and frames.
    if (event.signal.kind == SignalKind::kDeviceOom) value -= event.signal.oom.has_sizes() ? 1 : 0;
    // An engine that names the pool says more than that memory was short.
    if (event.signal.kind == SignalKind::kNoCacheBlocks) value -= 2;
    if (event.has_frames) value -= 2;
    return value;
  };
  const bool skips = std::any_of(findings.events.begin(), findings.events.end(),
                                 [](const Event& event) { return event.signal.kind == SignalKind::kSkippedBatch; });
  for (const Event& event : findings.events) {
    if (went_on(findings, event)) continue;
    // The message of a batch that was then skipped.
    if (skips && event.signal.kind == SignalKind::kDeviceOom && !event.has_frames) continue;
    // Of equals the first: by the clock where both have one, since the files of ranks are read one after the other.
    if (best == nullptr || score(event) < score(*best) ||
        (score(event) == score(*best) && event.clock.is_before(best->clock)))
      best = &event;
  }
  return best;
}

// An error in words that no reader knows is a failure where the log ends with it.
const Event* last_words(const Findings& findings) {
  constexpr std::int64_t kEnd = 12;  // lines
  if (!findings.last_error || findings.finished || went_on(findings, *findings.last_error)) return nullptr;
  const Event& error = *findings.last_error;
  return error.place.line + kEnd > findings.files[error.place.file].lines ? &error : nullptr;
}

class Writer {
 public:
  Writer(const Findings& findings, Diagnosis& diagnosis) : findings_(findings), diagnosis_(diagnosis) {}

  void show(const Place& place, std::string_view text, std::string says) {
    if (diagnosis_.evidence.size() >= 12 || text.empty()) return;
    const std::string& file = findings_.files.empty() ? kNoFile : findings_.files[place.file].name;
    for (const Evidence& known : diagnosis_.evidence)
      if (known.line == place.line && known.file == file) return;
    diagnosis_.evidence.push_back({file, place.line, std::string{text}, std::move(says)});
  }
  void note(std::string text) { diagnosis_.notes.push_back(std::move(text)); }

 private:
  inline static const std::string kNoFile;
  const Findings& findings_;
  Diagnosis& diagnosis_;
};

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

void show_evidence(const Situation& at, Diagnosis& diagnosis) {
  const Findings& findings = at.findings;
  Writer writer(findings, diagnosis);
  const Event& root = at.root;
  writer.show(root.place, root.text,
              root.has_frames && !root.frames.decisive.empty() ? "in " + root.frames.decisive : "");
  const Cause cause = diagnosis.cause;
  if (cause == Cause::kHostRamKill || cause == Cause::kModelLoadSpike)
    for (const Event& event : findings.events)
      if (&event != &root && (event.signal.kind == SignalKind::kHostKill || event.signal.kind == SignalKind::kKilled ||
                              event.signal.kind == SignalKind::kSharedMemory))
        writer.show(event.place, event.text, "says the same");
  if (at.growth.rising) {
    writer.show(at.growth.first_place, at.growth.first_text, "the first reading");
    writer.show(at.growth.last_place, at.growth.last_text, "the last reading");
  } else if (at.growth.flat && cause == Cause::kLongestBatch) {
    writer.show(at.growth.last_place, at.growth.last_text, "memory had not moved until then");
  }
  if (root.marker != Phase::kUnknown && root.marker != Phase::kTrain)
    writer.show(root.marker_place, root.marker_text, "what the run was doing");
  if (cause == Cause::kRocmHip && findings.driver_vram)
    writer.show(findings.driver_place, findings.driver_text, "the driver's word");
  if (findings.root_rank)
    writer.show(findings.root_place, fmt::format("rank {} failed first", *findings.root_rank), "torchelastic");
  for (const auto& [name, setting] : findings.settings)
    if (cause == Cause::kExpandableInterop || cause == Cause::kFragmentation)
      writer.show(setting.place, setting.text, "the allocator's setting");
  if (cause == Cause::kCudaGraphMemory && findings.graphs_place)
    writer.show(*findings.graphs_place, findings.graphs_text, "graphs are in use");
  if (cause == Cause::kCudaGraphMemory && findings.alloc_retries > 0)
    writer.show(findings.retries_place, findings.retries_text, "the allocator had to retry");
  if (cause == Cause::kLongestBatch && findings.shapes >= 2)
    writer.show(findings.shape_place, findings.shape_text, "shapes vary");
  if (cause == Cause::kOtherProcess && findings.smi_processes.size() > 1)
    writer.show(findings.smi_place, findings.smi_text, "nvidia-smi's list of processes");
  if (!findings.smi.empty()) {
    const auto fullest =
        std::max_element(findings.smi.begin(), findings.smi.end(),
                         [](const SmiReading& a, const SmiReading& b) { return a.use.used < b.use.used; });
    writer.show(fullest->place, fullest->text, "nvidia-smi");
  }
  if (findings.upgrade_place) writer.show(*findings.upgrade_place, findings.upgrade_text, "another version fitted");
}

// Ranks of one job usually peak alike; one that alone runs out has other layers, other data or bad luck with pieces.
void compare_ranks(const Situation& at, Diagnosis& diagnosis) {
  if (at.root.signal.kind != SignalKind::kDeviceOom || !at.root.rank || diagnosis.same.size() > 1 ||
      at.sum.capacity == 0)
    return;
  std::int64_t most = 0;
  int ranks = 0;
  for (const StepSeries& series : at.findings.series) {
    if (!series.rank || *series.rank == *at.root.rank) continue;
    ++ranks;
    for (const StepPoint& point : series.points)
      most = std::max({most, point.reserved, point.peak, point.used, point.allocated});
  }
  if (ranks == 0 || most == 0 || most * 10 > at.sum.capacity * 9) return;
  diagnosis.notes.push_back(fmt::format("rank {} alone ran out: the other ranks never held more than {} of {}",
                                        *at.root.rank, format_bytes(most), format_bytes(at.sum.capacity)));
}

// Who held the host's memory when the kernel looked for one to kill.
void note_tasks(const Findings& findings, Diagnosis& diagnosis) {
  constexpr std::size_t kMostShown = 3;
  std::vector<std::pair<std::string, HostTask>> tasks(findings.host_tasks.begin(), findings.host_tasks.end());
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostShown, tasks.size()); ++i)
    text += fmt::format("{}{} in {} {}", i == 0 ? "" : ", ", format_bytes(tasks[i].second.bytes), tasks[i].second.count,
                        tasks[i].first);
  if (!text.empty()) diagnosis.notes.push_back(fmt::format("the kernel's list of what was resident: {}", text));
}

void check_settings(const Situation& at, Diagnosis& diagnosis) {
  Writer writer(at.findings, diagnosis);
  const Findings& findings = at.findings;
  const bool on = findings.has_expandable_segments();
  const bool oom = at.root.signal.kind == SignalKind::kDeviceOom;
  const bool user_buffers = has_any(findings.option("use_nccl_ub") + findings.option("nccl_ub"), {"true"});
  const std::string& version = findings.torch_version;
  const bool too_old = version.starts_with("0.") || version.starts_with("1.") || version.starts_with("2.0");
  if (oom && on) {
    writer.note("expandable_segments:True is already set: the hint in the message was taken and does not help here");
  } else if (oom && at.sum.known && at.sum.reserved > 0 && !at.sum.defragmenting_could_serve) {
    writer.note(
        "the message's hint (expandable_segments) cannot help: even all cached memory in one piece is too little");
  } else if (oom && diagnosis.cause == Cause::kFragmentation) {
    if (findings.is_windows)
      writer.note("expandable segments would be ignored: they do not exist on Windows");
    else if (too_old)
      writer.note(fmt::format("expandable segments do not exist in torch {}: they came with 2.1", version));
    else if (user_buffers)
      writer.note("expandable segments would break this job: it registers NCCL user buffers");
  }
  if (diagnosis.growth.flat && diagnosis.cause != Cause::kMemoryLeak && oom)
    writer.note("no leak: allocated memory does not rise over the steps");
  if (diagnosis.followers > 0 && diagnosis.cause != Cause::kNotMemory)
    writer.note(diagnosis.followers == 1
                    ? "one line about a lost peer, socket or watchdog is an echo of this failure"
                    : fmt::format("{} lines about lost peers, sockets and watchdogs are echoes of this failure",
                                  diagnosis.followers));
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

// Who asks has seen something go wrong. That no line says so is an answer where the run says that it ended well; a log
// that ends between two steps may be one of a process that was killed without a word, and of one that shows no step
// nothing is known. Of 23 public reports without a line that was recognised, 8 were failures in words not met before.
constexpr double kNothingSeen = 0.6;
double silence_is_worth(const Findings& findings) {
  constexpr double kEndedWell = 0.9;
  constexpr double kWasAtWork = 0.75;
  if (findings.finished) return kEndedWell;
  return findings.steps > 1 ? kWasAtWork : kNothingSeen;
}

Diagnosis no_failure(const Findings& findings, Diagnosis diagnosis) {
  Writer writer(findings, diagnosis);
  if (findings.alloc_retries > 0 && findings.graphs_place) {
    diagnosis.resource = Resource::kDevice;
    diagnosis.cause = Cause::kCudaGraphMemory;
    diagnosis.confidence = 0.6;
    diagnosis.candidates = {{Cause::kCudaGraphMemory, 3, 0.6, "the allocator had to retry with graphs on", {}},
                            {Cause::kFragmentation, 1, 0.2, "retries free cached memory",
                             "graphs hold private pools that nothing else may use"}};
    diagnosis.phase = Phase::kGraphCapture;
    writer.show(findings.retries_place, findings.retries_text, "the allocator had to free its cache and try again");
    writer.show(*findings.graphs_place, findings.graphs_text, "graphs are in use");
    diagnosis.what = "CUDA graphs hold private pools, and the allocator had to retry";
    return diagnosis;
  }
  const bool doubtful = findings.last_error && !findings.finished;
  const double sure = doubtful ? kNothingSeen : silence_is_worth(findings);
  diagnosis.failure = false;
  diagnosis.resource = Resource::kNone;
  diagnosis.cause = Cause::kNotMemory;
  diagnosis.confidence = sure;
  diagnosis.candidates = {{Cause::kNotMemory, 1, sure, "no line says that anything failed", {}}};
  diagnosis.what = "no failure found in what was given";
  if (!findings.finished && !doubtful)
    writer.note(
        "the log does not say that the run ended: if it did, its exit code and the kernel's log (dmesg) say how");
  if (doubtful)
    writer.note(fmt::format("line {} reports an error, and the log goes on: {}", findings.last_error->place.line,
                            cut_text(findings.last_error->text, 100)));
  if (findings.alloc_retries > 0)
    writer.note(
        fmt::format("the allocator retried {} times: the run works close to its limit", findings.alloc_retries));
  for (const Event& event : findings.events)
    if (went_on(findings, event)) {
      writer.note(fmt::format("line {}: {} (the run went on)", event.place.line, cut_text(event.text, 100)));
      break;
    }
  return diagnosis;
}

}  // namespace

namespace {

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
