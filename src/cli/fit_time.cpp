// SPDX-License-Identifier: Apache-2.0
#include "cli/fit_time.h"

#include <fmt/format.h>

#include "answer/describe.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

double percent_of_step(double seconds, const timing::StepTime& time) {
  return time.seconds > 0 ? 100 * seconds / time.seconds : 0;
}

}  // namespace

std::string format_seconds(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

std::string time_report(const timing::StepTime& time, const Console& console) {
  std::string text =
      fmt::format("step: {} (interval {} to {}); {:.0f} tokens/s/GPU, {:.0f} TFLOP/s/GPU, MFU {:.1f} %\n",
                  format_seconds(time.seconds), format_seconds(time.low), format_seconds(time.high),
                  time.tokens_per_second_per_gpu, time.tflops_per_gpu, 100 * time.mfu);
  Table table({{"time of a step"}, {"ms", Align::kRight}, {"%", Align::kRight}});
  for (const timing::NamedPart& part : timing::named_parts()) {
    const double seconds = time.parts.*part.field;
    if (seconds <= 0) continue;
    table.add_row({std::string{part.text}, fmt::format("{:.1f}", seconds * 1e3),
                   fmt::format("{:.1f}", percent_of_step(seconds, time))});
  }
  table.add_rule();
  table.add_row({Cell{"step", Style::kBold}, fmt::format("{:.1f}", time.seconds * 1e3), "100.0"});
  text += '\n' + table.to_text(console.width, console.colour_out);
  if (answer::is_launch_bound(time))
    text += fmt::format(
        "launch-bound: the GPU waits for the host during {:.0f} % of the step; fewer or larger kernels make it "
        "faster:\n"
        "CUDA graphs (Megatron), torch.compile (PyTorch), a larger micro-batch, less tensor parallelism.\n"
        "Hosts differ threefold: plimsoll calibrate measures this one, fit --calibration takes what it finds\n",
        percent_of_step(time.parts.host, time));
  return text;
}

}  // namespace plimsoll::cli
