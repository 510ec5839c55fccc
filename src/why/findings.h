// SPDX-License-Identifier: Apache-2.0
// Everything that was read from the logs of one run, typed and with its place: what a diagnosis is made
// from. Bounded: a log of any size leaves at most a few thousand entries here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "why/phase.h"
#include "why/progress.h"
#include "why/signal.h"
#include "why/speaker.h"

namespace plimsoll::why {

struct Place {
  std::uint32_t file = 0;
  std::int64_t line = 0;
};

struct Event {
  Signal signal;
  Place place;
  std::string text;         // as printed, without prefix, at most kMostText bytes
  std::optional<int> rank;  // who printed it
  std::int64_t order = 0;
  Clock clock;             // its own, or that of the last line of the same writer
  std::int64_t count = 1;  // the same line again and again
  std::uint64_t stream = 0;
  bool has_frames = false;
  FramesPhase frames;
  Phase node = Phase::kUnknown;    // where in the step the node of a graph lies that failed
  Phase marker = Phase::kUnknown;  // what the last marker or bar before it announced
  Place marker_place;
  std::string marker_text;
  bool makes_context = false;   // a frame below it is of the call that makes a device's context
  bool entered_loop = false;    // a bar at zero or "step 0" said that training begins
  bool bar_unfinished = false;  // the marker is a bar that had not reached its end
  std::int64_t steps_before = 0;
  std::optional<std::int64_t> step;  // last one before it
  std::size_t attempt = 0;           // of the run: a restart counts its steps from an earlier one
};
inline constexpr std::size_t kMostText = 1600;

struct StepPoint {
  std::int64_t step = 0;
  std::int64_t order = 0;
  std::int64_t allocated = 0;  // 0: not printed
  std::int64_t reserved = 0;
  std::int64_t used = 0;
  std::int64_t peak = 0;
  std::int64_t host = 0;
  Place place;
};

// The step lines of one rank, thinned out evenly when there are many.
struct StepSeries {
  std::optional<int> rank;
  std::vector<StepPoint> points;
  std::int64_t stride = 1;
  std::int64_t seen = 0;
  std::string first_text;  // of the second point: the first step allocates what lasts
  std::string last_text;
};

struct SmiReading {
  DeviceUse use;
  std::int64_t order = 0;
  Place place;
  std::string text;
};

struct Setting {
  std::string value;
  Place place;
  std::string text;
};

// Processes of one name in the kernel's list at a kill.
struct HostTask {
  int count = 0;
  std::int64_t bytes = 0;  // resident
};

struct LogFile {
  std::string name;
  std::optional<int> rank;
  std::int64_t bytes = 0;
  std::int64_t lines = 0;
  std::string damage = {};  // why it could not be read to its end
  bool is_sampled = false;  // lines were passed over: what is counted in it is at least so much
};

struct Findings {
  std::vector<LogFile> files;
  std::vector<Event> events;                    // in the order of the log
  std::map<SignalKind, std::set<int>> failing;  // ranks by what they printed, those of events that were not kept too
  std::vector<StepSeries> series;
  std::map<int, std::int64_t> last_steps;  // of each rank that prints its own
  std::int64_t steps = 0;                  // distinct step lines
  std::int64_t last_step = -1;
  std::vector<std::int64_t> attempt_ends;  // `steps` at the end of each attempt but the last
  std::int64_t last_step_order = 0;
  std::int64_t shapes = 0;  // distinct shape figures on step lines, at most 16
  Place shape_place;
  std::string shape_text;
  std::vector<SmiReading> smi;
  std::vector<DeviceProcess> smi_processes;  // as nvidia-smi lists them, largest use per pid
  Place smi_place;
  std::string smi_text;
  std::map<std::string, Setting> settings;    // environment that the log shows: PYTORCH_CUDA_ALLOC_CONF, NCCL_*
  std::map<std::string, std::string> config;  // options that the log dumps
  std::map<std::string, std::string> flags;   // of the command that the log shows
  std::optional<std::int64_t> world;          // ranks
  std::optional<int> root_rank;               // torchelastic's "first observed failure"
  std::optional<std::int64_t> root_exit;
  Place root_place;
  std::optional<std::int64_t> driver_vram;  // the kernel driver's word on the card, bytes
  Place driver_place;
  std::string driver_text;
  std::int64_t alloc_retries = 0;  // of memory_summary()
  Place retries_place;
  std::string retries_text;
  std::optional<Place> graphs_place;  // CUDA graphs are in use or being captured
  std::string graphs_text;
  std::optional<Event> last_error;     // the last line that reports an error which no reader knows
  std::optional<Place> upgrade_place;  // the log speaks of a version that worked
  std::string upgrade_text;
  bool finished = false;                        // training said that it ended well
  bool denies_oom = false;                      // a container's record has another reason for its end
  bool is_windows = false;                      // its paths have drive letters
  bool engine_in_trainer = false;               // a rollout engine shares the devices
  std::optional<Place> cap_place;               // a line sets a limit for this process: a fraction, a slice
  std::int64_t engine_left = 0;                 // bytes that a sleeping engine kept, as it last said
  bool is_unified = false;                      // the device's memory is a share of the system's
  double padding_ratio = 0;                     // XLA: the largest expansion by padding that its list shows
  std::map<std::string, std::int64_t> figures;  // kv_needed, kv_available, host_limit, program, ...
  std::map<std::string, double> ratios;         // gpu_memory_utilization
  std::map<std::string, HostTask> host_tasks;   // of the last list that the kernel printed
  std::string torch_version;
  std::map<Framework, int> frameworks;  // mentions
  int most_rank = -1;

  // One sentence per file that could not be read to its end.
  [[nodiscard]] std::vector<std::string> damages() const;
  [[nodiscard]] Framework framework() const;
  [[nodiscard]] bool is_multi_rank() const { return (world && *world > 1) || most_rank > 0; }
  // The allocator setting of PyTorch that the log shows, "" when none.
  [[nodiscard]] std::string allocator_settings() const;
  [[nodiscard]] bool has_expandable_segments() const;
  // An option that the log dumps, "" when it does not.
  [[nodiscard]] std::string option(const std::string& name) const;
};

}  // namespace plimsoll::why
