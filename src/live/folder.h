// SPDX-License-Identifier: Apache-2.0
// The folder of a run and the names in it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace plimsoll::live {

inline constexpr const char* kRunFile = "run.json";
inline constexpr const char* kLogFile = "output.log";
inline constexpr const char* kStepsFile = "steps.log";
inline constexpr const char* kEvidenceFile = "evidence.log";
inline constexpr const char* kSamplesFile = "samples.jsonl";
inline constexpr const char* kJobFile = "job.toml";
inline constexpr const char* kHookFolder = "hook";

struct RunFolder {
  std::string path;          // absolute
  bool is_numbered = false;  // a run was in the one that was asked for: the same job again, after it was requeued
};
// Makes it, with its parents; "" picks plimsoll-run-DATE-TIME in the current folder. A folder that holds a run already
// is left alone: NAME-2, NAME-3 and so on are tried.
[[nodiscard]] Result<RunFolder> make_run_folder(const std::string& asked);

// Whether run.json lies in it, or a rank's file of a run that has not ended.
[[nodiscard]] bool is_run_folder(const std::string& path);

// kAuto: events, unless allocations come so often that the hook would be felt.
enum class History { kOff, kAuto, kEvents, kStacks };
struct HookOptions {
  History history = History::kAuto;
  std::int64_t entries = 100'000;  // of the ring
};
// Writes the hook into the folder; answers the variables that let it into every Python of the command.
[[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> install_hook(const std::string& folder,
                                                                                    const HookOptions& options);

// What a folder offers to the other verbs, as paths; "" where it is missing.
struct RunFiles {
  std::string record;
  std::vector<std::string> logs;  // of the command, then what the kernel said
  std::string job;
  std::vector<std::string> snapshots;  // those of ranks that ran out, then of their peers, by rank
};
[[nodiscard]] RunFiles files_of(const std::string& folder);

// The run.json of every run in a folder of them, at any depth, in the order of their names. None is an error.
[[nodiscard]] Result<std::vector<std::string>> records_in(const std::string& folder);

}  // namespace plimsoll::live
