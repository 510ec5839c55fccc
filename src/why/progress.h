// SPDX-License-Identifier: Apache-2.0
// Lines that say how far a run is: progress bars, step lines of the usual loggers, and the memory and
// shape figures in them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "why/phase.h"

namespace plimsoll::why {

struct Bar {
  std::string_view label;  // before the percentage: "Loading checkpoint shards"
  std::int64_t at = 0;
  std::int64_t of = 0;  // 0: unknown

  [[nodiscard]] bool is_unfinished() const { return of == 0 || at < of; }
};

// A bar drawn by tqdm anywhere in the text; the last one where several stand on a line.
[[nodiscard]] std::optional<Bar> parse_bar(std::string_view text);
// "Evaluation  [2060/5000]  eta: ...", "Test: [10/196] ...": a counter without a drawing, by the word before it.
[[nodiscard]] bool counts_evaluation(std::string_view text);
// What a bar counts: loading, evaluating, capturing, saving; kTrain for the rest.
[[nodiscard]] Phase phase_of_bar(const Bar& bar);

enum class Gauge : std::uint8_t { kAllocated, kReserved, kUsed, kPeak, kHost };

struct MemoryFigure {
  Gauge gauge = Gauge::kUsed;
  std::int64_t bytes = 0;
};

struct StepLine {
  std::optional<std::int64_t> step;   // dictionaries of the Transformers trainer have none
  std::optional<std::int64_t> epoch;  // steps of some loggers begin again with each
  std::vector<MemoryFigure> memory;
  std::uint64_t shape = 0;  // hash of the shape figures ("tokens=1717 longest=597"), 0: none
  bool is_start = false;    // "step 0" alone: a step begins, none is done
  bool has_loss = false;    // something was computed, whether or not the line counts it
};

// What a bar of a training loop shows beside its count: memory among its last figures, or in a column before it
// ("  17/300   11.2G   0.041 ...", whose first figure counts epochs).
// `with_figures`: look for memory among the last ones.
[[nodiscard]] StepLine step_of_bar(const Bar& bar, std::string_view text, bool with_figures = true);

// nullopt where the line reports no step and no memory.
[[nodiscard]] std::optional<StepLine> parse_step(std::string_view text);

// Memory figures of any line, such as "allocated 1.42 GiB reserved 1.96 GiB", "mem: 12.3GB", "max_mem: 4521M".
void read_memory_figures(std::string_view text, std::vector<MemoryFigure>& out);

struct DeviceUse {
  std::int64_t used = 0;
  std::int64_t total = 0;
};
struct DeviceProcess {
  std::int64_t gpu = 0;
  std::int64_t pid = 0;
  std::int64_t bytes = 0;
};
// "|    0   N/A  N/A     12345      C   python      20000MiB |" of nvidia-smi, without its first bar.
[[nodiscard]] std::optional<DeviceProcess> parse_device_process(std::string_view text);

// "5202MiB / 8111MiB" of nvidia-smi.
[[nodiscard]] std::optional<DeviceUse> parse_device_use(std::string_view text);

}  // namespace plimsoll::why
