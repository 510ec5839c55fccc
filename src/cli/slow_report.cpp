// SPDX-License-Identifier: Apache-2.0
#include "cli/slow_report.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cli/fit_time.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::string pace_line(const answer::MeasuredRun& run) {
  const why::Tempo& tempo = *run.tempo;
  std::string text =
      run.is_relative
          ? fmt::format("{}: {} steps; only rates are known, --job makes seconds of them", run.pace.file, tempo.steps)
          : fmt::format("{}: a step takes {} ({} to {}, {} steps)", run.pace.file, format_seconds(tempo.steady),
                        format_seconds(tempo.low), format_seconds(tempo.high), tempo.steps);
  if (run.pace.mfu) text += fmt::format("; the log says MFU {:.1f} %", 100 * *run.pace.mfu);
  if (tempo.warm_up_steps > 0 && !run.is_relative)
    text += fmt::format("; the first {} took {} more", tempo.warm_up_steps, format_seconds(tempo.warm_up));
  return text + '\n';
}

std::string headline(const answer::Slow& slow, const Console& console) {
  const auto say = [&console](const std::string& text, Style style) {
    return paint(text, style, console.colour_out) + '\n';
  };
  if (const auto gap = slow.gap()) {
    const double steady = slow.run.tempo->steady;
    const timing::StepTime& time = slow.fit->time;
    const std::string figures =
        fmt::format("{} measured, {} predicted ({} to {})", format_seconds(steady), format_seconds(time.seconds),
                    format_seconds(time.low), format_seconds(time.high));
    if (steady > time.high)
      return say(fmt::format("slower than predicted by {:.0f} %: {}", 100 * *gap, figures), Style::kBad);
    if (steady < time.low)
      return say(fmt::format("faster than predicted by {:.0f} %: {}", -100 * *gap, figures), Style::kGood);
    return say("as fast as predicted: " + figures, Style::kGood);
  }
  if (slow.before && slow.before->tempo) {
    const double change = slow.run.tempo->steady / slow.before->tempo->steady - 1;
    if (change > 0.05)
      return say(fmt::format("slower than {} by {:.0f} %", slow.before->pace.file, 100 * change), Style::kBad);
    // The median of a run that changed in its second half does not show it.
    const std::optional<why::TempoChange>& turn = slow.run.tempo->change;
    if (turn && turn->after > 1.05 * slow.before->tempo->steady)
      return say(fmt::format("slower than {} by {:.0f} % from step {} on", slow.before->pace.file,
                             100 * (turn->after / slow.before->tempo->steady - 1), turn->step),
                 Style::kBad);
    return say(fmt::format("not slower than {} ({:+.1f} %)", slow.before->pace.file, 100 * change), Style::kGood);
  }
  return say(
      slow.is_slow() ? "something takes time that it need not take" : "nothing in the log speaks against its speed",
      slow.is_slow() ? Style::kWarning : Style::kGood);
}

}  // namespace

std::string slow_report(const answer::Slow& slow, const Console& console) {
  std::string text = headline(slow, console) + pace_line(slow.run);
  if (slow.before && slow.before->tempo) text += pace_line(*slow.before);
  if (!slow.suspects.empty() || slow.unexplained > 0) {
    Table table({{"s a step", Align::kRight},
                 {"what", Align::kLeft, true},
                 {"line", Align::kRight},
                 {"try", Align::kLeft, true}});
    for (const answer::Suspect& suspect : slow.suspects)
      table.add_row({suspect.seconds > 0 ? fmt::format("{:.3f}", suspect.seconds) : "", suspect.says,
                     suspect.line > 0 ? std::to_string(suspect.line) : "", suspect.fix});
    if (slow.unexplained > 0)
      table.add_row({fmt::format("{:.3f}", slow.unexplained), "not explained by anything in the log", "",
                     "a profile of two steps (nsys, torch.profiler); clocks: nvidia-smi -q -d PERFORMANCE"});
    text += '\n' + table.to_text(console.width, console.colour_out);
  }
  if (!slow.faster.empty()) {
    Table table({{"would be faster"}, {"time %", Align::kRight}, {"with", Align::kLeft, true}});
    for (const lever::PricedChange& change : slow.faster)
      table.add_row(
          {change.change.label, fmt::format("{:+.1f}", 100 * *change.slower), lever::as_flags(change.change.settings)});
    text += '\n' + table.to_text(console.width, console.colour_out);
  }
  return text;
}

}  // namespace plimsoll::cli
