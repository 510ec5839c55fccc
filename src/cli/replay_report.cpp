// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kMostRows = 12;

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string shown_setting(const std::string& setting) { return setting.empty() ? "default" : setting; }

std::string reproduced_line(const answer::Recording& r) {
  const replay::ExactReplay& exact = r.exact;
  std::string text = fmt::format("{} of {} events reproduced", with_commas(static_cast<std::int64_t>(exact.reproduced)),
                                 with_commas(static_cast<std::int64_t>(exact.events)));
  if (exact.final_blocks_equal.value_or(false)) text += "; the blocks at the end are the recorded ones";
  text += fmt::format("\nrecorded settings: {}\n", shown_setting(r.recorded.text));
  return text;
}

std::string difference_block(const answer::Recording& r) {
  if (r.exact.exact()) return {};
  const replay::Difference& difference = *r.exact.first_difference;
  std::string text = difference.event == replay::kNever
                         ? "\nthe blocks at the end differ\n"
                         : fmt::format("\nfirst difference at event {}\n", difference.event - r.history->events.first);
  text += fmt::format("  recorded:  {}\n  simulated: {}\n", difference.recorded, difference.simulated);
  if (difference.event == replay::kNever) return text;
  const std::uint32_t first = std::max(r.history->events.first, difference.event - std::min(difference.event, 3U));
  const std::uint32_t end = std::min(difference.event + 3, r.history->events.first + r.history->events.count);
  text += "  around it:\n";
  for (std::uint32_t event = first; event < end; ++event)
    text += fmt::format("  {} {}  {}\n", event == difference.event ? '>' : ' ', event - r.history->events.first,
                        replay::event_text(*r.snapshot, event));
  return text + "From there on the figures are a simulation, not a replay.\n";
}

std::string figures(const answer::Replay& answer, const Console& console) {
  const allocator::Stats& s = answer.run.stats;
  Table table({{"peak"}, {"GiB", Align::kRight}, {"bytes", Align::kRight}});
  table.add_row({"requested", format_gib(s.peak_requested), with_commas(s.peak_requested)});
  table.add_row({"allocated", format_gib(s.peak_allocated), with_commas(s.peak_allocated)});
  table.add_row({"reserved", format_gib(s.peak_reserved), with_commas(s.peak_reserved)});
  std::string text = table.to_text(console.width, console.colour_out);
  text += fmt::format("\nfragmentation: {} % of the peak reserved is above the peak allocated\n",
                      percent(answer.run.fragmentation()));
  text += fmt::format("driver calls: {} to take memory, {} to give it back; whole cache released {}\n",
                      with_commas(s.device_allocs), with_commas(s.device_frees),
                      s.retries == 1 ? "once" : with_commas(s.retries) + " times");
  return text;
}

// Eighths of the peak reserved, one column per share of the history.
std::string sparkline(const replay::Run& run, std::int64_t replay::Sample::* value) {
  static constexpr std::array<std::string_view, 9> kLevels = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  for (const replay::Sample& sample : run.samples) {
    const std::int64_t peak = std::max<std::int64_t>(run.stats.peak_reserved, 1);
    text += kLevels[static_cast<std::size_t>(std::clamp<std::int64_t>((sample.*value * 8 + peak - 1) / peak, 0, 8))];
  }
  return text;
}

std::string over_time(const replay::Run& run) {
  if (run.samples.size() < 8) return {};
  return fmt::format("\nover the history, in eighths of the peak reserved\nreserved   {}\nallocated  {}\n",
                     sparkline(run, &replay::Sample::reserved), sparkline(run, &replay::Sample::allocated));
}

std::string oom_block(const answer::Replay& answer, const Console& console) {
  if (!answer.run.oom) return {};
  const answer::Recording& r = *answer.recording;
  const replay::RunOutOfMemory& oom = *answer.run.oom;
  if (oom.event == replay::kNever) return "\nruns out of memory: what was alive before the recording does not fit\n";
  const std::string where = fmt::format("event {} of {}", with_commas(oom.event - r.history->events.first),
                                        with_commas(r.history->events.count));
  std::string text = paint(!oom.was_recorded   ? fmt::format("\nwould run out of memory at {}", where)
                           : answer.is_what_if ? fmt::format("\nwould run out of memory too, at {}", where)
                                               : fmt::format("\nran out of memory at {}, as recorded", where),
                           Style::kBad, console.colour_out);
  text += fmt::format("\n  request {}, {} of the driver; {} reserved, {} of it allocated, largest free block {}\n",
                      format_bytes(oom.requested), format_bytes(oom.asked), format_bytes(oom.reserved),
                      format_bytes(oom.allocated), format_bytes(oom.largest_free));
  if (oom.missing >= kMiB) text += fmt::format("  {} short\n", format_bytes(oom.missing));
  const std::uint32_t stack = r.snapshot->events.stack[oom.event];
  if (const std::string line = replay::stack_text(*r.snapshot, stack, 6); !line.empty()) text += "  " + line + "\n";
  return text;
}

