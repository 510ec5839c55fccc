// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/diff_report.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::string join_knobs(const answer::KnobStep& step) {
  std::string text;
  for (const answer::KnobStep::Knob& knob : step.knobs)
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", knob.key, knob.before, knob.after);
  return text.empty() ? "the rest, which no key says (the model, the GPU, the files' kinds)" : text;
}

}  // namespace

std::string job_diff_report(const answer::JobDiff& diff, const Console& console) {
  Table figures(
      {{"worst rank"}, {diff.name_a, Align::kRight}, {diff.name_b, Align::kRight}, {"change", Align::kRight}});
  const auto add = [&figures](const char* name, std::int64_t a, std::int64_t b) {
    figures.add_row({name, format_gib(a), format_gib(b), fmt::format("{}{}", b > a ? "+" : "", format_gib(b - a))});
  };
  add("device GiB", diff.a.device_used, diff.b.device_used);
  add("reserved GiB", diff.a.peak_reserved, diff.b.peak_reserved);
  add("allocated GiB", diff.a.peak_allocated, diff.b.peak_allocated);
  add("headroom GiB", diff.a.headroom, diff.b.headroom);
  figures.add_row({"step s", fmt::format("{:.3f}", diff.time_a.seconds), fmt::format("{:.3f}", diff.time_b.seconds),
                   fmt::format("{:+.3f}", diff.time_b.seconds - diff.time_a.seconds)});
  figures.add_row(
      {"tokens/s/GPU", fmt::format("{:.0f}", diff.time_a.tokens_per_second_per_gpu),
       fmt::format("{:.0f}", diff.time_b.tokens_per_second_per_gpu),
       fmt::format("{:+.0f}", diff.time_b.tokens_per_second_per_gpu - diff.time_a.tokens_per_second_per_gpu)});
  std::string text = figures.to_text(console.width, console.colour_out);
  if (diff.steps.empty()) return text + "\nno key differs\n";
  Table steps({{"changed, one after the other", Align::kLeft, true},
               {"GiB", Align::kRight},
               {"device GiB", Align::kRight},
               {"time %", Align::kRight},
               {"step s", Align::kRight}});
  steps.add_row({diff.name_a, "", format_gib(diff.a.device_used), "", fmt::format("{:.3f}", diff.time_a.seconds)});
  for (const answer::KnobStep& step : diff.steps)
    steps.add_row(
        {join_knobs(step), fmt::format("{}{}", step.difference > 0 ? "+" : "", format_gib(step.difference, 3)),
         format_gib(step.device_used), fmt::format("{:+.1f}", 100 * step.slower), fmt::format("{:.3f}", step.seconds)});
  return text + "\n" + steps.to_text(console.width, console.colour_out);
}

}  // namespace plimsoll::cli
