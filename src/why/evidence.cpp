// SPDX-License-Identifier: Apache-2.0
#include "why/evidence.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

const std::string kNoFile;

}  // namespace

void EvidenceWriter::show(const Place& place, std::string_view text, std::string says) {
  if (diagnosis_.evidence.size() >= 12 || text.empty()) return;
  const std::string& file = findings_.files.empty() ? kNoFile : findings_.files[place.file].name;
  for (const Evidence& known : diagnosis_.evidence)
    if (known.line == place.line && known.file == file) return;
  diagnosis_.evidence.push_back({file, place.line, std::string{text}, std::move(says)});
}

void show_evidence(const Situation& at, Diagnosis& diagnosis) {
  const Findings& findings = at.findings;
  EvidenceWriter writer(findings, diagnosis);
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
  EvidenceWriter writer(at.findings, diagnosis);
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

}  // namespace plimsoll::why