std::string limit_line(const answer::Recording& r) {
  if (!r.inferred) return {};
  const replay::InferredLimit& limit = *r.inferred;
  return fmt::format("limit, from the recorded out-of-memory event: between {} and {} could be reserved ({})\n",
                     format_bytes(limit.low), format_bytes(limit.high),
                     limit.fraction
                         ? fmt::format("a memory fraction: the device had {} left", format_bytes(limit.device_free))
                         : "the device was full");
}

std::string dependence_line(const answer::Replay& answer) {
  if (!answer.depends_on_limit) return {};
  return fmt::format(
      "\nwhether this would have held is not sure: it needs {}, and the limit is known only to lie between {} and {}; "
      "give it with --fraction and --gpu, or --capacity\n",
      format_bytes(answer.run.stats.peak_reserved), format_bytes(answer.recording->inferred->low),
      format_bytes(answer.recording->inferred->high));
}

std::string holder_line(const answer::Recording& r, const replay::Holder& holder) {
  const std::uint32_t stack = r.history ? r.history->stack_of(holder.object) : r.snapshot->blocks[holder.object].stack;
  const std::string line = replay::stack_line(*r.snapshot, stack);
  return line.empty() ? format_bytes(holder.bytes) : fmt::format("{} {}", format_bytes(holder.bytes), line);
}

std::string pinned_block(const answer::Replay& answer, const Console& console) {
  const replay::Pinned& p = answer.pinned;
  const answer::Recording& r = *answer.recording;
  const char* when = !r.history ? "at the end" : answer.run.oom ? "when memory ran out" : "when most was reserved";
  std::string text = fmt::format("\n{}: {} reserved, {} in use, {} idle and returnable, {} idle and pinned\n", when,
                                 format_bytes(p.reserved), format_bytes(p.allocated), format_bytes(p.returnable),
                                 format_bytes(p.idle));
  if (r.history)
    text += fmt::format("largest pinned idle block {}, largest request of the history {}\n",
                        format_bytes(p.largest_idle), format_bytes(answer.largest_request));
  if (p.segments.empty()) return text;
  Table table(
      {{"segment", Align::kRight}, {"idle", Align::kRight}, {"live", Align::kRight}, {"held by", Align::kLeft, true}});
  for (std::size_t i = 0; i < std::min(kMostRows, p.segments.size()); ++i) {
    const replay::PinnedSegment& segment = p.segments[i];
    std::string holders;
    for (std::size_t h = 0; h < std::min<std::size_t>(2, segment.holders.size()); ++h)
      holders += (h == 0 ? "" : "; ") + holder_line(r, segment.holders[h]);
    if (segment.holders.size() > 2) holders += fmt::format("; {} more", segment.holders.size() - 2);
    table.add_row(
        {format_bytes(segment.size), format_bytes(segment.idle), std::to_string(segment.holders.size()), holders});
  }
  text += "\nsegments that cannot go back\n" + table.to_text(console.width, console.colour_out);
  if (p.segments.size() > kMostRows) text += fmt::format("{} more\n", p.segments.size() - kMostRows);
  return text;
}

std::string groups_table(const std::string& title, const std::vector<replay::Group>& groups, const Console& console) {
  Table table(
      {{title, Align::kLeft, true}, {"GiB", Align::kRight}, {"objects", Align::kRight}, {"largest", Align::kRight}});
  std::size_t shown = 0;
  std::int64_t rest = 0;
  std::size_t rest_count = 0;
  for (const replay::Group& group : groups) {
    if (shown++ < kMostRows) {
      table.add_row({group.text, format_gib(group.bytes, 3), std::to_string(group.count), format_bytes(group.largest)});
    } else {
      rest += group.bytes;
      rest_count += group.count;
    }
  }
  if (rest_count > 0)
    table.add_row({fmt::format("{} more", shown - kMostRows), format_gib(rest, 3), std::to_string(rest_count), ""});
  return table.to_text(console.width, console.colour_out);
}

std::string peak_block(const answer::Replay& answer, const Console& console) {
  if (!answer.peak) return {};
  const replay::PeakReport& peak = *answer.peak;
  const std::vector<replay::Group> categories(peak.categories.begin(), peak.categories.end());
  return fmt::format("\nalive at the peak: {} requested\n", format_bytes(peak.requested)) +
         groups_table("category", categories, console) + "\n" + groups_table("module", peak.modules, console) + "\n" +
         groups_table("stack", peak.stacks, console);
}

