// SPDX-License-Identifier: Apache-2.0
// What a log says about memory beside its failure: devices as they were found, nvidia-smi's tables, memory_summary(),
// XLA's account of a program, the kernel's word on a limit.
#include <algorithm>

#include "why/collector.h"
#include "why/words.h"

namespace plimsoll::why {

// Limits and kinds of the device that the log mentions in passing.
void Collector::read_device(const Line& line) {
  const std::string_view text = line.text;
  if (!findings_.cap_place && (has_any(text, {"memory_fraction", "per_process_gpu_memory_fraction", "mem_fraction="}) ||
                               (has_whole(text, "mig") && has_any(text, {"slice", "1g.", "2g.", "3g.", "4g.", "7g."}))))
    findings_.cap_place = Place{line.file, line.number};
  if (has_text(text, "sleep mode"))
    if (const auto left = size_before(text, "memory is still in use")) {
      findings_.engine_left = *left;
      findings_.engine_in_trainer = true;
    }
  if (has_whole(text, "uma") || has_whole(text, "apu") || has_whole(text, "gtt") ||
      has_any(text, {"unified memory", "integrated graphics"}))
    findings_.is_unified = true;
  if (denies_oom(text)) findings_.denies_oom = true;
  // XLA's sum of a program: "HLO temp 10.96G (1.2% utilization: Unpadded (140.25M) Padded (10.96G), ...)".
  if (has_text(text, "unpadded (")) {
    const auto plain = size_after(text, "unpadded (");
    const auto padded = size_after(text, " padded (");
    if (plain && padded && *plain > 0)
      findings_.padding_ratio =
          std::max(findings_.padding_ratio, static_cast<double>(*padded) / static_cast<double>(*plain));
  }
  if (has_text(text, "due to padding")) {
    const std::size_t open = text.find('(');
    if (open != kNone && has_text(text.substr(open), "expansion"))
      if (const auto ratio = leading_number(text.substr(open + 1)); ratio && *ratio < 1e6)
        findings_.padding_ratio = std::max(findings_.padding_ratio, *ratio);
  }
}

// What a runtime found on the device when it started: "Total memory: 7.92GiB", "Free memory: 190.31MiB".
void Collector::read_start(std::string_view text) {
  const auto keep = [&](const char* name, std::string_view key) {
    if (const auto bytes = size_after(text, key)) findings_.figures[name] = *bytes;
  };
  keep("total_at_start", "total memory:");
  keep("total_at_start", "totalmemory:");
  keep("free_at_start", "free memory:");
  keep("free_at_start", "freememory:");
}

// "amdgpu: 98304M of VRAM memory ready".
void Collector::read_driver(const Line& line) {
  const std::string_view text = line.text;
  if (has_text(text, "of vram") && has_text(text, "ready")) findings_.driver_vram = size_before(text, "of vram");
  if (!findings_.driver_vram && has_text(text, "vram:")) findings_.driver_vram = size_after(text, "vram:");
  if (!findings_.driver_vram) return;
  findings_.driver_place = {line.file, line.number};
  findings_.driver_text = std::string{cut_text(text, 200)};
}

// Rows of memory_summary(): current use, then the peak.
void Collector::read_summary_row(std::string_view text) {
  const std::size_t bar = text.find('|');
  if (bar >= 40 || text.size() >= 200) return;
  const std::string_view row = trim(text.substr(0, bar));
  const char* name = row == "Allocated memory"      ? "summary_allocated"
                     : row == "GPU reserved memory" ? "summary_reserved"
                                                    : nullptr;
  if (name == nullptr) return;
  if (const auto bytes = leading_size(text.substr(bar + 1))) findings_.figures[name] = *bytes;
}

// XLA's account of the program that could not be run: what lives between its operations, all of it, and what it is
// given (weights, states, the batch).
void Collector::read_program(std::string_view text) {
  struct Key {
    std::string_view text;
    const char* figure;
  };
  static constexpr Key kKeys[] = {{"hlo temp ", "temporaries"},
                                  {"program hbm requirement", "program"},
                                  {"preallocated temp allocation:", "temporaries"},
                                  {"total allocation:", "program"},
                                  {"arguments  ", "arguments"}};
  for (const Key& key : kKeys)
    if (find_word(text, key.text) == 0)
      if (const auto bytes = size_after(text, trim(key.text))) findings_.figures[key.figure] = *bytes;
}

// How often the allocator freed its cache and asked again.
void Collector::read_retries(const Line& line) {
  std::int64_t retries = 0;
  for (const std::string_view key : {std::string_view{"cudamalloc retries"}, std::string_view{"alloc_retries"}})
    if (const auto value = integer_after(line.text, key)) retries = std::max(retries, *value);
  if (retries <= findings_.alloc_retries) return;
  findings_.alloc_retries = retries;
  findings_.retries_place = {line.file, line.number};
  findings_.retries_text = std::string{cut_text(line.text, 200)};
}

// nvidia-smi's tables: devices and their use, processes and what each holds.
void Collector::read_smi(const Line& line) {
  constexpr std::size_t kMost = 256;
  std::vector<DeviceProcess>& known = findings_.smi_processes;
  if (known.size() < kMost)
    if (const auto process = parse_device_process(line.text)) {
      const auto same = std::find_if(known.begin(), known.end(), [&](const DeviceProcess& one) {
        return one.pid == process->pid && one.gpu == process->gpu;
      });
      if (same != known.end()) {
        same->bytes = std::max(same->bytes, process->bytes);
      } else {
        known.push_back(*process);
        findings_.smi_place = {line.file, line.number};
        findings_.smi_text = std::string{cut_text(line.text, 200)};
      }
    }
  if (findings_.smi.size() < kMost)
    if (const auto use = parse_device_use(line.text))
      findings_.smi.push_back({*use, line.order, {line.file, line.number}, std::string{cut_text(line.text, 200)}});
}

void Collector::read_memory_facts(const Line& line, Topics topics) {
  const std::string_view text = line.text;
  if (text.size() < 400) read_device(line);
  if (findings_.events.empty() && findings_.steps == 0 && text.size() < 200) read_start(text);
  if (has(topics, Topic::kDriver) && !findings_.driver_vram) read_driver(line);
  read_summary_row(text);
  // The kernel's word on the cgroup: "memory: usage 67108864kB, limit 67108864kB, failcnt 88".
  if (has(topics, Topic::kSummary) && has_text(text, "failcnt") && find_word(text, "memory:") == 0)
    if (const auto limit = size_after(text, "limit")) findings_.figures["host_limit"] = *limit;
  read_program(text);
  if (has(topics, Topic::kSummary)) read_retries(line);
  read_smi(line);
}

}  // namespace plimsoll::why