std::string leaks_block(const answer::Replay& answer, const Console& console) {
  if (!answer.leaks) return {};
  const replay::LeakReport& leaks = *answer.leaks;
  if (leaks.steps < 3) return "\nleaks: the history holds too few steps to tell; record at least five\n";
  const std::string unit = leaks.by_optimizer ? "optimizer steps" : "equal parts of the history";
  if (leaks.leaks.empty()) return fmt::format("\nleaks: none; nothing grows steadily over {} {}\n", leaks.steps, unit);
  Table table({{"grows", Align::kLeft, true},
               {leaks.by_optimizer ? "per step" : "per part", Align::kRight},
               {"first", Align::kRight},
               {"last", Align::kRight}});
  for (std::size_t i = 0; i < std::min(kMostRows, leaks.leaks.size()); ++i) {
    const replay::Leak& leak = leaks.leaks[i];
    std::string origin = replay::stack_line(*answer.recording->snapshot, leak.stack);
    if (origin.empty()) origin = fmt::format("objects of {}, no stack", format_bytes(leak.object_bytes));
    table.add_row({origin, format_bytes(leak.per_step), format_bytes(leak.first), format_bytes(leak.last)});
  }
  return fmt::format("\nleaks: {} {} steadily over {} {}\n", leaks.leaks.size(),
                     leaks.leaks.size() == 1 ? "origin grows" : "origins grow", leaks.steps, unit) +
         table.to_text(console.width, console.colour_out);
}

std::string verdict(const replay::WhatIf& what_if) {
  if (!what_if.run.oom) return "yes";
  return what_if.run.oom->was_recorded ? "no, as recorded" : "no";
}

std::string what_if_table(const answer::Replay& answer, const Console& console) {
  if (answer.what_ifs.empty()) return {};
  const answer::Recording& r = *answer.recording;
  Table table({{"setting", Align::kLeft, true},
               {"reserved GiB", Align::kRight},
               {"vs recorded", Align::kRight},
               {"fragm. %", Align::kRight},
               {"driver calls", Align::kRight},
               {"holds"}});
  for (const replay::WhatIf& what_if : answer.what_ifs) {
    const std::int64_t difference = what_if.run.stats.peak_reserved - r.run.stats.peak_reserved;
    const bool complete = !what_if.runs_out();
    table.add_row({shown_setting(what_if.setting), format_gib(what_if.run.stats.peak_reserved),
                   complete ? fmt::format("{}{}", difference > 0 ? "+" : "", format_gib(difference)) : "",
                   percent(what_if.run.fragmentation()), with_commas(what_if.run.stats.driver_calls()),
                   Cell(verdict(what_if), what_if.run.oom ? Style::kBad : Style::kGood)});
  }
  std::string text = "\n" + table.to_text(console.width, console.colour_out);
  const replay::WhatIf& best = answer.what_ifs.front();
  if (!best.runs_out())
    text += fmt::format("\nbest: {}\n", answer::environment_line(best.setting, r.surroundings.torch));
  return text;
}

std::string certainty(const answer::Replay& answer) {
  if (!answer.tuned || answer.what_ifs.empty()) return {};
  const replay::WhatIf& best = answer.what_ifs.front();
  const answer::Recording& r = *answer.recording;
  std::string text = fmt::format(
      "tried {} settings, {}\n", answer.tuned->tried,
      answer.tuned->exhaustive ? "every one of the space" : "one setting at a time from the two usual starts");
  const std::int64_t apart = best.reserved_if_placed_otherwise - best.run.stats.peak_reserved;
  text += r.exact.exact() ? "sure: the recording is reproduced event by event"
                          : "unsure: the recording is not reproduced from its first difference on";
  text += apart == 0 ? ", and the figure does not depend on where segments lie\n"
                     : fmt::format("; with segments placed the other way round it would be {}{}\n",
                                   apart > 0 ? "+" : "", apart >= 0 ? format_bytes(apart) : "-" + format_bytes(-apart));
  return text;
}

}  // namespace

std::string replay_report(const answer::Replay& answer, const Console& console) {
  const answer::Recording& r = *answer.recording;
  if (!r.history)
    return "the snapshot has no history: only the state at its end can be shown\n" + pinned_block(answer, console);
  std::string text = reproduced_line(r) + limit_line(r) + difference_block(r);
  if (answer.is_what_if) text += fmt::format("replayed under: {}\n", shown_setting(answer.setting));
  text +=
      "\n" + figures(answer, console) + over_time(answer.run) + oom_block(answer, console) + dependence_line(answer);
  text += pinned_block(answer, console) + peak_block(answer, console) + leaks_block(answer, console);
  text += what_if_table(answer, console) + certainty(answer);
  return text;
}

}  // namespace plimsoll::cli
